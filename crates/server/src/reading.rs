//! Everything that is measured, at one moment. Ids are never labels: what they would be for is what lists are for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use amends_engine::{Gauges, HistogramView, Metrics};
use amends_participants::ParticipantState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::counts::Counts;
use crate::dto::Stamp;
use crate::problem::Kind;

/// The numbers of one moment.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) engine: Metrics,
    pub(crate) gauges: Gauges,
    pub(crate) ready: bool,
    /// What the store counts; `None` if it cannot be read.
    pub(crate) counts: Option<Arc<Counts>>,
    pub(crate) participants: Vec<ParticipantState>,
    /// Refusals by kind.
    pub(crate) refusals: Vec<(Kind, u64)>,
    /// Calls of locks by what they were answered.
    pub(crate) locks: Vec<([&'static str; 2], u64)>,
    pub(crate) now: Stamp,
}

type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

impl Collector for Reading {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut to = Writer(encoder);
        self.counts(&mut to)?;
        self.present(&mut to)?;
        self.engine(&mut to)?;
        self.participants(&mut to)?;
        let locks = self.locks.iter().map(|([call, answer], n)| ([("call", *call), ("answer", *answer)], *n));
        to.counters("amends_lock_answers", "Calls of locks, by what they were answered", locks)?;
        let refusals = self.refusals.iter().map(|(kind, n)| ([("type", short(*kind))], *n));
        to.counters("amends_refusals", "Requests refused, by problem type", refusals)
    }
}

impl Reading {
    fn counts(&self, to: &mut Writer<'_>) -> fmt::Result {
        to.gauges(
            "amends_store_readable",
            "Whether the store could be read",
            [([], u64::from(self.counts.is_some()))],
        )?;
        let Some(counts) = &self.counts else { return Ok(()) };
        let stats = &counts.stats;
        let open = stats.open.iter().map(|(status, definition, n)| {
            ([("status", status.as_str()), ("definition", definition.as_str())], *n)
        });
        to.gauges("amends_sagas", "Sagas that have not ended", open)?;
        let ended = stats.ended.iter().map(|(status, n)| ([("status", status.as_str())], *n));
        to.gauges("amends_ended_sagas", "Sagas that have ended", ended)?;
        let age_s =
            |since: Option<amends_core::Time>| since.map_or(0, |since| self.now.0.since_ms(since) / 1_000);
        to.gauge(
            "amends_oldest_open_age_seconds",
            "Age of the oldest saga that has not ended",
            age_s(stats.oldest_open),
        )?;
        to.gauge("amends_due_backlog", "Sagas that are due and that no node has taken up", stats.due)?;
        to.gauge(
            "amends_oldest_due_age_seconds",
            "How long the one of them has waited that waits longest",
            age_s(stats.oldest_due),
        )?;
        to.gauge(
            "amends_contradictory_sagas",
            "Sagas with evidence that disagrees with what was known",
            stats.contradictions,
        )?;
        // Groups differ in what kind of trouble it was too; that is a word for people, not a label.
        let mut dead: BTreeMap<[&str; 3], u64> = BTreeMap::new();
        for group in &counts.groups {
            let labels = [
                group.saga.as_str(),
                group.step.as_deref().unwrap_or(""),
                group.operation.as_deref().unwrap_or(""),
            ];
            *dead.entry(labels).or_default() += group.count;
        }
        let dead = dead.into_iter().map(|([definition, step, operation], n)| {
            ([("definition", definition), ("step", step), ("operation", operation)], n)
        });
        to.gauges("amends_dead_letters", "Sagas that wait for a person", dead)
    }

    /// What the node has in hand.
    fn present(&self, to: &mut Writer<'_>) -> fmt::Result {
        let gauges = &self.gauges;
        to.gauge("amends_ready", "Whether the node takes submissions", u64::from(self.ready))?;
        to.gauge("amends_sagas_in_memory", "Sagas in memory", gauges.sagas as u64)?;
        to.gauge(
            "amends_sagas_in_memory_max",
            "How many there may be before submissions are refused",
            gauges.sagas_max as u64,
        )?;
        to.gauge("amends_calls_in_flight", "Calls to participants under way", gauges.calls_in_flight)?;
        to.gauge(
            "amends_commit_queue",
            "Items that wait for a commit, or are being committed",
            gauges.commit_queue as u64,
        )?;
        to.gauge(
            "amends_commit_queue_max",
            "How many may wait before submissions are refused",
            gauges.commit_queue_max as u64,
        )?;
        to.gauge("amends_waiters", "Callers that wait for a saga", gauges.waiters as u64)?;
        to.gauge("amends_epoch", "Epoch of the node's lease", gauges.epoch)?;
        for gauge in &gauges.store {
            to.gauge(&format!("amends_store_{}", gauge.name), gauge.help, gauge.value)?;
        }
        Ok(())
    }

    fn engine(&self, to: &mut Writer<'_>) -> fmt::Result {
        let engine = &self.engine;
        for (is_query, name, help) in [
            (false, "amends_attempts", "Calls that performed an operation, by what they led to"),
            (true, "amends_queries", "Queries for an operation's outcome, by what they led to"),
        ] {
            let calls =
                engine.calls.iter().filter(|(labels, _)| labels.is_query == is_query).map(|(labels, n)| {
                    let labels = [
                        ("definition", labels.definition.as_str()),
                        ("step", labels.step.as_str()),
                        ("operation", labels.operation.as_str()),
                        ("outcome", labels.outcome),
                    ];
                    (labels, *n)
                });
            to.counters(name, help, calls)?;
        }
        let started =
            engine.sagas.iter().map(|(definition, n)| ([("definition", definition.as_str())], n.started));
        to.counters("amends_sagas_started", "Sagas submitted to this node", started)?;
        let reached = engine.sagas.iter().flat_map(|(definition, n)| {
            let each = n.came_to.iter();
            each.map(move |(status, n)| ([("definition", definition.as_str()), ("status", *status)], *n))
        });
        to.counters(
            "amends_sagas_reached",
            "Sagas that ended, or became unknown or dead, on this node",
            reached,
        )?;
        let contradictions = engine
            .sagas
            .iter()
            .map(|(definition, n)| ([("definition", definition.as_str())], n.contradictions));
        to.counters("amends_contradictions", "Evidence that disagreed with what was known", contradictions)?;
        let items = engine.items.iter().map(|(result, n)| ([("result", *result)], *n));
        to.counters("amends_store_items", "Items handed to the store, by what became of them", items)?;
        let limits = engine.refusals.iter().map(|(limit, n)| ([("limit", *limit)], *n));
        to.counters("amends_limits_hit", "Requests refused because a limit was hit", limits)?;
        to.histogram("amends_commit_seconds", "How long commits took", &engine.commit_us, 1e-6)?;
        to.histogram("amends_commit_items", "How many items a commit had", &engine.batch_items, 1.0)?;
        for (name, help, n) in [
            ("amends_take_overs", "Sagas taken over", engine.take_overs),
            ("amends_fenced", "Sagas dropped because another node had moved them", engine.fenced),
            ("amends_unreadable", "Sagas parked because their journal cannot be read", engine.unreadable),
            ("amends_lease_lapses", "Leases of this node that lapsed while it ran", engine.lease_lapses),
        ] {
            to.counters(name, help, [([], n)])?;
        }
        Ok(())
    }

    fn participants(&self, to: &mut Writer<'_>) -> fmt::Result {
        let states = ["closed", "open", "probing"];
        let breakers = self.participants.iter().flat_map(|participant| {
            states.map(|state| {
                let is = u64::from(participant.breaker.as_str() == state);
                ([("participant", participant.name.as_str()), ("state", state)], is)
            })
        });
        to.gauges(
            "amends_participant_breaker",
            "1 for the state that a participant's breaker is in",
            breakers,
        )?;
        let each = |read: fn(&ParticipantState) -> usize| {
            self.participants.iter().map(move |participant| {
                ([("participant", participant.name.as_str())], read(participant) as u64)
            })
        };
        to.gauges("amends_participant_calls", "Calls in flight", each(|p| p.in_flight))?;
        to.gauges(
            "amends_participant_calls_max",
            "How many calls may be in flight",
            each(|p| p.max_concurrency),
        )?;
        to.gauges("amends_participant_calls_waiting", "Calls that wait for a place", each(|p| p.waiting))?;
        to.gauges(
            "amends_participant_faults",
            "1 if it cannot be called as configured",
            each(|p| usize::from(p.fault.is_some())),
        )
    }
}

/// The last part of a problem's type.
fn short(kind: Kind) -> &'static str {
    kind.urn().rsplit(':').next().unwrap_or_default()
}

/// Writes one metric after another.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn counters<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a, N>, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            if N == 0 {
                family.encode_counter::<NoLabelSet, u64, u64>(&value, None)?;
            } else {
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, u64>(&value, None)?;
            }
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.gauges(name, help, [([], value)])
    }

    fn gauges<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels<'a, N>, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            if N == 0 {
                family.encode_gauge(&value)?;
            } else {
                family.encode_family(&labels)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }

    /// Bounds and sum are multiplied by `unit`.
    #[allow(clippy::cast_precision_loss, reason = "metrics are floating point by nature")]
    fn histogram(&mut self, name: &str, help: &str, view: &HistogramView, unit: f64) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        let bounds = view.buckets.iter().map(|(bound, n)| (*bound as f64 * unit, *n));
        let buckets: Vec<_> = bounds.chain([(f64::MAX, view.above)]).collect();
        family.encode_histogram::<NoLabelSet>(view.sum as f64 * unit, view.count(), &buckets, None)
    }
}
