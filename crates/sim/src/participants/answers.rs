//! From what a participant means to an answer that says it, in the words that the definition expects.
//!
//! Several answers mean the same; one of them is drawn. That each of them means what it should is asked of the product's own
//! reader, so that what is tested here is what follows from answers; how they are read has tests of its own.

use amends_core::answer::{read_answer, read_query};
use amends_core::definition::{Operation, OutcomeRule, OutcomeWord, Query};
use amends_core::template::Path;
use amends_core::{Answer, Definition, OpKind, OpRef, Outcome, QueryOutcome};
use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// What a participant means by an answer to an action or a compensation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Meaning {
    /// Carried out, with this fact.
    Done(Value),
    /// Refused. `explicit`: in so many words.
    Refused { explicit: bool },
    /// Too busy; come back, perhaps after this many milliseconds.
    Busy(Option<u64>),
    /// Accepted, with a serial.
    Accepted(Value),
    /// Not allowed.
    NotAllowed,
    /// An internal error, which says nothing.
    Failed,
    /// Carried out, and nobody can read the answer.
    Unreadable,
}

/// What a participant means by an answer to a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum QueryMeaning {
    /// Carried out, with this fact.
    Done(Value),
    /// Nothing under this key will be executed.
    Refused,
    /// Accepted, not finished.
    Pending,
    /// Not known under this key.
    NeverSeen,
    /// Will never be executed under this key.
    Sealed,
    /// An internal error.
    Failed,
}

/// The operation of a definition.
pub(crate) fn operation(definition: &Definition, op: OpRef) -> &Operation {
    let step = &definition.steps[op.step];
    match op.kind {
        OpKind::Action => step.action.as_ref(),
        OpKind::Compensation => step.compensation.as_ref(),
    }
    .expect("invariant: only operations that the definition has are called")
}

/// The fact of an operation that was carried out: with the serials and members that the definition reads in it.
pub(crate) fn fact(definition: &Definition, op: OpRef, serial: u64) -> Value {
    let operation = operation(definition, op);
    let mut fact = json!({ "number": serial });
    let number = Value::String(format!("n{serial}"));
    if op.kind == OpKind::Action {
        definition.each_path(&mut |path| {
            if let Path::StepFact { step, at, .. } = path
                && *step == op.step
                && !at.is_empty()
                && fact.pointer(&format!("/{}", at.join("/"))).is_none()
            {
                set(&mut fact, &format!("/{}", at.join("/")), number.clone());
            }
        });
    }
    for pointer in
        operation.serial.first().into_iter().chain(queried(operation).and_then(|q| q.serial.first()))
    {
        set(&mut fact, pointer, number.clone());
    }
    say(&mut fact, operation.outcome.as_ref(), OutcomeWord::Done);
    say(&mut fact, queried(operation).and_then(|query| query.outcome.as_ref()), OutcomeWord::Done);
    fact
}

fn queried(operation: &Operation) -> Option<&Query> {
    operation.query.as_ref()
}

/// Puts a word of an outcome rule where the rule looks for it.
fn say(body: &mut Value, rule: Option<&OutcomeRule>, word: OutcomeWord) {
    let Some(rule) = rule else { return };
    let Some(pointer) = rule.at.first() else { return };
    if let Some((value, _)) = rule.values.iter().find(|(_, known)| *known == word) {
        set(body, pointer, value.clone());
    }
}

/// Sets a member at a JSON pointer, making the objects on the way.
fn set(value: &mut Value, pointer: &str, member: Value) {
    let mut at = value;
    for name in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(members) = at else { unreachable!("invariant: made an object above") };
        at = members.entry(name.to_owned()).or_insert(Value::Null);
    }
    *at = member;
}

fn response(status: u16, body: &Value) -> Answer {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    Answer::Response { status, retry_after_ms: None, body }
}

fn said(rule: Option<&OutcomeRule>, word: OutcomeWord, body: Value) -> Value {
    let mut body = body;
    say(&mut body, rule, word);
    body
}

fn codes(rule: Option<&OutcomeRule>, word: OutcomeWord) -> impl Iterator<Item = u16> {
    let codes = rule.map(|rule| rule.codes.clone()).unwrap_or_default();
    codes.into_iter().filter(move |(_, known)| *known == word).map(|(code, _)| code)
}

/// An answer of an operation. `None`: the definition has no words for that.
pub(crate) fn answer(operation: &Operation, meaning: &Meaning, dice: &mut Dice) -> Option<Answer> {
    let rule = operation.outcome.as_ref();
    let reason = json!({ "reason": "sold out" });
    let rejected = json!({ "outcome": "rejected", "reason": "sold out" });
    let mut candidates = Vec::new();
    match meaning {
        Meaning::Done(fact) => candidates.extend([200, 201, 203].map(|status| response(status, fact))),
        Meaning::Refused { explicit: true } => {
            candidates.extend([402, 422].map(|status| response(status, &reason)));
            candidates.extend([400, 404, 409, 422].map(|status| response(status, &rejected)));
            candidates.push(response(200, &said(rule, OutcomeWord::Rejected, json!({}))));
            candidates.extend(codes(rule, OutcomeWord::Rejected).map(|code| response(code, &rejected)));
        }
        Meaning::Refused { explicit: false } => candidates.extend([400, 410].map(|s| response(s, &reason))),
        Meaning::Busy(after) => {
            for status in [408, 425, 429, 503] {
                candidates.push(Answer::Response { status, retry_after_ms: *after, body: Vec::new() });
            }
        }
        Meaning::Accepted(serial) => {
            let mut body = json!({});
            if let Some(pointer) = operation.serial.first() {
                set(&mut body, pointer, serial.clone());
            }
            candidates.push(response(202, &said(rule, OutcomeWord::InProgress, body.clone())));
            candidates.push(response(200, &said(rule, OutcomeWord::InProgress, body)));
            candidates.extend(codes(rule, OutcomeWord::InProgress).map(|code| response(code, &json!({}))));
        }
        Meaning::NotAllowed => {
            candidates.push(Answer::Misconfigured("amends.toml does not name it".into()));
            candidates.extend([401, 403, 404, 405, 413].map(|status| response(status, &Value::Null)));
        }
        Meaning::Failed => {
            candidates.extend([409, 500, 502, 503, 504, 302].map(|status| response(status, &Value::Null)));
        }
        Meaning::Unreadable => {
            candidates.push(Answer::Response { status: 200, retry_after_ms: None, body: b"<html>".to_vec() });
            candidates.push(Answer::Lost("the answer was longer than it may be".into()));
        }
    }
    candidates.retain(|answer| means(operation, answer, meaning));
    if candidates.is_empty() { None } else { Some(dice.pick(&candidates).clone()) }
}

fn means(operation: &Operation, answer: &Answer, meaning: &Meaning) -> bool {
    match (read_answer(operation, answer), meaning) {
        (Outcome::Done { fact, .. }, Meaning::Done(meant)) => fact == *meant,
        (Outcome::Rejected { explicit, .. }, Meaning::Refused { explicit: meant }) => explicit == *meant,
        (Outcome::NotExecuted { .. }, Meaning::Busy(_))
        | (Outcome::InProgress { .. }, Meaning::Accepted(_))
        | (Outcome::Misconfigured { .. }, Meaning::NotAllowed)
        | (Outcome::Unknown { .. }, Meaning::Failed | Meaning::Unreadable) => true,
        (
            Outcome::Done { .. }
            | Outcome::Rejected { .. }
            | Outcome::NotExecuted { .. }
            | Outcome::InProgress { .. }
            | Outcome::Misconfigured { .. }
            | Outcome::Unknown { .. },
            _,
        ) => false,
    }
}

/// An answer of an operation's query. `None`: the definition has no words for that.
pub(crate) fn query_answer(
    operation: &Operation,
    query: &Query,
    meaning: &QueryMeaning,
    dice: &mut Dice,
) -> Option<Answer> {
    let rule = query.outcome.as_ref();
    let word = |word: &str| json!({ "outcome": word });
    let mut candidates = Vec::new();
    match meaning {
        QueryMeaning::Done(fact) => candidates.push(response(200, fact)),
        QueryMeaning::Refused => {
            candidates.push(response(409, &Value::Null));
            candidates.push(response(404, &word("rejected")));
            candidates.push(response(200, &said(rule, OutcomeWord::Rejected, word("rejected"))));
        }
        QueryMeaning::Pending => {
            candidates.extend([202, 425].map(|status| response(status, &Value::Null)));
            candidates.push(response(200, &said(rule, OutcomeWord::InProgress, json!({}))));
        }
        QueryMeaning::NeverSeen => {
            candidates.push(response(404, &json!({})));
            candidates.push(response(404, &word("never_seen")));
            candidates.push(response(404, &word("never_seen")));
            candidates.push(response(200, &said(rule, OutcomeWord::NeverSeen, json!({}))));
            candidates.extend(codes(rule, OutcomeWord::NeverSeen).map(|code| response(code, &json!({}))));
        }
        QueryMeaning::Sealed => {
            candidates.push(response(410, &word("sealed")));
            candidates.push(response(200, &said(rule, OutcomeWord::Sealed, json!({}))));
        }
        QueryMeaning::Failed => {
            candidates.extend([500, 502, 503].map(|status| response(status, &Value::Null)))
        }
    }
    candidates.retain(|answer| query_means(operation, query, answer, meaning));
    if candidates.is_empty() { None } else { Some(dice.pick(&candidates).clone()) }
}

fn query_means(operation: &Operation, query: &Query, answer: &Answer, meaning: &QueryMeaning) -> bool {
    match (read_query(operation, query, answer), meaning) {
        (QueryOutcome::Done { fact, .. }, QueryMeaning::Done(meant)) => fact == *meant,
        (QueryOutcome::Rejected { .. }, QueryMeaning::Refused)
        | (QueryOutcome::InProgress { .. }, QueryMeaning::Pending)
        | (QueryOutcome::NeverSeen { .. }, QueryMeaning::NeverSeen)
        | (QueryOutcome::Sealed, QueryMeaning::Sealed)
        | (QueryOutcome::NoAnswer { .. }, QueryMeaning::Failed) => true,
        (
            QueryOutcome::Done { .. }
            | QueryOutcome::Rejected { .. }
            | QueryOutcome::InProgress { .. }
            | QueryOutcome::NeverSeen { .. }
            | QueryOutcome::Sealed
            | QueryOutcome::NoAnswer { .. },
            _,
        ) => false,
    }
}
