//! An action, a compensation, and the query of either.

use super::builder::{Builder, Owner};
use super::call::Call;
use super::duration::DURATION_MAX_MS;
use super::fields::{At, Fields};
use super::outcome::{read_pointers, read_rule};
use super::participant::read_idempotency;
use super::policy::{Policy, TIMEOUT_MAX_MS};
use super::redis;
use super::{Idempotency, Method, OnExhausted, Operation, Participant, Query, StepKind};
use crate::OpKind;
use crate::template::Path;

const CALLBACK_TIMEOUT_DEFAULT_MS: u64 = 15 * 60_000;
const OPERATION_EXAMPLE: &str = "action = { to = \"payment\", post = \"/charges\" }";
const QUERY_EXAMPLE: &str = "query = { get = \"/charges/${key}\" }";

impl Builder<'_> {
    /// Reads an operation. One that cannot be read is given back all the same, after it was reported, so that the rest of the
    /// step is checked too.
    pub(super) fn read_operation(
        &mut self,
        at: &At<'_>,
        step: usize,
        kind: OpKind,
        step_kind: StepKind,
        policy: &Policy,
        to_default: Option<&str>,
    ) -> Operation {
        let Some(mut fields) = at.fields(OPERATION_EXAMPLE, &mut self.report) else {
            return operation(Call::nothing(Method::Get), None, policy);
        };
        let owner = Owner::Operation { step, kind, query: false };
        let is_redis = fields.get("redis");
        let call = match &is_redis {
            Some(at) => self.read_redis(at, &mut fields, to_default, owner),
            None => self.read_call(&mut fields, to_default, owner),
        };
        let policy = policy.overlaid(&mut fields, &mut self.report);
        policy.check_budget(&at.place, &mut self.report);
        let participant = self.participants.by_name.get(&call.to).cloned();
        let mut op = operation(call, participant.as_ref(), &policy);
        match is_redis {
            Some(_) => {
                redis::keep(&mut op);
                op.query = redis::implied_query(&op);
            }
            None => self.read_answers(&mut fields, &mut op, Owner::Operation { step, kind, query: true }),
        }
        if op.query.is_none() {
            op.seals_after_ms = None;
        }
        if let Some(at) = fields.get("idempotency") {
            self.read_own_idempotency(&at, &mut op);
        }
        op.on_exhausted = self.read_on_exhausted(&mut fields, kind, step_kind);
        fields.finish(&mut self.report);
        op
    }

    /// Reads what the answers of a request mean, and how to ask for them.
    fn read_answers(&mut self, fields: &mut Fields<'_>, op: &mut Operation, owner_of_query: Owner) {
        if let Some(at) = fields.get("serial") {
            op.serial = read_pointers(&at, &mut self.report);
        }
        if let Some(at) = fields.get("outcome") {
            op.outcome = read_rule(&at, false, &mut self.report);
        }
        if let Some(at) = fields.get("query") {
            op.query = self.read_query(&at, op, owner_of_query);
        }
        if let Some(at) = fields.get("callback_timeout") {
            op.callback_timeout_ms =
                at.duration(DURATION_MAX_MS, &mut self.report).unwrap_or(op.callback_timeout_ms);
        }
    }

    fn read_own_idempotency(&mut self, at: &At<'_>, op: &mut Operation) {
        let Some(own) = read_idempotency(at, &mut self.report) else { return };
        if op.fenced && own != Idempotency::Replay {
            self.report.problem(
                &at.place,
                format!(
                    "`{}` is fenced: it gives the same answer to the same key, which is \"replay\"",
                    op.to
                ),
                "leave `idempotency` out here, or `fenced` out of the participant",
            );
        }
        op.idempotency = own;
    }

    fn read_on_exhausted(
        &mut self,
        fields: &mut Fields<'_>,
        kind: OpKind,
        step_kind: StepKind,
    ) -> OnExhausted {
        let default = match (kind, step_kind) {
            (OpKind::Action, StepKind::Compensatable | StepKind::Pivot) => OnExhausted::Compensate,
            (OpKind::Action, StepKind::Retriable) | (OpKind::Compensation, _) => OnExhausted::Dead,
        };
        let Some(at) = fields.get("on_exhausted") else { return default };
        if kind == OpKind::Compensation {
            self.report.problem(
                &at.place,
                "a compensation that is exhausted is always put before a person",
                "leave `on_exhausted` out here; it belongs to actions",
            );
            return default;
        }
        match at.text("dead", &mut self.report) {
            Some("dead") => OnExhausted::Dead,
            Some("compensate") if step_kind == StepKind::Retriable => {
                self.report.problem(
                    &at.place,
                    "after the pivot nothing is undone",
                    "leave `on_exhausted` out: an exhausted step after the pivot is put before a person",
                );
                default
            }
            Some("compensate") => OnExhausted::Compensate,
            Some(_) => {
                self.report.problem(
                    &at.place,
                    "`on_exhausted` is \"compensate\" or \"dead\"",
                    "write \"compensate\" to undo the saga, \"dead\" to put it before a person",
                );
                default
            }
            None => default,
        }
    }

    fn read_query(&mut self, at: &At<'_>, op: &Operation, owner: Owner) -> Option<Query> {
        let mut fields = at.fields(QUERY_EXAMPLE, &mut self.report)?;
        let Call { to, method, path, headers, body } = self.read_call(&mut fields, Some(&op.to), owner);
        let mut query = Query {
            to,
            method,
            path,
            headers,
            body,
            timeout_ms: op.timeout_ms,
            outcome: None,
            serial: op.serial.clone(),
            needs_serial: false,
        };
        if let Some(at) = fields.get("timeout") {
            query.timeout_ms = at.duration(TIMEOUT_MAX_MS, &mut self.report).unwrap_or(query.timeout_ms);
        }
        if let Some(at) = fields.get("outcome") {
            query.outcome = read_rule(&at, true, &mut self.report);
        }
        if let Some(at) = fields.get("serial") {
            query.serial = read_pointers(&at, &mut self.report);
        }
        let mut needs_serial = false;
        query.each_path(&mut |path| needs_serial |= matches!(path, Path::Serial));
        query.needs_serial = needs_serial;
        fields.finish(&mut self.report);
        Some(query)
    }
}

/// An operation as its request, its participant and the levels around it make it, before its own fields are read.
fn operation(call: Call, participant: Option<&Participant>, policy: &Policy) -> Operation {
    // A participant that does not exist has been reported; what stands for it causes no further problems.
    let unknown = Participant {
        idempotency: Idempotency::Replay,
        key_ttl_ms: u64::MAX,
        seals_after_ms: None,
        fenced: false,
        settled_by_statement: false,
    };
    let participant = participant.unwrap_or(&unknown);
    let Call { to, method, path, headers, body } = call;
    Operation {
        to,
        method,
        path,
        headers,
        body,
        serial: Vec::new(),
        outcome: None,
        query: None,
        timeout_ms: policy.timeout_ms,
        retry: policy.retry.clone(),
        on_unknown: policy.on_unknown(participant.settled_by_statement),
        idempotency: participant.idempotency,
        key_ttl_ms: participant.key_ttl_ms,
        seals_after_ms: participant.seals_after_ms,
        fenced: participant.fenced,
        settled_by_statement: participant.settled_by_statement,
        on_exhausted: OnExhausted::Compensate,
        callback_timeout_ms: CALLBACK_TIMEOUT_DEFAULT_MS,
    }
}
