//! Redis as a participant of sagas: an operation's commands run together with amends' fence, in one function call.
//!
//! The record of a key lies in the slot of the commands' keys, so that intent, effect and answer are one atomic step: the same key
//! gets the same answer, a compensation of what never ran is recorded, and an action that comes after it is refused.

mod answer;
mod remote;

use std::sync::Arc;

use amends_core::definition::redis::COMMANDS_TABLE;
use amends_participants::{Driver, Remote, UrlSource};

use crate::client::{Function, Library};
use crate::commands;

pub use remote::RedisParticipant;

/// The functions of the fence, to be loaded by a client that is used for more.
pub static FENCE_LIBRARY: Library = Library {
    name: "amends_fence_v1",
    texts: &[COMMANDS_TABLE, commands::LUA, include_str!("../../functions/fence.lua")],
};

static ACT: Function = Function { library: &FENCE_LIBRARY, name: "amends_fence_act_v1", flags: &[] };
static COMPENSATE: Function =
    Function { library: &FENCE_LIBRARY, name: "amends_fence_compensate_v1", flags: &[] };
static QUERY: Function =
    Function { library: &FENCE_LIBRARY, name: "amends_fence_query_v1", flags: &["no-writes"] };

/// What the keys of the fence's records begin with.
pub const FENCE_KEY_PREFIX: &str = "amends:fence:";

/// Opens the participants whose URL is `redis://` or `rediss://`.
#[derive(Debug, Default)]
pub struct RedisDriver;

impl Driver for RedisDriver {
    fn open(&self, name: &str, url: UrlSource) -> Arc<dyn Remote> {
        Arc::new(RedisParticipant::new(name, url))
    }
}

/// The key of a fence's record: in the slot of every key with this hash tag.
fn record_key(tag: &str, key: &str) -> String {
    format!("{FENCE_KEY_PREFIX}{{{tag}}}:{key}")
}

#[cfg(test)]
mod tests {
    use amends_core::definition::redis::hash_tag;

    use super::*;
    use crate::client::slot;

    #[test]
    fn definitions_are_checked_by_the_table_that_the_functions_run_by() {
        for library in [&FENCE_LIBRARY, &crate::LOG_LIBRARY] {
            assert_eq!(library.code().matches(COMMANDS_TABLE).count(), 1, "{}", library.name);
            assert_eq!(library.code().matches("commands_table = ").count(), 1, "{}", library.name);
        }
    }

    #[test]
    fn a_record_lies_in_the_slot_of_the_keys() {
        for key in ["balance:1001", "balance:{u 1}", "{a}{b}", "{{a}}", "a{", "{a}:}"] {
            let tag = hash_tag(key).expect(key);
            assert_eq!(slot(record_key(tag, "o:{x}:hold:action").as_bytes()), slot(key.as_bytes()), "{key}");
        }
    }
}
