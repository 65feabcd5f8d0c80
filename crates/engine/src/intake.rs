//! Takes up what callers have submitted in SQL transactions of their own (rule 13): the store's rows become sagas that wait for their claims.
//!
//! The scan is what finds them, always; a knock only makes it look sooner. Nothing is remembered: a row stays until its saga is durable, and
//! what a node that ended had taken comes back by itself.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use amends_core::definition::check_input;
use amends_core::{SagaId, Submission, json};
use amends_store::{Arrival, Backlog, Gauge, Intake, Kind, Verdict};
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::Instant;

use crate::Refused;
use crate::lease::ms;
use crate::node::Node;
use crate::persist::Backoff;

/// The first pause before a submission that was put off is tried again; it doubles.
const AGAIN_FIRST_MS: u64 = 1_000;

/// The longest such pause.
const AGAIN_MAX_MS: u64 = 60_000;

/// How often what waits is counted, for whoever watches.
const COUNT_EVERY: Duration = Duration::from_secs(5);

/// Takes up what arrives, as long as the engine lives.
pub(crate) async fn run(node: Arc<Node>) {
    let Some(intake) = node.store.intake() else { return };
    let mut backoff = Backoff::new(&node);
    let mut counted: Option<Instant> = None;
    loop {
        let looked = async {
            let settled = take_up_all(&node, intake).await?;
            if settled || counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY) {
                let backlog = intake.backlog().await?;
                *node.backlog.lock().unwrap_or_else(PoisonError::into_inner) = backlog;
                counted = Some(Instant::now());
            }
            Ok::<(), amends_store::Error>(())
        };
        match looked.await {
            Ok(()) => {
                backoff = Backoff::new(&node);
                tokio::select! {
                    biased;
                    () = node.intake_now.notified() => {}
                    () = intake.knock() => {}
                    () = tokio::time::sleep(node.config.times.poll_every) => {}
                }
            }
            Err(error) => {
                tracing::warn!("submissions of callers' transactions cannot be taken up: {error}");
                backoff.pause().await;
            }
        }
    }
}

/// A definition was registered here: submissions that waited for it are tried at once. Should that fail, their pause of a minute at most does.
pub(crate) async fn defined(node: &Node, name: &str) {
    let Some(intake) = node.store.intake() else { return };
    match intake.retry(node.now(), name).await {
        Ok(()) => node.intake_now.notify_one(),
        Err(error) => tracing::warn!(definition = name, "submissions that wait for it stay put off: {error}"),
    }
}

/// What waits, for whoever watches.
pub(crate) fn gauges(node: &Node) -> Vec<Gauge> {
    if node.store.intake().is_none() {
        return Vec::new();
    }
    let backlog = node.backlog.lock().unwrap_or_else(PoisonError::into_inner);
    let Backlog { waiting, put_off, refused, example: _ } = &*backlog;
    let gauge = |name, help, value: &u64| Gauge { name, help, value: *value };
    vec![
        gauge(
            "submissions_waiting",
            "Submissions of callers' SQL transactions that are no sagas yet.",
            waiting,
        ),
        gauge(
            "submissions_put_off",
            "Those of them that could not become sagas when they were tried.",
            put_off,
        ),
        gauge(
            "submissions_refused",
            "Submissions of callers' SQL transactions that can never become sagas, and wait for a person.",
            refused,
        ),
    ]
}

/// Takes up until nothing more is due, or the node has enough. Whether a row was found that did not simply become a saga.
async fn take_up_all(node: &Arc<Node>, intake: &dyn Intake) -> Result<bool, amends_store::Error> {
    let mut notable = false;
    loop {
        let limits = &node.config.limits;
        // However many wait here, the API has its half.
        let room =
            limits.sagas_max.div_ceil(2).saturating_sub(node.sagas.begun()).min(limits.intake_batch_max);
        if room == 0 || !node.takes_work() || node.committer.is_full() {
            return Ok(notable);
        }
        // As long as others wait before they take over what a node has that stopped. One that takes longer is tried twice, and is the same.
        let hold = node.config.times.lease_ttl;
        let arrivals = intake.take(node.now(), ms(hold), room).await?;
        let taken = arrivals.len();
        // All at once, so that they share commits.
        let verdicts: Vec<(u64, Verdict)> = stream::iter(arrivals)
            .map(|arrival| async move { Some((arrival.number, take_up(node, arrival).await?)) })
            .buffer_unordered(room)
            .filter_map(std::future::ready)
            .collect()
            .await;
        notable |= verdicts.iter().any(|(_, verdict)| *verdict != Verdict::Adopted);
        if !verdicts.is_empty() {
            intake.settle(node.now(), verdicts).await?;
        }
        if taken < room {
            return Ok(notable);
        }
    }
}

/// Makes a saga of one. `None`: what became of it is not known, or the store cannot be used; it comes back when its hold is over.
async fn take_up(node: &Arc<Node>, arrival: Arrival) -> Option<Verdict> {
    let (id, tries) = (arrival.id.clone(), arrival.tries);
    let verdict = match begin(node, arrival).await {
        Ok(()) => return Some(Verdict::Adopted),
        Err(Not::Ever(reason)) => {
            tracing::error!(
                saga = id,
                "a caller's transaction submitted it, but it can never become a saga: {reason}"
            );
            Verdict::Refused { reason }
        }
        Err(Not::Yet(reason)) => {
            let again_ms = AGAIN_FIRST_MS.saturating_mul(1 << tries.min(16)).min(AGAIN_MAX_MS);
            // One line for each of them, not one for each try.
            if tries == 0 {
                tracing::warn!(
                    saga = id,
                    "a caller's transaction submitted it; it cannot begin yet, and is tried again: {reason}"
                );
            }
            Verdict::PutOff { reason, again_ms }
        }
        Err(Not::Known) => return None,
    };
    Some(verdict)
}

/// Why an arrival is no saga.
enum Not {
    /// It cannot be one.
    Ever(String),
    /// It cannot be one now.
    Yet(String),
    /// What became of it is not known.
    Known,
}

async fn begin(node: &Arc<Node>, arrival: Arrival) -> Result<(), Not> {
    let Arrival { number: _, saga, id, input, by, tries: _ } = arrival;
    let id = SagaId::new(id).map_err(|e| Not::Ever(e.to_string()))?;
    // Not every database can tell.
    if !json::has_distinct_names(&input) {
        return Err(Not::Ever(
            "its input is no JSON, or has two members of the same name in an object".to_owned(),
        ));
    }
    let input = serde_json::from_str(&input).map_err(|e| Not::Ever(format!("its input is no JSON: {e}")))?;
    if !json::can_be_kept(&input) {
        let why = format!("its input is nested more than {} deep, or has a reserved name", json::DEPTH_MAX);
        return Err(Not::Ever(why));
    }
    let known = match node.definition_by_name(&saga, None).await {
        Ok(Some(known)) => known,
        Ok(None) => return Err(Not::Yet(format!("no definition {saga} is registered; apply it"))),
        Err(error) => return Err(of_store(error)),
    };
    // What does not fit becomes a dead saga rather than none: its caller's transaction has committed.
    let claims = check_input(&known.definition, &id, &input).unwrap_or_default();
    let epoch = node.lease().epoch();
    let submission = Submission { id, input, accepting: true, trace: None, epoch, who: by };
    match node.start(known, submission, claims).await {
        Ok(_) => Ok(()),
        Err(Refused::Store(error)) => Err(of_store(error)),
        Err(refused @ Refused::Overloaded { .. }) => Err(Not::Yet(refused.to_string())),
        Err(
            refused @ (Refused::InputConflict(_)
            | Refused::UnknownDefinition(_)
            | Refused::InvalidDefinition(_)
            | Refused::DefinitionConflict { .. }
            | Refused::MissingInput(_)
            | Refused::Malformed(_)
            | Refused::ClaimHeld(_)
            | Refused::UnknownSaga(_)
            | Refused::Core { .. }),
        ) => Err(Not::Ever(refused.to_string())),
    }
}

fn of_store(error: amends_store::Error) -> Not {
    match error.kind {
        Kind::Unavailable | Kind::Indeterminate | Kind::Unwritable => Not::Known,
        Kind::Corrupt | Kind::Refused => Not::Yet(error.message),
    }
}
