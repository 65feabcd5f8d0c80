//! Reports as they are read: by programs, by people, as a picture.

use amends_check::{Options, Verdict, check_text, mermaid, text};
use amends_core::definition::from_toml;
use serde_json::{Value, json};

const WEAK: &str = r#"
saga = "weak"
version = 3
[participants.shop]
idempotency = "none"
[[step]]
name = "order"
pivot = true
[step.action]
to = "shop"
post = "/orders"
"#;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn json_has_these_members_and_no_others() {
    let report = check_text(WEAK, &Options::default());
    let json = serde_json::to_value(&report).expect("a report is JSON");
    let mut members = keys(&json);
    members.sort_unstable();
    assert_eq!(members, ["advice", "depth", "faults", "persons", "problems", "states", "trust", "verdict"]);
    assert_eq!(json["verdict"], "may_need_a_person");
    assert_eq!(json["faults"], 3);
    let mut members = keys(&json["persons"][0]);
    members.sort_unstable();
    assert_eq!(members, ["cure", "operation", "step", "story"]);
    assert_eq!(json["persons"][0]["step"], "order");
    assert_eq!(json["persons"][0]["operation"], "action");
}

#[test]
fn trust_in_json_has_these_members_and_no_others() {
    let report = check_text(&WEAK.replace("none", "replay"), &Options::default());
    let json = serde_json::to_value(&report).expect("a report is JSON");
    assert_eq!(json["verdict"], "ends");
    let trust = &json["trust"][0];
    let mut members = keys(trust);
    members.sort_unstable();
    assert_eq!(members, ["guarantee", "needed", "participant", "story"]);
    assert_eq!((&trust["participant"], &trust["guarantee"]), (&json!("shop"), &json!("replay")));
    assert_eq!(trust["needed"], true);
}

#[test]
fn verdicts_are_these_words() {
    let words = [
        (Verdict::Ends, "ends"),
        (Verdict::MayNeedAPerson, "may_need_a_person"),
        (Verdict::Unsafe, "unsafe"),
        (Verdict::Refused, "refused"),
        (Verdict::Unfinished, "unfinished"),
    ];
    for (verdict, word) in words {
        assert_eq!(verdict.as_str(), word);
        assert_eq!(serde_json::to_value(verdict).expect("a word"), word);
    }
}

#[test]
fn what_registration_refuses_is_told_with_line_reason_and_remedy() {
    let report = check_text(&WEAK.replace("to = \"shop\"", "to = \"shoo\""), &Options::default());
    assert_eq!(report.verdict, Verdict::Refused);
    assert_eq!((report.states, report.depth), (0, 0));
    let problem = &report.problems[0];
    assert_eq!(problem.line, Some(10));
    assert_eq!(problem.reason, "there is no participant `shoo`");
    assert!(problem.remedy.contains("did you mean `shop`?"));
}

#[test]
fn json_definitions_are_read_too() {
    let tree = json!({
        "saga": "weak", "version": 1,
        "participants": {"shop": {"idempotency": "replay"}},
        "step": [{"name": "order", "pivot": true, "action": {"to": "shop", "post": "/orders"}}],
    });
    assert_eq!(check_text(&tree.to_string(), &Options::default()).verdict, Verdict::Ends);
}

#[test]
fn the_story_of_a_lost_answer_is_as_short_as_it_can_be() {
    let report = check_text(WEAK, &Options::default());
    assert_eq!(
        report.persons[0].story,
        [
            "A saga begins: `order` is sent to shop.",
            "`order` gets no answer within 3s: it may have been carried out, or never arrive, or arrive later.",
            "The time in which `order` is verified (1d) is over.",
            "Whether `order` was carried out, nobody can tell: a person has to find out from shop and resolve it.",
        ]
    );
}

#[test]
fn people_read_this() {
    let options = Options { faults: 1, ..Options::default() };
    let report = check_text(&WEAK.replace("none", "replay"), &options);
    let told = text("weak.toml", &report);
    let (head, _) = told.split_once("\nThe saga relies on shop's `key_ttl`").expect("it relies on that too");
    assert_eq!(
        head,
        format!(
            "\
weak.toml: ends by itself, whatever happens within 1 fault
{} states explored, the longest story has {} turns

The saga relies on shop's `replay`; without it `order` is carried out twice:
    1. A saga begins: `order` is sent to shop.
    2. `order` gets no answer within 3s: it may have been carried out, or never arrive, or arrive later.
    3. `order` is sent again, under the same key.
    4. `order` arrives at shop and is carried out; the answer says so.
    5. The saga ends: completed.
    6. `order` is known to be done, and another message for it still arrives: it is carried out twice.
",
            report.states, report.depth
        )
    );
}

#[test]
fn a_definition_is_drawn_with_its_way_back_and_its_point_of_no_return() {
    let definition = from_toml(
        r#"
saga = "order"
version = 2
[participants.stock]
idempotency = "replay"
[participants.bank]
idempotency = "effect"
seals_after = "10m"
[[step]]
name = "reserve"
[step.action]
to = "stock"
post = "/reservations"
[step.compensation]
post = "/reservations/release"
[[step]]
name = "pay"
pivot = true
[step.action]
to = "bank"
post = "/payments"
query = { get = "/payments/${key}" }
"#,
    )
    .expect("a definition")
    .definition;
    assert_eq!(
        mermaid(&definition),
        "\
flowchart TD
    begin([\"order 2\"])
    s0[\"<b>reserve</b><br/>stock: replay\"]
    u0[/\"undo reserve<br/>stock: replay\"/]
    s1{{\"<b>pay</b><br/>bank: effect, query, seals<br/>point of no return\"}}
    begin --> s0
    s0 -.-> u0
    s0 --> s1
    s1 --> done(((\"DONE\")))
"
    );
}
