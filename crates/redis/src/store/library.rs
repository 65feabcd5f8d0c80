//! The functions of the store, and the keys they are given.

use crate::client::{Function, Library};

/// The keys that every function is given; the order is that of `functions/store/plan.lua`.
pub(super) const KEYS: [&str; 22] = [
    "amends:store:meta",
    "amends:store:rows",
    "amends:store:claims",
    "amends:store:due",
    "amends:store:owned",
    "amends:store:mailed",
    "amends:store:ended",
    "amends:store:status",
    "amends:store:dead",
    "amends:store:counts",
    "amends:store:nodes",
    "amends:store:granted",
    "amends:store:mail",
    "amends:store:answers",
    "amends:store:waiting",
    "amends:store:inputs",
    "amends:store:answered",
    "amends:store:definitions",
    "amends:store:digests",
    "amends:store:versions",
    "amends:store:heads",
    "amends:store:entries",
];

pub(super) const DUE: &str = KEYS[3];
pub(super) const ANSWERS: &str = KEYS[13];
pub(super) const DEFINITIONS: &str = KEYS[17];
pub(super) const DIGESTS: &str = KEYS[18];
pub(super) const VERSIONS: &str = KEYS[19];
pub(super) const ENTRIES_KEY: &str = KEYS[21];

static LIBRARY: Library = Library {
    name: "amends_store_v3",
    texts: &[
        include_str!("../../functions/store/plan.lua"),
        include_str!("../../functions/store/commit.lua"),
        include_str!("../../functions/store/work.lua"),
        include_str!("../../functions/store/records.lua"),
        include_str!("../../functions/store/reads.lua"),
        include_str!("../../functions/store/state.lua"),
    ],
};

/// What a client of the store loads.
pub static STORE_LIBRARIES: &[&Library] = &[&LIBRARY];

const fn function(name: &'static str, flags: &'static [&'static str]) -> Function {
    Function { library: &LIBRARY, name, flags }
}

const WRITES: &[&str] = &[];
/// A lease must not lapse, and retention must not stop, because memory is short: the one writes a few bytes, the other frees many.
const WRITES_ALWAYS: &[&str] = &["allow-oom"];
const READS: &[&str] = &["no-writes"];

pub(super) static COMMIT: Function = function("amends_store_commit_v3", WRITES);
pub(super) static PARK: Function = function("amends_store_park_v3", WRITES);
pub(super) static CLAIM_DUE: Function = function("amends_store_claim_due_v3", WRITES);
pub(super) static TAKE_OVER: Function = function("amends_store_take_over_v3", WRITES);
pub(super) static CLAIM: Function = function("amends_store_claim_v3", WRITES);
pub(super) static JOIN: Function = function("amends_store_join_v3", WRITES_ALWAYS);
pub(super) static RENEW: Function = function("amends_store_renew_v3", WRITES_ALWAYS);
pub(super) static LEAVE: Function = function("amends_store_leave_v3", WRITES_ALWAYS);
pub(super) static POST: Function = function("amends_store_post_v3", WRITES);
pub(super) static WAITING: Function = function("amends_store_waiting_v3", READS);
pub(super) static MINE: Function = function("amends_store_mine_v3", READS);
pub(super) static REGISTER: Function = function("amends_store_register_v3", WRITES);
pub(super) static ENDED: Function = function("amends_store_ended_v3", READS);
pub(super) static PRUNE: Function = function("amends_store_prune_v3", WRITES_ALWAYS);
pub(super) static LOAD: Function = function("amends_store_load_v3", READS);
pub(super) static ENTRIES: Function = function("amends_store_entries_v3", READS);
pub(super) static ROW: Function = function("amends_store_row_v3", READS);
pub(super) static PAGE: Function = function("amends_store_page_v3", READS);
pub(super) static DEAD: Function = function("amends_store_dead_v3", READS);
pub(super) static STATS: Function = function("amends_store_stats_v3", READS);
pub(super) static OPEN: Function = function("amends_store_open_v3", WRITES_ALWAYS);
pub(super) static TOUCH: Function = function("amends_store_touch_v3", WRITES);
pub(super) static ACCEPT_LOSS: Function = function("amends_store_accept_loss_v3", WRITES_ALWAYS);
