//! The words of the tables: inputs read, entries and effects written.

use amends_core::answer::{Outcome, QueryOutcome};
use amends_core::{
    By, CallId, Definition, Effect, Entry, EntryKind, Evidence, Input, OpKind, OpRef, ParkReason, Person,
    PersonAction, Phase, Saga, Settled, Time, UndoReason,
};
use serde_json::Value;

/// `3s`, `5m`, `2h`, `1d`, `10ms` in milliseconds.
pub(crate) fn duration(text: &str) -> u64 {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let number: u64 = digits.parse().unwrap_or_else(|_| panic!("`{text}` is no duration"));
    number
        * match &text[digits.len()..] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            unit => panic!("`{unit}` is no unit"),
        }
}

/// A duration in the shortest exact unit.
pub(crate) fn in_words(ms: u64) -> String {
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms > 0 && ms.is_multiple_of(size) {
            return format!("{}{unit}", ms / size);
        }
    }
    format!("{ms}ms")
}

fn op_named(definition: &Definition, text: &str) -> OpRef {
    let (name, kind) = match text.strip_prefix("undo ") {
        Some(name) => (name, OpKind::Compensation),
        None => (text, OpKind::Action),
    };
    let step = definition.step(name).unwrap_or_else(|| panic!("no step `{name}`"));
    OpRef { step, kind }
}

fn name_of(definition: &Definition, op: OpRef) -> String {
    let name = &definition.steps[op.step].name;
    match op.kind {
        OpKind::Action => name.clone(),
        OpKind::Compensation => format!("undo {name}"),
    }
}

fn json(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Null;
    }
    serde_json::from_str(text).unwrap_or_else(|e| panic!("`{text}` is no JSON: {e}"))
}

fn serial_in(saga: &Saga, op: OpRef, fact: &Value, of_query: bool) -> Option<Value> {
    let operation = saga.operation(op).expect("an operation of the definition");
    let pointers = match (&operation.query, of_query) {
        (Some(query), true) => &query.serial,
        (_, _) => &operation.serial,
    };
    pointers.iter().find_map(|pointer| fact.pointer(pointer)).cloned()
}

/// Reads an input. `reserve: …` answers its call, `reserve? …` its query, `reserve! …` is evidence.
pub(crate) fn input(saga: &Saga, text: &str) -> Input {
    let definition = &saga.definition;
    if text == "tick" {
        return Input::Tick;
    }
    if let Some(epoch) = text.strip_prefix("take over ") {
        return Input::TakeOver { epoch: epoch.parse().expect("an epoch"), lapsed: true };
    }
    if let Some(epoch) = text.strip_prefix("come from nobody to ") {
        return Input::TakeOver { epoch: epoch.parse().expect("an epoch"), lapsed: false };
    }
    if let Some(loss) = text.strip_prefix("lost ") {
        return Input::Lost { loss: loss.parse().expect("a number") };
    }
    if text == "claims taken" {
        return Input::Claimed { held_by: None };
    }
    if let Some(holder) = text.strip_prefix("claims held by ") {
        return Input::Claimed { held_by: Some(holder.into()) };
    }
    if let Some(reason) = text.strip_prefix("unfit ") {
        return Input::Unfit { reason: reason.into() };
    }
    if let Some(person) = person(saga, text) {
        return Input::Person(person);
    }
    let at = text.find([':', '?', '!']).unwrap_or_else(|| panic!("`{text}` is no input"));
    let mut op_text = text[..at].trim();
    let mut attempt = None;
    if let Some((name, number)) = op_text.split_once('#') {
        attempt = Some(number.parse().expect("an attempt"));
        op_text = name;
    }
    let op = op_named(definition, op_text);
    let rest = text[at + 1..].trim();
    let (rest, took_ms) = match rest.rsplit_once(" took ") {
        Some((rest, took)) => (rest, duration(took)),
        None => (rest, 0),
    };
    let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
    match &text[at..=at] {
        ":" if word == "held" => {
            let (reason, wait) = tail.split_once(' ').expect("a reason and a wait");
            let reason = if reason == "breaker" { ParkReason::BreakerOpen } else { ParkReason::LimitFull };
            Input::Held {
                op,
                attempt: attempt.unwrap_or(saga.op(op).sends),
                reason,
                retry_in_ms: duration(wait),
            }
        }
        ":" => Input::Answered {
            op,
            attempt: attempt.unwrap_or(saga.op(op).sends),
            outcome: outcome(saga, op, word, tail),
            took_ms,
        },
        "?" => Input::Asked {
            op,
            n: attempt.unwrap_or(saga.op(op).asked),
            outcome: query_outcome(saga, op, word, tail),
        },
        _ => Input::Evidence {
            op,
            generation: attempt.unwrap_or(saga.op(op).generation),
            evidence: evidence(word, tail),
            source: "callback".into(),
        },
    }
}

fn outcome(saga: &Saga, op: OpRef, word: &str, tail: &str) -> Outcome {
    match word {
        "done" => {
            let fact = json(tail);
            let serial = serial_in(saga, op, &fact, false);
            Outcome::Done { fact, serial }
        }
        "rejected" => Outcome::Rejected { reason: tail.into(), explicit: false },
        "rejected!" => Outcome::Rejected { reason: tail.into(), explicit: true },
        "busy" => Outcome::NotExecuted {
            reason: "503".into(),
            retry_after_ms: (!tail.is_empty()).then(|| duration(tail)),
        },
        "misconfigured" => Outcome::Misconfigured { reason: "403".into() },
        "in-progress" => Outcome::InProgress { serial: (!tail.is_empty()).then(|| json(tail)) },
        "lost" => Outcome::Unknown { reason: "time-out".into() },
        other => panic!("`{other}` is no outcome"),
    }
}

fn query_outcome(saga: &Saga, op: OpRef, word: &str, tail: &str) -> QueryOutcome {
    match word {
        "done" => {
            let fact = json(tail);
            let serial = serial_in(saga, op, &fact, true);
            QueryOutcome::Done { fact, serial }
        }
        "rejected" => QueryOutcome::Rejected { reason: tail.into() },
        "never" => QueryOutcome::NeverSeen { express: false },
        "never!" => QueryOutcome::NeverSeen { express: true },
        "sealed" => QueryOutcome::Sealed,
        "in-progress" => QueryOutcome::InProgress { serial: None },
        "silent" => QueryOutcome::NoAnswer { reason: "500".into() },
        other => panic!("`{other}` is no answer to a query"),
    }
}

fn evidence(word: &str, tail: &str) -> Evidence {
    match word {
        "done" => Evidence::Done { fact: json(tail) },
        "rejected" => Evidence::Rejected { reason: tail.into(), explicit: false },
        "rejected!" => Evidence::Rejected { reason: tail.into(), explicit: true },
        "sealed" => Evidence::Sealed,
        other => panic!("`{other}` is no evidence"),
    }
}

/// `cancel`, `retry STEP [undo|do] [force] [new-key]`, `resolve STEP [undo|do] done JSON|not-done`, `skip STEP`, `close`;
/// with `silent` behind it without a reason, `stale` with an old version, `blind` without one.
fn person(saga: &Saga, text: &str) -> Option<Person> {
    let mut words = text.split(' ');
    let action = match words.next()? {
        "cancel" => PersonAction::Cancel,
        "close" => PersonAction::Close,
        "skip" => PersonAction::Skip { step: words.next()?.into() },
        "retry" => PersonAction::Retry {
            step: words.next()?.into(),
            operation: which(text),
            force: text.contains(" force"),
            new_key: text.contains(" new-key"),
        },
        "resolve" => {
            let step = words.next()?.into();
            let done = text
                .split_once(" done ")
                .map(|(_, fact)| json(fact))
                .or_else(|| text.ends_with(" done").then_some(Value::Null));
            PersonAction::Resolve {
                step,
                operation: which(text),
                done: done.filter(|_| !text.ends_with("not-done")),
            }
        }
        _ => return None,
    };
    let version = if text.contains(" stale") {
        Some(saga.seq - 1)
    } else {
        (!text.contains(" blind")).then_some(if text.contains(" seen-before") {
            saga.seq - 2
        } else {
            saga.seq
        })
    };
    let reason = if text.contains(" silent") { " ".into() } else { "because".into() };
    Some(Person { by: By { who: "ann".into(), reason }, version, action })
}

fn which(text: &str) -> Option<OpKind> {
    if text.contains(" undo") {
        Some(OpKind::Compensation)
    } else {
        text.contains(" do ").then_some(OpKind::Action)
    }
}

fn phase(phase: &Phase, at: Time) -> String {
    let until = |due: &Time| {
        if due.0 < at.0 { format!("{} ago", in_words(at.since_ms(*due))) } else { in_words(due.since_ms(at)) }
    };
    match phase {
        Phase::Idle => "idle".into(),
        Phase::Calling => "calling".into(),
        Phase::Send { due, verifying, .. } => {
            format!("{} in {}", if *verifying { "learn" } else { "send" }, until(due))
        }
        Phase::Ask { due, .. } => format!("ask in {}", until(due)),
        Phase::InProgress { due, until: end, .. } => format!("wait {} of {}", until(due), until(end)),
        Phase::Verify { due } => format!("verify in {}", until(due)),
        Phase::Parked { due, reason } => {
            let why = match reason {
                ParkReason::Configuration(_) => "configuration",
                ParkReason::BreakerOpen => "breaker",
                ParkReason::LimitFull => "limit",
            };
            format!("parked ({why}) {}", until(due))
        }
        Phase::Dead { .. } => "dead".into(),
    }
}

fn reason_word(definition: &Definition, reason: &UndoReason) -> String {
    match reason {
        UndoReason::Rejected(op) => format!("rejected {}", name_of(definition, *op)),
        UndoReason::Exhausted(op) => format!("exhausted {}", name_of(definition, *op)),
        UndoReason::Cancel => "cancel".into(),
        UndoReason::Deadline => "deadline".into(),
    }
}

fn settled_word(settled: &Settled) -> &'static str {
    match settled {
        Settled::Done { .. } => "done",
        Settled::Rejected { .. } => "rejected",
        Settled::Sealed => "sealed",
    }
}

/// An entry in short.
pub(crate) fn entry(definition: &Definition, entry: &Entry) -> String {
    let at = entry.at;
    let kind = entry.kind.name();
    let name = |op: &OpRef| name_of(definition, *op);
    match &entry.kind {
        EntryKind::Submitted { .. }
        | EntryKind::Accepted
        | EntryKind::UndoRefused
        | EntryKind::Overdue
        | EntryKind::Stuck { .. } => kind.into(),
        EntryKind::AcceptRefused { due, .. } => format!("{kind} for {}", in_words(due.since_ms(at))),
        EntryKind::TakenOver { next, .. } | EntryKind::Lost { next, .. } => {
            let next: Vec<_> =
                next.iter().map(|(op, next)| format!("{} > {}", name(op), phase(next, at))).collect();
            format!("{kind} [{}]", next.join(", "))
        }
        EntryKind::Sending { op, attempt, verifying, .. } => {
            format!("{kind} {}#{attempt}{}", name(op), if *verifying { " to learn" } else { "" })
        }
        EntryKind::Held { op, attempt, next } => {
            format!("{kind} {}#{attempt} > {}", name(op), phase(next, at))
        }
        EntryKind::Answered { op, attempt, outcome, settles, next, .. } => {
            let word = match outcome {
                Outcome::Done { .. } => "done",
                Outcome::Rejected { .. } => "rejected",
                Outcome::NotExecuted { .. } => "not executed",
                Outcome::Misconfigured { .. } => "misconfigured",
                Outcome::InProgress { .. } => "in progress",
                Outcome::Unknown { .. } => "unknown",
            };
            let settles = if *settles { "!" } else { "" };
            format!("{kind} {}#{attempt} {word}{settles} > {}", name(op), phase(next, at))
        }
        EntryKind::Asked { op, outcome, void, next } => {
            let word = match outcome {
                QueryOutcome::Done { .. } => "done",
                QueryOutcome::Rejected { .. } => "rejected",
                QueryOutcome::InProgress { .. } => "in progress",
                QueryOutcome::NeverSeen { .. } if *void => "void",
                QueryOutcome::NeverSeen { .. } => "never seen",
                QueryOutcome::Sealed => "sealed",
                QueryOutcome::NoAnswer { .. } => "silent",
            };
            format!("{kind} {} {word} > {}", name(op), phase(next, at))
        }
        EntryKind::Waited { op, next } => format!("{kind} {} > {}", name(op), phase(next, at)),
        EntryKind::Unrenderable { op, path } => format!("{kind} {} {path}", name(op)),
        EntryKind::Settled { op, settled, source, .. } => {
            format!("{kind} {} {} by {source}", name(op), settled_word(settled))
        }
        EntryKind::Hinted { op, next, .. } => format!("{kind} {} > {}", name(op), phase(next, at)),
        EntryKind::Contradiction { op, evidence, known, .. } => {
            format!("{kind} {}: {evidence}; {known}", name(op))
        }
        EntryKind::Undoing { reason, .. } | EntryKind::UndoPending { reason, .. } => {
            format!("{kind} ({})", reason_word(definition, reason))
        }
        EntryKind::Retry { op, force, new_key, next, .. } => {
            let force = if *force { " by force" } else { "" };
            let new_key = if *new_key { " with a new key" } else { "" };
            format!("{kind} {}{force}{new_key} > {}", name(op), phase(next, at))
        }
        EntryKind::Skipped { step, .. } => format!("{kind} {}", definition.steps[*step].name),
        EntryKind::Ended { left, .. } if left.is_empty() => kind.into(),
        EntryKind::Ended { left, .. } => format!("{kind} leaving {}", left.join(" and ")),
    }
}

/// An effect in short.
pub(crate) fn effect(definition: &Definition, effect: Effect, now: Time) -> String {
    match effect {
        Effect::Claim => "claim".into(),
        Effect::Wake(at) => format!("wake in {}", in_words(at.since_ms(now))),
        Effect::Perform { .. } | Effect::Ask { .. } => {
            let CallId { op, is_query, n } = effect.call().expect("a call");
            format!("{} {}#{n}", if is_query { "ask" } else { "call" }, name_of(definition, op))
        }
    }
}
