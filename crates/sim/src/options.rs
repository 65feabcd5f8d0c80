//! What a run is made of, drawn from its seed.
//!
//! Each run draws which faults there are at all, and how often: one that has every fault all the time never gets far enough to
//! meet those that need some peace before them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use amends_core::Definition;
use amends_engine::Config;
use serde_json::Value;

use crate::definitions;
use crate::dice::Dice;
use crate::participants::{Habits, Script};
use crate::sabotage::Sabotage;
use crate::store::{Plan, Rates};

/// What a run is made of.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Where all its randomness begins.
    pub(crate) seed: u64,
    /// The definitions whose sagas run, with the text under which they are registered.
    pub(crate) definitions: Vec<(Arc<Definition>, String)>,
    /// How many sagas.
    pub(crate) sagas: usize,
    /// What they are submitted with; drawn where there is none.
    pub(crate) input: Option<Value>,
    /// How many nodes.
    pub(crate) nodes: u8,
    /// The store is embedded: it goes by the clock of its one node.
    pub(crate) embedded: bool,
    /// How far a node's clock may be wrong.
    pub(crate) clock_error_ms: u64,
    /// Somebody sets the clocks of nodes, by an hour.
    pub(crate) clocks_are_set: bool,
    /// When all clocks are set, and by how much they are wrong from then on.
    pub(crate) clock_set: Option<(Duration, i64)>,
    /// How long there are faults.
    pub(crate) chaos: Duration,
    /// They are over as soon as nothing moves any more.
    pub(crate) ends_early: bool,
    /// What goes wrong at the store.
    pub(crate) plan: Plan,
    /// What goes wrong at participants.
    pub(crate) manners: Manners,
    /// How often a node is stopped, crashes between store calls, or stands still, a minute.
    pub(crate) accidents_per_minute: f64,
    /// How long the store is away now and then.
    pub(crate) outages: bool,
    /// What callers do besides submitting, each a probability a saga or look.
    pub(crate) callers: Callers,
    /// How long ended sagas are kept.
    pub(crate) retention: Option<Duration>,
    /// Queues and batches so small that they fill.
    pub(crate) narrow: bool,
    /// A bug that is planted.
    pub(crate) sabotage: Option<Sabotage>,
    /// Keep every line of the trace.
    pub(crate) whole_trace: bool,
}

/// How participants behave.
#[derive(Debug, Clone)]
pub(crate) enum Manners {
    /// As drawn, each call anew.
    Drawn(Habits),
    /// As a test says.
    Scripted(Script),
}

/// How callers and people behave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Callers {
    /// A caller submits again, with the same input or another.
    pub(crate) resubmit: f64,
    /// A caller cancels.
    pub(crate) cancel: f64,
    /// A saga comes in a caller's own transaction.
    pub(crate) transaction: f64,
    /// A person who looks at a saga acts on it.
    pub(crate) act: f64,
    /// A participant reports the outcome of what it has answered too.
    pub(crate) report: f64,
}

impl Options {
    /// Draws a run.
    pub(crate) fn drawn(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let definitions = definitions::drawn(&mut dice);
        let nodes = u8::try_from(1 + dice.below(3)).unwrap_or(1);
        Self {
            seed,
            definitions,
            sagas: 1 + dice.below(8),
            input: None,
            nodes,
            embedded: nodes == 1 && dice.chance(0.5),
            clock_error_ms: *dice.pick(&[0, 0, 50, 700]),
            clocks_are_set: dice.chance(0.2),
            clock_set: None,
            chaos: Duration::from_millis(dice.within(5_000..=90_000)),
            ends_early: false,
            plan: Plan::Drawn(Rates::drawn(&mut dice)),
            manners: Manners::Drawn(Habits::drawn(&mut dice)),
            accidents_per_minute: *dice.pick(&[0.0, 0.5, 2.0, 6.0]),
            outages: dice.chance(0.2),
            callers: Callers {
                resubmit: *dice.pick(&[0.0, 0.3, 0.8]),
                cancel: *dice.pick(&[0.0, 0.1, 0.5]),
                transaction: *dice.pick(&[0.0, 0.0, 0.3]),
                act: *dice.pick(&[0.0, 0.0, 0.1, 0.3]),
                report: *dice.pick(&[0.0, 0.2, 0.8]),
            },
            retention: *dice.pick(&[
                None,
                None,
                Some(Duration::from_secs(30)),
                Some(Duration::from_secs(600)),
            ]),
            narrow: dice.chance(0.2),
            sabotage: None,
            whole_trace: false,
        }
    }

    /// Draws a run in which a planted bug has something to do.
    pub(crate) fn provoking(seed: u64, sabotage: Sabotage) -> Self {
        let mut options = Self { sabotage: Some(sabotage), ..Self::drawn(seed) };
        let callers = &mut options.callers;
        match sabotage {
            Sabotage::StoreTakesAnyInput => callers.resubmit = 0.8,
            Sabotage::StoreDropsMail => callers.report = 0.8,
            Sabotage::StoreAnswersMail => callers.act = 0.8,
            Sabotage::StorePrunesEarly | Sabotage::StoreNeverPrunes => {
                options.retention = Some(Duration::from_secs(600));
            }
            Sabotage::ParticipantForgetsTombstones => {
                callers.cancel = 1.0;
                options.manners = Manners::Drawn(Habits::late());
                options.definitions = definitions::fenced();
                options.sagas = 8;
            }
            Sabotage::ParticipantFakesUndo | Sabotage::CallerUndoesLater => callers.cancel = 0.5,
            Sabotage::StoreDropsCommit
            | Sabotage::StoreForgetsSubmission
            | Sabotage::StoreIgnoresClaims
            | Sabotage::StoreKeepsClaims
            | Sabotage::StoreIgnoresSeq
            | Sabotage::StoreWritesAfterEnd
            | Sabotage::StoreForgetsDue
            | Sabotage::StoreMisreads
            | Sabotage::LeaseLastsForEver
            | Sabotage::CallerSendsTwice
            | Sabotage::CallerSendsAhead
            | Sabotage::CallerPretends
            | Sabotage::CallerGuesses
            | Sabotage::CallerPanics
            | Sabotage::ParticipantForgetsKeys
            | Sabotage::ParticipantStaysDown
            | Sabotage::StricterPolicy => {}
        }
        options
    }

    /// A run without any fault, of these definitions.
    pub(crate) fn calm(seed: u64, definitions: Vec<(Arc<Definition>, String)>) -> Self {
        Self {
            seed,
            definitions,
            sagas: 1,
            input: None,
            nodes: 1,
            embedded: true,
            clock_error_ms: 0,
            clocks_are_set: false,
            clock_set: None,
            chaos: Duration::from_secs(20),
            ends_early: true,
            plan: Plan::None,
            manners: Manners::Drawn(Habits::calm()),
            accidents_per_minute: 0.0,
            outages: false,
            callers: Callers { resubmit: 0.0, cancel: 0.0, transaction: 0.0, act: 0.0, report: 0.0 },
            retention: None,
            narrow: false,
            sabotage: None,
            whole_trace: false,
        }
    }

    /// The definitions by digest, as sagas are held against them.
    pub(crate) fn by_digest(&self) -> BTreeMap<String, Arc<Definition>> {
        self.definitions
            .iter()
            .map(|(definition, _)| (definition.digest.clone(), definition.clone()))
            .collect()
    }

    /// How a node is configured. `calm`: after the faults, when time goes by in large steps.
    pub(crate) fn config(&self, node: &str, seed: u64, calm: bool) -> Config {
        let mut config = Config::new(node, seed);
        config.retention = self.retention;
        let times = &mut config.times;
        if calm {
            times.lease_ttl = Duration::from_secs(300);
            times.lease_margin = Duration::from_secs(10);
            times.poll_every = Duration::from_secs(30);
            times.take_over_every = Duration::from_secs(60);
        } else {
            times.lease_ttl = LEASE_TTL;
            times.lease_margin = Duration::from_millis(500);
            times.poll_every = Duration::from_millis(300);
            times.take_over_every = Duration::from_secs(1);
            times.prune_every = Duration::from_secs(10);
        }
        times.park_after = Duration::from_millis(400);
        times.backoff_first = Duration::from_millis(20);
        times.backoff_max = Duration::from_secs(1);
        times.answer_max = Duration::from_secs(5);
        if self.narrow && !calm {
            let limits = &mut config.limits;
            limits.sagas_max = 3;
            limits.sagas_and_due_max = 4;
            limits.inbox_max = 1;
            limits.commit_queue_max = 3;
            limits.commit_batch_max = 1;
            limits.commits_in_flight_max = 2;
            limits.due_batch_max = 1;
            limits.take_over_batch_max = 1;
            limits.openings_max = 1;
            limits.mail_batch_max = 1;
            limits.waiters_max = 2;
            limits.prune_batch_max = 1;
            limits.definitions_max = 1;
        }
        config
    }
}

/// How long a node's lease lasts while there are faults: short, so that its end is met often.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(3);
