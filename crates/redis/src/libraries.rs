//! All libraries of functions, for whoever installs or looks for them.

use crate::client::Library;
use crate::{FENCE_LIBRARY, LOCK_LIBRARY, LOG_LIBRARY, STORE_LIBRARIES};

/// Every library, in no particular order. Each part of this crate loads its own when it connects; loading them ahead is for
/// users who may call functions but not load them.
pub static LIBRARIES: &[&Library] = &[&LOG_LIBRARY, &FENCE_LIBRARY, &LOCK_LIBRARY, STORE_LIBRARIES[0]];
