//! Requests as values: what is to be sent, rendered from a definition and a saga.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::definition::redis::RedisCall;
use crate::definition::{Body, Definition, Method, Operation};
use crate::template::{Missing, Scope, Template, Why};
use crate::{Key, OpKind, json};

/// One request to a participant, ready to be sent: over HTTP, or Redis commands ([`Payload::Redis`]). The participant's URL, its configured headers, its secret and
/// the headers of the protocol (`Amends-…`) are added by whoever carries it out.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The participant's name, as in `[participants.NAME]`.
    pub to: String,
    /// The HTTP method.
    pub method: Method,
    /// The path and query string, percent-encoded, to be appended to the participant's URL.
    pub path: String,
    /// The definition's headers, rendered; lower-case names. `idempotency-key` here replaces the default one.
    pub headers: Vec<(String, String)>,
    /// The body and its content type.
    pub body: Option<Payload>,
    /// How long the whole call may take, in milliseconds.
    pub timeout_ms: u64,
    /// The operation's idempotency key.
    pub key: Key,
    /// Fenced compensations only: the key of the action that is undone.
    pub action_key: Option<Key>,
    /// Name of the step.
    pub step: String,
    /// Which operation it belongs to.
    pub operation: OpKind,
    /// Number of the attempt, from 1; of a query: of the attempt asked about.
    pub attempt: u32,
    /// Whether this asks about an operation rather than performing it.
    pub is_query: bool,
}

/// A body.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// `application/json`
    Json(Value),
    /// `application/x-www-form-urlencoded`, already encoded
    Form(String),
    /// No body: Redis commands. Method and path mean nothing; a query has them too, since the fence that is asked lies beside
    /// their keys.
    Redis(RedisCall),
}

impl Request {
    /// The first 16 hexadecimal digits of a SHA-256 over method, path and body: whether two sends carried the same payload.
    ///
    /// Headers do not count: they carry the attempt, the epoch and the expiry, which differ from send to send.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(self.method.as_str());
        hasher.update(b" ");
        hasher.update(&self.path);
        hasher.update(b"\n");
        match &self.body {
            None => {}
            Some(Payload::Json(value)) => hasher.update(json::canonical(value)),
            Some(Payload::Form(form)) => hasher.update(form),
            Some(Payload::Redis(call)) => hasher.update(call.content()),
        }
        hex::encode(&hasher.finalize()[..8])
    }
}

/// What a request is rendered from.
#[derive(Debug)]
pub struct RenderArgs<'a> {
    /// The saga's definition.
    pub definition: &'a Definition,
    /// The index of the step.
    pub step: usize,
    /// Which of its operations.
    pub operation: OpKind,
    /// Number of the attempt, from 1; of a query: of the attempt asked about.
    pub attempt: u32,
    /// What its paths are looked up in; `key` must be the operation's.
    pub scope: Scope<'a>,
}

impl RenderArgs<'_> {
    fn op(&self) -> &Operation {
        let step = &self.definition.steps[self.step];
        match self.operation {
            OpKind::Action => step.action.as_ref(),
            OpKind::Compensation => step.compensation.as_ref(),
        }
        .expect("invariant: only operations that the definition has are rendered")
    }
}

/// Renders the request that performs an operation. The same arguments give the same request.
///
/// # Errors
/// [`Missing`] names the first path that leads nowhere, or whose value does not fit where it stands.
///
/// # Panics
/// If the step has no such operation.
pub fn perform(args: &RenderArgs<'_>) -> Result<Request, Missing> {
    let op = args.op();
    let call = Call {
        to: &op.to,
        method: op.method,
        path: &op.path,
        headers: &op.headers,
        body: &op.body,
        timeout_ms: op.timeout_ms,
    };
    render(args, &call, op.fenced, false)
}

/// Renders the request that asks about an operation. The same arguments give the same request.
///
/// # Errors
/// [`Missing`] names the first path that leads nowhere, or whose value does not fit where it stands. A query that uses
/// `${serial}` ([`Query::needs_serial`](crate::definition::Query::needs_serial)) is not to be rendered without one.
///
/// # Panics
/// If the step has no such operation or the operation no query.
pub fn query(args: &RenderArgs<'_>) -> Result<Request, Missing> {
    let op = args.op();
    let query = op.query.as_ref().expect("invariant: only an operation with a query is asked about");
    let call = Call {
        to: &query.to,
        method: query.method,
        path: &query.path,
        headers: &query.headers,
        body: &query.body,
        timeout_ms: query.timeout_ms,
    };
    render(args, &call, op.fenced, true)
}

/// What operations and queries have in common.
struct Call<'a> {
    to: &'a str,
    method: Method,
    path: &'a Template,
    headers: &'a [(String, Template)],
    body: &'a Body,
    timeout_ms: u64,
}

fn render(args: &RenderArgs<'_>, call: &Call<'_>, fenced: bool, is_query: bool) -> Result<Request, Missing> {
    let scope = &args.scope;
    let key = scope.key.cloned().ok_or_else(|| Missing { path: "key".into(), why: Why::Absent })?;
    let action_key = match args.operation {
        OpKind::Action => None,
        OpKind::Compensation => scope.action_key.filter(|_| fenced).cloned(),
    };
    let header = |(name, value): &(String, Template)| Ok((name.clone(), value.render_header(scope)?));
    let body = match call.body {
        Body::None => None,
        Body::Json(template) => Some(Payload::Json(template.render(scope)?)),
        Body::Form(fields) => {
            let mut form = form_urlencoded::Serializer::new(String::new());
            for (name, value) in fields {
                form.append_pair(name, &value.render_text(scope)?);
            }
            Some(Payload::Form(form.finish()))
        }
        Body::Redis(commands) => Some(Payload::Redis(commands.render(scope)?)),
    };
    Ok(Request {
        to: call.to.to_owned(),
        method: call.method,
        path: call.path.render_url(scope)?,
        headers: call.headers.iter().map(header).collect::<Result<_, _>>()?,
        body,
        timeout_ms: call.timeout_ms,
        key,
        action_key,
        step: args.definition.steps[args.step].name.clone(),
        operation: args.operation,
        attempt: args.attempt,
        is_query,
    })
}
