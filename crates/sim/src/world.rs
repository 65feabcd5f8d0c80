//! A small world for one definition: its sagas on virtual time, with a crash at every write.

use std::fmt;
use std::sync::Arc;

use amends_core::definition::{Diagnostic, from_json, from_toml};
use amends_core::{Definition, OpKind, Status, json, status};
use serde_json::Value;

use crate::checkers::Violation;
use crate::definitions::input as any_input;
use crate::dice::Dice;
use crate::options::{Manners, Options};
use crate::participants::{Does, Script};
use crate::run::{Outcome, run};
use crate::store::{Fault, Plan};

/// A world in which one saga of a definition runs: the real engine, a store in memory, and participants that keep what the
/// definition declares of them. Time is virtual: hours of waiting cost nothing, and nothing depends on the machine.
///
/// ```
/// use amends_sim::{Does, World};
/// use amends_core::Status;
///
/// let definition = r#"
/// saga = "order"
/// version = 1
///
/// [participants.inventory]
/// idempotency = "replay"
/// [participants.payment]
/// idempotency = "effect"
///
/// [[step]]
/// name = "reserve"
/// [step.action]
/// to = "inventory"
/// post = "/reservations"
/// [step.compensation]
/// post = "/reservations/release"
///
/// [[step]]
/// name = "charge"
/// pivot = true
/// [step.action]
/// to = "payment"
/// post = "/charges"
/// query = { get = "/charges/${key}" }
/// "#;
///
/// // Payment charges, and its answer is lost. Whichever write the engine crashes after, the order completes, charged once.
/// let ends = World::new(definition)?.action("charge", [Does::LosesAnswer]).crash_after_every_write()?;
/// assert!(ends.len() > 3);
/// for end in &ends {
///     assert_eq!(end.status(), Status::Completed, "{end}");
///     assert_eq!(end.done("charge"), 1);
/// }
///
/// // Payment refuses: nothing is left.
/// for end in World::new(definition)?.refuses("charge").crash_after_every_write()? {
///     assert_eq!(end.status(), Status::Compensated, "{end}");
///     assert_eq!((end.done("reserve"), end.undone("reserve")), (1, 1));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct World {
    definition: Arc<Definition>,
    text: String,
    script: Script,
    input: Option<Value>,
    nodes: u8,
    seed: u64,
}

/// How a saga ended, in one run of its world.
#[derive(Debug, Clone)]
pub struct End {
    definition: Arc<Definition>,
    status: Status,
    reason: Option<String>,
    effects: Vec<(usize, OpKind)>,
    /// The fault that was to be met was met.
    is_hit: bool,
    what: String,
    lines: Vec<String>,
}

/// Why a world cannot be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NoWorld(pub Vec<Diagnostic>);

/// A run in which something happened that must never happen: a fault of the engine, not of the definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which run it was.
    pub run: String,
    /// What happened.
    pub violations: Vec<Violation>,
    /// How it came to it: the last lines of the run.
    pub lines: Vec<String>,
}

impl World {
    /// A world for a definition, in TOML or JSON.
    ///
    /// # Errors
    /// [`NoWorld`] with everything that is wrong with the text.
    pub fn new(definition: &str) -> Result<Self, NoWorld> {
        let is_json = definition.trim_start().starts_with('{');
        let checked = if is_json { from_json(definition) } else { from_toml(definition) };
        let definition = checked.map_err(NoWorld)?.definition;
        Ok(Self {
            text: json::canonical(&definition.tree),
            definition,
            script: Script::default(),
            input: None,
            nodes: 1,
            seed: 1,
        })
    }

    /// What happens to the calls of a step's action, one after the other; then all works.
    #[must_use]
    pub fn action(mut self, step: &str, does: impl IntoIterator<Item = Does>) -> Self {
        self.script.add(step, OpKind::Action, false, does);
        self
    }

    /// A step's action is refused, however often it is called.
    #[must_use]
    pub fn refuses(mut self, step: &str) -> Self {
        self.script.always(step, OpKind::Action, Does::Refuses);
        self
    }

    /// What happens to the calls of a step's compensation, one after the other; then all works.
    #[must_use]
    pub fn compensation(mut self, step: &str, does: impl IntoIterator<Item = Does>) -> Self {
        self.script.add(step, OpKind::Compensation, false, does);
        self
    }

    /// What happens to the queries of a step's action, one after the other; then all works.
    #[must_use]
    pub fn query(mut self, step: &str, does: impl IntoIterator<Item = Does>) -> Self {
        self.script.add(step, OpKind::Action, true, does);
        self
    }

    /// What the saga is submitted with. Default: something in every place that the definition reads.
    #[must_use]
    pub fn input(mut self, input: Value) -> Self {
        self.input = Some(input);
        self
    }

    /// How many nodes share the store; default 1. What one leaves behind in a crash another takes over.
    #[must_use]
    pub fn nodes(mut self, nodes: u8) -> Self {
        self.nodes = nodes.max(1);
        self
    }

    /// Where randomness begins: back-offs, and how long calls and writes take. Default 1.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs the saga without a crash.
    ///
    /// # Errors
    /// [`Broken`]: see there.
    pub fn run(&self) -> Result<End, Box<Broken>> {
        Ok(self.run_with(Plan::None, "no crash")?.0)
    }

    /// Runs the saga once without a crash, and once for each of its writes with a crash right after that write: every task of the
    /// node is dropped, whoever waited hears nothing, and a new engine goes on from what is durable.
    ///
    /// # Errors
    /// [`Broken`]: see there.
    pub fn crash_after_every_write(&self) -> Result<Vec<End>, Box<Broken>> {
        self.at_every_write(Fault::CrashesAfter, "crash after")
    }

    /// As [`World::crash_after_every_write`], with the crash right before each write.
    ///
    /// # Errors
    /// [`Broken`]: see there.
    pub fn crash_before_every_write(&self) -> Result<Vec<End>, Box<Broken>> {
        self.at_every_write(Fault::CrashesBefore, "crash before")
    }

    /// Runs the saga once for each of its writes, whose answer is lost: it is durable, and the engine is not told.
    ///
    /// # Errors
    /// [`Broken`]: see there.
    pub fn lose_every_answer(&self) -> Result<Vec<End>, Box<Broken>> {
        self.at_every_write(Fault::LosesAnswer, "lost the answer to")
    }

    /// Runs the saga once for each call of the store's ports, reads and looks for work included, and each kind of fault: the call
    /// fails, its answer is lost, it lands late, the node crashes before, during or after it, or stands still past its lease while
    /// others take over.
    ///
    /// # Errors
    /// [`Broken`]: see there.
    pub fn every_fault_at_every_call(&self) -> Result<Vec<End>, Box<Broken>> {
        let never = Plan::Nth { n: u64::MAX, commits_only: false, fault: Fault::CrashesAfter };
        let (first, calls) = self.run_with(never, "no fault")?;
        let mut ends = vec![first];
        for n in 1..=calls {
            for fault in Fault::EACH {
                let plan = Plan::Nth { n, commits_only: false, fault };
                ends.push(self.run_with(plan, &format!("{} at call {n}", fault.name()))?.0);
            }
        }
        Ok(ends)
    }

    fn at_every_write(&self, fault: Fault, words: &str) -> Result<Vec<End>, Box<Broken>> {
        let mut ends = vec![self.run()?];
        for n in 1.. {
            let plan = Plan::Nth { n, commits_only: true, fault };
            let (end, _) = self.run_with(plan, &format!("{words} write {n}"))?;
            if !end.is_hit {
                break;
            }
            ends.push(end);
        }
        Ok(ends)
    }

    /// One run, and how many calls of the store there were.
    fn run_with(&self, plan: Plan, what: &str) -> Result<(End, u64), Box<Broken>> {
        let input =
            self.input.clone().unwrap_or_else(|| any_input(&self.definition, &mut Dice::new(self.seed)));
        let options = Options {
            nodes: self.nodes,
            embedded: self.nodes == 1,
            plan,
            manners: Manners::Scripted(self.script.clone()),
            input: Some(input),
            ..Options::calm(self.seed, vec![(self.definition.clone(), self.text.clone())])
        };
        let mut outcome = run(options);
        if !outcome.violations.is_empty() {
            let Outcome { violations, lines, .. } = outcome;
            return Err(Box::new(Broken { run: what.to_owned(), violations, lines }));
        }
        let saga = outcome.sagas.pop().ok_or_else(|| {
            let what_else =
                "the saga could not be submitted: its input lacks what the definition reads".to_owned();
            let violations = vec![Violation { invariant: "input", what: what_else }];
            Box::new(Broken { run: what.to_owned(), violations, lines: std::mem::take(&mut outcome.lines) })
        })?;
        let end = End {
            definition: self.definition.clone(),
            status: outcome.rested.first().copied().unwrap_or_else(|| status::status(&saga)),
            reason: status::reason(&saga),
            effects: outcome.effects.iter().map(|effect| (effect.step, effect.kind)).collect(),
            is_hit: outcome.tally.faults.values().sum::<u64>() > 0,
            what: what.to_owned(),
            lines: outcome.lines,
        };
        Ok((end, outcome.counted))
    }
}

impl End {
    /// How it ended, or where it rests when nothing moves any more: [`Status::Dead`] and [`Status::Unknown`] are a person's.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Why, in plain words, if there is something to say.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// How often a step's action was carried out.
    #[must_use]
    pub fn done(&self, step: &str) -> usize {
        self.count(step, OpKind::Action)
    }

    /// How often a step's action was undone.
    #[must_use]
    pub fn undone(&self, step: &str) -> usize {
        self.count(step, OpKind::Compensation)
    }

    /// Everything that participants carried out, in order: `charge action`, `charge compensation`.
    #[must_use]
    pub fn effects(&self) -> Vec<String> {
        let name = |(step, kind): &(usize, OpKind)| {
            format!("{} {}", self.definition.steps[*step].name, kind.as_str())
        };
        self.effects.iter().map(name).collect()
    }

    /// What happened, a line each: the last few hundred.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    fn count(&self, step: &str, kind: OpKind) -> usize {
        let Some(step) = self.definition.step(step) else { return 0 };
        self.effects.iter().filter(|effect| **effect == (step, kind)).count()
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, {}", self.what, self.status.as_str(), self.effects().join(", "))
    }
}

impl fmt::Display for NoWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "the definition has problems: {}", problems.join("; "))
    }
}

impl std::error::Error for NoWorld {}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let violations: Vec<String> = self.violations.iter().map(ToString::to_string).collect();
        write!(f, "{}: {}\n{}", self.run, violations.join("; "), self.lines.join("\n"))
    }
}

impl std::error::Error for Broken {}
