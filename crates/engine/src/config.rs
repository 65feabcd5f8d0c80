//! What an engine is told at its start, and every limit it keeps.

use std::time::Duration;

/// Settings of an engine. Every queue, batch and wait that it has is bounded by one of them.
#[derive(Debug, Clone)]
pub struct Config {
    /// The node's name: unique among the nodes of one store, the same after a restart, so that a node that comes back
    /// takes its own sagas over at once.
    pub node: String,
    /// Where the engine's randomness begins. A simulation repeats itself with the same seed; everybody else draws one, so
    /// that the nonces of two nodes differ.
    pub seed: u64,
    /// Names of the participants that can be called, to warn of others when a definition is applied; `None`: no warnings.
    pub participants: Option<Vec<String>>,
    /// How long journal and payload of an ended saga are kept; `None`: for ever.
    pub retention: Option<Duration>,
    /// The limits.
    pub limits: Limits,
    /// The times.
    pub times: Times,
}

/// How much of everything.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Sagas begun here and still in memory, beyond which submissions are refused: a saga in flight costs about ten kilobytes and
    /// a call or a timer.
    pub sagas_max: usize,
    /// Sagas in memory in all. What is above `sagas_max` is for those read from the store, because they are due, taken over or
    /// have mail: neither a flood of submissions nor a backlog of due work can keep the other from its turn.
    pub sagas_and_due_max: usize,
    /// Inputs that wait for one saga in memory; a saga is busy only while it commits.
    pub inbox_max: usize,
    /// Items that wait for a commit, beyond which submissions are refused.
    pub commit_queue_max: usize,
    /// Items in one commit: enough for group commit to reach its best rate, few enough for a short transaction.
    pub commit_batch_max: usize,
    /// Commits under way at once: two keep a store busy while the first one's answers are handed out.
    pub commits_in_flight_max: usize,
    /// Sagas claimed from the due index at once.
    pub due_batch_max: usize,
    /// Submissions of callers' transactions taken up at once.
    pub intake_batch_max: usize,
    /// Sagas taken over at once. Small: three take-overs in a row with nothing between make a saga dead, so those taken over
    /// in the same breath as one that kills its engine must be few.
    pub take_over_batch_max: usize,
    /// Sagas being read from the store at once; claims and take-overs wait for a place.
    pub openings_max: usize,
    /// Mails of one saga read at once.
    pub mail_batch_max: usize,
    /// Callers that wait for a saga's end at once.
    pub waiters_max: usize,
    /// Ended sagas whose journal is removed in one transaction.
    pub prune_batch_max: usize,
    /// Definitions kept in memory.
    pub definitions_max: usize,
}

/// How long, and how often.
#[derive(Debug, Clone)]
pub struct Times {
    /// How long the node's lease lasts without renewal: as long as others wait before they take over.
    pub lease_ttl: Duration,
    /// How long before its end the node stops relying on its lease: what clocks of node and store may drift apart within one
    /// `lease_ttl`, and the time a socket write may take.
    pub lease_margin: Duration,
    /// A saga that does nothing for longer than this is written to the due index and leaves memory.
    pub park_after: Duration,
    /// How often the store is asked for due work and mail that nobody told this node about. Shorter than `park_after`, so that
    /// what parks is seen before it is due.
    pub poll_every: Duration,
    /// How often lapsed nodes are looked for.
    pub take_over_every: Duration,
    /// How often sagas are looked at again that could not be read: by an older node, where this one may.
    pub unreadable_every: Duration,
    /// How often retention looks for ended sagas.
    pub prune_every: Duration,
    /// The first pause after a store call failed.
    pub backoff_first: Duration,
    /// The longest pause between two tries of a store call.
    pub backoff_max: Duration,
    /// How long a caller waits for an answer that needs the store, or another node, to work.
    pub answer_max: Duration,
    /// How old the knowledge of a definition's highest version may be: another node may have registered a newer one.
    pub highest_version_age_max: Duration,
}

impl Config {
    /// The defaults, for a node of this name.
    #[must_use]
    pub fn new(node: impl Into<String>, seed: u64) -> Self {
        Self {
            node: node.into(),
            seed,
            participants: None,
            retention: Some(Duration::from_secs(30 * 24 * 3600)),
            limits: Limits::default(),
            times: Times::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sagas_max: 20_000,
            sagas_and_due_max: 24_000,
            inbox_max: 256,
            commit_queue_max: 16_384,
            commit_batch_max: 512,
            commits_in_flight_max: 2,
            due_batch_max: 256,
            intake_batch_max: 256,
            take_over_batch_max: 32,
            openings_max: 256,
            mail_batch_max: 32,
            waiters_max: 20_000,
            prune_batch_max: 500,
            definitions_max: 4_096,
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease_ttl: Duration::from_secs(15),
            lease_margin: Duration::from_secs(2),
            park_after: Duration::from_secs(2),
            poll_every: Duration::from_millis(500),
            take_over_every: Duration::from_secs(5),
            unreadable_every: Duration::from_secs(60),
            prune_every: Duration::from_secs(60),
            backoff_first: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
            answer_max: Duration::from_secs(10),
            highest_version_age_max: Duration::from_secs(1),
        }
    }
}
