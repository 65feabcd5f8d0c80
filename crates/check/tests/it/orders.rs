//! What is left out of an exploration would not have found anything else.

use std::collections::BTreeSet;

use amends_check::{Options, Report};

use crate::corpus::{folder, within};

type Findings = (String, BTreeSet<String>, Vec<(String, &'static str, Option<bool>)>);

fn findings(report: &Report) -> Findings {
    let persons = report.persons.iter().map(|person| format!("{} {}", person.step, person.operation));
    let trust = report.trust.iter().map(|one| (one.participant.clone(), one.guarantee, one.needed));
    (report.verdict.as_str().to_owned(), persons.collect(), trust.collect())
}

#[test]
fn every_order_finds_the_same() {
    let mut fewer = 0;
    for case in folder("bad").into_iter().chain(folder("good")) {
        let options = within(if case.is_large() { 1 } else { 2 });
        let reduced = case.check(&options);
        let whole = case.check(&Options { every_order: true, ..options });
        assert_eq!(findings(&reduced), findings(&whole), "{}", case.name);
        assert!(reduced.states <= whole.states, "{}: {} > {}", case.name, reduced.states, whole.states);
        fewer += usize::from(reduced.states < whole.states);
        for (reduced, whole) in reduced.persons.iter().zip(&whole.persons) {
            assert!(reduced.story.len() <= whole.story.len() + 1, "{}: {reduced:#?} {whole:#?}", case.name);
        }
    }
    assert!(fewer > 0, "nothing was left out at all");
}
