//! Nothing happens twice under one key, however a saga ends.

use super::{Checker, Violation, violated};
use crate::event::Event;
use crate::truth::Truth;

pub(super) const NAME: &str = "once";

/// Counts effects by key.
pub(super) struct Once;

impl Checker for Once {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        if let Event::Happened(effect) = event
            && truth.ledger.under(&effect.key) > 0
        {
            violated(found, NAME, format!("{} happened again", effect.key));
        }
    }
}
