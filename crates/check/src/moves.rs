//! Everything that can happen next.

use amends_core::definition::Idempotency;
use amends_core::{Direction, Effect, Input, OpKind, OpRef, Phase};

use crate::guarantee::Guarantee;
use crate::machine::Machine;
use crate::scene::{AT_NOW, NOW, Scene};
use crate::state::{State, former_nodes};
use crate::turn::pass;
use crate::world::{OpWorld, Verdict};

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    /// The claims of a saga that waits for them are taken, or not.
    Claims { taken: bool },
    /// The call in flight ends.
    Answer { op: OpRef, before: Before, reply: Reply },
    /// Its query is answered; `slow`: so late that what it says may be over.
    Ask { op: OpRef, before: Before, reply: QueryReply, slow: bool },
    /// Its next timer runs out.
    Wait { op: OpRef },
    /// A callback comes.
    Callback { op: OpRef, done: bool },
    /// The provider's statement comes.
    Statement { op: OpRef, done: bool },
    /// Somebody cancels.
    Cancel,
    /// The deadline passes.
    Deadline,
    /// The node stops, and another takes over: a new one, or one that had the saga before.
    Crash { to: Option<u64> },
}

/// What turns out to have happened before somebody looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Before {
    /// To an earlier message of this operation.
    pub(crate) own: Own,
    /// Of a fenced compensation: a message of its action arrived, and was carried out.
    pub(crate) action: bool,
}

/// What turns out to have happened to an earlier message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// It has not arrived, or there is none.
    Nothing,
    /// It was carried out.
    CarriedOut,
    /// It was refused.
    Refused,
}

impl Before {
    pub(crate) const NOTHING: Self = Self { own: Own::Nothing, action: false };
}

/// How a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It arrives, and its answer comes back.
    Arrives(Verdict),
    /// No answer comes in time: what became of it is seen later.
    Lost,
    /// The participant cannot be reached: nothing was sent.
    Unreachable,
    /// The participant is busy, and asks to wait longer than the retry budget lasts.
    Busy,
    /// Something in between refuses it, in the participant's name.
    Intercepted,
    /// Accepted, not finished.
    InProgress,
    /// Held back for more than a second, not sent.
    Held,
    /// A configuration fault: not executed.
    Misconfigured,
}

/// What a query answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryReply {
    Done,
    Rejected,
    Sealed,
    InProgress,
    NeverSeen,
    /// Expressly, and wrong.
    NeverSeenFalsely,
    Nothing,
}

impl Move {
    /// The step it happens to, if it is one.
    pub(crate) fn step(&self) -> Option<usize> {
        match self {
            Self::Answer { op, .. }
            | Self::Ask { op, .. }
            | Self::Wait { op }
            | Self::Callback { op, .. }
            | Self::Statement { op, .. } => Some(op.step),
            Self::Claims { .. } | Self::Cancel | Self::Deadline | Self::Crash { .. } => None,
        }
    }
}

/// A move and how many faults it costs.
pub(crate) type Costed = (Move, u8);

/// Everything that can happen next, within so many faults.
pub(crate) fn moves(scene: &Scene, machine: &dyn Machine, state: &State, faults_left: u8) -> Vec<Costed> {
    let mut list = List { scene, state, faults_left, moves: Vec::with_capacity(16) };
    if state.saga.ended.is_some() || state.saga.stuck.is_some() {
        return list.moves;
    }
    if state.saga.accepting.is_some() {
        list.add(Move::Claims { taken: true }, 0);
        list.add(Move::Claims { taken: false }, 1);
    }
    let mut deadline_is_first = false;
    for op in &scene.ops {
        if state.saga.steps[op.step].undone || !state.saga.op(*op).enabled {
            continue;
        }
        if state.saga.op(*op).is_calling() {
            list.answers(*op);
        } else if let Some(due) = state.due(*op) {
            if list.is_past_deadline(*op, due.0 - NOW.0) {
                deadline_is_first = true;
            } else {
                list.due(machine, *op, due.0 - NOW.0);
            }
        }
        list.evidence(*op);
    }
    list.events(deadline_is_first);
    list.moves
}

struct List<'a> {
    scene: &'a Scene,
    state: &'a State,
    faults_left: u8,
    moves: Vec<Costed>,
}

impl List<'_> {
    fn add(&mut self, happens: Move, faults: u8) {
        if faults <= self.faults_left {
            self.moves.push((happens, faults));
        }
    }

    /// How the call in flight may end.
    fn answers(&mut self, op: OpRef) {
        for before in self.before_a_call(op) {
            let world = self.world_after(op, before);
            for (verdict, faults) in self.scene.promise(op).verdicts(&world) {
                self.add(Move::Answer { op, before, reply: Reply::Arrives(verdict) }, faults);
            }
        }
        for reply in [
            Reply::Lost,
            Reply::Unreachable,
            Reply::Busy,
            Reply::Intercepted,
            Reply::InProgress,
            Reply::Held,
            Reply::Misconfigured,
        ] {
            self.add(Move::Answer { op, before: Before::NOTHING, reply }, 1);
        }
    }

    /// What may turn out to have happened before a message arrives. For most it makes no difference which of two messages is
    /// carried out: only where the answer to the second may differ, and to a fence whose action may arrive first.
    fn before_a_call(&self, op: OpRef) -> Vec<Before> {
        let promise = self.scene.promise(op);
        let world = self.state.world(op);
        let mut befores = vec![Before::NOTHING];
        if promise.idempotency == Idempotency::Effect && world.effects == 0 && promise.threatens(world) {
            befores.push(Before { own: Own::CarriedOut, action: false });
        }
        if self.action_may_arrive(op) {
            befores.push(Before { own: Own::Nothing, action: true });
        }
        befores
    }

    /// Whether this is a fenced compensation that was not carried out yet, and its action may still arrive.
    fn action_may_arrive(&self, op: OpRef) -> bool {
        let action = OpRef::action(op.step);
        op.kind == OpKind::Compensation
            && self.scene.operation(op).fenced
            && self.state.world(op).effects == 0
            && self.state.world(action).effects == 0
            && self.scene.promise(action).threatens(self.state.world(action))
    }

    fn world_after(&self, op: OpRef, before: Before) -> OpWorld {
        let mut world = self.state.world(op).clone();
        match before.own {
            Own::Nothing => {}
            Own::CarriedOut => {
                world.arrived();
                world.accept();
            }
            Own::Refused => {
                world.arrived();
                world.refuse();
            }
        }
        world
    }

    /// What may happen when an operation's next time has come.
    fn due(&mut self, machine: &dyn Machine, op: OpRef, in_ms: i64) {
        let mut then = self.state.clone();
        pass(&mut then, op, in_ms);
        let decision = machine.decide(&then.saga, &Input::Tick, AT_NOW);
        let decision = decision.expect("invariant: only what a person asks for is refused");
        let is_asked = decision.entries.is_empty()
            && decision
                .effects
                .iter()
                .any(|effect| matches!(effect, Effect::Ask { op: of, .. } if *of == op));
        if is_asked {
            self.queries(op, &then);
        } else {
            self.add(Move::Wait { op }, 0);
        }
    }

    fn queries(&mut self, op: OpRef, then: &State) {
        let promise = self.scene.promise(op);
        let mut befores = vec![(Before::NOTHING, 0)];
        let world = then.world(op);
        if world.effects == 0 && promise.threatens(world) {
            befores.push((Before { own: Own::CarriedOut, action: false }, 0));
            if self.action_may_arrive(op) {
                befores.push((Before { own: Own::CarriedOut, action: true }, 0));
            }
            if !world.refused {
                befores.push((Before { own: Own::Refused, action: false }, 1));
            }
        }
        for (before, faults) in befores {
            let world = self.world_after(op, before);
            let mut add =
                |reply, more: u8, slow| self.add(Move::Ask { op, before, reply, slow }, faults + more);
            let is_known = world.effects > 0 || world.refused;
            if is_known {
                promise.lean_on(Guarantee::NeverSeen);
                promise.lean_on(Guarantee::KeyTtl);
            }
            if world.effects > 0 {
                add(QueryReply::Done, 0, false);
            } else if world.refused {
                add(QueryReply::Rejected, 0, false);
            } else if world.tombstone {
                add(QueryReply::Sealed, 0, false);
            } else {
                add(QueryReply::NeverSeen, 0, false);
                if world.on_wire > 0 {
                    add(QueryReply::InProgress, 1, false);
                    if promise.seals_after_ms.is_some() {
                        add(QueryReply::NeverSeen, 1, true);
                    }
                }
            }
            if is_known && !(promise.never_seen_is_true && promise.remembers) {
                add(QueryReply::NeverSeenFalsely, 0, false);
            }
            if before == Before::NOTHING {
                add(QueryReply::Nothing, 1, false);
            }
        }
    }

    /// Evidence that comes by itself. What only repeats what is known is left out: it is tried at every end.
    fn evidence(&mut self, op: OpRef) {
        let known = self.state.saga.op(op);
        if known.settled.is_some() || known.sends == 0 {
            return;
        }
        let (promise, world) = (self.scene.promise(op), self.state.world(op));
        let may_be_done =
            world.effects > 0 || ((known.is_calling() || world.on_wire > 0) && promise.may_carry_out(world));
        if may_be_done {
            self.add(Move::Callback { op, done: true }, 1);
        }
        if world.refused || world.stale_refusal {
            self.add(Move::Callback { op, done: false }, 1);
        }
        if self.scene.operation(op).settled_by_statement && !known.is_calling() {
            if may_be_done {
                self.add(Move::Statement { op, done: true }, 1);
            }
            if world.effects == 0 {
                self.add(Move::Statement { op, done: false }, 1);
            }
        }
    }

    /// Whether the deadline has passed before an operation's next time comes. Operations have clocks of their own here, but none
    /// can be older than the saga.
    fn is_past_deadline(&self, op: OpRef, in_ms: i64) -> bool {
        let (Some(deadline_ms), Some(first)) =
            (self.scene.definition.deadline_ms, self.state.saga.op(op).first_send_at)
        else {
            return false;
        };
        let age_ms = NOW.since_ms(first).saturating_add_signed(in_ms.max(0));
        age_ms >= deadline_ms && self.state.saga.deadline_counts()
    }

    fn events(&mut self, deadline_is_first: bool) {
        let saga = &self.state.saga;
        if saga.direction == Direction::Forward && saga.undo_pending.is_none() {
            self.add(Move::Cancel, 1);
        }
        if saga.deadline_at.is_some() && saga.deadline_counts() {
            self.add(Move::Deadline, u8::from(!deadline_is_first));
        }
        let moves_by_itself = saga.ops().any(|op| match saga.op(op).phase {
            Phase::Calling
            | Phase::Send { .. }
            | Phase::Ask { .. }
            | Phase::InProgress { .. }
            | Phase::Verify { .. }
            | Phase::Parked { .. } => true,
            Phase::Idle | Phase::Dead { .. } => false,
        });
        if moves_by_itself {
            self.add(Move::Crash { to: None }, 1);
            for former in former_nodes(self.scene, self.state) {
                self.add(Move::Crash { to: Some(former) }, 1);
            }
        }
    }
}
