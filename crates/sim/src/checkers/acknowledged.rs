//! An acknowledged submission is never lost, and what was refused for certain is not there.

use std::collections::{BTreeMap, BTreeSet};

use amends_core::SagaId;

use super::{Checker, Violation, violated};
use crate::event::{Event, Told};
use crate::truth::Truth;

pub(super) const NAME: &str = "acknowledged";

/// Remembers what callers were told.
#[derive(Default)]
pub(super) struct Acknowledged {
    /// Told to be durable.
    durable: BTreeSet<SagaId>,
    /// Whether it may exist: it was told to be durable, or nobody knew.
    may_exist: BTreeMap<SagaId, bool>,
    stored: BTreeSet<SagaId>,
}

impl Checker for Acknowledged {
    fn before(&mut self, event: &Event, truth: &Truth, found: &mut Vec<Violation>) {
        match event {
            Event::Arrived { saga } => {
                self.may_exist.insert(saga.clone(), true);
                self.durable.insert(saga.clone());
            }
            Event::Submitted { saga, told, .. } => {
                let may_exist = self.may_exist.entry(saga.clone()).or_default();
                match told {
                    Told::Created | Told::Known => {
                        *may_exist = true;
                        self.durable.insert(saga.clone());
                        if !truth.sagas.contains_key(saga) {
                            violated(found, NAME, format!("{saga} was acknowledged before it was durable"));
                        }
                    }
                    Told::Unclear => *may_exist = true,
                    Told::Refused(why) => {
                        if !*may_exist && truth.sagas.contains_key(saga) {
                            violated(found, NAME, format!("{saga} was refused ({why}), but exists"));
                        }
                    }
                    Told::OtherInput => {}
                }
            }
            Event::Stored { saga, .. } => {
                self.stored.insert(saga.clone());
            }
            Event::Over => {
                for lost in self.durable.difference(&self.stored) {
                    violated(found, NAME, format!("{lost} was acknowledged, and is lost"));
                }
            }
            _ => {}
        }
    }
}
