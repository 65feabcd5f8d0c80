//! The list of targets.

/// One target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: of its program in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Panics if a parser does what it must not.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident)*) => {
        &[$(Target { name: stringify!($name), run: crate::$name }),*]
    };
}

/// All of them.
pub const ALL: &[Target] = targets! {
    answer
    api_action
    api_callback
    api_cursor
    api_if_match
    api_submission
    config
    definition_json
    definition_toml
    duration
    key
    retry_after
    signature
    stored_entries
    template
};
