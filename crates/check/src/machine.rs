//! What is explored: the core, unless a test of this crate puts something worse in its place.

use std::sync::Arc;

use amends_core::{Decision, Definition, Input, Now, Refusal, Saga, Submission};

/// The rules by which a saga moves.
///
/// A check explores [`Core`], which is what runs in production. Other implementations are for showing that a check finds
/// the fault it claims to find: they break a rule on purpose.
pub trait Machine: Sync {
    /// Begins a saga; see [`amends_core::submit`].
    fn submit(
        &self,
        definition: Arc<Definition>,
        submission: Submission,
        claims: Vec<String>,
        now: Now,
    ) -> Decision {
        amends_core::submit(definition, submission, claims, now)
    }

    /// Decides what an input leads to; see [`amends_core::decide()`]. Must be a function of its arguments: the same again
    /// gives the same answer.
    ///
    /// # Errors
    /// As [`amends_core::decide()`]: only what a person asks for can be refused.
    fn decide(&self, saga: &Saga, input: &Input, now: Now) -> Result<Decision, Refusal> {
        amends_core::decide(saga, input, now)
    }
}

/// The core as it runs in production.
#[derive(Debug, Clone, Copy, Default)]
pub struct Core;

impl Machine for Core {}
