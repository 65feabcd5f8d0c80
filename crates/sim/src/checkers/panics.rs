//! No task of an engine panics.

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "panics";

/// Listens for panics.
pub(super) struct Panics;

impl Checker for Panics {
    fn before(&mut self, event: &Event, _truth: &Truth, found: &mut Vec<Violation>) {
        if let Event::Panicked(what) = event {
            violated(found, NAME, what.clone());
        }
    }
}
