//! The words for everything that can happen.

use amends_core::definition::show_duration;
use amends_core::{Effect, Entry, EntryKind, OpKind, OpRef, Phase, Saga, wanted};

use crate::moves::{Before, Move, Own, QueryReply, Reply};
use crate::scene::{NOW, Scene};
use crate::state::State;
use crate::world::Verdict;

/// Names things in a story.
pub(crate) struct Words<'s> {
    scene: &'s Scene,
    /// Two twins that are named in each other's place.
    instead: Option<(usize, usize)>,
}

impl<'s> Words<'s> {
    pub(super) fn new(scene: &'s Scene, instead: Option<(usize, usize)>) -> Self {
        Self { scene, instead }
    }

    /// What an operation is called: `` `charge` `` or ``the undo of `charge` ``.
    pub(super) fn op(&self, op: OpRef) -> String {
        let step = self.step(op.step);
        match op.kind {
            OpKind::Action => step,
            OpKind::Compensation => format!("the undo of {step}"),
        }
    }

    pub(super) fn step(&self, step: usize) -> String {
        format!("`{}`", self.plain(step))
    }

    /// The name of a step.
    pub(super) fn plain(&self, step: usize) -> &'s str {
        let step = match self.instead {
            Some((one, other)) if step == one => other,
            Some((one, other)) if step == other => one,
            Some(_) | None => step,
        };
        self.scene.step_name(step)
    }

    /// The participant of an operation.
    pub(super) fn to(&self, op: OpRef) -> &str {
        &self.scene.operation(op).to
    }

    pub(super) fn begin(&self, saga: &Saga) -> String {
        if saga.accepting.is_some() {
            return "A saga is submitted within a caller's transaction; its claims are still to be taken."
                .into();
        }
        match self.sent(saga) {
            Some(sent) => format!("A saga begins: {sent}."),
            None => "A saga begins.".into(),
        }
    }

    /// What is on its way: "`a` is sent to x, `b` to y".
    fn sent(&self, saga: &Saga) -> Option<String> {
        let mut sent = String::new();
        for effect in wanted(saga, NOW) {
            let Effect::Perform { op, .. } = effect else { continue };
            let verb = if sent.is_empty() { "is sent to" } else { "to" };
            if !sent.is_empty() {
                sent.push_str(", ");
            }
            sent.push_str(&format!("{} {verb} {}", self.op(op), self.to(op)));
        }
        (!sent.is_empty()).then_some(sent)
    }

    /// What happens, one thing a line.
    pub(super) fn of_move(&self, state: &State, happens: &Move, entries: &[Entry]) -> Vec<String> {
        match *happens {
            Move::Claims { taken: true } => vec!["Its claims are taken.".into()],
            Move::Claims { taken: false } => {
                vec!["Another saga holds one of its claims; it is tried again.".into()]
            }
            Move::Answer { op, before, reply } => {
                let mut lines = self.of_before(op, before);
                lines.push(self.of_reply(state, op, reply));
                lines
            }
            Move::Ask { op, before, reply, slow } => {
                let mut lines = self.of_before(op, before);
                lines.push(self.of_query(op, reply, slow));
                lines
            }
            Move::Wait { op } => vec![self.of_wait(state, op, entries)],
            Move::Callback { op, done } => vec![self.of_callback(state, op, done)],
            Move::Statement { op, done } => vec![format!(
                "The statement of {} {} {}.",
                self.to(op),
                if done { "has" } else { "covers the time, and does not have" },
                self.op(op)
            )],
            Move::Cancel => vec!["Somebody cancels the saga.".into()],
            Move::Deadline => vec!["The deadline passes.".into()],
            Move::Crash { to: None } => vec!["The node stops; another takes the saga over.".into()],
            Move::Crash { to: Some(_) } => {
                vec!["The node stops; one that had the saga before takes it over again.".into()]
            }
        }
    }

    fn of_before(&self, op: OpRef, before: Before) -> Vec<String> {
        let mut lines = Vec::new();
        if before.action {
            let action = OpRef::action(op.step);
            lines.push(format!(
                "Meanwhile an earlier message for {} has arrived and was carried out.",
                self.op(action)
            ));
        }
        match before.own {
            Own::Nothing => {}
            Own::CarriedOut => lines.push(format!(
                "Meanwhile an earlier message for {} has arrived and was carried out.",
                self.op(op)
            )),
            Own::Refused => lines.push(format!(
                "Meanwhile an earlier message for {} has arrived and was refused.",
                self.op(op)
            )),
        }
        lines
    }

    fn of_reply(&self, state: &State, op: OpRef, reply: Reply) -> String {
        let (name, to) = (self.op(op), self.to(op));
        let name = capital(&name);
        match reply {
            Reply::Arrives(Verdict::Accepts) if state.world(op).effects > 0 => {
                format!("{name} arrives at {to} and is carried out once more.")
            }
            Reply::Arrives(Verdict::Accepts) => {
                format!("{name} arrives at {to} and is carried out; the answer says so.")
            }
            Reply::Arrives(Verdict::Refuses) => format!("{name} arrives at {to} and is refused."),
            Reply::Arrives(Verdict::Repeats) => {
                format!(
                    "{name} arrives at {to}, which has carried it out before and gives that answer again."
                )
            }
            Reply::Arrives(Verdict::RejectsRepeat) => format!(
                "{name} arrives at {to}, which has carried it out before, and answers \"rejected\": whether it means \
                 this message or all of them, nobody can tell."
            ),
            Reply::Arrives(Verdict::BalksAtRepeat) => format!(
                "{name} arrives at {to}, which has carried it out before, and answers with an error that says nothing \
                 about it."
            ),
            Reply::Lost => {
                let timeout = show_duration(self.scene.operation(op).timeout_ms);
                format!(
                    "{name} gets no answer within {timeout}: it may have been carried out, or never arrive, or arrive later."
                )
            }
            Reply::Unreachable => format!("{name} cannot be sent: {to} is not reachable."),
            Reply::Busy => {
                format!(
                    "{name} is not carried out: {to} answers 503 and asks to wait longer than the retry budget lasts."
                )
            }
            Reply::Intercepted => {
                format!("{name} does not get through: something before {to} answers 400 in its name.")
            }
            Reply::InProgress => {
                format!("{name} arrives at {to}, which answers 202: accepted, not finished.")
            }
            Reply::Held => format!("{name} is held back: the breaker of {to} is open."),
            Reply::Misconfigured => format!("{name} is not carried out: {to} answers 403."),
        }
    }

    fn of_query(&self, op: OpRef, reply: QueryReply, slow: bool) -> String {
        let (name, to) = (self.op(op), self.to(op));
        let express = if self.scene.operation(op).seals_after_ms.is_some() { "expressly " } else { "" };
        match reply {
            QueryReply::Done => format!("{to} is asked about {name} and says: done."),
            QueryReply::Rejected => format!("{to} is asked about {name} and says: rejected."),
            QueryReply::Sealed => format!("{to} is asked about {name} and says: never to be executed."),
            QueryReply::InProgress => format!("{to} is asked about {name} and says: in progress."),
            QueryReply::NeverSeen if slow => {
                format!(
                    "{to} is asked about {name} and says {express}\"never seen\", but the answer takes long to arrive."
                )
            }
            QueryReply::NeverSeen => format!("{to} is asked about {name} and says {express}\"never seen\"."),
            QueryReply::NeverSeenFalsely if self.scene.promise(op).remembers => {
                format!(
                    "{to} is asked about {name} and says expressly \"never seen\", although it carried it out."
                )
            }
            QueryReply::NeverSeenFalsely => {
                format!(
                    "{to} has forgotten the key: it is asked about {name} and says expressly \"never seen\"."
                )
            }
            QueryReply::Nothing => format!("{to} is asked about {name} and gives no answer."),
        }
    }

    fn of_wait(&self, state: &State, op: OpRef, entries: &[Entry]) -> String {
        let name = self.op(op);
        let sent = entries.iter().find_map(|entry| match &entry.kind {
            EntryKind::Sending { op: of, verifying, .. } if *of == op => Some(*verifying),
            _ => None,
        });
        let dies = entries
            .iter()
            .any(|entry| matches!(&entry.kind, EntryKind::Waited { op: of, next: Phase::Dead { .. } } if *of == op));
        let again = if state.saga.op(op).sends > 0 { " again, under the same key" } else { "" };
        match sent {
            Some(true) => {
                format!("{} is sent again, under the same key, to learn what became of it.", capital(&name))
            }
            Some(false) => format!("{} is sent{again}.", capital(&name)),
            None if dies => {
                let time = show_duration(self.scene.operation(op).on_unknown.verify_for_ms);
                format!("The time in which {name} is verified ({time}) is over.")
            }
            None => format!("Time passes; what became of {name} is still not known."),
        }
    }

    /// What is sent again at once, because of what has just been learnt.
    pub(super) fn sent_again(&self, state: &State, happens: &Move, entries: &[Entry]) -> Vec<String> {
        let sent = entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Sending { op, .. } if state.saga.op(*op).sends > 0 => Some(*op),
            _ => None,
        });
        sent.filter(|op| *happens != Move::Wait { op: *op })
            .map(|op| format!("{} is sent again, under the same key.", capital(&self.op(op))))
            .collect()
    }

    fn of_callback(&self, state: &State, op: OpRef, done: bool) -> String {
        let (name, to) = (self.op(op), self.to(op));
        match (done, state.world(op).effects > 0) {
            (true, true) => format!("A callback of {to} says that {name} was carried out."),
            (true, false) => format!("{} is carried out, and a callback of {to} says so.", capital(&name)),
            (false, _) => {
                format!("A callback of {to} says that {name} was refused, speaking of an earlier message.")
            }
        }
    }
}

/// The text with its first letter as a capital.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
