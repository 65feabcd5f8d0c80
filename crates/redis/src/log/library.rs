//! The functions of the log.

use amends_core::definition::redis::COMMANDS_TABLE;

use crate::client::{Function, Library};
use crate::commands;

/// The functions of the compensation log, `amends_log_*_v1`: what a client must load to use [`super::Log`].
pub static LOG_LIBRARY: Library = Library {
    name: "amends_log_v1",
    texts: &[COMMANDS_TABLE, commands::LUA, include_str!("../../functions/log.lua")],
};

const fn function(name: &'static str, flags: &'static [&'static str]) -> Function {
    Function { library: &LOG_LIBRARY, name, flags }
}

pub(crate) static BEGIN: Function = function("amends_log_begin_v1", &[]);
pub(crate) static COMMIT: Function = function("amends_log_commit_v1", &["allow-oom"]);
pub(crate) static COMPENSATE: Function = function("amends_log_compensate_v1", &[]);
pub(crate) static SHOW: Function = function("amends_log_show_v1", &["no-writes"]);
pub(crate) static POSTPONE: Function = function("amends_log_postpone_v1", &["allow-oom"]);
pub(crate) static ADOPT: Function = function("amends_log_adopt_v1", &[]);
pub(crate) static REMOVE: Function = function("amends_log_remove_v1", &["allow-oom"]);
pub(crate) static DUE: Function = function("amends_log_due_v1", &["no-writes"]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_those_of_the_text() {
        for function in [&BEGIN, &COMMIT, &COMPENSATE, &SHOW, &POSTPONE, &ADOPT, &REMOVE, &DUE] {
            let flags = function.flags.iter().map(|flag| format!(" '{flag}' ")).collect::<String>();
            let line = format!("register('{}', {{{flags}}}, ", function.name);
            assert!(LOG_LIBRARY.texts[2].contains(&line), "{line}");
        }
        assert_eq!(LOG_LIBRARY.texts[2].matches("\nregister(").count(), 8);
    }
}
