//! A check finds what it claims to find: each machine here breaks one rule, and the report says which.

use std::sync::Arc;

use amends_check::{Core, Machine, Options, Verdict, check_machine};
use amends_core::answer::{Outcome, QueryOutcome};
use amends_core::definition::{Definition, Idempotency, Operation, StepKind, from_toml};
use amends_core::{
    Decision, Direction, Effect, Evidence, Input, Knowledge, Now, OpKind, OpRef, Phase, Refusal, Saga,
};

use crate::corpus::within;

/// Three steps: the first two can be undone, in the reverse order; the third is the point of no return.
const ORDER: &str = r#"
saga = "order"
version = 1
deadline = "1h"
[participants.stock]
idempotency = "replay"
[participants.bank]
idempotency = "effect"
[participants.printer]
idempotency = "none"
[[step]]
name = "reserve"
[step.action]
to = "stock"
post = "/reservations"
retry = { max_attempts = 3, budget = "12s" }
[step.compensation]
post = "/reservations/release"
[[step]]
name = "charge"
[step.action]
to = "bank"
post = "/charges"
query = { get = "/charges/${key}" }
[step.compensation]
to = "stock"
post = "/refunds"
[[step]]
name = "print"
pivot = true
[step.action]
to = "printer"
post = "/labels"
"#;

/// One step that must not be repeated on a guess, and can be asked about.
const PRINT: &str = r#"
saga = "print"
version = 1
[participants.printer]
idempotency = "none"
[[step]]
name = "print"
pivot = true
[step.action]
to = "printer"
post = "/labels"
query = { get = "/labels/${key}" }
"#;

type Decided = Result<Decision, Refusal>;

/// The core, but for what `decide` does otherwise.
struct Broken<D: Fn(&Saga, &Input, Now) -> Decided + Sync>(D);

impl<D: Fn(&Saga, &Input, Now) -> Decided + Sync> Machine for Broken<D> {
    fn decide(&self, saga: &Saga, input: &Input, now: Now) -> Decided {
        (self.0)(saga, input, now)
    }
}

fn core(saga: &Saga, input: &Input, now: Now) -> Decided {
    amends_core::decide(saga, input, now)
}

/// Decides as if the definition were another.
fn as_if(saga: &Saga, input: &Input, now: Now, change: impl Fn(&mut Definition)) -> Decided {
    let mut definition = (*saga.definition).clone();
    change(&mut definition);
    let mut pretended = saga.clone();
    pretended.definition = Arc::new(definition);
    let mut decision = core(&pretended, input, now)?;
    decision.after.definition = saga.definition.clone();
    Ok(decision)
}

fn operations(definition: &mut Definition) -> impl Iterator<Item = &mut Operation> {
    definition.steps.iter_mut().flat_map(|step| [&mut step.action, &mut step.compensation]).flatten()
}

/// Checks what the machine makes of a definition: unsafe, in these words.
fn found(
    text: &str,
    faults: u32,
    reason: &str,
    decide: impl Fn(&Saga, &Input, Now) -> Decided + Sync,
) -> Vec<String> {
    let definition = from_toml(text).unwrap_or_else(|problems| panic!("{problems:#?}")).definition;
    let options = Options { trust: false, ..within(faults) };
    let sound = check_machine(&Core, &definition, &options);
    assert_ne!(sound.verdict, Verdict::Unsafe, "the core itself: {:#?}", sound.problems);
    let report = check_machine(&Broken(decide), &definition, &options);
    assert_eq!(report.verdict, Verdict::Unsafe, "{}", amends_check::text("it", &report));
    let problem = &report.problems[0];
    assert!(problem.reason.contains(reason), "{reason:?} is not in {:#?}", problem);
    assert!(problem.story.len() > 2, "{:#?}", problem.story);
    problem.story.clone()
}

#[test]
fn a_time_out_taken_for_a_refusal_leaves_the_effect_behind() {
    let story =
        found(ORDER, 1, "`reserve` stays carried out although the saga is undone", |saga, input, now| {
            let mut input = input.clone();
            if let Input::Answered { outcome, .. } = &mut input
                && matches!(outcome, Outcome::Unknown { .. })
            {
                *outcome = Outcome::Rejected { reason: String::new(), explicit: true };
            }
            core(saga, &input, now)
        });
    assert_eq!(
        story,
        [
            "A saga begins: `reserve` is sent to stock.",
            "`reserve` gets no answer within 3s: it may have been carried out, or never arrive, or arrive later.",
            "The saga turns round: what was done is to be undone.",
            "The saga ends: compensated.",
            "`reserve` counts as undone, but a message for it still arrives: it is carried out, and stays so.",
        ]
    );
}

#[test]
fn a_time_out_taken_for_success_loses_the_effect() {
    found(ORDER, 1, "`reserve` counts as done, but was never carried out", |saga, input, now| {
        let mut input = input.clone();
        if let Input::Answered { outcome, .. } = &mut input
            && matches!(outcome, Outcome::Unknown { .. })
        {
            *outcome = Outcome::Done { fact: serde_json::json!({}), serial: None };
        }
        core(saga, &input, now)
    });
}

#[test]
fn what_must_not_be_repeated_is_carried_out_twice_if_it_is() {
    found(ORDER, 1, "`print` is carried out twice", |saga, input, now| {
        as_if(saga, input, now, |definition| {
            operations(definition).for_each(|operation| operation.idempotency = Idempotency::Replay);
        })
    });
}

#[test]
fn a_take_over_that_forgets_what_was_in_flight_carries_it_out_twice() {
    let story = found(PRINT, 1, "`print` is carried out twice", |saga, input, now| {
        let mut saga = saga.clone();
        if let Input::TakeOver { .. } = input {
            for step in saga.steps.iter_mut().filter(|step| step.action.is_calling()) {
                step.action.open = 0;
                step.action.phase = Phase::Send { due: now.at, waited_ms: 0, verifying: false };
            }
        }
        core(&saga, input, now)
    });
    assert!(story.iter().any(|line| line == "The node stops; another takes the saga over."), "{story:#?}");
}

#[test]
fn never_seen_taken_for_proof_too_early_carries_out_twice() {
    let sealed = PRINT.replace("\"none\"", "\"none\"\nseals_after = \"10m\"");
    found(&sealed, 1, "`print` is carried out twice", |saga, input, now| {
        as_if(saga, input, now, |definition| {
            operations(definition)
                .filter(|o| o.seals_after_ms.is_some())
                .for_each(|o| o.seals_after_ms = Some(1));
        })
    });
}

#[test]
fn a_bare_never_seen_taken_for_an_express_one_carries_out_twice() {
    found(PRINT, 1, "`print` is carried out twice", |saga, input, now| {
        let mut input = input.clone();
        if let Input::Asked { outcome: QueryOutcome::NeverSeen { express }, .. } = &mut input {
            *express = true;
        }
        as_if(saga, &input, now, |definition| {
            operations(definition).for_each(|operation| operation.seals_after_ms = Some(1));
        })
    });
}

#[test]
fn a_refusal_of_one_attempt_taken_for_all_leaves_the_effect_behind() {
    // The repeat is answered "rejected" because the first was carried out.
    found(ORDER, 1, "`charge` stays carried out although the saga is undone", |saga, input, now| {
        let mut saga = saga.clone();
        if let Input::Answered { op, outcome: Outcome::Rejected { .. }, .. } = input
            && op.kind == OpKind::Action
        {
            saga.steps[op.step].action.open = 1;
        }
        core(&saga, input, now)
    });
}

#[test]
fn what_is_undone_while_possible_is_found_at_once() {
    found(ORDER, 2, "is undone while nobody knows whether it was carried out", |saga, input, now| {
        as_if(saga, input, now, |definition| {
            for step in &mut definition.steps {
                step.compensation.iter_mut().for_each(|undo| undo.fenced = true);
            }
        })
    });
}

#[test]
fn what_never_happened_is_not_to_be_undone() {
    found(ORDER, 2, "is carried out although there is nothing to undo", |saga, input, now| {
        let mut decision = core(saga, input, now)?;
        // Turning round, it takes what is possible for done.
        let possible = (0..decision.after.steps.len()).find(|step| {
            let action = &decision.after.steps[*step].action;
            action.knowledge() == Knowledge::Possible && !action.is_calling()
        });
        if let (Direction::Undo, Some(step)) = (decision.after.direction, possible) {
            let evidence = Input::Evidence {
                op: OpRef::action(step),
                generation: 1,
                evidence: Evidence::Done { fact: serde_json::json!({}) },
                source: "guess".into(),
            };
            let guessed = core(&decision.after, &evidence, now)?;
            decision.entries.extend(guessed.entries);
            decision.after = guessed.after;
            decision.effects = guessed.effects;
        }
        Ok(decision)
    });
}

#[test]
fn the_order_of_undoing_matters() {
    let story = found(ORDER, 1, "`reserve` is undone before `charge`", |saga, input, now| {
        as_if(saga, input, now, |definition| {
            definition.steps.iter_mut().for_each(|step| step.dependants.clear());
        })
    });
    assert!(story.len() <= 6, "{story:#?}");
}

#[test]
fn nothing_is_undone_after_the_point_of_no_return() {
    found(ORDER, 2, "although its point of no return, `print`, may be passed", |saga, input, now| {
        as_if(saga, input, now, |definition| {
            definition.steps.iter_mut().for_each(|step| step.kind = StepKind::Compensatable);
        })
    });
}

#[test]
fn attempts_have_an_end() {
    found(ORDER, 3, "`reserve` is attempted more often than its retry policy allows", |saga, input, now| {
        let mut saga = saga.clone();
        saga.steps.iter_mut().for_each(|step| step.action.attempts = step.action.attempts.min(1));
        core(&saga, input, now)
    });
}

#[test]
fn budgets_have_an_end() {
    found(ORDER, 2, "uses more time than its retry budget holds", |saga, input, now| {
        let mut saga = saga.clone();
        saga.steps.iter_mut().for_each(|step| step.action.budget_used_ms = 0);
        core(&saga, input, now)
    });
}

#[test]
fn an_end_absorbs_what_comes_after_it() {
    // Callbacks reopen it.
    found(ORDER, 1, "the saga still moves after its end", |saga, input, now| {
        let mut saga = saga.clone();
        if let Input::Evidence { .. } = input {
            saga.ended = None;
            saga.direction = Direction::Forward;
        }
        core(&saga, input, now)
    });
}

#[test]
fn nothing_is_sent_after_the_end() {
    found(ORDER, 1, "the saga still moves after its end", |saga, input, now| {
        let mut decision = core(saga, input, now)?;
        if decision.after.ended.is_some() {
            decision.effects.push(Effect::Perform { op: OpRef::action(0), attempt: 9 });
        }
        Ok(decision)
    });
}

#[test]
fn nothing_is_sent_that_no_entry_allows() {
    found(ORDER, 1, "is sent although no entry allows it", |saga, input, now| {
        let mut decision = core(saga, input, now)?;
        let waits = |step: &amends_core::StepState| matches!(step.action.phase, Phase::Send { .. });
        if let Some(step) = decision.after.steps.iter().position(waits) {
            decision.effects.push(Effect::Perform { op: OpRef::action(step), attempt: 9 });
        }
        Ok(decision)
    });
}

#[test]
fn what_waits_is_woken() {
    let story = found(ORDER, 1, "nothing will wake the saga when the time of", |saga, input, now| {
        let mut decision = core(saga, input, now)?;
        decision.effects.retain(|effect| !matches!(effect, Effect::Wake(_)));
        Ok(decision)
    });
    assert!(story.len() <= 4, "{story:#?}");
}

#[test]
fn what_is_asked_about_is_asked() {
    found(ORDER, 1, "nothing will wake the saga when the time of `charge`", |saga, input, now| {
        let mut decision = core(saga, input, now)?;
        decision.effects.retain(|effect| !matches!(effect, Effect::Ask { .. }));
        Ok(decision)
    });
}

#[test]
fn what_goes_nowhere_is_shown_to_somebody() {
    found(ORDER, 1, "nothing will move the saga, and nobody is told", |saga, input, now| {
        let mut decision = core(saga, input, now)?;
        for step in &mut decision.after.steps {
            if let Phase::Send { .. } = step.action.phase {
                step.action.phase = Phase::Idle;
            }
        }
        Ok(decision)
    });
}
