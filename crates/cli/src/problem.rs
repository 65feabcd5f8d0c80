//! What the server's refusals mean for whoever ran the command: exit code, words, next step.

use http::StatusCode;
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::table::tame;

/// What every problem type of the API begins with.
const PREFIX: &str = "urn:amends:problem:";

/// Makes an error of an answer that is not 2xx.
pub(crate) fn failure(status: StatusCode, body: &[u8]) -> Failure {
    let problem: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let kind = problem["type"].as_str().and_then(|t| t.strip_prefix(PREFIX));
    let (exit, next) = match kind {
        Some(kind) => meaning(kind, status),
        None => by_status(status),
    };
    Failure { exit, message: words(kind, status, &problem), next: next.to_owned() }
}

fn words(kind: Option<&str>, status: StatusCode, problem: &Value) -> String {
    let said = problem["detail"].as_str().or_else(|| problem["title"].as_str());
    let mut message = match (kind, said) {
        (Some(kind), Some(said)) => format!("{said} ({kind})"),
        (Some(kind), None) => kind.to_owned(),
        (None, Some(said)) => format!("{said} ({status})"),
        (None, None) => format!("the server answered {status}"),
    };
    if let Some(holder) = problem["holder"].as_str() {
        let at = |name: &str| problem[name].as_str().map_or(String::new(), |v| format!(", {name} {v}"));
        message.push_str(&format!("\n        held by {holder}{}{}", at("step"), at("since")));
    }
    for found in problem["problems"].as_array().into_iter().flatten() {
        message.push_str(&format!("\n        {}", diagnostic(found)));
    }
    message
}

/// A problem of a definition on one line: `line 7: reason; remedy`.
pub(crate) fn diagnostic(found: &Value) -> String {
    let line = found["line"].as_u64().map_or(String::new(), |line| format!("line {line}: "));
    let reason = found["reason"].as_str().unwrap_or("no reason was given");
    let remedy = found["remedy"].as_str().map_or(String::new(), |remedy| format!("; {remedy}"));
    let text: String = format!("{line}{reason}{remedy}").chars().filter(|c| !c.is_control()).collect();
    text
}

fn meaning(kind: &str, status: StatusCode) -> (Exit, &'static str) {
    match kind {
        "malformed" => (Exit::Usage, "correct what is named and repeat the command; nothing was changed"),
        "invalid-definition" => {
            (Exit::Failed, "correct the lines named; `amends check FILE` shows the same without a server")
        }
        "definition-conflict" => (Exit::Conflict, "raise `version` in the file, then apply it again"),
        "unknown-definition" => (
            Exit::NotFound,
            "`amends definition list` shows what is registered; `amends definition apply FILE` adds one",
        ),
        "unknown-saga" => (Exit::NotFound, "`amends saga list --q PART-OF-ID` finds sagas"),
        "unknown-step" => (Exit::NotFound, "`amends saga show ID` names the steps"),
        "input-conflict" => (
            Exit::Conflict,
            "`amends saga show ID` shows what it was started with; another operation needs another id",
        ),
        "claim-held" => (Exit::Conflict, "wait until the holder has ended: `amends saga watch HOLDER`"),
        "claim-frozen" => (
            Exit::Conflict,
            "the holder waits for a person: `amends saga show HOLDER`, then retry, resolve or close it",
        ),
        "past-pivot" => (Exit::Conflict, "it can only go forward now: `amends saga watch ID`"),
        "wrong-state" => {
            (Exit::Conflict, "`amends saga show ID` shows the state and `saga journal ID` how it came to be")
        }
        "stale-version" => (
            Exit::Conflict,
            "it has moved: look again with `amends saga show ID`, then repeat with the version you saw",
        ),
        "version-required" => {
            (Exit::Usage, "give --version with the version that `amends saga show ID` shows")
        }
        "reason-required" => (Exit::Usage, "say why with --reason"),
        "key-expired" => (
            Exit::Conflict,
            "the participant may have forgotten the key: find out what it did, then `saga resolve`, or retry with --force",
        ),
        "too-large" => (Exit::Usage, "send less: keep documents elsewhere and pass a reference"),
        "unauthenticated" => (Exit::Denied, "set AMENDS_TOKEN to a token of this server"),
        "forbidden" => (Exit::Denied, "use a token whose role allows it"),
        "overloaded" => (Exit::Failed, "nothing was accepted: repeat the command in a moment"),
        "store-unavailable" => (
            Exit::Failed,
            "whether it was carried out may not be known: repeat the command, which is safe; `amends doctor` looks at the store",
        ),
        _ => by_status(status),
    }
}

fn by_status(status: StatusCode) -> (Exit, &'static str) {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            (Exit::Denied, "set AMENDS_TOKEN to a token of this server")
        }
        StatusCode::NOT_FOUND => (Exit::NotFound, "check the name, and that --server is an amends server"),
        StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => {
            (Exit::Conflict, "look again, then decide again")
        }
        status if status.is_client_error() => {
            (Exit::Usage, "check the values given, and that client and server are of one version")
        }
        _ => (
            Exit::Failed,
            "the server's log (stderr of `amends serve`) has more; repeating the command is safe",
        ),
    }
}

/// A participant's or person's reason for a table cell.
pub(crate) fn reason(value: &Value) -> String {
    value.as_str().map(tame).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, body: &str) -> Failure {
        failure(StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    #[test]
    fn each_type_has_its_exit_code() {
        let table = "
            malformed 2 | invalid-definition 1 | definition-conflict 4 | unknown-definition 3 | unknown-saga 3
            unknown-step 3 | input-conflict 4 | claim-held 4 | claim-frozen 4 | past-pivot 4 | wrong-state 4
            stale-version 4 | version-required 2 | reason-required 2 | key-expired 4 | too-large 2
            unauthenticated 6 | forbidden 6 | overloaded 1 | store-unavailable 1";
        let mut seen = 0;
        for line in table.split(['|', '\n']).map(str::trim).filter(|line| !line.is_empty()) {
            let (kind, exit) = line.split_once(' ').unwrap();
            // A status that alone would mean something else.
            let failure = read(418, &format!(r#"{{"type":"{PREFIX}{kind}","detail":"said"}}"#));
            assert_eq!(failure.exit.number().to_string(), exit, "{kind}");
            assert!(failure.message.contains("said") && !failure.next.is_empty());
            seen += 1;
        }
        assert_eq!(seen, 20);
    }

    #[test]
    fn what_is_no_problem_document_counts_by_status() {
        for (status, exit) in [(401, 6), (403, 6), (404, 3), (409, 4), (412, 4), (400, 2), (500, 1), (502, 1)]
        {
            assert_eq!(read(status, "<html>").exit.number(), exit, "{status}");
        }
    }

    #[test]
    fn holder_and_lines_are_named() {
        let held = format!(
            r#"{{"type":"{PREFIX}claim-frozen","detail":"d","holder":"order:1","step":"charge","since":"2026-01-01T00:00:00Z"}}"#
        );
        assert!(read(409, &held).message.contains("held by order:1, step charge, since 2026-01-01"));
        let bad = format!(
            r#"{{"type":"{PREFIX}invalid-definition","problems":[{{"line":7,"reason":"cycle","remedy":"break it"}}]}}"#
        );
        assert!(read(422, &bad).message.contains("line 7: cycle; break it"));
    }
}
