//! Faults that wait for a store, a broker or a machine which is not there yet.

use std::fmt::Write as _;

/// A fault that cannot be shown yet.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// What happens.
    pub fault: &'static str,
    /// What is expected of amends then.
    pub expected: &'static str,
    /// What has to be there before it can be shown.
    pub waits_for: &'static str,
}

/// All of them. Whoever brings the missing part makes a named fault of each.
pub const ALL: &[Waiting] = &[
    Waiting {
        fault: "storms of serialization failures and deadlocks (40001; 1205, 1213, 1020)",
        expected: "whole transactions are repeated; no partial rows",
        waits_for: "nothing that torture could cause on purpose; the stores' own tests have them",
    },
    Waiting {
        fault: "a broker is away for ten minutes, then its acknowledgements are lost",
        expected: "the outbox stays bounded and in order; duplicates carry the same id",
        waits_for: "the outbox",
    },
    Waiting {
        fault: "the name of a participant comes to mean 169.254.169.254",
        expected: "the address that is connected to is checked, not only the name",
        waits_for: "a check of resolved addresses: participants are named in amends.toml alone, which is trusted",
    },
];

/// The table for people.
#[must_use]
pub fn table() -> String {
    let mut out = String::from("not shown, for want of what they need:\n");
    for Waiting { fault, expected, waits_for } in ALL {
        let _ = writeln!(out, "  {fault}\n      expected: {expected}\n      waits for: {waits_for}");
    }
    out
}
