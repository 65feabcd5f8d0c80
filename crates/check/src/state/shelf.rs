//! Where the states of single operations are kept, each once, under a number.

use std::collections::HashMap;

use amends_core::{OpState, Phase, Settled, Time};

use crate::scene::NOW;
use crate::world::OpWorld;

/// The states that operations have had in an exploration. There are few of them: what makes many states is how they
/// come together.
#[derive(Default)]
pub(super) struct Shelf {
    numbers: HashMap<Box<[u8]>, u32>,
    kept: Vec<(OpState, OpWorld)>,
    /// Reused for every look-up.
    key: Vec<u8>,
}

impl Shelf {
    /// The number of a state in its normal form.
    pub(super) fn number(&mut self, known: &OpState, world: &OpWorld) -> u32 {
        self.key.clear();
        write_known(&mut self.key, known);
        write_world(&mut self.key, world);
        if let Some(number) = self.numbers.get(self.key.as_slice()) {
            return *number;
        }
        let number =
            u32::try_from(self.kept.len()).expect("invariant: fewer states than the limit of a search");
        self.kept.push((known.clone(), world.clone()));
        self.numbers.insert(self.key.as_slice().into(), number);
        number
    }

    /// The state with a number that was given out.
    pub(super) fn get(&self, number: u32) -> (&OpState, &OpWorld) {
        let (known, world) = &self.kept[number as usize];
        (known, world)
    }
}

fn write_known(key: &mut Vec<u8>, known: &OpState) {
    // Every field is named: one that is added to the core must be thought of here.
    let OpState {
        enabled,
        generation,
        settled,
        sends,
        open,
        attempts,
        budget_used_ms,
        first_send_at,
        quiet_since,
        quiet_before,
        resends,
        asked,
        serial,
        verify_since,
        voided,
        verifying,
        verified,
        forced,
        parked,
        phase,
        reason: _,
        error_class: _,
    } = known;
    let settled = match settled {
        None => 0,
        Some(Settled::Done { .. }) => 1,
        Some(Settled::Rejected { .. }) => 2,
        Some(Settled::Sealed) => 3,
    };
    let flags = u8::from(*enabled)
        | u8::from(serial.is_some()) << 1
        | u8::from(*verifying) << 2
        | u8::from(*forced) << 3
        | settled << 4;
    key.push(flags);
    key.push(u8::from(*voided));
    for number in [generation, sends, open, attempts, resends, asked, verified] {
        key.extend(number.to_le_bytes());
    }
    key.extend(budget_used_ms.to_le_bytes());
    write_time(key, *first_send_at);
    write_time(key, Some(*quiet_since));
    write_time(key, *verify_since);
    write_time(key, parked.map(|(since, _)| since));
    key.extend(parked.map_or(0, |(_, n)| n).to_le_bytes());
    for (epoch, since) in quiet_before {
        key.extend(epoch.to_le_bytes());
        write_time(key, Some(*since));
    }
    write_phase(key, phase);
}

fn write_phase(key: &mut Vec<u8>, phase: &Phase) {
    match phase {
        Phase::Idle => key.push(0),
        Phase::Calling => key.push(1),
        Phase::Send { due, waited_ms, verifying } => {
            key.push(2 + u8::from(*verifying));
            write_time(key, Some(*due));
            key.extend(waited_ms.to_le_bytes());
        }
        Phase::Ask { due, n } => {
            key.push(4);
            write_time(key, Some(*due));
            key.extend(n.to_le_bytes());
        }
        Phase::InProgress { due, interval_ms, until } => {
            key.push(5);
            write_time(key, Some(*due));
            write_time(key, Some(*until));
            key.extend(interval_ms.to_le_bytes());
        }
        Phase::Verify { due } => {
            key.push(6);
            write_time(key, Some(*due));
        }
        Phase::Parked { due, reason: _ } => {
            key.push(7);
            write_time(key, Some(*due));
        }
        Phase::Dead { reason: _ } => key.push(8),
    }
}

fn write_time(key: &mut Vec<u8>, time: Option<Time>) {
    let from_now = time.map_or(i64::MIN, |time| time.0 - NOW.0);
    key.extend(from_now.to_le_bytes());
}

fn write_world(key: &mut Vec<u8>, world: &OpWorld) {
    let OpWorld {
        effects,
        refused,
        bound,
        tombstone,
        on_wire,
        left_at,
        stale_refusal,
        undone,
        attempts,
        spent_ms,
    } = world;
    key.push(*effects);
    key.push(
        u8::from(*refused)
            | u8::from(*bound) << 1
            | u8::from(*tombstone) << 2
            | u8::from(*stale_refusal) << 3
            | undone.map_or(0, |undone| 1 + u8::from(undone)) << 4,
    );
    key.push(*on_wire);
    key.extend(left_at.to_le_bytes());
    key.extend(attempts.to_le_bytes());
    key.extend(spent_ms.to_le_bytes());
}
