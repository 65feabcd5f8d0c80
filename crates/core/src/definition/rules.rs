//! What steps, operations and guarantees must be to each other, and what may need a person.

use super::builder::{Builder, StepPlaces};
use super::diagnostic::{Place, Report};
use super::duration::show_duration;
use super::{Idempotency, Operation, Step, StepKind};

/// Checks a step on its own. Its kind must be known.
pub(super) fn check_step(step: &Step, places: &StepPlaces, report: &mut Report) {
    let name = &step.name;
    match (&step.action, &places.compensation) {
        (None, Some(at)) => report.problem(
            at,
            format!("step `{name}` has a compensation but no action: there is nothing to undo"),
            "give it an action, or remove the compensation",
        ),
        (Some(_), Some(at)) => match step.kind {
            StepKind::Pivot => report.problem(
                at,
                format!("step `{name}` is the pivot: once it is done nothing is undone"),
                "remove its compensation, or `pivot = true`",
            ),
            StepKind::Retriable => report.problem(
                at,
                format!(
                    "step `{name}` comes after the pivot: it is driven forward until it is done, never undone"
                ),
                "remove its compensation, or let it come before the pivot",
            ),
            StepKind::Compensatable if step.effect_none => report.problem(
                at,
                format!(
                    "step `{name}` says `effect = \"none\"`: its compensation would never be carried out"
                ),
                "remove the compensation, or `effect`",
            ),
            StepKind::Compensatable => {}
        },
        (Some(_), None) => {
            if step.kind == StepKind::Compensatable && !step.effect_none {
                report.problem(
                    &places.step,
                    format!("step `{name}` can be undone, but there is no compensation that says how"),
                    "add `compensation`; or `effect = \"none\"` if there is nothing to undo; or `pivot = true` if it is the \
                     point of no return",
                );
            }
        }
        (None, None) => {}
    }
    if let (Some(action), Some(compensation), Some(at)) =
        (&step.action, &step.compensation, &places.compensation)
    {
        check_fence(name, action, compensation, at, report);
        super::redis::check_same_place(step, at, report);
    }
}

/// A fence works where one participant sees both operations.
fn check_fence(name: &str, action: &Operation, compensation: &Operation, at: &Place, report: &mut Report) {
    if action.to == compensation.to {
        return;
    }
    let (fenced, other) = if action.fenced {
        (&action.to, &compensation.to)
    } else if compensation.fenced {
        (&compensation.to, &action.to)
    } else {
        return;
    };
    report.problem(
        at,
        format!(
            "`{fenced}` is fenced, but step `{name}` has its other operation at `{other}`: the fence would see only one of them"
        ),
        format!("send both to `{fenced}`, or leave `fenced` out of it"),
    );
}

impl Builder<'_> {
    /// Checks all operations against what their participants guarantee.
    pub(super) fn check_guarantees(&mut self, steps: &[Step]) {
        for (step, places) in steps.iter().zip(&self.places) {
            let name = &step.name;
            if let (Some(action), Some(at)) = (&step.action, &places.action) {
                if action.query.is_none() && self.participants.seals(&action.to) {
                    self.report.problem(
                        at,
                        format!(
                            "`{}` declares `seals_after`, which is about what a query does not know, but the action of step \
                             `{name}` has no query",
                            action.to
                        ),
                        "add `query`, as in `query = { get = \"/charges/${key}\" }`, or remove `seals_after`",
                    );
                }
                warn(action, "action", name, at, &mut self.report);
            }
            if let (Some(compensation), Some(at)) = (&step.compensation, &places.compensation) {
                warn(compensation, "compensation", name, at, &mut self.report);
            }
        }
        self.check_seals_of_participants(steps);
    }

    /// Reports participants that are only asked to undo, and never about anything.
    fn check_seals_of_participants(&mut self, steps: &[Step]) {
        for (name, participant) in &self.participants.by_name {
            let mut theirs = steps
                .iter()
                .flat_map(|step| [&step.action, &step.compensation])
                .flatten()
                .filter(|op| op.to == *name);
            let mut actions =
                steps.iter().filter_map(|step| step.action.as_ref()).filter(|op| op.to == *name);
            if participant.seals_after_ms.is_none() || actions.next().is_some() {
                continue;
            }
            if let Some(first) = theirs.next()
                && first.query.is_none()
                && theirs.all(|op| op.query.is_none())
                && let Some(at) = self.participants.places.get(name)
            {
                let at = Place { line: at.line, path: at.member("seals_after") };
                self.report.problem(
                    &at,
                    format!("`seals_after` is about what a query does not know, but no operation at `{name}` has a query"),
                    "add `query` to its operations, or remove `seals_after`",
                );
            }
        }
    }
}

/// Warns of an operation that a time-out can leave to a person (semantics, section 5), and of a proof that comes too late.
fn warn(op: &Operation, what: &str, step: &str, at: &Place, report: &mut Report) {
    let to = &op.to;
    match (op.idempotency, &op.query, op.seals_after_ms) {
        (Idempotency::Replay, ..) | (Idempotency::Effect, Some(_), _) | (Idempotency::None, Some(_), Some(_)) => {}
        (Idempotency::Effect, None, _) => report.warning(
            at,
            format!(
                "the {what} of step `{step}` may need a person after a time-out: a repeat at `{to}` is safe, but nothing tells \
                 what the first call did"
            ),
            "give it a `query`; or declare \"replay\", if a repeat gets the first answer again",
        ),
        (Idempotency::None, None, _) => report.warning(
            at,
            format!(
                "the {what} of step `{step}` may need a person after a time-out: it must not be repeated at `{to}`, and nothing \
                 tells what became of it"
            ),
            "give it a `query` and its participant `seals_after`; or let the participant recognise the key and declare \
             \"effect\" or \"replay\"",
        ),
        (Idempotency::None, Some(_), None) => report.warning(
            at,
            format!(
                "the {what} of step `{step}` may need a person after a time-out: it must not be repeated at `{to}`, and what its \
                 query does not know may still happen"
            ),
            format!(
                "declare `seals_after`, if `{to}` refuses what arrives late; or let it recognise the key and declare \"effect\" \
                 or \"replay\""
            ),
        ),
    }
    if let Some(seals_after_ms) = op.seals_after_ms.filter(|ms| *ms > op.on_unknown.verify_for_ms) {
        report.warning(
            at,
            format!(
                "verification of the {what} of step `{step}` ends after {} (`verify_for`), before `seals_after` ({}) of `{to}` \
                 could prove anything",
                show_duration(op.on_unknown.verify_for_ms),
                show_duration(seals_after_ms)
            ),
            "raise `verify_for`, or lower `seals_after`",
        );
    }
}
