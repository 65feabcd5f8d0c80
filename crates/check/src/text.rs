//! A report for people.

use std::fmt::Write as _;

use crate::report::{PersonNeeded, Problem, Report, Trust, Verdict};

/// A report as a text. `name`: what was checked, as the reader knows it.
#[must_use]
pub fn text(name: &str, report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{name}: {}", verdict(report));
    if report.verdict != Verdict::Refused {
        let _ =
            writeln!(out, "{} states explored, the longest story has {} turns", report.states, report.depth);
    }
    report.problems.iter().for_each(|problem| write_problem(&mut out, problem));
    if !report.persons.is_empty() {
        out.push_str("\nA person will be needed:\n");
        report.persons.iter().for_each(|person| write_person(&mut out, person));
    }
    write_trust(&mut out, &report.trust);
    if !report.advice.is_empty() {
        out.push_str("\nAdvice:\n");
        for advice in &report.advice {
            let _ = writeln!(out, "  - {advice}");
        }
    }
    out
}

fn verdict(report: &Report) -> String {
    let within = match report.faults {
        0 => "without faults".to_owned(),
        1 => "within 1 fault".to_owned(),
        faults => format!("within {faults} faults"),
    };
    match report.verdict {
        Verdict::Ends => format!("ends by itself, whatever happens {within}"),
        Verdict::MayNeedAPerson => format!("safe, but may need a person {within}"),
        Verdict::Unsafe => format!("unsafe {within}"),
        Verdict::Refused => "refused".into(),
        Verdict::Unfinished => format!(
            "unfinished: a limit was reached before everything {within} was explored; nothing unsafe was found until then"
        ),
    }
}

fn write_problem(out: &mut String, problem: &Problem) {
    out.push('\n');
    if let Some(line) = problem.line {
        let _ = write!(out, "line {line}: ");
    }
    if !problem.path.is_empty() {
        let _ = write!(out, "{}: ", problem.path);
    }
    let _ = writeln!(out, "{}; {}", problem.reason, problem.remedy);
    write_story(out, &problem.story);
}

fn write_person(out: &mut String, person: &PersonNeeded) {
    let _ = writeln!(out, "  {} of `{}`:", person.operation, person.step);
    write_story(out, &person.story);
    let _ = writeln!(out, "    cure: {}", person.cure);
}

fn write_trust(out: &mut String, trust: &[Trust]) {
    for one in trust.iter().filter(|one| one.needed == Some(true)) {
        let _ = writeln!(
            out,
            "\nThe saga relies on {} `{}`; without it {}:",
            genitive(&one.participant),
            one.guarantee,
            one.harm
        );
        write_story(out, &one.story);
    }
    for (needed, words) in [(Some(false), "Not needed"), (None, "Not known, because a limit was reached")] {
        let names: Vec<String> = trust
            .iter()
            .filter(|one| one.needed == needed)
            .map(|one| format!("{} `{}`", genitive(&one.participant), one.guarantee))
            .collect();
        if !names.is_empty() {
            let _ = writeln!(out, "\n{words}: {}", names.join(", "));
        }
    }
}

fn write_story(out: &mut String, story: &[String]) {
    for (index, line) in story.iter().enumerate() {
        let _ = writeln!(out, "    {}. {line}", index + 1);
    }
}

fn genitive(name: &str) -> String {
    if name.ends_with('s') { format!("{name}'") } else { format!("{name}'s") }
}
