//! What the fence answers, in the terms of HTTP, so that the core's tables read it like any participant's.

use amends_core::Answer;
use amends_core::request::Request;
use redis::Value;
use serde_json::json;

use crate::client::{Error, Function};

/// What was asked: the tables differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// To do something.
    Perform,
    /// What became of it.
    Query,
}

impl Asked {
    pub(super) fn by(request: &Request) -> Self {
        if request.is_query { Self::Query } else { Self::Perform }
    }
}

/// Refused for good, of whichever attempt.
pub(super) fn rejected(reason: &str, asked: Asked) -> Answer {
    let status = match asked {
        Asked::Perform => 422,
        Asked::Query => 409,
    };
    response(status, &json!({ "outcome": "rejected", "reason": reason }))
}

/// Reads the answer of a function.
pub(super) fn read(function: &Function, answer: &Value, asked: Asked) -> Answer {
    let unreadable = || Answer::Lost(Error::unreadable(function.name, answer).message);
    let Value::Array(values) = answer else { return unreadable() };
    let words: Option<Vec<String>> = values
        .iter()
        .map(|value| match value {
            Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        })
        .collect();
    let Some(words) = words else { return unreadable() };
    let Some((word, more)) = words.split_first() else { return unreadable() };
    let why = || more.last().cloned().unwrap_or_default();
    match (word.as_str(), asked) {
        ("done", _) => response(200, &json!({ "results": results(more) })),
        ("undone", _) => response(200, &json!({ "undone": true, "results": results(more) })),
        ("nothing", _) => response(200, &json!({ "undone": false })),
        ("rejected" | "malformed", _) => rejected(&why(), asked),
        ("sealed", Asked::Perform) => rejected("it came after its compensation, and will not be carried out", asked),
        ("sealed", Asked::Query) => response(410, &json!({ "outcome": "sealed" })),
        ("absent", Asked::Query) => response(404, &json!({ "outcome": "never_seen" })),
        ("half-done", _) => Answer::Lost(
            "an earlier call under this key stopped midway: look at what its commands changed, then resolve the step".into(),
        ),
        ("different", _) => Answer::Misconfigured(
            "this key was used for other commands: two systems may share this server, or a definition changed under a running saga"
                .into(),
        ),
        ("not-permitted", _) => Answer::Misconfigured(format!("{}: give the user the right to it", why())),
        ("foreign", _) => Answer::Misconfigured(format!("{}: remove it, if it is not needed", why())),
        _ => unreadable(),
    }
}

fn response(status: u16, body: &serde_json::Value) -> Answer {
    Answer::Response { status, retry_after_ms: None, body: body.to_string().into_bytes() }
}

/// What each command answered, without the sign that tells its kind; null for nothing.
fn results(words: &[String]) -> Vec<Option<&str>> {
    words.iter().map(|word| if word == "_" { None } else { word.get(1..) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::participant::ACT;

    fn said(words: &[&str], asked: Asked) -> String {
        let words = words.iter().map(|word| Value::BulkString(word.as_bytes().to_vec())).collect();
        match read(&ACT, &Value::Array(words), asked) {
            Answer::Response { status, body, .. } => format!("{status} {}", String::from_utf8_lossy(&body)),
            Answer::NotSent(reason) => format!("not sent {reason}"),
            Answer::Misconfigured(reason) => format!("misconfigured {reason}"),
            Answer::Lost(reason) => format!("lost {reason}"),
        }
    }

    #[test]
    fn every_word_has_its_meaning() {
        for (words, perform, query) in [
            (&["done", ":7", "+OK", "_", "$a b"][..], r#"200 {"results":["7","OK",null,"a b"]}"#, "200"),
            (&["undone", ":7"], r#"200 {"results":["7"],"undone":true}"#, "200"),
            (&["nothing"], r#"200 {"undone":false}"#, "200"),
            (
                &["rejected", "guard", "too little"],
                r#"422 {"outcome":"rejected","reason":"too little"}"#,
                "409 {\"outcome\":\"rejected\"",
            ),
            (&["malformed", "no"], r#"422 {"outcome":"rejected","reason":"no"}"#, "409"),
            (&["sealed"], r#"422 {"outcome":"rejected""#, r#"410 {"outcome":"sealed"}"#),
            (&["absent"], "lost", r#"404 {"outcome":"never_seen"}"#),
            (&["half-done"], "lost an earlier call", "lost an earlier call"),
            (&["different"], "misconfigured this key", "misconfigured"),
            (&["not-permitted", "HSET"], "misconfigured HSET", "misconfigured"),
            (&["foreign", "x holds a list"], "misconfigured x holds a list", "misconfigured"),
            (&["what"], "lost amends_fence_act_v1 answered what nobody expects", "lost"),
            (&[], "lost", "lost"),
        ] {
            assert!(said(words, Asked::Perform).starts_with(perform), "{}", said(words, Asked::Perform));
            assert!(said(words, Asked::Query).starts_with(query), "{}", said(words, Asked::Query));
        }
    }
}
