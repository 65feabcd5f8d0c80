//! A whole run: a time with faults, then one without, in which everything has to end; then everything that is still on its way
//! arrives.

use std::cell::RefCell;
use std::panic;
use std::sync::{Arc, Once};
use std::time::Duration;

use amends_core::{Definition, Phase, Saga, Status, status};
use amends_engine::DefinitionText;
use amends_store::{Journal as _, Mailbox as _};
use tokio::time::sleep;

use crate::callers::{Asked, accidents, ask, caller, close_all, person, try_claims};
use crate::checkers::Violation;
use crate::definitions::ends_by_itself;
use crate::event::Event;
use crate::ledger::Effect;
use crate::nodes::supervise;
use crate::options::Options;
use crate::sim::{Sim, Tally};
use crate::truth::Truth;

/// What came out of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What must not be, and was.
    pub(crate) violations: Vec<Violation>,
    /// Of everything that happened: the same seed gives the same.
    pub(crate) digest: u64,
    /// How many lines the trace had.
    pub(crate) events: u64,
    /// The last lines of the trace, or all.
    pub(crate) lines: Vec<String>,
    /// What was tried, and what was met.
    pub(crate) tally: Tally,
    /// How many calls the plan had counted when faults were over.
    pub(crate) counted: u64,
    /// The sagas, as they were in the end.
    pub(crate) sagas: Vec<Saga>,
    /// Where they rested, before people ended what machines may not drive.
    pub(crate) rested: Vec<Status>,
    /// What participants carried out.
    pub(crate) effects: Vec<Effect>,
    /// How much virtual time went by.
    pub(crate) virtual_ms: u64,
}

/// Runs a world to its end.
///
/// # Panics
/// If no runtime can be made.
pub(crate) fn run(options: Options) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs nothing that could be missing");
    listen_for_panics();
    runtime.block_on(live(options))
}

/// How long a saga may take to end once faults are over, besides the longest that its definition lets it wait: what was parked for a
/// configuration fault comes again within two hours.
const PARKED_MAX: Duration = Duration::from_secs(3 * 3600);

async fn live(options: Options) -> Outcome {
    let sim = Sim::new(options);
    for host in sim.hosts() {
        tokio::spawn(supervise(sim.clone(), host.clone()));
    }
    register(&sim).await;
    for number in 0..sim.options.sagas {
        tokio::spawn(caller(sim.clone(), number));
    }
    tokio::spawn(person(sim.clone()));
    tokio::spawn(accidents(sim.clone()));
    let counted = go_wrong(&sim).await;
    calm_down(&sim).await;
    rest(&sim).await;
    sim.record(&Event::Rested);
    let rested = sim.state().truth.sagas.values().map(|recorded| status::status(&recorded.saga)).collect();
    // Each closing may set those going that waited for its claims.
    for _ in 0..sim.options.sagas {
        close_all(&sim).await;
        rest(&sim).await;
    }
    prune(&sim).await;
    while sim.anything_under_way() {
        sleep(Duration::from_secs(1)).await;
    }
    try_claims(&sim).await;
    over(&sim, rested, counted).await
}

/// Lets things go wrong for as long as they may. Gives how many store calls there were.
async fn go_wrong(sim: &Arc<Sim>) -> u64 {
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < sim.options.chaos {
        if !sim.options.ends_early {
            sleep(sim.options.chaos).await;
            break;
        }
        sleep(Duration::from_millis(20)).await;
        let state = sim.state();
        if state.truth.sagas.len() == sim.options.sagas && state.truth.is_at_rest() {
            break;
        }
    }
    sim.counted()
}

/// Registers the definitions, whatever goes wrong.
async fn register(sim: &Arc<Sim>) {
    for (definition, text) in &sim.options.definitions {
        loop {
            let name = definition.name.clone();
            let is_json = text.starts_with('{');
            let text =
                if is_json { DefinitionText::Json(text.clone()) } else { DefinitionText::Toml(text.clone()) };
            let asked = ask(sim, |engine| async move { engine.register(text, &name).await });
            if let Asked::Answer(Ok(_)) = asked.await {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Ends all faults, and starts every node anew, at a slower pace.
async fn calm_down(sim: &Arc<Sim>) {
    sim.calm_down();
    sim.note(format_args!("faults are over"));
    for host in sim.hosts() {
        host.stop(sim, Duration::from_secs(2)).await;
    }
}

/// Lets time go by until nothing moves any more, or should have ended long ago.
async fn rest(sim: &Arc<Sim>) {
    let begun = tokio::time::Instant::now();
    let longest =
        PARKED_MAX + sim.options.definitions.iter().map(|(d, _)| longest_wait(d)).max().unwrap_or_default();
    let mut step = Duration::from_millis(500);
    // What callers submit late is to be seen, too.
    while (!sim.state().truth.is_at_rest() || sim.anything_under_way() || mail_waits(sim).await)
        && begun.elapsed() < longest
    {
        sleep(step).await;
        step = (step * 2).min(Duration::from_secs(300));
    }
}

/// Whether any saga has mail that nobody has read, such as a report to one that is dead.
async fn mail_waits(sim: &Arc<Sim>) -> bool {
    let ids: Vec<_> = sim.state().truth.sagas.keys().cloned().collect();
    for saga in ids {
        if sim.memory.waiting(&saga, 1).await.is_ok_and(|mails| !mails.is_empty()) {
            return true;
        }
    }
    false
}

/// The longest that any operation of a definition waits before machines give up.
fn longest_wait(definition: &Definition) -> Duration {
    let operations = definition.steps.iter().flat_map(|step| [&step.action, &step.compensation]).flatten();
    let waits =
        operations.map(|operation| operation.on_unknown.verify_for_ms + operation.callback_timeout_ms);
    Duration::from_millis(waits.max().unwrap_or(0))
}

/// Gives retention the time it needs.
async fn prune(sim: &Arc<Sim>) {
    let Some(keep) = sim.options.retention else { return };
    sleep(keep + Duration::from_secs(600)).await;
    let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
    sim.record(&Event::PruningOver { keep_ms });
}

async fn over(sim: &Arc<Sim>, rested: Vec<Status>, counted: u64) -> Outcome {
    for life in sim.hosts().iter().filter_map(|host| host.life()) {
        life.crash("is switched off");
    }
    let ids: Vec<_> = sim.state().truth.sagas.keys().cloned().collect();
    for saga in ids {
        if let Ok(Some(stored)) = sim.memory.load(&saga).await {
            sim.record(&Event::Stored { saga, entries: stored.entries });
        }
    }
    for what in panics() {
        sim.record(&Event::Panicked(what));
    }
    sim.record(&Event::Over);
    let virtual_ms = sim.now().since_ms(crate::clock::BEGINNING);
    let violations = sim.violations();
    let state = &mut *sim.state();
    let trace = std::mem::replace(&mut state.trace, crate::trace::Trace::new(false));
    Outcome {
        violations,
        digest: trace.digest(),
        events: trace.count(),
        lines: trace.into_lines(),
        tally: std::mem::take(&mut state.tally),
        counted,
        sagas: state.truth.sagas.values().map(|recorded| recorded.saga.clone()).collect(),
        rested,
        effects: state.truth.ledger.all().to_vec(),
        virtual_ms,
    }
}

impl Truth {
    /// Whether every saga has ended, or needs a person, or waits for one that does.
    fn is_at_rest(&self) -> bool {
        self.sagas.values().all(|recorded| match status::status(&recorded.saga) {
            Status::Completed | Status::Compensated | Status::Resolved | Status::Dead => true,
            Status::Unknown => only_people_can_tell(&recorded.saga),
            Status::Accepting => recorded.saga.claims.iter().any(|claim| {
                let holder = self.claims.get(claim).and_then(|holder| self.sagas.get(holder));
                holder.is_some_and(|holder| holder.saga.ended.is_none())
            }),
            Status::Running | Status::Compensating => false,
        })
    }
}

/// Whether nothing that is declared will ever tell what became of any of its unknown operations.
fn only_people_can_tell(saga: &Saga) -> bool {
    saga.ops().all(|op| match saga.op(op).phase {
        Phase::Verify { .. } => saga.operation(op).is_some_and(|operation| !ends_by_itself(operation)),
        Phase::Calling | Phase::Send { .. } => false,
        Phase::Idle
        | Phase::Ask { .. }
        | Phase::InProgress { .. }
        | Phase::Parked { .. }
        | Phase::Dead { .. } => true,
    })
}

thread_local! {
    /// Panics on this thread: each run has its thread to itself.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Tasks that panic are dropped in silence; a run must not overlook that.
fn listen_for_panics() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_planted = info.payload().downcast_ref::<&str>() == Some(&"planted");
            PANICS.with(|panics| panics.borrow_mut().push(info.to_string()));
            if !is_planted {
                before(info);
            }
        }));
    });
    drop(panics());
}

fn panics() -> Vec<String> {
    PANICS.with(|panics| std::mem::take(&mut *panics.borrow_mut()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::sealing;
    use crate::options::Manners;
    use crate::participants::{Does, Script};

    /// Rule 6 on a clock that somebody sets: silence must not become proof any earlier than the participant declares.
    #[test]
    fn a_clock_that_is_set_does_not_make_silence_proof() {
        for late in 1..20 {
            let mut script = Script::default();
            let does = Does::GetsItLate(Duration::from_secs(late));
            script.add("first", amends_core::OpKind::Action, false, [does]);
            let options = Options {
                clock_set: Some((Duration::from_millis(500), 3_600_000)),
                chaos: Duration::from_secs(300),
                manners: Manners::Scripted(script),
                ..Options::calm(late, sealing())
            };
            let outcome = run(options);
            let (violations, lines) = (outcome.violations, outcome.lines.join("\n"));
            assert!(violations.is_empty(), "{late} s late: {violations:?}\n{lines}");
        }
    }
}
