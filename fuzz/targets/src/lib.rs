//! What is fuzzed.
//!
//! Each target is a function that takes any bytes and panics if a parser of amends does something it must not: panic, answer without
//! bounds, or read back something other than what it wrote. The same functions are called by libFuzzer (`cargo fuzz run NAME` in
//! `fuzz/`, which needs a nightly tool chain) and by ordinary tests, over the corpus in `fuzz/corpus` and over what those
//! tests make of it.

mod answers;
mod api;
mod config;
mod definitions;
mod entries;
mod keys;
mod signatures;
mod target;
mod templates;

pub use answers::{answer, retry_after};
pub use api::{api_action, api_callback, api_cursor, api_if_match, api_submission};
pub use config::config;
pub use definitions::{definition_json, definition_toml, duration};
pub use entries::stored_entries;
pub use keys::key;
pub use signatures::signature;
pub use target::{ALL, Target};
pub use templates::template;
