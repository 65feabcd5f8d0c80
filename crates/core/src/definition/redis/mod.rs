//! Operations that are Redis commands: which commands there are, the call they make, and how a definition states them.
//!
//! The commands of one operation run in one function call on one server, together with the fence. So their keys must share a
//! hash slot, and the fence's records, which are kept beside them, must be found again by action and compensation alike.

mod call;
mod known;
mod read;
mod table;

pub use call::{FENCE_MARGIN_MS, Unfit, hash_tag};
pub use call::{RedisCall, RedisCommands, RedisGuard, RedisTest};
pub(super) use read::{check_same_place, implied_query, keep};
pub use table::{BYTES_MAX, COMMANDS_MAX, COMMANDS_TABLE, RedisCommand, WORDS_MAX, Word, command, names};
