//! One world: what all of its parts share.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use amends_core::{Definition, SagaId, Time};
use amends_store::Memory;
use tokio::time::Instant;

use crate::checkers::{Checker, Violation, checkers};
use crate::clock::true_time;
use crate::dice::Dice;
use crate::event::{Event, LifeId};
use crate::fingerprint::fingerprint;
use crate::nodes::Host;
use crate::options::Options;
use crate::participants::Books;
use crate::store::{Call, Fault, Plan};
use crate::trace::Trace;
use crate::truth::Truth;

/// After so many violations nothing new is learned.
const VIOLATIONS_MAX: usize = 20;

/// One simulated world.
pub(crate) struct Sim {
    pub(crate) options: Options,
    /// The store below all nodes.
    pub(crate) memory: Memory,
    began: Instant,
    hosts: OnceLock<Vec<Arc<Host>>>,
    /// Faults are over.
    calm: AtomicBool,
    /// Messages, and other things, on their way.
    under_way: AtomicUsize,
    state: Mutex<State>,
}

/// What changes.
pub(crate) struct State {
    pub(crate) trace: Trace,
    pub(crate) truth: Truth,
    pub(crate) books: Books,
    /// Randomness by what it is for.
    pub(crate) dice: Streams,
    pub(crate) tally: Tally,
    /// Which definition a saga is of, from before it is submitted.
    pub(crate) pinned: BTreeMap<SagaId, Arc<Definition>>,
    checkers: Vec<Box<dyn Checker>>,
    violations: Vec<Violation>,
    /// Until when the store is away.
    away_until: Time,
    /// Calls of the store's ports so far, as the plan counts them.
    counted: u64,
    /// How often a planted bug had its chance.
    pub(crate) chances: u64,
}

/// Streams of randomness.
pub(crate) struct Streams {
    pub(crate) store: Dice,
    pub(crate) wire: Dice,
    pub(crate) participants: Dice,
    pub(crate) nodes: Dice,
    pub(crate) callers: Dice,
}

/// What was tried, and what was met.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) store_calls: u64,
    pub(crate) commits: u64,
    pub(crate) crashes: u64,
    pub(crate) stops: u64,
    pub(crate) faults: BTreeMap<(&'static str, &'static str), u64>,
    pub(crate) manners: BTreeMap<&'static str, u64>,
    pub(crate) states: BTreeSet<u64>,
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("seed", &self.options.seed).finish_non_exhaustive()
    }
}

impl Sim {
    /// Makes a world without nodes. To be called within a runtime whose clock is paused.
    pub(crate) fn new(options: Options) -> Arc<Self> {
        // The options were drawn from the seed itself: what follows must not repeat those numbers.
        let mut dice = Dice::new(options.seed ^ 0x5eed_5eed_5eed_5eed);
        let truth = Truth { definitions: options.by_digest(), ..Truth::default() };
        let state = State {
            trace: Trace::new(options.whole_trace),
            truth,
            books: Books::default(),
            dice: Streams {
                store: dice.fork(),
                wire: dice.fork(),
                participants: dice.fork(),
                nodes: dice.fork(),
                callers: dice.fork(),
            },
            tally: Tally::default(),
            pinned: BTreeMap::new(),
            checkers: checkers(options.sabotage),
            violations: Vec::new(),
            away_until: Time(0),
            counted: 0,
            chances: 0,
        };
        let nodes = options.nodes;
        let sim = Arc::new(Self {
            options,
            memory: Memory::new(),
            began: Instant::now(),
            hosts: OnceLock::new(),
            calm: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            state: Mutex::new(state),
        });
        let hosts = (0..nodes).map(|node| Arc::new(Host::new(node))).collect();
        sim.hosts.set(hosts).expect("invariant: set once, here");
        sim
    }

    pub(crate) fn hosts(&self) -> &[Arc<Host>] {
        self.hosts.get().expect("invariant: set when the world was made")
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// The time on the store's clock.
    pub(crate) fn now(&self) -> Time {
        true_time(self.began)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// Faults are over from here.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::SeqCst);
        self.state().away_until = Time(0);
    }

    /// The store is away for a while.
    pub(crate) fn go_away(&self, time: Duration) {
        let until = self.now().plus_ms(u64::try_from(time.as_millis()).unwrap_or(0));
        self.state().away_until = until;
        self.note(format_args!("the store is away for {time:?}"));
    }

    pub(crate) fn is_away(&self) -> bool {
        self.now() < self.state().away_until
    }

    /// Tells everybody who looks what happened.
    pub(crate) fn record(&self, event: &Event) {
        let now = self.now();
        let state = &mut *self.state();
        state.truth.now = now;
        state.trace.note(now, format_args!("{event}"));
        let mut found = Vec::new();
        for checker in &mut state.checkers {
            checker.before(event, &state.truth, &mut found);
        }
        state.truth.learn(event);
        for checker in &mut state.checkers {
            checker.after(event, &state.truth, &mut found);
        }
        if let Event::Began { submission, .. } = event {
            state.tally.see(&state.truth, &submission.row.id);
        }
        if let Event::Advanced { advance, .. } = event {
            state.tally.see(&state.truth, &advance.id);
        }
        for violation in found {
            if state.violations.len() < VIOLATIONS_MAX {
                state.trace.note(now, format_args!("VIOLATION {violation}"));
                state.violations.push(violation);
            }
        }
    }

    /// Notes what is no event to checkers.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let now = self.now();
        self.state().trace.note(now, what);
    }

    /// What happens to a store call.
    pub(crate) fn fault(&self, life: LifeId, call: Call) -> Option<Fault> {
        let now = self.now();
        let calm = self.is_calm();
        let state = &mut *self.state();
        state.tally.store_calls += 1;
        let fault = match &self.options.plan {
            Plan::Nth { n, commits_only, fault } => {
                if !commits_only || call.name == "commit" {
                    state.counted += 1;
                    (state.counted == *n).then_some(*fault)
                } else {
                    None
                }
            }
            Plan::None | Plan::Drawn(_) if calm => None,
            Plan::None => None,
            Plan::Drawn(_) if now < state.away_until => {
                Some(Fault::FailsBefore(amends_store::Kind::Unavailable))
            }
            Plan::Drawn(rates) => rates.draw(&mut state.dice.store, call),
        };
        match fault {
            Some(fault) => {
                *state.tally.faults.entry((call.name, fault.name())).or_default() += 1;
                state.trace.note(now, format_args!("{life} {} {}", call.name, fault.name()));
            }
            // What nodes ask all the time would hide everything else.
            None if call.is_routine && !self.options.whole_trace => {}
            None => state.trace.note(now, format_args!("{life} {}", call.name)),
        }
        fault
    }

    /// How many calls the plan has counted.
    pub(crate) fn counted(&self) -> u64 {
        self.state().counted
    }

    /// Something is on its way until what this gives is dropped.
    pub(crate) fn under_way(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(self.clone())
    }

    pub(crate) fn anything_under_way(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) > 0
    }

    /// The definition of a saga, also of one that is only about to be submitted.
    pub(crate) fn pinned(&self, saga: &SagaId) -> Option<Arc<Definition>> {
        self.state().pinned.get(saga).cloned()
    }

    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.state().violations.clone()
    }
}

impl Tally {
    /// Counts the state that a saga is in.
    fn see(&mut self, truth: &Truth, saga: &SagaId) {
        if let Some(recorded) = truth.sagas.get(saga) {
            self.states.insert(fingerprint(&recorded.saga));
        }
    }
}

/// Something on its way.
pub(crate) struct UnderWay(Arc<Sim>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}
