//! Whoever talks to the engines: callers who submit sagas, people who act on them, participants that report, and accidents.

mod accidents;
mod ask;
mod callbacks;
mod closing;
mod people;
mod submit;
mod transaction;

pub(crate) use accidents::accidents;
pub(crate) use ask::{Asked, ask};
pub(crate) use callbacks::report;
pub(crate) use closing::{close_all, try_claims};
pub(crate) use people::person;
pub(crate) use submit::caller;
