//! Settings of an embedded engine, and its start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use amends_core::json;
use amends_engine::{Clock as _, Config, DefinitionText, Engine, Refused, SystemClock};
use amends_participants::{
    CallbackUrl, Clock, LOCAL_PREFIX, ParticipantConfig, Participants, Problem, Settings,
};
use amends_store::Store;

use crate::dispatch::Dispatch;
use crate::saga::Parts;
use crate::store::{self, Opened};
use crate::{Amends, Saga};

/// How long calls in flight may take to end when a start fails after the engine began.
const START_FAILED_GRACE: Duration = Duration::from_secs(1);

type Tune = Box<dyn FnOnce(&mut Config) + Send>;

/// An engine that is being set up: its store, the sagas whose handlers are here, and the participants that are elsewhere.
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    url: String,
    sagas: Vec<Arc<Parts>>,
    participants: BTreeMap<String, ParticipantConfig>,
    public_url: Option<String>,
    node: Option<String>,
    data: Option<PathBuf>,
    who: String,
    tune: Vec<Tune>,
}

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store cannot be opened or used.
    #[error("the store cannot be used: {0}")]
    Store(#[from] amends_store::Error),
    /// The participants are not configured as they have to be.
    #[error("the participants cannot be used:{}", .0.iter().map(|problem| format!("\n  {problem}")).collect::<String>())]
    Participants(Vec<Problem>),
    /// `public_url` is no URL that a participant could call.
    #[error("the public URL {0}")]
    PublicUrl(String),
    /// Two sagas of the same name and version, with different content, were given.
    #[error("two different definitions are both `{name}` version {version}: raise the version of one")]
    Twice {
        /// Their name.
        name: String,
        /// Their version.
        version: u64,
    },
    /// This version is registered with other content: sagas that are under way rely on it.
    #[error(
        "`{name}` version {version} is registered with other content (digest {registered}, here {here}): raise the version, and keep the former one registered while sagas of it are open"
    )]
    Changed {
        /// Its name.
        name: String,
        /// Its version.
        version: u64,
        /// The digest of what is registered.
        registered: String,
        /// The digest of what was given.
        here: String,
    },
    /// The engine refuses a definition.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The store gives no lease.
    #[error(transparent)]
    Engine(#[from] amends_engine::StartError),
}

impl Builder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url,
            sagas: Vec::new(),
            participants: BTreeMap::new(),
            public_url: None,
            node: None,
            data: None,
            who: "in-process".to_owned(),
            tune: Vec::new(),
        }
    }

    /// Registers a definition and serves its handlers. Every version of which sagas may be open has to be there: they would wait otherwise, and
    /// show why.
    pub fn saga<I>(mut self, saga: &Saga<I>) -> Self {
        self.sagas.push(saga.parts().clone());
        self
    }

    /// Says where a participant of this name is: over HTTP, or with the feature `redis` at `redis://`.
    pub fn participant(mut self, name: impl Into<String>, config: ParticipantConfig) -> Self {
        self.participants.insert(name.into(), config);
        self
    }

    /// The URL under which participants reach this service to call back; without it they are told none. Pass what they send to
    /// [`Engine::callback`].
    pub fn public_url(mut self, url: impl Into<String>) -> Self {
        self.public_url = Some(url.into());
        self
    }

    /// This engine's name among those that share the store: its own while it lives, the same after a restart, so that it goes on with its own
    /// sagas at once. Default: a random one for a shared store, so that after a crash its sagas wait until its lease has lapsed (15 s).
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// The folder in which this node keeps what it saw of a store in Redis, to notice a loss.
    pub fn data_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data = Some(folder.into());
        self
    }

    /// What journals and audits name as the one who submits and cancels; default `in-process`.
    pub fn who(mut self, name: impl Into<String>) -> Self {
        self.who = name.into();
        self
    }

    /// Changes limits, times and retention of the engine.
    pub fn tune(mut self, change: impl FnOnce(&mut Config) + Send + 'static) -> Self {
        self.tune.push(Box::new(change));
        self
    }

    /// Opens the store, takes up what a former life left behind, and runs. To be called within a tokio runtime; everything runs there.
    ///
    /// # Errors
    /// [`StartError`]. What is refused before the engine runs changes nothing; a definition that is registered stays registered.
    pub async fn start(self) -> Result<Amends, StartError> {
        let served = self.served()?;
        let participants = self.elsewhere()?;
        let Opened { store, locks, is_shared } = store::open(&self.url, self.data).await?;
        for saga in &self.sagas {
            // Before anything runs: with the wrong handlers it must not.
            check_unchanged(store.as_ref(), saga).await?;
        }
        let node = self.node.unwrap_or_else(|| match is_shared {
            true => format!("embedded-{}", uuid::Uuid::new_v4().simple()),
            false => "embedded".to_owned(),
        });
        let mut config = Config::new(node, uuid::Uuid::new_v4().as_u64_pair().0);
        let local = self.sagas.iter().flat_map(|saga| saga.definition.participants.keys());
        let local = local.filter(|name| name.starts_with(LOCAL_PREFIX));
        let named: BTreeSet<String> = self.participants.keys().chain(local).cloned().collect();
        config.participants = Some(named.into_iter().collect());
        for change in self.tune {
            change(&mut config);
        }
        let clock: Clock = Arc::new(|| SystemClock.now());
        let dispatch = Arc::new(Dispatch::new(served, participants, &clock));
        let engine = Engine::start(config, store, dispatch, Arc::new(SystemClock)).await?;
        for saga in &self.sagas {
            if let Err(refused) = register(&engine, saga).await {
                engine.stop(START_FAILED_GRACE).await;
                return Err(refused);
            }
        }
        Ok(Amends::new(engine, locks, self.who))
    }

    /// The handlers of all sagas, by path.
    fn served(&self) -> Result<HashMap<String, crate::saga::Served>, StartError> {
        let mut digests = HashMap::new();
        let mut served = HashMap::new();
        for saga in &self.sagas {
            let definition = &saga.definition;
            let former = digests.insert((definition.name.as_str(), definition.version), &definition.digest);
            if former.is_some_and(|former| *former != definition.digest) {
                return Err(StartError::Twice { name: definition.name.clone(), version: definition.version });
            }
            served.extend(saga.handlers.iter().map(|(path, step)| (path.clone(), step.clone())));
        }
        Ok(served)
    }

    /// The participants that are not in this process.
    fn elsewhere(&self) -> Result<Participants, StartError> {
        let mine = self.participants.keys().filter(|name| name.starts_with(LOCAL_PREFIX));
        let problems: Vec<Problem> = mine
            .map(|name| Problem {
                participant: name.clone(),
                field: "name".into(),
                reason: format!(
                    "begins with `{LOCAL_PREFIX}`, as only steps in process do; name it otherwise"
                ),
            })
            .collect();
        if !problems.is_empty() {
            return Err(StartError::Participants(problems));
        }
        let callback =
            self.public_url.as_deref().map(CallbackUrl::new).transpose().map_err(StartError::PublicUrl)?;
        let settings = Settings::system(callback);
        #[cfg(feature = "redis")]
        let made = Participants::with_driver(self.participants.clone(), settings, &amends_redis::RedisDriver);
        #[cfg(not(feature = "redis"))]
        let made = Participants::new(self.participants.clone(), settings);
        made.map_err(StartError::Participants)
    }
}

async fn check_unchanged(store: &dyn Store, saga: &Parts) -> Result<(), StartError> {
    let definition = &saga.definition;
    let stored = store.by_name(&definition.name, Some(definition.version)).await?;
    match stored {
        Some(stored) if stored.digest != definition.digest => Err(StartError::Changed {
            name: definition.name.clone(),
            version: definition.version,
            registered: stored.digest,
            here: definition.digest.clone(),
        }),
        Some(_) | None => Ok(()),
    }
}

async fn register(engine: &Engine, saga: &Parts) -> Result<(), StartError> {
    let definition = &saga.definition;
    let text = DefinitionText::Json(json::canonical(&definition.tree));
    match engine.register(text, &definition.name).await {
        Ok(registered) => {
            for warning in &registered.warnings {
                tracing::warn!(saga = definition.name, version = definition.version, "{warning}");
            }
            Ok(())
        }
        // Somebody registered it since it was looked at.
        Err(Refused::DefinitionConflict { name, version, digest }) => {
            Err(StartError::Changed { name, version, registered: digest, here: definition.digest.clone() })
        }
        Err(refused) => Err(refused.into()),
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither the URL nor a participant's headers: they may hold passwords.
        f.debug_struct("Builder").field("node", &self.node).finish_non_exhaustive()
    }
}
