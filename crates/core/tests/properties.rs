//! What must hold of every run, whatever participants, people and crashes do. Participants here keep no promise at all: these are the
//! machine's own invariants.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use amends_core::answer::{Outcome, QueryOutcome};
use amends_core::definition::{Definition, Idempotency, StepKind, check_input, from_toml};
use amends_core::{
    By, CallId, Direction, Effect, Entry, EntryKind, Evidence, Input, Jitter, Knowledge, Now, OpKind, OpRef,
    ParkReason, Person, PersonAction, Phase, Saga, SagaId, Status, Submission, Time, apply, decide, replay,
    status, submit, wanted,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// How a generated step looks; what is not possible together is left out when the text is made.
#[derive(Debug, Clone)]
struct StepPlan {
    after: u8,
    guarantee: u8,
    query: bool,
    serial: bool,
    effect_none: bool,
    no_action: bool,
}

fn text_of(steps: &[StepPlan], pivot: Option<usize>, deadline: bool) -> String {
    let mut text = String::from("saga = \"generated\"\nversion = 1\nclaims = [\"it:${id}\"]\n");
    if deadline {
        text.push_str("deadline = \"2m\"\n");
    }
    for (name, guarantee) in [
        ("none", "idempotency = \"none\""),
        ("effect", "idempotency = \"effect\""),
        ("replay", "idempotency = \"replay\"\nkey_ttl = \"1h\""),
        ("seals", "idempotency = \"none\"\nseals_after = \"15m\""),
        ("fenced", "idempotency = \"replay\"\nfenced = true"),
        ("statement", "idempotency = \"effect\"\nsettled_by = \"statement\""),
    ] {
        let _ = write!(text, "[participants.{name}]\n{guarantee}\n");
    }
    for (index, step) in steps.iter().enumerate() {
        let names = ["none", "effect", "replay", "seals", "fenced", "statement"];
        let to = names[step.guarantee as usize % names.len()];
        let _ = write!(text, "[[step]]\nname = \"s{index}\"\n");
        // A line before the pivot, a line after it, free branches elsewhere.
        let linear = pivot.is_some_and(|pivot| index >= pivot);
        let after: Vec<String> = match pivot {
            Some(pivot) if index == pivot => (0..index).map(|before| format!("\"s{before}\"")).collect(),
            _ if linear => vec![format!("\"s{}\"", index - 1)],
            _ => (0..index)
                .filter(|before| step.after >> before & 1 == 1)
                .map(|before| format!("\"s{before}\""))
                .collect(),
        };
        let _ = writeln!(text, "after = [{}]", after.join(", "));
        if pivot == Some(index) {
            text.push_str("pivot = true\n");
        }
        let undoable = pivot.is_none_or(|pivot| index < pivot);
        if step.no_action && undoable {
            continue;
        }
        if step.effect_none && undoable && to != "fenced" {
            text.push_str("effect = \"none\"\n");
        }
        let _ = write!(text, "[step.action]\nto = \"{to}\"\npost = \"/a\"\n");
        if step.serial {
            text.push_str("serial = \"/id\"\n");
        }
        if step.query || to == "seals" {
            text.push_str("query = { get = \"/q/${key}\" }\n");
        }
        if undoable && !(step.effect_none && to != "fenced") {
            text.push_str("[step.compensation]\npost = \"/undo\"\nbody = { of = \"${input.sku}\" }\n");
            if step.query || to == "seals" {
                text.push_str("query = { get = \"/qu/${key}\" }\n");
            }
        }
    }
    text
}

fn definitions() -> impl Strategy<Value = Arc<Definition>> {
    let step = (
        any::<u8>(),
        any::<u8>(),
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(after, guarantee, query, serial, effect_none, no_action)| StepPlan {
            after,
            guarantee,
            query,
            serial,
            effect_none,
            no_action,
        });
    (prop::collection::vec(step, 1..5), any::<u8>(), any::<bool>()).prop_map(|(steps, pivot, deadline)| {
        let pivot = (pivot as usize).checked_rem(steps.len() * 2).filter(|pivot| *pivot < steps.len());
        let text = text_of(&steps, pivot, deadline);
        from_toml(&text).unwrap_or_else(|problems| panic!("{text}\n{problems:#?}")).definition
    })
}

/// What happens next: numbers, read against what is possible at that moment.
#[derive(Debug, Clone, Copy)]
struct Choice {
    what: u8,
    which: u8,
    how: u8,
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    prop::collection::vec(
        (any::<u8>(), any::<u8>(), any::<u8>()).prop_map(|(what, which, how)| Choice { what, which, how }),
        1..60,
    )
}

fn fact(how: u8) -> Value {
    match how % 4 {
        0 => json!({"id": "x1", "undone": true}),
        1 => json!({"id": "x1", "undone": false}),
        2 => json!({"id": "x2"}),
        _ => Value::Null,
    }
}

fn outcome(how: u8) -> Outcome {
    let fact = fact(how / 8);
    let serial = fact.get("id").cloned();
    match how % 8 {
        0 | 1 => Outcome::Done { fact, serial },
        2 => Outcome::Rejected { reason: "no".into(), explicit: how >= 128 },
        3 => Outcome::NotExecuted {
            reason: "503".into(),
            retry_after_ms: (how >= 128).then_some(u64::from(how) * 300),
        },
        4 => Outcome::Misconfigured { reason: "403".into() },
        5 => Outcome::InProgress { serial },
        _ => Outcome::Unknown { reason: "time-out".into() },
    }
}

fn query_outcome(how: u8) -> QueryOutcome {
    let fact = fact(how / 8);
    let serial = fact.get("id").cloned();
    match how % 8 {
        0 => QueryOutcome::Done { fact, serial },
        1 => QueryOutcome::Rejected { reason: "no".into() },
        2 => QueryOutcome::Sealed,
        3 => QueryOutcome::InProgress { serial },
        4 => QueryOutcome::NeverSeen { express: false },
        5 | 6 => QueryOutcome::NeverSeen { express: true },
        _ => QueryOutcome::NoAnswer { reason: "500".into() },
    }
}

fn person(saga: &Saga, choice: Choice) -> Person {
    let step = saga.definition.steps[choice.which as usize % saga.steps.len()].name.clone();
    let operation = match choice.how / 64 {
        0 => Some(OpKind::Action),
        1 => Some(OpKind::Compensation),
        _ => None,
    };
    let action = match choice.how % 6 {
        0 => PersonAction::Cancel,
        1 => PersonAction::Retry {
            step,
            operation,
            force: choice.how & 32 != 0,
            new_key: choice.how & 16 != 0,
        },
        2 => PersonAction::Resolve { step, operation, done: Some(fact(0)) },
        3 => PersonAction::Resolve { step, operation, done: None },
        4 => PersonAction::Skip { step },
        _ => PersonAction::Close,
    };
    Person { by: By { who: "ann".into(), reason: "because".into() }, version: Some(saga.seq), action }
}

fn pick<T: Copy>(from: &[T], which: u8) -> Option<T> {
    from.get((which as usize).checked_rem(from.len())?).copied()
}

/// A run: the saga, its journal, the calls under way.
struct Run {
    saga: Saga,
    journal: Vec<Entry>,
    calls: BTreeMap<CallId, ()>,
    now: Time,
    epoch: u64,
}

impl Run {
    fn new(definition: &Arc<Definition>, accepting: bool) -> Self {
        let id = SagaId::new("order:1").expect("an id");
        let input = json!({"sku": "A"});
        let claims = check_input(definition, &id, &input).expect("the input fits");
        let now = Time(1_000_000_000);
        let submission = Submission { id, input, accepting, trace: None, epoch: 1, who: "test".into() };
        let decision = submit(definition.clone(), submission, claims, Now { at: now, jitter: Jitter::NONE });
        let mut run =
            Self { saga: decision.after, journal: decision.entries, calls: BTreeMap::new(), now, epoch: 1 };
        run.start(&decision.effects);
        run
    }

    fn start(&mut self, effects: &[Effect]) {
        self.calls.extend(effects.iter().filter_map(|effect| effect.call()).map(|call| (call, ())));
    }

    fn input(&mut self, choice: Choice) -> Option<Input> {
        let calls: Vec<CallId> = self.calls.keys().copied().collect();
        let ops: Vec<OpRef> = self.saga.ops().collect();
        Some(match choice.what % 16 {
            0..=8 => {
                let call = pick(&calls, choice.which)?;
                self.calls.remove(&call);
                match (call.is_query, choice.what % 16) {
                    (true, _) => Input::Asked { op: call.op, n: call.n, outcome: query_outcome(choice.how) },
                    (false, 8) => Input::Held {
                        op: call.op,
                        attempt: call.n,
                        reason: ParkReason::LimitFull,
                        retry_in_ms: 1_000,
                    },
                    (false, _) => {
                        let took_ms = u64::from(choice.how) * 20;
                        self.now = self.now.plus_ms(took_ms);
                        Input::Answered {
                            op: call.op,
                            attempt: call.n,
                            outcome: outcome(choice.how),
                            took_ms,
                        }
                    }
                }
            }
            9 | 10 => {
                let ms = if choice.how < 200 {
                    self.saga.wake_at(self.now)?.since_ms(self.now)
                } else {
                    u64::from(choice.how) * 60_000
                };
                self.now = self.now.plus_ms(ms);
                Input::Tick
            }
            11 => {
                self.calls.clear();
                self.epoch += 1;
                Input::TakeOver { epoch: self.epoch, lapsed: choice.how.is_multiple_of(2) }
            }
            12 => {
                let evidence = match choice.how % 3 {
                    0 => Evidence::Done { fact: fact(choice.how / 3) },
                    1 => Evidence::Rejected { reason: "no".into(), explicit: choice.how >= 128 },
                    _ => Evidence::Sealed,
                };
                Input::Evidence {
                    op: pick(&ops, choice.which)?,
                    generation: 1,
                    evidence,
                    source: "callback".into(),
                }
            }
            13 => Input::Claimed { held_by: (choice.how < 64).then(|| "other".into()) },
            14 => Input::Person(person(&self.saga, choice)),
            // An answer nobody waits for: of an attempt or query of any number.
            _ => {
                let op = pick(&ops, choice.which)?;
                let n = u32::from(choice.how % 4);
                if choice.how >= 128 {
                    Input::Answered { op, attempt: n, outcome: outcome(choice.how), took_ms: 0 }
                } else {
                    Input::Asked { op, n, outcome: query_outcome(choice.how) }
                }
            }
        })
    }

    fn step(&mut self, choice: Choice) -> Result<(), TestCaseError> {
        let Some(input) = self.input(choice) else { return Ok(()) };
        let is_taken_over = matches!(input, Input::TakeOver { .. });
        self.take(choice, input)?;
        // A store that lost data says so with the take-over.
        if is_taken_over && choice.which < 60 {
            self.calls.clear();
            let open = self.saga.ended.is_none();
            self.take(choice, Input::Lost { loss: self.saga.loss + 1 })?;
            for op in self.saga.ops().filter(|op| open && !self.saga.steps[op.step].undone) {
                let state = self.saga.op(op);
                prop_assert!(
                    state.settled.is_some() || state.knowledge() == Knowledge::Possible,
                    "{op:?} counts as never sent after a loss"
                );
            }
        }
        Ok(())
    }

    fn take(&mut self, choice: Choice, input: Input) -> Result<(), TestCaseError> {
        let now = Now { at: self.now, jitter: Jitter::new(f64::from(choice.how) / 255.0) };
        let before = self.saga.clone();
        let Ok(decision) = decide(&self.saga, &input, now) else { return Ok(()) };
        self.journal.extend(decision.entries.iter().cloned());
        self.saga = decision.after;
        self.start(&decision.effects);
        self.holds(&before, &input, &decision.entries)?;

        // Duplicates are harmless: the same input again makes no difference that matters.
        let is_stimulus = matches!(
            input,
            Input::Answered { .. } | Input::Asked { .. } | Input::Held { .. } | Input::Evidence { .. }
        );
        if is_stimulus {
            let again = decide(&self.saga, &input, now).expect("stimuli are not refused");
            for entry in &again.entries {
                prop_assert!(
                    matches!(
                        entry.kind,
                        EntryKind::Contradiction { .. }
                            | EntryKind::Hinted { .. }
                            | EntryKind::Settled { .. }
                            | EntryKind::Undoing { .. }
                            | EntryKind::Ended { .. }
                    ),
                    "a duplicate of {input:?} made {entry:?}"
                );
            }
        }
        Ok(())
    }

    fn holds(&self, before: &Saga, input: &Input, entries: &[Entry]) -> Result<(), TestCaseError> {
        let saga = &self.saga;
        let definition = &saga.definition;
        prop_assert_eq!(
            &replay(definition.clone(), &self.journal).expect("it can be read"),
            saga,
            "replay equals live"
        );

        if before.ended.is_some() {
            for entry in entries {
                prop_assert!(
                    matches!(entry.kind, EntryKind::Contradiction { .. }),
                    "terminal absorbs, but {entry:?}"
                );
            }
        }
        if before.direction == Direction::Undo {
            prop_assert_eq!(saga.direction, Direction::Undo, "undoing never turns back");
        }
        let mut state = before.clone();
        for entry in entries {
            if let EntryKind::Sending { op, .. } = entry.kind {
                let operation = saga.operation(op).expect("a journal names operations that are there");
                let was = state.op(op);
                prop_assert!(
                    was.open == 0 || was.forced || operation.idempotency != Idempotency::None,
                    "sent although it may have been executed: {op:?}"
                );
            }
            apply(&mut state, entry).expect("entries follow each other");
        }
        let by_person = matches!(input, Input::Person(_));
        for (index, step) in definition.steps.iter().enumerate() {
            let state = &saga.steps[index];
            if state.compensation.enabled {
                prop_assert_eq!(step.kind, StepKind::Compensatable, "nothing after the pivot is undone");
                prop_assert_eq!(saga.direction, Direction::Undo);
                let just_now = !before.steps[index].compensation.enabled;
                if just_now {
                    for after in &step.dependants {
                        prop_assert!(saga.steps[*after].undone, "undone in reverse order");
                    }
                    let fenced = step.compensation.as_ref().is_some_and(|c| c.fenced);
                    let knowledge = state.action.knowledge();
                    prop_assert!(
                        knowledge == Knowledge::Done
                            || (knowledge == Knowledge::Possible && fenced && !state.action.is_calling()),
                        "undone while {knowledge:?}"
                    );
                }
            }
            for kind in [OpKind::Action, OpKind::Compensation] {
                let op = OpRef { step: index, kind };
                let Some(operation) = saga.operation(op) else { continue };
                let (was, is) = (before.op(op), saga.op(op));
                prop_assert!(is.budget_used_ms <= operation.retry.budget_ms, "over budget: {is:?}");
                prop_assert!(is.attempts <= operation.retry.max_attempts, "too many attempts: {is:?}");
                if let Input::Answered { outcome: Outcome::NotExecuted { .. }, op: answered, .. } = input
                    && *answered == op
                    && was.open > 1
                {
                    prop_assert_ne!(
                        is.knowledge(),
                        Knowledge::Unsent,
                        "possible is never cleared by an attempt's \"not executed\""
                    );
                }
                if was.settled.is_some() && is.settled != was.settled {
                    prop_assert!(by_person, "settled once: {was:?} became {is:?}");
                }
                prop_assert!(is.sends >= was.sends && is.asked >= was.asked, "numbers only grow");
            }
        }
        // Every open saga has something that will wake it, or is before a person.
        let effects = wanted(saga, self.now);
        if saga.ended.is_none() && status::status(saga) != Status::Dead {
            prop_assert!(!effects.is_empty(), "nothing will wake it: {saga:?}");
        }
        for effect in &effects {
            if let Some(call) = effect.call() {
                prop_assert!(
                    amends_core::for_call(saga, call).is_ok() || call.is_query,
                    "a call that cannot be made"
                );
            }
        }
        if saga.ended == Some(amends_core::Ended::Completed) {
            prop_assert!(saga.steps.iter().all(|step| step.done));
        }
        for op in saga.ops() {
            if let Phase::Calling = saga.op(op).phase {
                prop_assert!(saga.op(op).open > 0);
            }
        }
        Ok(())
    }
}

/// 1,500 runs, or as many as `PROPTEST_CASES` says.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_500);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn invariants_hold_in_every_run(definition in definitions(), accepting in prop::bool::weighted(0.1), choices in choices()) {
        let mut run = Run::new(&definition, accepting);
        for choice in choices {
            run.step(choice)?;
        }
    }

    /// With participants that always answer at once and say done, every saga completes, with one send an operation.
    #[test]
    fn without_faults_every_saga_completes(definition in definitions()) {
        let mut run = Run::new(&definition, false);
        for _ in 0..20 {
            let calls: Vec<CallId> = run.calls.keys().copied().collect();
            for call in calls {
                run.calls.remove(&call);
                let input = Input::Answered { op: call.op, attempt: call.n, outcome: outcome(0), took_ms: 1 };
                let decision = decide(&run.saga, &input, Now { at: run.now, jitter: Jitter::NONE }).expect("answers are not refused");
                run.saga = decision.after;
                run.start(&decision.effects);
            }
        }
        prop_assert_eq!(run.saga.ended, Some(amends_core::Ended::Completed));
        prop_assert!(run.saga.ops().all(|op| run.saga.op(op).sends <= 1));
    }
}
