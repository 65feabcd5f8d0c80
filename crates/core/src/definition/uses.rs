//! Where a `${…}` may stand: a path that can never lead anywhere is refused with the definition, not with the saga.

use super::builder::{Builder, Owner};
use super::diagnostic::Place;
use super::{Operation, Step};
use crate::OpKind;
use crate::template::{Path, Template};

/// A `${…}` and where it stands.
#[derive(Debug)]
pub(super) struct Use {
    path: Path,
    at: Place,
    owner: Owner,
}

/// The most `${…}` in one definition. What is rendered is as large as the values, this many times.
pub const PATHS_MAX: usize = 10_000;

impl Builder<'_> {
    pub(super) fn keep_uses(&mut self, template: &Template, at: &Place, owner: Owner) {
        for path in template.paths() {
            self.uses.push(Use { path: path.clone(), at: at.clone(), owner });
        }
    }

    /// Checks all paths, now that the steps are known.
    pub(super) fn check_uses(&mut self, steps: &[Step]) {
        let uses = std::mem::take(&mut self.uses);
        if let Some(one_too_many) = uses.get(PATHS_MAX) {
            self.report.problem(
                &one_too_many.at,
                format!("there are more than {PATHS_MAX} `${{…}}` in this definition"),
                "substitute whole tables, as in `${input.customer}`, or split the saga",
            );
        }
        for used in &uses {
            if let Some((reason, remedy)) = misplaced(used, steps, self.before.as_deref()) {
                self.report.problem(&used.at, format!("`${{{}}}` {reason}", used.path), remedy);
            }
        }
    }
}

/// Why a path can never lead anywhere where it stands, and what to do.
fn misplaced(used: &Use, steps: &[Step], before: Option<&[Vec<bool>]>) -> Option<(String, String)> {
    let Owner::Operation { step, kind, query } = used.owner else {
        return match used.path {
            Path::Id | Path::Input(_) => None,
            Path::Key
            | Path::KeyHash
            | Path::ActionKey
            | Path::Serial
            | Path::StepSerial { .. }
            | Path::StepFact { .. } => Some((
                "is not known when claims are taken, which is before the first step".into(),
                "use `${id}` or `${input.…}`".into(),
            )),
        };
    };
    match &used.path {
        Path::Id | Path::Input(_) | Path::Key | Path::KeyHash => None,
        Path::ActionKey => match kind {
            OpKind::Compensation => None,
            OpKind::Action => {
                Some(("only exists in a compensation".into(), "in an action the key is `${key}`".into()))
            }
        },
        Path::Serial if !query => Some((
            "only exists in an operation's own query".into(),
            "write `${steps.NAME.serial}` for the serial of another step".into(),
        )),
        Path::Serial => {
            let declares = operation(&steps[step], kind).is_some_and(|op| !op.serial.is_empty());
            (!declares).then(|| {
                (
                    "never exists: the operation declares no `serial`".to_owned(),
                    "add `serial = \"/…\"`, where its answer has it, or ask by `${key}`".to_owned(),
                )
            })
        }
        Path::StepSerial { step: of, name } => {
            let of = &steps[*of];
            misplaced_fact(used, step, kind, steps, before).or_else(|| {
                of.action.as_ref().is_some_and(|action| action.serial.is_empty()).then(|| {
                    (
                        format!("never exists: the action of step `{name}` declares no `serial`"),
                        "add `serial = \"/…\"` to it, where its answer has it".to_owned(),
                    )
                })
            })
        }
        Path::StepFact { .. } => misplaced_fact(used, step, kind, steps, before),
    }
}

/// Why the fact of a step does not exist where it is used.
fn misplaced_fact(
    used: &Use,
    step: usize,
    kind: OpKind,
    steps: &[Step],
    before: Option<&[Vec<bool>]>,
) -> Option<(String, String)> {
    let of = used.path.step()?;
    let (user, name) = (&steps[step].name, &steps[of].name);
    if steps[of].action.is_none() {
        return Some((
            format!("never exists: step `{name}` has no action"),
            "use the fact of a step that has one".into(),
        ));
    }
    if of == step {
        return match kind {
            OpKind::Action => Some((
                "is not known while the action is carried out".into(),
                "use a fact of a step before it; in its own query, `${serial}` or `${key}`".into(),
            )),
            OpKind::Compensation if steps[step].compensation.as_ref().is_some_and(|op| op.fenced) => Some((
                format!(
                    "may not exist: a fenced compensation is also sent while it is unknown whether `{name}` was done"
                ),
                "use `${action_key}` or `${input.…}`".into(),
            )),
            OpKind::Compensation => None,
        };
    }
    // Where the order cannot be told, that has been reported.
    if before.is_none_or(|before| before[step][of]) {
        return None;
    }
    Some((
        format!("may not exist: step `{user}` does not come after step `{name}`"),
        format!("add `{name}` to the `after` of `{user}`, or of a step before it"),
    ))
}

fn operation(step: &Step, kind: OpKind) -> Option<&Operation> {
    match kind {
        OpKind::Action => step.action.as_ref(),
        OpKind::Compensation => step.compensation.as_ref(),
    }
}
