//! The participants of `amends.toml`, with a driver for those that are Redis.

use std::collections::BTreeMap;

use amends_participants::{CallbackUrl, ParticipantConfig, Participants, Problem, Settings};
use amends_redis::RedisDriver;

/// Makes them ready; connects to none.
pub(crate) fn open(
    configs: BTreeMap<String, ParticipantConfig>,
    callback: Option<CallbackUrl>,
) -> Result<Participants, Vec<Problem>> {
    Participants::with_driver(configs, Settings::system(callback), &RedisDriver)
}
