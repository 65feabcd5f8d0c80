//! Each attempt is sent at most once: nothing below the engine repeats by itself.

use std::collections::BTreeSet;

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "attempts";

/// Remembers what was sent.
#[derive(Default)]
pub(super) struct Attempts {
    sent: BTreeSet<(String, u32)>,
}

impl Checker for Attempts {
    fn before(&mut self, event: &Event, _truth: &Truth, found: &mut Vec<Violation>) {
        if let Event::Sent { key, attempt, is_query: false, .. } = event
            && !self.sent.insert((key.clone(), *attempt))
        {
            violated(found, NAME, format!("attempt {attempt} of {key} is sent again"));
        }
    }
}
