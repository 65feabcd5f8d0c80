//! What became of an operation at its participant, and what a participant may do with a message.
//!
//! Nothing is decided before it can be seen: a message whose answer was lost may have been carried out, refused, or still
//! be on its way. Which of these it is, is chosen when somebody looks: at the next message that arrives, at a query, at the
//! end. This is the same as choosing at once, with fewer states.

use amends_core::definition::Idempotency;

use crate::guarantee::Guarantee;
use crate::scene::Promise;

/// What became of one operation at its participant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OpWorld {
    /// How often it was carried out; two is as bad as more.
    pub(crate) effects: u8,
    /// A message was refused, and none carried out.
    pub(crate) refused: bool,
    /// Its query said rejected, and that binds.
    pub(crate) bound: bool,
    /// Of a fenced action: its undo came first.
    pub(crate) tombstone: bool,
    /// How many messages are on their way, or have arrived and nobody knows; two is as bad as more.
    pub(crate) on_wire: u8,
    /// When the last of them left at the latest, in milliseconds from now.
    pub(crate) left_at: i64,
    /// A message came too late and was refused: a callback may say so, whatever happens to later ones.
    pub(crate) stale_refusal: bool,
    /// Of a fenced compensation that was carried out: whether there was something to undo.
    pub(crate) undone: Option<bool>,
    /// Attempts that used the retry policy, as counted by who watches the wire.
    pub(crate) attempts: u32,
    /// Milliseconds of the budget used, as counted by who watches the wire.
    pub(crate) spent_ms: u64,
}

/// What a participant does with a message that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Carries it out, and says done.
    Accepts,
    /// Refuses it, and says so.
    Refuses,
    /// Has carried it out before, and says done again.
    Repeats,
    /// Has carried it out before, and says rejected of the repeat.
    RejectsRepeat,
    /// Has carried it out before, and answers the repeat with what means nothing.
    BalksAtRepeat,
}

impl OpWorld {
    /// Puts a message on the wire.
    pub(crate) fn send(&mut self, left_at: i64) {
        self.left_at = if self.on_wire > 0 { self.left_at.max(left_at) } else { left_at };
        self.on_wire = (self.on_wire + 1).min(2);
    }

    /// A message that was on the wire turns out to have arrived. Which of two, makes no difference: the one that left last
    /// stays.
    pub(crate) fn arrived(&mut self) {
        self.on_wire = self.on_wire.saturating_sub(1);
    }

    /// A message is carried out.
    pub(crate) fn accept(&mut self) {
        self.effects = (self.effects + 1).min(2);
        self.refused = false;
    }

    /// A message is refused.
    pub(crate) fn refuse(&mut self) {
        self.refused = self.effects == 0;
    }
}

impl Promise {
    /// Whether a message that arrives now may be carried out.
    pub(crate) fn may_carry_out(&self, world: &OpWorld) -> bool {
        if world.tombstone && self.remembers {
            return false;
        }
        if world.bound {
            self.lean_on(Guarantee::Rejected);
            return false;
        }
        let known = match self.idempotency {
            Idempotency::None => false,
            Idempotency::Effect => world.effects > 0,
            Idempotency::Replay => world.effects > 0 || world.refused,
        };
        if !known {
            return true;
        }
        self.lean_on(Guarantee::Idempotency);
        self.lean_on(Guarantee::KeyTtl);
        !self.remembers
    }

    /// Whether something that was sent may be carried out, or may have been without anybody knowing.
    pub(crate) fn threatens(&self, world: &OpWorld) -> bool {
        world.on_wire > 0 && self.may_carry_out(world)
    }

    /// What the participant may do with a message that arrives, and how many faults each costs.
    pub(crate) fn verdicts(&self, world: &OpWorld) -> Vec<(Verdict, u8)> {
        let mut verdicts = Vec::with_capacity(4);
        if self.may_carry_out(world) {
            verdicts.push((Verdict::Accepts, 0));
        }
        let idempotent = self.idempotency != Idempotency::None;
        if idempotent && world.effects > 0 {
            verdicts.push((Verdict::Repeats, 0));
            if self.idempotency == Idempotency::Effect {
                verdicts.push((Verdict::RejectsRepeat, 0));
                verdicts.push((Verdict::BalksAtRepeat, 0));
            }
        } else {
            // To refuse is no fault of a participant, but a turn that the story takes: it counts once.
            let again = world.refused || world.bound || world.tombstone;
            verdicts.push((Verdict::Refuses, u8::from(!again)));
        }
        verdicts
    }

    /// Somebody looks, and what is on the wire has not arrived: from here it is known to be gone if its time is over.
    pub(crate) fn not_arrived(&self, world: &mut OpWorld) {
        if let Some(limit_ms) = self.seals_after_ms
            && world.on_wire > 0
            && -world.left_at >= limit_ms
        {
            self.lean_on(Guarantee::SealsAfter);
            world.on_wire = 0;
            world.stale_refusal = true;
        }
    }

    /// Forgets what can make no difference any more, so that states that are the same look the same.
    pub(crate) fn tidy(&self, world: &mut OpWorld) {
        if world.on_wire > 0 && !self.may_carry_out(world) {
            world.on_wire = 0;
        }
        if self.seals_after_ms.is_none() || world.on_wire == 0 {
            world.left_at = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use amends_core::OpRef;
    use amends_core::definition::from_toml;

    use super::*;
    use crate::scene::Scene;

    /// What may happen to a message, of an operation that declares this, once this has happened.
    fn verdicts(
        declares: &str,
        dropped: Option<Guarantee>,
        happened: impl Fn(&mut OpWorld),
    ) -> Vec<(Verdict, u8)> {
        let text = format!(
            "saga = \"one\"\nversion = 1\n[participants.p]\n{declares}\n[[step]]\nname = \"a\"\npivot = true\n[step.action]\nto = \"p\"\npost = \"/a\"\n"
        );
        let definition = from_toml(&text).expect("a definition").definition;
        let scene = Scene::new(&definition, 1, dropped.map(|guarantee| (0, guarantee)), true);
        let mut world = OpWorld::default();
        happened(&mut world);
        scene.promise(OpRef::action(0)).verdicts(&world)
    }

    const FIRST: [(Verdict, u8); 2] = [(Verdict::Accepts, 0), (Verdict::Refuses, 1)];

    #[test]
    fn a_first_message_is_carried_out_or_refused() {
        for declares in ["idempotency = \"none\"", "idempotency = \"effect\"", "idempotency = \"replay\""] {
            assert_eq!(verdicts(declares, None, |_| {}), FIRST, "{declares}");
        }
    }

    #[test]
    fn a_repeat_is_answered_as_declared() {
        let after_done = |declares| verdicts(declares, None, OpWorld::accept);
        assert_eq!(after_done("idempotency = \"none\""), FIRST);
        assert_eq!(after_done("idempotency = \"replay\""), [(Verdict::Repeats, 0)]);
        assert_eq!(
            after_done("idempotency = \"effect\""),
            [(Verdict::Repeats, 0), (Verdict::RejectsRepeat, 0), (Verdict::BalksAtRepeat, 0)]
        );
    }

    #[test]
    fn a_refusal_is_repeated_only_by_who_replays() {
        let after_refusal = |declares| verdicts(declares, None, OpWorld::refuse);
        assert_eq!(after_refusal("idempotency = \"replay\""), [(Verdict::Refuses, 0)]);
        assert_eq!(after_refusal("idempotency = \"effect\""), [(Verdict::Accepts, 0), (Verdict::Refuses, 0)]);
    }

    #[test]
    fn a_query_that_said_rejected_binds() {
        let bound = |world: &mut OpWorld| world.bound = true;
        assert_eq!(verdicts("idempotency = \"effect\"", None, bound), [(Verdict::Refuses, 0)]);
    }

    #[test]
    fn a_tombstone_refuses_what_comes_after_it_for_as_long_as_it_is_remembered() {
        let buried = |world: &mut OpWorld| world.tombstone = true;
        assert_eq!(verdicts("fenced = true", None, buried), [(Verdict::Refuses, 0)]);
        let forgotten = verdicts("fenced = true", Some(Guarantee::KeyTtl), buried);
        assert_eq!(forgotten, [(Verdict::Accepts, 0), (Verdict::Refuses, 0)]);
    }

    #[test]
    fn a_guarantee_that_is_dropped_is_not_kept() {
        let without = |guarantee| verdicts("idempotency = \"replay\"", Some(guarantee), OpWorld::accept);
        assert_eq!(without(Guarantee::Idempotency), FIRST);
        assert_eq!(without(Guarantee::KeyTtl), [(Verdict::Accepts, 0), (Verdict::Repeats, 0)]);
        assert_eq!(without(Guarantee::Rejected), [(Verdict::Repeats, 0)], "another guarantee is kept");
    }
}
