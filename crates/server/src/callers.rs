//! The participants as those who call back: which of them sign, and whether a signature is theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use amends_participants::{ParticipantConfig, ParticipantState, Participants, Unverified};
use http::HeaderMap;

/// Who may call back.
pub(crate) struct Callers {
    participants: Arc<Participants>,
    /// Those with a secret, whether or not it can be read just now: without it nobody may speak for them.
    with_secret: BTreeSet<String>,
}

impl Callers {
    pub(crate) fn new(
        participants: Arc<Participants>,
        configs: &BTreeMap<String, ParticipantConfig>,
    ) -> Self {
        let with_secret = configs.iter().filter(|(_, config)| config.secret.is_some());
        Self { participants, with_secret: with_secret.map(|(name, _)| name.clone()).collect() }
    }

    pub(crate) fn has_secret(&self, participant: &str) -> bool {
        self.with_secret.contains(participant)
    }

    /// Which participants' secrets fit the signature of a message.
    pub(crate) fn signed_by(&self, headers: &HeaderMap, body: &[u8]) -> Result<BTreeSet<String>, Unverified> {
        let names = self.participants.signed_by(headers, body)?;
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    pub(crate) fn states(&self) -> Vec<ParticipantState> {
        self.participants.states()
    }
}
