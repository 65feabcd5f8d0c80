//! A definition with its handlers.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use amends_core::Definition;
use amends_core::definition::{Checked, Diagnostic, from_toml, from_tree, is_name};
use amends_participants::LOCAL_PREFIX;
use serde_json::{Map, Value, json};

use crate::Step;
use crate::step::{Handlers, StepSpec};
use crate::tree::{self, time_text};

/// A definition whose input is of type `I`, with the handlers of its steps. Cheap to clone.
///
/// It is an ordinary definition, registered in the store under its name and version, and shown by the console and the API like any other. Once
/// registered, a version is immutable: change a step, raise the version, and keep the former one registered for as long as sagas of it are
/// open.
pub struct Saga<I>(Arc<Parts>, PhantomData<fn(I)>);

/// A saga without its type.
pub(crate) struct Parts {
    pub(crate) definition: Arc<Definition>,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) handlers: HashMap<String, Served>,
}

/// A step as it is served in this process.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) handlers: Handlers,
    pub(crate) max_concurrency: usize,
}

/// A definition that cannot be used: everything that is wrong with it, each with what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid(pub Vec<Diagnostic>);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the definition cannot be used:")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for Invalid {}

impl<I> Saga<I> {
    /// Begins a definition: its name, `[a-z][a-z0-9_-]{0,63}`, and its version, from 1.
    pub fn builder(name: impl Into<String>, version: u64) -> SagaBuilder<I> {
        SagaBuilder {
            name: name.into(),
            version,
            claims: Vec::new(),
            deadline: None,
            participants: Map::new(),
            steps: Vec::new(),
            input: PhantomData,
        }
    }

    /// A definition in TOML, all of whose participants are called over HTTP or are Redis servers.
    ///
    /// # Errors
    /// All its problems.
    pub fn from_toml(text: &str) -> Result<Self, Invalid> {
        let checked = from_toml(text).map_err(Invalid)?;
        Ok(Self::of(checked, HashMap::new()))
    }

    fn of(checked: Checked, handlers: HashMap<String, Served>) -> Self {
        let Checked { definition, warnings } = checked;
        Self(Arc::new(Parts { definition, warnings, handlers }), PhantomData)
    }

    /// The definition that was made of it.
    #[must_use]
    pub fn definition(&self) -> &Arc<Definition> {
        &self.0.definition
    }

    /// What may need a person, or does not do what it seems to.
    #[must_use]
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.0.warnings
    }

    /// Plays every story that the definition allows, with handlers that keep no more than it declares: what can be done twice, lost or left over,
    /// and where only a person can tell what happened. It takes a moment: to be called in a test.
    #[cfg(feature = "check")]
    #[must_use]
    pub fn check(&self, options: &crate::check::Options) -> crate::check::Report {
        crate::check::check(&self.0.definition, options)
    }

    pub(crate) fn parts(&self) -> &Arc<Parts> {
        &self.0
    }
}

impl<I> Clone for Saga<I> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<I> fmt::Debug for Saga<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let definition = &self.0.definition;
        f.debug_struct("Saga").field("name", &definition.name).field("version", &definition.version).finish()
    }
}

/// A definition that is being put together.
#[must_use = "a definition does nothing until it is built"]
pub struct SagaBuilder<I> {
    name: String,
    version: u64,
    claims: Vec<String>,
    deadline: Option<Duration>,
    participants: Map<String, Value>,
    steps: Vec<Part>,
    input: PhantomData<fn(I)>,
}

enum Part {
    /// Carried out in this process.
    Local(Box<StepSpec>),
    /// As a definition writes it.
    Tree(Value),
}

impl Part {
    fn name_and_after(&self) -> (String, Option<Vec<String>>) {
        match self {
            Self::Local(spec) => (spec.name.clone(), spec.after.clone()),
            Self::Tree(tree) => {
                let texts =
                    |list: &Vec<Value>| list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                let name = tree["name"].as_str().unwrap_or_default().to_owned();
                (name, tree["after"].as_array().map(texts))
            }
        }
    }

    /// Whether it has a fact once it is done: a decision point has none.
    fn has_fact(&self) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Tree(tree) => !tree["action"].is_null(),
        }
    }
}

impl<I> SagaBuilder<I> {
    /// Claims a resource, such as `order:${id}` or `account:${input.account}`: no other saga that claims it is taken before this one has ended.
    pub fn claim(mut self, claim: impl Into<String>) -> Self {
        self.claims.push(claim.into());
        self
    }

    /// How long it may take before it is undone, if it has not passed its pivot.
    pub fn deadline(mut self, time: Duration) -> Self {
        self.deadline = Some(time);
        self
    }

    /// Adds a step that is carried out in this process.
    pub fn step<F>(mut self, step: Step<I, F>) -> Self {
        self.steps.push(Part::Local(Box::new(step.spec)));
        self
    }

    /// Adds a step as a definition writes it, for a participant over HTTP or in Redis: see [`SagaBuilder::participant`].
    ///
    /// ```
    /// # use amends::Saga;
    /// # use serde_json::json;
    /// let saga = Saga::<()>::builder("notice", 1)
    ///     .participant("mail", json!({ "idempotency": "replay" }))
    ///     .step_tree(json!({
    ///         "name": "tell",
    ///         "effect": "none",
    ///         "action": { "to": "mail", "post": "/messages", "body": { "order": "${id}" } },
    ///     }))
    ///     .build()?;
    /// # Ok::<(), amends::Invalid>(())
    /// ```
    pub fn step_tree(mut self, step: Value) -> Self {
        self.steps.push(Part::Tree(step));
        self
    }

    /// Says what a participant of [`SagaBuilder::step_tree`] guarantees, as a definition does. Where it is, is said by
    /// [`Builder::participant`](crate::Builder::participant).
    pub fn participant(mut self, name: impl Into<String>, guarantees: Value) -> Self {
        self.participants.insert(name.into(), guarantees);
        self
    }

    /// Puts it together.
    ///
    /// # Errors
    /// All its problems.
    pub fn build(self) -> Result<Saga<I>, Invalid> {
        let mut problems = Vec::new();
        let named: Vec<_> = self.steps.iter().map(Part::name_and_after).collect();
        let before = tree::before(&named);
        let mut participants = self.participants;
        if let Some(name) = participants.keys().find(|name| name.starts_with(LOCAL_PREFIX)) {
            problems.push(problem(
                format!("participants.{name}"),
                format!("names that begin with `{LOCAL_PREFIX}` are for steps in process"),
                "name it otherwise",
            ));
        }
        let mut handlers = HashMap::new();
        let mut steps = Vec::with_capacity(self.steps.len());
        for (at, part) in self.steps.iter().enumerate() {
            let spec = match part {
                Part::Tree(tree) => {
                    steps.push(tree.clone());
                    continue;
                }
                Part::Local(spec) => spec,
            };
            let participant = tree::participant_name(&spec.name);
            if !is_name(&participant) {
                problems.push(problem(
                    format!("step[{at}].name"),
                    format!("`{}` is no name of a step in process", spec.name),
                    "write [a-z][a-z0-9_-]*, of up to 58 characters",
                ));
            }
            let facts: Vec<String> = match &spec.facts {
                Some(facts) => facts.clone(),
                None => before[at]
                    .iter()
                    .filter(|step| self.steps[**step].has_fact())
                    .map(|step| named[*step].0.clone())
                    .collect(),
            };
            let path = tree::path(&self.name, self.version, &spec.name);
            steps.push(tree::step(spec, &path, &facts));
            participants.insert(participant, tree::participant(spec));
            let served =
                Served { handlers: spec.handlers.clone(), max_concurrency: spec.max_concurrency.max(1) };
            handlers.insert(path, served);
        }
        let mut tree = json!({ "saga": self.name, "version": self.version, "participants": participants, "step": steps });
        if !self.claims.is_empty() {
            tree["claims"] = json!(self.claims);
        }
        if let Some(deadline) = self.deadline {
            tree["deadline"] = time_text(deadline).into();
        }
        match from_tree(&tree) {
            Ok(checked) if problems.is_empty() => Ok(Saga::of(checked, handlers)),
            Ok(_) => Err(Invalid(problems)),
            Err(more) => {
                problems.extend(more);
                Err(Invalid(problems))
            }
        }
    }
}

fn problem(path: String, reason: String, remedy: &str) -> Diagnostic {
    Diagnostic { line: 0, path, reason, remedy: remedy.to_owned() }
}

impl<I> fmt::Debug for SagaBuilder<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SagaBuilder")
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
