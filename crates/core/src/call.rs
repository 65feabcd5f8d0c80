//! From a call's identity to the request that is sent.

use crate::request::{self, RenderArgs, Request};
use crate::template::{Missing, Scope, StepFacts};
use crate::{CallId, OpKind, OpRef, Saga};

/// Renders the request of a call.
///
/// It is a function of the saga's state: as long as an operation's key and facts stand, every rendering is the same.
///
/// # Errors
/// [`Missing`] names a path that a fact does not have.
///
/// # Panics
/// If the call names an operation that the definition does not have; the core never asks for one.
pub fn for_call(saga: &Saga, call: CallId) -> Result<Request, Missing> {
    let state = saga.op(call.op);
    let key = saga.key(call.op);
    let action_key = match call.op.kind {
        OpKind::Action => None,
        OpKind::Compensation => Some(saga.key(OpRef::action(call.op.step))),
    };
    let facts = |step: usize| saga.steps[step].action.fact().map(|(fact, serial)| StepFacts { fact, serial });
    let scope = Scope {
        id: saga.id.as_str(),
        input: &saga.input,
        key: Some(&key),
        action_key: action_key.as_ref(),
        serial: state.serial.as_ref(),
        step: &facts,
    };
    let args = RenderArgs {
        definition: &saga.definition,
        step: call.op.step,
        operation: call.op.kind,
        attempt: if call.is_query { state.sends } else { call.n },
        scope,
    };
    if call.is_query { request::query(&args) } else { request::perform(&args) }
}
