//! The counters of an engine as whoever shows them gets them.

use std::collections::BTreeMap;

use amends_core::OpKind;

use crate::HistogramView;

/// The counters of an engine since its start, to be rendered by whoever shows them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Calls to participants that ended, or were held back.
    pub calls: BTreeMap<CallLabels, u64>,
    /// Sagas, by definition name.
    pub sagas: BTreeMap<String, SagaCounts>,
    /// Items handed to the store, by what became of them: `committed`, `known`, `held`, `conflict`, `failed`.
    pub items: BTreeMap<&'static str, u64>,
    /// Requests refused because a limit was hit, by limit.
    pub refusals: BTreeMap<&'static str, u64>,
    /// How long commits took, in microseconds.
    pub commit_us: HistogramView,
    /// How many items a commit had.
    pub batch_items: HistogramView,
    /// Sagas taken over from other nodes, or from this node's former lives.
    pub take_overs: u64,
    /// Sagas dropped because another node had moved them.
    pub fenced: u64,
    /// Sagas parked because their journal cannot be read.
    pub unreadable: u64,
    /// Leases of this node that lapsed while it ran.
    pub lease_lapses: u64,
}

/// What a counter of calls is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallLabels {
    /// Definition name.
    pub definition: String,
    /// Step name.
    pub step: String,
    /// Action or compensation.
    pub operation: OpKind,
    /// Whether it is the operation's query.
    pub is_query: bool,
    /// What it led to: an outcome's name, or `held`.
    pub outcome: &'static str,
}

/// Counters of the sagas of one definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SagaCounts {
    /// Submitted here.
    pub started: u64,
    /// How often one ended, or became unknown or dead, by status.
    pub came_to: BTreeMap<&'static str, u64>,
    /// Contradictions recorded.
    pub contradictions: u64,
}
