//! What the engine counts. Labels are bounded in number: definitions, steps and outcomes, never ids.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amends_core::{Definition, Ended, OpKind, Status};
use amends_store::{Advanced, Outcome, Submitted};

use crate::histogram::Histogram;
use crate::metrics::{CallLabels, Metrics, SagaCounts};

/// Upper bounds of the commit latency's buckets, in microseconds: a sync to disk is about 100 µs, a busy disk 100 ms.
const COMMIT_US: &[u64] =
    &[100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000];

/// Upper bounds of the batch size's buckets.
const BATCH_ITEMS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// The name under which definitions beyond the limit are counted together.
const OTHER: &str = "other";

/// Counters of one engine.
#[derive(Debug)]
pub(crate) struct Meter {
    definitions: Mutex<BTreeMap<String, Arc<DefinitionMeter>>>,
    definitions_max: usize,
    other: Arc<DefinitionMeter>,
    commit_us: Histogram,
    batch_items: Histogram,
    items: [AtomicU64; ItemResult::ALL.len()],
    refusals: [AtomicU64; Limit::ALL.len()],
    pub(crate) take_overs: Count,
    pub(crate) fenced: Count,
    pub(crate) unreadable: Count,
    pub(crate) lease_lapses: Count,
    pub(crate) calls_in_flight: Gauge,
}

/// Counts up.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts what is there now.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    /// One more, until the guard is dropped.
    pub(crate) fn enter(&self) -> Present<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Present(&self.0)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(crate) struct Present<'a>(&'a AtomicU64);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a limit that was hit is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Sagas in memory.
    Sagas,
    /// Items waiting for a commit.
    CommitQueue,
    /// Inputs waiting for one saga.
    Inbox,
    /// Callers waiting.
    Waiters,
    /// The engine stops.
    Stopping,
}

impl Limit {
    pub(crate) const ALL: [Self; 5] =
        [Self::Sagas, Self::CommitQueue, Self::Inbox, Self::Waiters, Self::Stopping];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Sagas => "sagas in memory",
            Self::CommitQueue => "commit queue",
            Self::Inbox => "inputs of one saga",
            Self::Waiters => "waiting callers",
            Self::Stopping => "stopping",
        }
    }
}

/// What became of an item of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemResult {
    Committed,
    Known,
    Held,
    Conflict,
    Failed,
}

impl ItemResult {
    const ALL: [Self; 5] = [Self::Committed, Self::Known, Self::Held, Self::Conflict, Self::Failed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Known => "known",
            Self::Held => "held",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
        }
    }

    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Submitted(Submitted::Created(_)) | Outcome::Advanced(Advanced::Committed) => {
                Self::Committed
            }
            Outcome::Submitted(Submitted::Same | Submitted::Different) => Self::Known,
            Outcome::Submitted(Submitted::Held(_)) | Outcome::Advanced(Advanced::Held(_)) => Self::Held,
            Outcome::Advanced(Advanced::Conflict) => Self::Conflict,
            Outcome::Failed(_) => Self::Failed,
        }
    }
}

/// What a call led to, as counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallResult {
    Done,
    Rejected,
    NotExecuted,
    Misconfigured,
    InProgress,
    Unknown,
    NeverSeen,
    Sealed,
    NoAnswer,
    Held,
}

impl CallResult {
    const ALL: [Self; 10] = [
        Self::Done,
        Self::Rejected,
        Self::NotExecuted,
        Self::Misconfigured,
        Self::InProgress,
        Self::Unknown,
        Self::NeverSeen,
        Self::Sealed,
        Self::NoAnswer,
        Self::Held,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Rejected => "rejected",
            Self::NotExecuted => "not_executed",
            Self::Misconfigured => "misconfigured",
            Self::InProgress => "in_progress",
            Self::Unknown => "unknown",
            Self::NeverSeen => "never_seen",
            Self::Sealed => "sealed",
            Self::NoAnswer => "no_answer",
            Self::Held => "held",
        }
    }
}

/// Counters of one definition.
#[derive(Debug)]
pub(crate) struct DefinitionMeter {
    name: String,
    /// By step, in the definition's order; of `other` just one.
    steps: Vec<StepMeter>,
    pub(crate) started: Count,
    pub(crate) contradictions: Count,
    statuses: [AtomicU64; Status::ALL.len()],
}

#[derive(Debug)]
struct StepMeter {
    name: String,
    /// Action, compensation, and the query of each.
    calls: [[AtomicU64; CallResult::ALL.len()]; 4],
}

impl DefinitionMeter {
    fn new(name: &str, steps: Vec<String>) -> Self {
        let steps = steps.into_iter().map(|name| StepMeter { name, calls: Default::default() }).collect();
        Self {
            name: name.to_owned(),
            steps,
            started: Count::default(),
            contradictions: Count::default(),
            statuses: Default::default(),
        }
    }

    pub(crate) fn call(&self, step: usize, kind: OpKind, is_query: bool, result: CallResult) {
        let Some(step) = self.steps.get(step).or(self.steps.last()) else { return };
        step.calls[column(kind, is_query)][result as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A saga ended so, or became unknown or dead.
    pub(crate) fn came_to(&self, status: Status) {
        self.statuses[status as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, how: Ended) {
        self.came_to(match how {
            Ended::Completed => Status::Completed,
            Ended::Compensated => Status::Compensated,
            Ended::Resolved => Status::Resolved,
        });
    }
}

fn column(kind: OpKind, is_query: bool) -> usize {
    match (kind, is_query) {
        (OpKind::Action, false) => 0,
        (OpKind::Compensation, false) => 1,
        (OpKind::Action, true) => 2,
        (OpKind::Compensation, true) => 3,
    }
}

impl Meter {
    pub(crate) fn new(definitions_max: usize) -> Self {
        Self {
            definitions: Mutex::default(),
            definitions_max,
            other: Arc::new(DefinitionMeter::new(OTHER, vec![OTHER.to_owned()])),
            commit_us: Histogram::new(COMMIT_US),
            batch_items: Histogram::new(BATCH_ITEMS),
            items: Default::default(),
            refusals: Default::default(),
            take_overs: Count::default(),
            fenced: Count::default(),
            unreadable: Count::default(),
            lease_lapses: Count::default(),
            calls_in_flight: Gauge::default(),
        }
    }

    /// The counters of a definition, by its digest.
    pub(crate) fn definition(&self, definition: &Definition) -> Arc<DefinitionMeter> {
        let mut known = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(meter) = known.get(&definition.digest) {
            return meter.clone();
        }
        if known.len() >= self.definitions_max {
            return self.other.clone();
        }
        let steps = definition.steps.iter().map(|step| step.name.clone()).collect();
        let meter = Arc::new(DefinitionMeter::new(&definition.name, steps));
        known.insert(definition.digest.clone(), meter.clone());
        meter
    }

    pub(crate) fn committed(&self, items: usize, took: Duration, outcomes: &[Outcome]) {
        self.commit_us.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.batch_items.observe(items as u64);
        for outcome in outcomes {
            self.items[ItemResult::of(outcome) as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn refused(&self, limit: Limit) {
        self.refusals[limit as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Everything as it is now.
    pub(crate) fn snapshot(&self) -> Metrics {
        let known = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        let meters: Vec<_> = known.values().cloned().chain([self.other.clone()]).collect();
        drop(known);
        let mut calls = BTreeMap::new();
        let mut sagas = BTreeMap::new();
        for meter in meters {
            read_calls(&meter, &mut calls);
            let entry: &mut SagaCounts = sagas.entry(meter.name.clone()).or_default();
            entry.started += meter.started.get();
            entry.contradictions += meter.contradictions.get();
            for status in Status::ALL {
                let n = meter.statuses[status as usize].load(Ordering::Relaxed);
                if n > 0 {
                    *entry.came_to.entry(status.as_str()).or_default() += n;
                }
            }
        }
        Metrics {
            calls,
            sagas,
            items: ItemResult::ALL
                .into_iter()
                .map(|r| (r.as_str(), self.items[r as usize].load(Ordering::Relaxed)))
                .collect(),
            refusals: Limit::ALL
                .into_iter()
                .map(|l| (l.as_str(), self.refusals[l as usize].load(Ordering::Relaxed)))
                .collect(),
            commit_us: self.commit_us.view(),
            batch_items: self.batch_items.view(),
            take_overs: self.take_overs.get(),
            fenced: self.fenced.get(),
            unreadable: self.unreadable.get(),
            lease_lapses: self.lease_lapses.get(),
        }
    }
}

fn read_calls(meter: &DefinitionMeter, calls: &mut BTreeMap<CallLabels, u64>) {
    let columns = [
        (OpKind::Action, false),
        (OpKind::Compensation, false),
        (OpKind::Action, true),
        (OpKind::Compensation, true),
    ];
    for step in &meter.steps {
        for (kind, is_query) in columns {
            for result in CallResult::ALL {
                let n = step.calls[column(kind, is_query)][result as usize].load(Ordering::Relaxed);
                if n > 0 {
                    let labels = CallLabels {
                        definition: meter.name.clone(),
                        step: step.name.clone(),
                        operation: kind,
                        is_query,
                        outcome: result.as_str(),
                    };
                    *calls.entry(labels).or_default() += n;
                }
            }
        }
    }
}
