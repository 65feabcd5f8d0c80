//! Each definition of the corpus is wrong, weak or right for a reason of its own, and the report says which.

use amends_check::Report;

use crate::corpus::{Case, folder, halves, within};

#[test]
fn every_bad_definition_is_found_out() {
    let cases = folder("bad");
    assert!(cases.len() >= 15, "{} are too few", cases.len());
    cases.iter().for_each(expect);
}

#[test]
fn every_good_definition_ends_by_itself() {
    let cases = folder("good");
    assert!(cases.len() >= 15, "{} are too few", cases.len());
    for case in &cases {
        assert_eq!(case.header("verdict"), ["ends"], "{}", case.name);
        expect(case);
    }
}

fn expect(case: &Case) {
    let report = case.check(&within(case.faults()));
    let shown = format!("{}\n{}", case.name, amends_check::text(&case.name, &report));
    assert_eq!(case.header("verdict"), [report.verdict.as_str()], "{shown}");
    problems(case, &report, &shown);
    persons(case, &report, &shown);
    trust(case, &report, &shown);
    for wanted in case.header("advice") {
        assert!(report.advice.iter().any(|advice| advice.contains(wanted)), "no advice {wanted:?}: {shown}");
    }
}

fn problems(case: &Case, report: &Report, shown: &str) {
    for line in case.header("problem") {
        let (at, reason) = halves(line);
        let found = report
            .problems
            .iter()
            .any(|problem| problem.line == at.parse().ok() && problem.reason.contains(reason));
        assert!(found, "no problem {line:?}: {:#?}\n{shown}", report.problems);
    }
}

/// The persons of the header are needed, and no others.
fn persons(case: &Case, report: &Report, shown: &str) {
    let wanted = case.header("person");
    for line in &wanted {
        let (who, cure) = halves(line);
        let person = report
            .persons
            .iter()
            .find(|person| format!("{} {}", person.step, person.operation) == who)
            .unwrap_or_else(|| panic!("no person for {who}: {shown}"));
        assert!(person.cure.contains(cure), "another cure than {cure:?}: {shown}");
        let last = person.story.last().expect("a story");
        assert!(last.contains("nobody can tell"), "{shown}");
        assert!(person.story.len() >= 3, "too short to be understood: {shown}");
    }
    assert_eq!(report.persons.len(), wanted.len(), "{shown}");
}

fn trust(case: &Case, report: &Report, shown: &str) {
    let find = |who: &str| {
        let found = report.trust.iter().find(|one| format!("{} {}", one.participant, one.guarantee) == who);
        found.unwrap_or_else(|| panic!("nothing about {who}: {shown}"))
    };
    for line in case.header("relies") {
        let (who, harm) = halves(line);
        let one = find(who);
        assert_eq!(one.needed, Some(true), "{who}: {shown}");
        assert!(one.harm.contains(harm) && !one.story.is_empty(), "{who}: {} {shown}", one.harm);
    }
    for who in case.header("idle") {
        let one = find(who);
        assert_eq!(one.needed, Some(false), "{who}: {shown}");
        assert!(one.story.is_empty(), "{who}: {shown}");
    }
}
