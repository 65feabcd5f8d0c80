//! `[participants.NAME]`: what each participant guarantees.

use std::collections::BTreeMap;

use super::diagnostic::{Place, Report};
use super::duration::{DURATION_MAX_MS, show_duration};
use super::fields::{At, nearest};
use super::names::check_name;
use super::{Idempotency, Participant};

/// The most participants that a definition may have.
pub const PARTICIPANTS_MAX: usize = 256;

const KEY_TTL_DEFAULT_MS: u64 = 24 * 3_600_000;

/// The participants of a definition and where they stand.
#[derive(Debug, Default)]
pub(super) struct Participants {
    pub(super) by_name: BTreeMap<String, Participant>,
    pub(super) places: BTreeMap<String, Place>,
}

impl Participants {
    pub(super) fn read(at: &At<'_>, report: &mut Report) -> Self {
        let mut all = Self::default();
        let Some(members) = at.members("participants", "[participants.payment]", report) else { return all };
        if members.len() > PARTICIPANTS_MAX {
            report.problem(
                &at.place,
                format!("{} participants are more than the {PARTICIPANTS_MAX} there may be", members.len()),
                "split the saga",
            );
            return all;
        }
        for (name, at) in members {
            check_name(name, &at, "a participant", report);
            all.places.insert(name.to_owned(), at.place.clone());
            all.by_name.insert(name.to_owned(), read_participant(&at, report));
        }
        all
    }

    /// Whether a participant declares `seals_after`.
    pub(super) fn seals(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|participant| participant.seals_after_ms.is_some())
    }

    /// Reports a `to` that names no participant.
    pub(super) fn check_named(&self, name: &str, at: &Place, report: &mut Report) {
        if !self.by_name.contains_key(name) {
            let shown: String = name.chars().take(super::NAME_CHARS_MAX).collect();
            let likely =
                if report.is_full() { None } else { nearest(name, self.by_name.keys().map(String::as_str)) };
            let remedy = match likely {
                Some(known) => format!("did you mean `{known}`? Else add [participants.{shown}]"),
                None => format!("add [participants.{shown}] with its `idempotency`"),
            };
            report.problem(at, format!("there is no participant `{shown}`"), remedy);
        }
    }
}

fn read_participant(at: &At<'_>, report: &mut Report) -> Participant {
    let mut participant = Participant {
        idempotency: Idempotency::None,
        key_ttl_ms: KEY_TTL_DEFAULT_MS,
        seals_after_ms: None,
        fenced: false,
        settled_by_statement: false,
    };
    let Some(mut fields) = at.fields("[participants.payment]", report) else { return participant };
    if let Some(at) = fields.get("fenced") {
        participant.fenced = at.boolean(report).unwrap_or_default();
    }
    match fields.get("idempotency") {
        Some(at) => {
            let found = read_idempotency(&at, report);
            if participant.fenced && matches!(found, Some(Idempotency::None | Idempotency::Effect)) {
                report.problem(
                    &at.place,
                    "a fenced participant gives the same answer to the same key, which is \"replay\"",
                    "write `idempotency = \"replay\"`, or leave `fenced` out",
                );
            }
            participant.idempotency = found.unwrap_or(Idempotency::Replay);
        }
        None if participant.fenced => participant.idempotency = Idempotency::Replay,
        None => report.problem(
            &fields.place,
            "`idempotency` is missing: what does a repeat under the same key do?",
            "add `idempotency = \"none\"` (it may happen again), \"effect\" (it happens once) or \"replay\" (and the first \
             answer comes again)",
        ),
    }
    if let Some(at) = fields.get("key_ttl") {
        participant.key_ttl_ms = at.duration(DURATION_MAX_MS, report).unwrap_or(KEY_TTL_DEFAULT_MS);
    }
    if let Some(at) = fields.get("seals_after") {
        participant.seals_after_ms = at.duration(DURATION_MAX_MS, report);
        if let Some(ms) = participant.seals_after_ms.filter(|ms| *ms >= participant.key_ttl_ms) {
            report.problem(
                &at.place,
                format!(
                    "`seals_after` ({}) is not below `key_ttl` ({}): once keys are forgotten, \"never seen\" proves nothing",
                    show_duration(ms),
                    show_duration(participant.key_ttl_ms)
                ),
                "lower `seals_after`, or raise `key_ttl` if the participant does remember keys longer",
            );
        }
    }
    if let Some(at) = fields.get("settled_by") {
        match at.text("statement", report) {
            Some("statement") => participant.settled_by_statement = true,
            Some(_) => report.problem(
                &at.place,
                "`settled_by` may only be \"statement\"",
                "write `settled_by = \"statement\"` or leave it out",
            ),
            None => {}
        }
    }
    fields.finish(report);
    participant
}

/// Reads a guarantee, of a participant or of one of its operations.
pub(super) fn read_idempotency(at: &At<'_>, report: &mut Report) -> Option<Idempotency> {
    match at.text("replay", report)? {
        "none" => Some(Idempotency::None),
        "effect" => Some(Idempotency::Effect),
        "replay" => Some(Idempotency::Replay),
        _ => {
            report.problem(
                &at.place,
                "`idempotency` is one of \"none\", \"effect\" and \"replay\"",
                "write what the participant guarantees about a repeat under the same key",
            );
            None
        }
    }
}
