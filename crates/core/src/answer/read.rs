//! The tables of semantics, section 3, and the `outcome` rules that override them.

use serde_json::Value;

use super::body::Body;
use super::{Answer, Outcome, QueryOutcome};
use crate::definition::{Operation, OutcomeRule, OutcomeWord, Query};
use crate::json;

/// What an answer to an action or a compensation means.
///
/// The operation's `outcome` rule is asked first (its `codes`, then what stands `at` its pointers in the body of a 2xx), then
/// the table. A `done` without the declared serial is `unknown`: what was done could not be named again.
#[must_use]
pub fn read_answer(op: &Operation, answer: &Answer) -> Outcome {
    let (status, retry_after_ms, body) = match answer {
        Answer::Response { status, retry_after_ms, body } => (*status, *retry_after_ms, Body::read(body)),
        Answer::NotSent(reason) => {
            return Outcome::NotExecuted { reason: reason.clone(), retry_after_ms: None };
        }
        Answer::Misconfigured(reason) => return Outcome::Misconfigured { reason: reason.clone() },
        Answer::Lost(reason) => return Outcome::Unknown { reason: reason.clone() },
    };
    let not_executed =
        |body: &Body| Outcome::NotExecuted { reason: body.reason_with_status(status), retry_after_ms };
    match ruled(op.outcome.as_ref(), status, &body) {
        Ruled::No => {}
        Ruled::Unreadable(reason) => return Outcome::Unknown { reason },
        Ruled::Says(OutcomeWord::Done) => return done(op, status, body),
        Ruled::Says(OutcomeWord::Rejected) => {
            return Outcome::Rejected { reason: body.reason(status), explicit: true };
        }
        Ruled::Says(OutcomeWord::InProgress) => {
            return Outcome::InProgress { serial: serial(&body, &op.serial) };
        }
        Ruled::Says(OutcomeWord::NotExecuted) => return not_executed(&body),
        Ruled::Says(OutcomeWord::NeverSeen | OutcomeWord::Sealed) => {
            // A definition with such a rule is refused: only a query can say this.
            return Outcome::Unknown {
                reason: format!("answered {status}, read as what only a query can say"),
            };
        }
    }
    match status {
        202 => Outcome::InProgress { serial: serial(&body, &op.serial) },
        200..=299 => done(op, status, body),
        400..=499 if body.outcome() == Some("rejected") => {
            Outcome::Rejected { reason: body.reason(status), explicit: true }
        }
        // A bare 400 or 410 may come from a proxy; 402 and 422 are nobody else's words.
        400 | 402 | 410 | 422 => {
            Outcome::Rejected { reason: body.reason(status), explicit: matches!(status, 402 | 422) }
        }
        408 | 425 | 429 => not_executed(&body),
        503 if retry_after_ms.is_some() => not_executed(&body),
        401 | 403 | 404 | 405 | 407 | 411..=415 => {
            Outcome::Misconfigured { reason: body.reason_with_status(status) }
        }
        _ => Outcome::Unknown { reason: body.reason_with_status(status) },
    }
}

/// What an answer to a query means, by the query's own `outcome` rule, then by the table.
///
/// A 200 that contradicts itself (its `outcome` says never seen, sealed or not executed) is no answer: taking it for done would
/// be a guess. So is a 200 with `null`, which many services answer for "no such thing".
#[must_use]
pub fn read_query(_op: &Operation, query: &Query, answer: &Answer) -> QueryOutcome {
    let (status, body) = match answer {
        Answer::Response { status, retry_after_ms: _, body } => (*status, Body::read(body)),
        Answer::NotSent(reason) | Answer::Misconfigured(reason) | Answer::Lost(reason) => {
            return QueryOutcome::NoAnswer { reason: reason.clone() };
        }
    };
    match ruled(query.outcome.as_ref(), status, &body) {
        Ruled::No => {}
        Ruled::Unreadable(reason) => return QueryOutcome::NoAnswer { reason },
        Ruled::Says(OutcomeWord::Done) => return found(query, status, body),
        Ruled::Says(OutcomeWord::Rejected) => return QueryOutcome::Rejected { reason: body.reason(status) },
        Ruled::Says(OutcomeWord::InProgress) => {
            return QueryOutcome::InProgress { serial: serial(&body, &query.serial) };
        }
        Ruled::Says(OutcomeWord::NeverSeen) => return QueryOutcome::NeverSeen { express: true },
        Ruled::Says(OutcomeWord::Sealed) => return QueryOutcome::Sealed,
        Ruled::Says(OutcomeWord::NotExecuted) => {
            // A definition with such a rule is refused: a query speaks of all attempts, this word of one.
            return QueryOutcome::NoAnswer { reason: format!("answered {status}, read as not executed") };
        }
    }
    if body.outcome() == Some("rejected") {
        return QueryOutcome::Rejected { reason: body.reason(status) };
    }
    match (status, body.json()) {
        (200, Some(fact)) if !fact.is_null() => match body.outcome() {
            Some("in_progress") => QueryOutcome::InProgress { serial: serial(&body, &query.serial) },
            Some(word @ ("never_seen" | "sealed" | "not_executed")) => {
                QueryOutcome::NoAnswer { reason: format!("answered 200, but its outcome is {word}") }
            }
            Some(_) | None => found(query, status, body),
        },
        (202 | 425, _) => QueryOutcome::InProgress { serial: serial(&body, &query.serial) },
        (404, Some(_)) => QueryOutcome::NeverSeen { express: body.outcome() == Some("never_seen") },
        (409, _) => QueryOutcome::Rejected { reason: body.reason(status) },
        (410, Some(_)) if body.outcome() == Some("sealed") => QueryOutcome::Sealed,
        (_, _) => QueryOutcome::NoAnswer { reason: body.reason_with_status(status) },
    }
}

/// What an `outcome` rule makes of an answer.
enum Ruled {
    /// There is no rule for it: the table decides.
    No,
    /// It means this.
    Says(OutcomeWord),
    /// The rule reads the body, and the body has none of its values.
    Unreadable(String),
}

fn ruled(rule: Option<&OutcomeRule>, status: u16, body: &Body) -> Ruled {
    let Some(rule) = rule else { return Ruled::No };
    if let Some(word) = rule.codes.get(&status) {
        return Ruled::Says(*word);
    }
    if !(200..=299).contains(&status) || rule.at.is_empty() {
        return Ruled::No;
    }
    let Some(value) = body.json().and_then(|value| json::first_at(value, &rule.at)) else {
        return Ruled::Unreadable(format!("answered {status} with nothing at {}", rule.at.join(" or ")));
    };
    match rule.values.iter().find(|(known, _)| json::same(known, value)) {
        Some((_, word)) => Ruled::Says(*word),
        None => Ruled::Unreadable(format!(
            "answered {status} with a value at {} that the outcome rule does not name",
            rule.at.join(" or ")
        )),
    }
}

/// The first serial that is there. Null is not there: nothing could be asked or undone with it.
fn serial(body: &Body, pointers: &[String]) -> Option<Value> {
    body.json().and_then(|value| serial_in(value, pointers))
}

fn serial_in(value: &Value, pointers: &[String]) -> Option<Value> {
    pointers.iter().find_map(|pointer| value.pointer(pointer).filter(|found| !found.is_null())).cloned()
}

/// The fact and the serial of something done, or why the declared serial cannot be read.
fn fact(body: Body, pointers: &[String], status: u16) -> Result<(Value, Option<Value>), String> {
    let fact = body.into_fact();
    let serial = serial_in(&fact, pointers);
    if serial.is_none() && !pointers.is_empty() {
        return Err(format!("answered {status} without the declared serial at {}", pointers.join(" or ")));
    }
    Ok((fact, serial))
}

fn done(op: &Operation, status: u16, body: Body) -> Outcome {
    match fact(body, &op.serial, status) {
        Ok((fact, serial)) => Outcome::Done { fact, serial },
        Err(reason) => Outcome::Unknown { reason },
    }
}

fn found(query: &Query, status: u16, body: Body) -> QueryOutcome {
    match fact(body, &query.serial, status) {
        Ok((fact, serial)) => QueryOutcome::Done { fact, serial },
        Err(reason) => QueryOutcome::NoAnswer { reason },
    }
}
