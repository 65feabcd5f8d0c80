//! Explorations are bounded, and say so; what has to be explored within bounds is.

use std::fmt::Write as _;
use std::time::Duration;

use amends_check::{FAULTS_MAX, Options, Verdict, check_text};

use crate::corpus::within;

/// What the participants of the large definitions declare; each step takes the next.
const KINDS: [(&str, &str, bool); 4] = [
    ("stock", "idempotency = \"replay\"", true),
    ("bank", "idempotency = \"effect\"\nseals_after = \"15m\"", true),
    ("hotel", "idempotency = \"none\"\nseals_after = \"10m\"", true),
    ("cars", "fenced = true", false),
];

fn head(name: &str) -> String {
    let mut text = format!("saga = \"{name}\"\nversion = 1\nclaims = [\"it:${{id}}\"]\ndeadline = \"2h\"\n");
    for (name, declares, _) in KINDS {
        let _ = write!(text, "[participants.{name}]\n{declares}\n");
    }
    text
}

fn step(text: &mut String, name: &str, kind: usize, after: Option<&str>) {
    let (to, _, query) = KINDS[kind % KINDS.len()];
    let query = |of: &str| match query {
        true => format!("query = {{ get = \"/{of}/{name}/${{key}}\" }}\n"),
        false => String::new(),
    };
    let _ = write!(text, "[[step]]\nname = \"{name}\"\n");
    if let Some(after) = after {
        let _ = writeln!(text, "after = [{after}]");
    }
    let _ = write!(
        text,
        "[step.action]\nto = \"{to}\"\npost = \"/{name}\"\nserial = \"/id\"\n{}[step.compensation]\npost = \"/undo/{name}\"\n{}",
        query("act"),
        query("undo")
    );
}

fn in_a_row(steps: usize) -> String {
    let mut text = head("in-a-row");
    (0..steps).for_each(|index| step(&mut text, &format!("s{index}"), index, None));
    text
}

fn in_branches(branches: usize) -> String {
    let mut text = head("in-branches");
    for branch in 0..branches {
        step(&mut text, &format!("first{branch}"), branch, Some(""));
        step(&mut text, &format!("then{branch}"), branch + 1, Some(&format!("\"first{branch}\"")));
    }
    text
}

#[test]
fn twelve_steps_in_a_row_are_few_states() {
    let report = check_text(&in_a_row(12), &within(2));
    assert_eq!(report.verdict, Verdict::Ends, "{}", amends_check::text("it", &report));
    assert!((1_000..10_000).contains(&report.states), "{} states", report.states);
    assert!(report.trust.iter().all(|one| one.needed.is_some()));
}

#[test]
fn six_steps_in_three_branches_are_few_states() {
    let report = check_text(&in_branches(3), &Options { trust: false, ..within(2) });
    assert_eq!(report.verdict, Verdict::Ends, "{}", amends_check::text("it", &report));
    assert!((1_000..60_000).contains(&report.states), "{} states", report.states);
}

#[test]
fn a_limit_of_states_is_unfinished_never_ends() {
    let options = Options { states_max: 50, ..within(2) };
    let report = check_text(&in_a_row(12), &options);
    assert_eq!(report.verdict, Verdict::Unfinished);
    // One more turn of one state may be under way when the limit is reached, no more.
    assert!(report.states < 150, "{} states", report.states);
    assert!(report.trust.iter().all(|one| one.needed != Some(false)), "{:#?}", report.trust);
}

#[test]
fn a_limit_of_time_is_unfinished_never_ends() {
    let options = Options { time_max: Duration::ZERO, ..Options::default() };
    let report = check_text(&in_a_row(2), &options);
    assert_eq!(report.verdict, Verdict::Unfinished);
}

#[test]
fn without_faults_there_is_one_story_for_each_way_to_begin() {
    let report = check_text(&in_a_row(3), &within(0));
    assert_eq!(report.verdict, Verdict::Ends);
    // At the beginning, after each of three steps, and once waiting for its claims.
    assert_eq!(report.states, 5);
    assert_eq!(report.faults, 0);
}

#[test]
fn faults_have_a_limit_too() {
    let options = Options { states_max: 10, ..within(u32::MAX) };
    assert_eq!(check_text(&in_a_row(1), &options).faults, FAULTS_MAX);
}

#[test]
fn one_thread_or_many_find_the_same() {
    let of = |threads| check_text(&in_a_row(4), &Options { threads, ..within(2) });
    let (one, many) = (of(1), of(8));
    assert_eq!(one, many);
    assert_eq!(one, of(1), "the same again gives the same");
}
