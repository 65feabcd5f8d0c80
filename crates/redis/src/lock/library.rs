//! The library of functions, and how the keys of locks are named.

use amends_store::locks::LockName;

use crate::client::{Function, Library};

/// The functions of locks.
pub static LOCK_LIBRARY: Library =
    Library { name: "amends_lock_v1", texts: &[include_str!("../../functions/lock.lua")] };

/// What the key of a lock begins with; its name follows as it is. A lock is one key, so that it needs no hash tag.
pub const KEY_PREFIX: &str = "amends:lock:";

pub(super) static LIBRARIES: &[&Library] = &[&LOCK_LIBRARY];

pub(super) static ACQUIRE: Function =
    Function { library: &LOCK_LIBRARY, name: "amends_lock_acquire_v1", flags: &[] };
pub(super) static RENEW: Function =
    Function { library: &LOCK_LIBRARY, name: "amends_lock_renew_v1", flags: &["allow-oom"] };
pub(super) static RELEASE: Function =
    Function { library: &LOCK_LIBRARY, name: "amends_lock_release_v1", flags: &["allow-oom"] };
pub(super) static SHOW: Function =
    Function { library: &LOCK_LIBRARY, name: "amends_lock_show_v1", flags: &["no-writes"] };

pub(super) fn key(name: &LockName) -> Vec<u8> {
    [KEY_PREFIX.as_bytes(), name.as_str().as_bytes()].concat()
}
