//! Semantics, section 3, row by row: what an answer means.

use amends_core::answer::{REASON_BYTES_MAX, read_answer, read_query};
use amends_core::{Answer, Outcome, QueryOutcome};
use serde_json::Value;

use crate::one_action;

/// Checks rows `status [retry=ms] body | outcome` for an action with these lines.
fn check_action(lines: &str, table: &str) {
    let definition = one_action(lines);
    let op = definition.steps[0].action.as_ref().expect("an action");
    for (row, answer, expected) in answers(table) {
        assert_eq!(show(&read_answer(op, &answer)), expected, "{row}\nof an action with\n{lines}");
    }
}

/// The same for its query, which has these members beside its path.
fn check_query(lines: &str, members: &str, table: &str) {
    let definition = one_action(&format!("{lines}\nquery = {{ get = \"/a\"{members} }}"));
    let op = definition.steps[0].action.as_ref().expect("an action");
    let query = op.query.as_ref().expect("a query");
    for (row, answer, expected) in answers(table) {
        assert_eq!(
            show_query(&read_query(op, query, &answer)),
            expected,
            "{row}\nof a query with\n{lines}{members}"
        );
    }
}

fn answers(table: &str) -> Vec<(&str, Answer, &str)> {
    let mut rows = Vec::new();
    for row in crate::rows(table) {
        let [answer, expected] = row[..] else { panic!("two cells are expected in {row:?}") };
        let (status, rest) = answer.split_once(' ').unwrap_or((answer, ""));
        let (retry, body) = match rest.strip_prefix("retry=") {
            Some(rest) => {
                let (ms, body) = rest.split_once(' ').unwrap_or((rest, ""));
                (Some(ms.parse().expect("milliseconds")), body)
            }
            None => (None, rest),
        };
        let read = match status.parse() {
            Ok(status) => {
                Answer::Response { status, retry_after_ms: retry, body: body.trim().as_bytes().to_vec() }
            }
            Err(_) => match status {
                "not-sent" => Answer::NotSent(body.into()),
                "misconfigured" => Answer::Misconfigured(body.into()),
                "lost" => Answer::Lost(body.into()),
                _ => panic!("no answer: {status}"),
            },
        };
        rows.push((answer, read, expected));
    }
    rows
}

fn show(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { fact, serial } => format!("done {fact}{}", show_serial(serial.as_ref())),
        Outcome::Rejected { reason, explicit: true } => format!("rejected expressly: {reason}"),
        Outcome::Rejected { reason, explicit: false } => format!("rejected: {reason}"),
        Outcome::NotExecuted { reason, retry_after_ms: None } => format!("not executed: {reason}"),
        Outcome::NotExecuted { reason, retry_after_ms: Some(ms) } => {
            format!("not executed, {ms} ms: {reason}")
        }
        Outcome::Misconfigured { reason } => format!("misconfigured: {reason}"),
        Outcome::InProgress { serial } => format!("in progress{}", show_serial(serial.as_ref())),
        Outcome::Unknown { reason } => format!("unknown: {reason}"),
    }
}

fn show_query(outcome: &QueryOutcome) -> String {
    match outcome {
        QueryOutcome::Done { fact, serial } => format!("done {fact}{}", show_serial(serial.as_ref())),
        QueryOutcome::Rejected { reason } => format!("rejected: {reason}"),
        QueryOutcome::InProgress { serial } => format!("in progress{}", show_serial(serial.as_ref())),
        QueryOutcome::NeverSeen { express: true } => "never seen, expressly".into(),
        QueryOutcome::NeverSeen { express: false } => "never seen".into(),
        QueryOutcome::Sealed => "sealed".into(),
        QueryOutcome::NoAnswer { reason } => format!("no answer: {reason}"),
    }
}

fn show_serial(serial: Option<&Value>) -> String {
    serial.map(|serial| format!(" serial {serial}")).unwrap_or_default()
}

#[test]
fn answers_to_an_action_by_the_table() {
    check_action(
        "",
        r#"
        200 {"no": 7}                              | done {"no":7}
        200 {"amount": 10.50}                      | done {"amount":10.50}
        200                                        | done null
        200 null                                   | done null
        200 ok                                     | done "ok"
        200 {"outcome": "rejected"}                | done {"outcome":"rejected"}
        201 [1]                                    | done [1]
        204                                        | done null
        299 {}                                     | done {}
        202                                        | in progress
        202 {"no": 7}                              | in progress
        400                                        | rejected: answered 400
        400 {"reason": "sold out"}                 | rejected: sold out
        400 {"outcome": "rejected"}                | rejected expressly: answered 400
        402 {"title": "no money", "detail": "3 €"} | rejected expressly: no money
        410                                        | rejected: answered 410
        422 {"detail": "negative"}                 | rejected expressly: negative
        422 too late                               | rejected expressly: answered 422: too late
        422 <html>no</html>                        | rejected expressly: answered 422
        422 {"reason": 7, "title": " "}            | rejected expressly: answered 422
        401 {"outcome": "rejected"}                | rejected expressly: answered 401
        404 {"outcome": "rejected", "reason": "x"} | rejected expressly: x
        408 {"outcome": "rejected"}                | rejected expressly: answered 408
        409 {"outcome": "rejected", "reason": "x"} | rejected expressly: x
        429 {"outcome": "rejected"}                | rejected expressly: answered 429
        418 {"outcome": "rejected"}                | rejected expressly: answered 418
        408                                        | not executed: answered 408
        425                                        | not executed: answered 425
        429 retry=2000                             | not executed, 2000 ms: answered 429
        429 {"reason": "slow down"}                | not executed: answered 429: slow down
        503 retry=0                                | not executed, 0 ms: answered 503
        503                                        | unknown: answered 503
        503 retry=1000 {"outcome": "rejected"}     | not executed, 1000 ms: answered 503
        401                                        | misconfigured: answered 401
        403 {"title": "missing scope"}             | misconfigured: answered 403: missing scope
        404 {"outcome": "never_seen"}              | misconfigured: answered 404
        405                                        | misconfigured: answered 405
        407                                        | misconfigured: answered 407
        411                                        | misconfigured: answered 411
        412                                        | misconfigured: answered 412
        413                                        | misconfigured: answered 413
        414                                        | misconfigured: answered 414
        415                                        | misconfigured: answered 415
        406                                        | unknown: answered 406
        409                                        | unknown: answered 409
        409 {"reason": "in use"}                   | unknown: answered 409: in use
        416                                        | unknown: answered 416
        451                                        | unknown: answered 451
        100                                        | unknown: answered 100
        301                                        | unknown: answered 301
        304                                        | unknown: answered 304
        500 {"outcome": "rejected"}                | unknown: answered 500
        502 <html>bad gateway</html>               | unknown: answered 502
        599                                        | unknown: answered 599
        999                                        | unknown: answered 999
        not-sent connection refused                | not executed: connection refused
        misconfigured no secret                    | misconfigured: no secret
        lost time-out                              | unknown: time-out
        "#,
    );
}

#[test]
fn a_declared_serial_must_be_there() {
    check_action(
        "serial = [\"/data/no\", \"/no\"]",
        r#"
        200 {"no": "A7"}                | done {"no":"A7"} serial "A7"
        200 {"no": 1.50}                | done {"no":1.50} serial 1.50
        200 {"data": {"no": 1}, "no": 2} | done {"data":{"no":1},"no":2} serial 1
        200 {"data": {"no": null}, "no": 2} | done {"data":{"no":null},"no":2} serial 2
        200 {"no": null}                | unknown: answered 200 without the declared serial at /data/no or /no
        200 {"number": 7}               | unknown: answered 200 without the declared serial at /data/no or /no
        204                             | unknown: answered 204 without the declared serial at /data/no or /no
        200 ok                          | unknown: answered 200 without the declared serial at /data/no or /no
        202 {"no": 7}                   | in progress serial 7
        202 {}                          | in progress
        202                             | in progress
        422 {"no": 7}                   | rejected expressly: answered 422
        "#,
    );
    check_action("serial = \"\"", "200 A7 | done \"A7\" serial \"A7\"\n200 x | done \"x\" serial \"x\"");
}

#[test]
fn an_outcome_rule_overrides_the_table() {
    check_action(
        r#"outcome = { at = ["/data/status", "/status"], done = ["SUCCESS", 1], rejected = ["FAIL", "CLOSED"], in_progress = ["PENDING"], not_executed = ["BUSY"], codes = { "409" = "done", "201" = "rejected", "500" = "not_executed", "207" = "in_progress" } }"#,
        r#"
        200 {"status": "SUCCESS"}               | done {"status":"SUCCESS"}
        200 {"status": 1}                       | done {"status":1}
        200 {"status": "1"}                     | unknown: answered 200 with a value at /data/status or /status that the outcome rule does not name
        200 {"status": "FAIL", "reason": "no"}  | rejected expressly: no
        200 {"status": "CLOSED"}                | rejected expressly: answered 200
        200 {"status": "PENDING"}               | in progress
        200 {"status": "BUSY"}                  | not executed: answered 200
        200 {"data": {"status": "FAIL"}, "status": "SUCCESS"} | rejected expressly: answered 200
        200 {"status": "OTHER"}                 | unknown: answered 200 with a value at /data/status or /status that the outcome rule does not name
        200 {"status": null}                    | unknown: answered 200 with a value at /data/status or /status that the outcome rule does not name
        200 {}                                  | unknown: answered 200 with nothing at /data/status or /status
        200                                     | unknown: answered 200 with nothing at /data/status or /status
        200 SUCCESS                             | unknown: answered 200 with nothing at /data/status or /status
        202 {"status": "SUCCESS"}               | done {"status":"SUCCESS"}
        202                                     | unknown: answered 202 with nothing at /data/status or /status
        409 {"status": "FAIL"}                  | done {"status":"FAIL"}
        201 {"status": "SUCCESS"}               | rejected expressly: answered 201
        500 retry=10                            | not executed, 10 ms: answered 500
        207 {"status": "FAIL"}                  | in progress
        422 {"status": "SUCCESS"}               | rejected expressly: answered 422
        404 {"status": "SUCCESS"}               | misconfigured: answered 404
        "#,
    );
    check_action(
        "serial = \"/no\"\noutcome = { codes = { \"409\" = \"done\", \"404\" = \"in_progress\" } }",
        r#"
        409 {"no": 7}   | done {"no":7} serial 7
        409             | unknown: answered 409 without the declared serial at /no
        404 {"no": 7}   | in progress serial 7
        200 {"no": 7}   | done {"no":7} serial 7
        "#,
    );
}

#[test]
fn answers_to_a_query_by_the_table() {
    check_query(
        "",
        "",
        r#"
        200 {"no": 7}                              | done {"no":7}
        200 []                                     | done []
        200 {"outcome": "SUCCESS"}                 | done {"outcome":"SUCCESS"}
        200                                        | no answer: answered 200
        200 ok                                     | no answer: answered 200: ok
        200 null                                   | no answer: answered 200
        200 {"outcome": "rejected", "reason": "x"} | rejected: x
        200 {"outcome": "in_progress"}             | in progress
        200 {"outcome": "never_seen"}              | no answer: answered 200, but its outcome is never_seen
        200 {"outcome": "sealed"}                  | no answer: answered 200, but its outcome is sealed
        200 {"outcome": "not_executed"}            | no answer: answered 200, but its outcome is not_executed
        201 {}                                     | no answer: answered 201
        204                                        | no answer: answered 204
        202                                        | in progress
        202 {"outcome": "rejected"}                | rejected: answered 202
        425                                        | in progress
        404 {}                                     | never seen
        404 {"outcome": "unknown"}                 | never seen
        404 {"outcome": "never_seen"}              | never seen, expressly
        404 {"outcome": "rejected"}                | rejected: answered 404
        404                                        | no answer: answered 404
        404 not found                              | no answer: answered 404: not found
        404 <html>{}</html>                        | no answer: answered 404
        409                                        | rejected: answered 409
        409 {"title": "closed"}                    | rejected: closed
        410 {"outcome": "sealed"}                  | sealed
        410 {"outcome": "rejected"}                | rejected: answered 410
        410 {}                                     | no answer: answered 410
        410                                        | no answer: answered 410
        400                                        | no answer: answered 400
        402                                        | no answer: answered 402
        422                                        | no answer: answered 422
        422 {"outcome": "rejected"}                | rejected: answered 422
        401                                        | no answer: answered 401
        429 retry=10                               | no answer: answered 429
        301                                        | no answer: answered 301
        500                                        | no answer: answered 500
        503 retry=10                               | no answer: answered 503
        not-sent refused                           | no answer: refused
        misconfigured no secret                    | no answer: no secret
        lost time-out                              | no answer: time-out
        "#,
    );
}

#[test]
fn a_query_answers_with_the_serial_its_operation_declares_or_its_own() {
    check_query(
        "serial = \"/no\"",
        "",
        r#"
        200 {"no": 7}     | done {"no":7} serial 7
        200 {"id": 7}     | no answer: answered 200 without the declared serial at /no
        202 {"no": 7}     | in progress serial 7
        202               | in progress
        "#,
    );
    check_query(
        "serial = \"/no\"",
        ", serial = \"/id\"",
        r#"200 {"id": 7, "no": 8} | done {"id":7,"no":8} serial 7"#,
    );
}

#[test]
fn an_outcome_rule_of_a_query_overrides_its_table() {
    check_query(
        "outcome = { codes = { \"404\" = \"rejected\" } }",
        r#", outcome = { at = "/status", done = ["SUCCESS"], rejected = ["FAIL"], in_progress = ["PENDING"], never_seen = ["NOT_EXIST"], sealed = ["CLOSED"], codes = { "404" = "never_seen", "410" = "sealed", "409" = "in_progress", "400" = "rejected", "203" = "done" } }"#,
        r#"
        200 {"status": "SUCCESS"}   | done {"status":"SUCCESS"}
        200 {"status": "FAIL"}      | rejected: answered 200
        200 {"status": "PENDING"}   | in progress
        200 {"status": "NOT_EXIST"} | never seen, expressly
        200 {"status": "CLOSED"}    | sealed
        200 {"status": "OTHER"}     | no answer: answered 200 with a value at /status that the outcome rule does not name
        200 {}                      | no answer: answered 200 with nothing at /status
        202 {"status": "SUCCESS"}   | done {"status":"SUCCESS"}
        202                         | no answer: answered 202 with nothing at /status
        404                         | never seen, expressly
        410                         | sealed
        409                         | in progress
        400 {"reason": "no"}        | rejected: no
        203                         | done null
        425                         | in progress
        500                         | no answer: answered 500
        "#,
    );
}

#[test]
fn reasons_are_one_short_line() {
    let definition = one_action("");
    let op = definition.steps[0].action.as_ref().expect("an action");
    let reason = |words: &str| {
        let body = serde_json::json!({ "reason": words }).to_string().into_bytes();
        match read_answer(op, &Answer::Response { status: 422, retry_after_ms: None, body }) {
            Outcome::Rejected { reason, explicit: true } => reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reason(" two\r\nlines\u{7f}\u{0} "), "two  lines  ");
    let long = reason(&"é".repeat(400));
    assert!(long.len() <= REASON_BYTES_MAX && long.ends_with("é…"), "{}", long.len());
    assert_eq!(reason(&"x".repeat(497)).len(), 497);
}

#[test]
fn json_that_is_nested_too_deep_is_a_text() {
    let definition = one_action("");
    let op = definition.steps[0].action.as_ref().expect("an action");
    for (depth, is_text) in [(64, false), (65, true), (100_000, true)] {
        let body = format!("{}{}", "[".repeat(depth), "]".repeat(depth)).into_bytes();
        match read_answer(op, &Answer::Response { status: 200, retry_after_ms: None, body }) {
            Outcome::Done { fact, serial: None } => assert_eq!(fact.is_string(), is_text, "{depth}"),
            other => panic!("{other:?}"),
        }
    }
}
