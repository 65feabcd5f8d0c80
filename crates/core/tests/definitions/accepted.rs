//! What a definition without problems becomes: defaults, levels and order.

use amends_core::definition::{
    Body, Idempotency, Method, OnExhausted, OnUnknown, Operation, Retry, StepKind, parse_duration,
    show_duration,
};

use crate::{BASE, checked, definition, edited, lines, one_action};

const HEAD: &str = "saga = \"s\"\nversion = 1\n[participants.p]\nidempotency = \"replay\"\n";

/// The example of the design: what every other example is measured by.
const DESIGN: &str = include_str!("design.toml");

#[test]
fn the_base_and_the_design_example_have_neither_problems_nor_warnings() {
    for text in [BASE, DESIGN] {
        let warnings = checked(text).warnings;
        assert!(warnings.is_empty(), "{}", lines(&warnings));
    }
}

#[test]
fn the_design_example_becomes_what_it_says() {
    let definition = definition(DESIGN);
    assert_eq!((definition.name.as_str(), definition.version), ("order-fulfilment", 1));
    assert_eq!(definition.deadline_ms, Some(30 * 60_000));
    let bank = &definition.participants["payment"];
    assert_eq!((bank.idempotency, bank.key_ttl_ms), (Idempotency::Effect, 24 * 3_600_000));
    assert_eq!(bank.seals_after_ms, Some(15 * 60_000));
    assert!(definition.participants["shipping"].fenced);
    let names: Vec<_> = definition.steps.iter().map(|step| (step.name.as_str(), step.kind)).collect();
    let (compensatable, pivot) = (StepKind::Compensatable, StepKind::Pivot);
    assert_eq!(names, [("reserve", compensatable), ("charge", compensatable), ("confirm", pivot)]);
    assert_eq!(definition.pivot(), definition.step("confirm"));
    let charge = &definition.steps[1];
    assert_eq!((charge.after.as_slice(), charge.dependants.as_slice()), ([0].as_slice(), [2].as_slice()));
    assert_eq!(charge.reaches.as_deref(), Some("PAID"));
    let action = charge.action.as_ref().expect("an action");
    assert_eq!(
        (action.to.as_str(), action.method, action.serial.as_slice()),
        ("payment", Method::Post, ["/charge_id".to_owned()].as_slice())
    );
    let query = action.query.as_ref().expect("a query");
    assert_eq!(
        (query.to.as_str(), query.method, query.timeout_ms, &query.serial),
        ("payment", Method::Get, 3_000, &action.serial)
    );
    assert_eq!(query.outcome.as_ref().map(|rule| rule.values.len()), Some(3));
    assert!(action.outcome.is_none() && !query.needs_serial);
    let compensation = charge.compensation.as_ref().expect("a compensation");
    assert_eq!(compensation.to, "payment", "a compensation goes where its action went");
    assert_eq!(definition.input_paths(), ["input.amount", "input.qty", "input.sku"]);
}

#[test]
fn what_is_not_said_has_its_default() {
    let definition = one_action("");
    let Operation { body, serial, outcome, query, timeout_ms, retry, on_unknown, idempotency, .. } =
        definition.steps[0].action.as_ref().expect("an action");
    assert!(*body == Body::None && serial.is_empty() && outcome.is_none() && query.is_none());
    assert_eq!((*timeout_ms, *idempotency), (3_000, Idempotency::Replay));
    let built_in = Retry {
        initial_ms: 1_000,
        factor: 2.0,
        max_interval_ms: 8_000,
        max_attempts: 5,
        budget_ms: 60_000,
        jitter: 0.1,
    };
    assert_eq!(*retry, built_in);
    let verify_ms = vec![60_000, 300_000, 1_800_000, 7_200_000];
    assert_eq!(
        *on_unknown,
        OnUnknown { queries: 2, interval_ms: 1_000, verify_ms, verify_for_ms: 24 * 3_600_000 }
    );
    let op = definition.steps[0].action.as_ref().expect("an action");
    assert_eq!((op.callback_timeout_ms, op.key_ttl_ms), (15 * 60_000, 24 * 3_600_000));
    assert_eq!((op.on_exhausted, op.seals_after_ms), (OnExhausted::Compensate, None));
    assert!(!op.fenced && !op.settled_by_statement);
    assert!(definition.deadline_ms.is_none() && definition.claims.is_empty());
    let states = &definition.states;
    assert_eq!([&states.initial, &states.canceling, &states.canceled], ["INIT", "CANCELING", "CANCELED"]);
    assert_eq!([&states.unknown, &states.manual, &states.done], ["UNKNOWN", "MANUAL", "DONE"]);
}

#[test]
fn each_level_overrides_the_one_around_it_member_by_member() {
    let definition = definition(&format!(
        "{HEAD}[defaults]\ntimeout = \"1s\"\nretry = {{ max_attempts = 3, initial = \"10ms\" }}\n\
         on_unknown = {{ queries = 3, verify = [\"1m\"] }}\n\
         [[step]]\nname = \"a\"\ntimeout = \"2s\"\nretry = {{ initial = \"20ms\" }}\non_unknown = {{ interval = \"2s\" }}\n\
         [step.action]\nto = \"p\"\npost = \"/\"\nretry = {{ budget = \"40s\" }}\nquery = {{ get = \"/\" }}\n\
         [step.compensation]\npost = \"/\"\ntimeout = \"5s\"\non_unknown = {{ verify_for = \"1h\" }}\nquery = {{ get = \"/\", timeout = \"9s\" }}\n"
    ));
    let (action, compensation) =
        (definition.steps[0].action.as_ref(), definition.steps[0].compensation.as_ref());
    let (action, compensation) = (action.expect("an action"), compensation.expect("a compensation"));
    assert_eq!((action.timeout_ms, compensation.timeout_ms), (2_000, 5_000));
    let retry = |op: &Operation| (op.retry.max_attempts, op.retry.initial_ms, op.retry.budget_ms);
    assert_eq!((retry(action), retry(compensation)), ((3, 20, 40_000), (3, 20, 60_000)));
    let unknown = |op: &Operation| {
        let on_unknown = &op.on_unknown;
        (on_unknown.queries, on_unknown.interval_ms, on_unknown.verify_ms.clone(), on_unknown.verify_for_ms)
    };
    assert_eq!(unknown(action), (3, 2_000, vec![60_000], 24 * 3_600_000));
    assert_eq!(unknown(compensation), (3, 2_000, vec![60_000], 3_600_000));
    let query = |op: &Operation| op.query.as_ref().map(|query| query.timeout_ms);
    assert_eq!((query(action), query(compensation)), (Some(2_000), Some(9_000)));
}

#[test]
fn an_operation_may_guarantee_more_or_less_than_its_participant() {
    let text = format!(
        "{HEAD}[participants.q]\nidempotency = \"none\"\nsettled_by = \"statement\"\n[participants.f]\nfenced = true\n\
         [[step]]\nname = \"a\"\n[step.action]\nto = \"q\"\npost = \"/\"\nidempotency = \"effect\"\nquery = {{ get = \"/\", to = \"p\" }}\n\
         [step.compensation]\nto = \"p\"\npost = \"/\"\n\
         [[step]]\nname = \"b\"\neffect = \"none\"\n[step.action]\nto = \"f\"\npost = \"/\"\n"
    );
    let definition = definition(&text);
    let action = definition.steps[0].action.as_ref().expect("an action");
    assert_eq!((action.idempotency, action.settled_by_statement), (Idempotency::Effect, true));
    assert_eq!(action.on_unknown.verify_for_ms, 5 * 24 * 3_600_000, "statements come late");
    assert_eq!(action.query.as_ref().map(|query| query.to.as_str()), Some("p"));
    let compensation = definition.steps[0].compensation.as_ref().expect("a compensation");
    assert_eq!((compensation.idempotency, compensation.settled_by_statement), (Idempotency::Replay, false));
    assert_eq!(compensation.on_unknown.verify_for_ms, 24 * 3_600_000);
    let fenced = definition.steps[1].action.as_ref().expect("an action");
    assert_eq!((fenced.fenced, fenced.idempotency), (true, Idempotency::Replay), "fenced implies replay");
}

#[test]
fn seals_after_counts_only_where_something_can_be_asked() {
    let definition = definition(&edited("query = { get = \"/refunds/${key}\" }", "idempotency = \"replay\""));
    let seals = |op: &Option<Operation>| op.as_ref().and_then(|op| op.seals_after_ms);
    assert_eq!(seals(&definition.steps[1].action), Some(15 * 60_000));
    assert_eq!(seals(&definition.steps[1].compensation), None);
}

#[test]
fn steps_follow_each_other_unless_they_say_otherwise() {
    let definition = definition(&format!(
        "{HEAD}[[step]]\nname = \"a\"\n[[step]]\nname = \"b\"\nafter = []\n[[step]]\nname = \"c\"\nafter = [\"b\", \"a\"]\n\
         [[step]]\nname = \"d\"\n[[step]]\nname = \"e\"\nafter = [\"f\"]\n[[step]]\nname = \"f\"\nafter = [\"a\"]\n"
    ));
    let after: Vec<_> = definition.steps.iter().map(|step| step.after.as_slice()).collect();
    assert_eq!(after, [[].as_slice(), &[], &[0, 1], &[2], &[5], &[0]]);
    let dependants: Vec<_> = definition.steps.iter().map(|step| step.dependants.as_slice()).collect();
    assert_eq!(dependants, [[2, 5].as_slice(), &[2], &[3], &[], &[], &[4]]);
    assert!(definition.steps.iter().all(|step| step.kind == StepKind::Compensatable), "without a pivot");
}

#[test]
fn before_the_pivot_steps_are_undone_and_after_it_they_are_driven_forward() {
    let definition = definition(&format!(
        "{HEAD}[[step]]\nname = \"a\"\n[[step]]\nname = \"b\"\nafter = []\n[[step]]\nname = \"p\"\nafter = [\"a\", \"b\"]\npivot = true\n\
         [step.action]\nto = \"p\"\npost = \"/\"\non_exhausted = \"dead\"\n\
         [[step]]\nname = \"c\"\n[step.action]\nto = \"p\"\npost = \"/\"\n[[step]]\nname = \"d\"\nafter = [\"p\"]\npivot = false\n"
    ));
    use StepKind::{Compensatable, Pivot, Retriable};
    let kinds: Vec<_> = definition.steps.iter().map(|step| step.kind).collect();
    assert_eq!(kinds, [Compensatable, Compensatable, Pivot, Retriable, Retriable]);
    let exhausted = |step: usize| definition.steps[step].action.as_ref().map(|op| op.on_exhausted);
    assert_eq!((exhausted(2), exhausted(3)), (Some(OnExhausted::Dead), Some(OnExhausted::Dead)));
}

#[test]
fn a_retry_may_use_its_whole_budget() {
    // 3 calls of 3 s, back-offs of 1 s and 2 s.
    let retry = one_action("retry = { max_attempts = 3, budget = \"12s\" }").steps[0]
        .action
        .as_ref()
        .expect("an action")
        .retry
        .clone();
    assert_eq!((retry.backoff_ms(1), retry.backoff_ms(2), retry.budget_ms), (1_000, 2_000, 12_000));
}

#[test]
fn durations_are_read_and_written_alike() {
    for (text, ms, shown) in [
        ("1ms", 1, "1ms"),
        ("500ms", 500, "500ms"),
        ("1000ms", 1_000, "1s"),
        ("3s", 3_000, "3s"),
        ("90s", 90_000, "90s"),
        ("15m", 900_000, "15m"),
        ("24h", 86_400_000, "1d"),
        ("5d", 432_000_000, "5d"),
        ("0003s", 3_000, "3s"),
        ("3650d", 315_360_000_000, "3650d"),
    ] {
        assert_eq!(parse_duration(text), Ok(ms), "{text}");
        assert_eq!(show_duration(ms), shown, "{text}");
        assert_eq!(parse_duration(shown), Ok(ms), "{text}");
    }
}
