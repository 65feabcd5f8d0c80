//! What the examples of the project rely on.

use std::path::Path;

use amends_check::{Report, Verdict, check_text};

use crate::corpus::within;

fn report(name: &str) -> Report {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let report = check_text(&text, &within(2));
    assert_eq!(report.verdict, Verdict::Ends, "{}", amends_check::text(name, &report));
    report
}

/// Which guarantees are needed, and which are not, as `participant guarantee`.
fn split(report: &Report) -> (Vec<String>, Vec<String>) {
    let (needed, idle): (Vec<_>, Vec<_>) = report.trust.iter().partition(|one| one.needed == Some(true));
    let name = |one: &amends_check::Trust| format!("{} {}", one.participant, one.guarantee);
    (needed.into_iter().map(name).collect(), idle.into_iter().map(name).collect())
}

#[test]
fn order_fulfilment_relies_on_these() {
    let (needed, idle) = split(&report("order-fulfilment.toml"));
    assert_eq!(
        needed,
        [
            "inventory replay",
            "inventory key_ttl",
            "payment effect",
            "payment rejected",
            "payment never_seen",
            "payment seals_after",
            "payment key_ttl",
            "shipping replay",
            "shipping key_ttl",
        ]
    );
    assert_eq!(idle, ["inventory rejected", "shipping fenced"]);
}

#[test]
fn money_transfer_relies_on_these() {
    let (needed, idle) = split(&report("money-transfer.toml"));
    assert_eq!(
        needed,
        [
            "clearing effect",
            "clearing rejected",
            "clearing never_seen",
            "clearing seals_after",
            "clearing key_ttl",
            "ledger replay",
            "ledger fenced",
            "ledger key_ttl",
            "mail replay",
            "mail key_ttl",
        ]
    );
    assert_eq!(idle, ["limits replay", "limits key_ttl"], "a check has no effect that could happen twice");
}

#[test]
fn travel_booking_relies_on_these() {
    let (needed, idle) = split(&report("travel-booking.toml"));
    assert_eq!(
        needed,
        [
            "airline replay",
            "airline key_ttl",
            "cars replay",
            "cars fenced",
            "cars key_ttl",
            "hotel never_seen",
            "hotel seals_after",
            "hotel key_ttl",
            "mail replay",
            "mail key_ttl",
        ]
    );
    assert_eq!(idle, ["hotel rejected"]);
}

#[test]
fn every_example_is_one_of_these() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the examples")
        .map(|entry| entry.expect("an example").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    assert_eq!(names, ["money-transfer.toml", "order-fulfilment.toml", "travel-booking.toml"]);
}
