//! Definitions in memory: immutable once registered, so what is known stays true.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use amends_core::definition::{Checked, from_tree};
use amends_core::{Definition, Time};
use amends_store::{Error, Kind, StoredDefinition};
use tokio::time::Instant;

use crate::meter::DefinitionMeter;
use crate::node::Node;

/// A definition and its counters.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) definition: Arc<Definition>,
    pub(crate) warnings: Vec<amends_core::definition::Diagnostic>,
    pub(crate) created_at: Time,
    pub(crate) meter: Arc<DefinitionMeter>,
}

#[derive(Debug)]
pub(crate) struct Definitions {
    known: Mutex<Cache>,
    max: usize,
    highest_age_max: Duration,
}

#[derive(Debug, Default)]
struct Cache {
    by_digest: BTreeMap<String, Arc<Known>>,
    by_version: BTreeMap<(String, u64), Arc<Known>>,
    highest: BTreeMap<String, (Arc<Known>, Instant)>,
}

impl Definitions {
    pub(crate) fn new(max: usize, highest_age_max: Duration) -> Self {
        Self { known: Mutex::default(), max, highest_age_max }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Cache) -> T) -> T {
        work(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep(&self, known: &Arc<Known>) {
        let definition = &known.definition;
        let key = (definition.name.clone(), definition.version);
        self.with(|cache| {
            if cache.by_digest.len() >= self.max && !cache.by_digest.contains_key(&definition.digest) {
                // Rare enough to start anew: what is used comes back at its next use.
                *cache = Cache::default();
            }
            cache.by_digest.insert(definition.digest.clone(), known.clone());
            cache.by_version.insert(key, known.clone());
        });
    }

    fn keep_highest(&self, known: &Arc<Known>) {
        self.keep(known);
        let entry = (known.clone(), Instant::now());
        self.with(|cache| cache.highest.insert(known.definition.name.clone(), entry));
    }

    /// A new version was registered here: it may be the highest now.
    pub(crate) fn forget_highest(&self, name: &str) {
        self.with(|cache| cache.highest.remove(name));
    }
}

impl Node {
    /// The definition with this digest. `None`: it is not registered.
    ///
    /// # Errors
    /// The store's; [`Kind::Corrupt`] if it is stored but is no definition to this version.
    pub(crate) async fn definition_by_digest(&self, digest: &str) -> Result<Option<Arc<Known>>, Error> {
        if let Some(known) = self.definitions.with(|cache| cache.by_digest.get(digest).cloned()) {
            return Ok(Some(known));
        }
        self.store.by_digest(digest).await?.map(|stored| self.read(&stored)).transpose()
    }

    /// The definition of this name, the given version or the highest. What another node registered as the highest may be
    /// missed for as long as the configuration says; what does not seem to exist is always looked up.
    ///
    /// # Errors
    /// As [`Node::definition_by_digest`].
    pub(crate) async fn definition_by_name(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<Option<Arc<Known>>, Error> {
        let age_max = self.definitions.highest_age_max;
        let cached = self.definitions.with(|cache| match version {
            Some(version) => cache.by_version.get(&(name.to_owned(), version)).cloned(),
            None => cache
                .highest
                .get(name)
                .filter(|(_, at)| at.elapsed() <= age_max)
                .map(|(known, _)| known.clone()),
        });
        if cached.is_some() {
            return Ok(cached);
        }
        let Some(stored) = self.store.by_name(name, version).await? else { return Ok(None) };
        let known = match self.definitions.with(|cache| cache.by_digest.get(&stored.digest).cloned()) {
            Some(known) => known,
            None => self.read(&stored)?,
        };
        if version.is_none() {
            self.definitions.keep_highest(&known);
        }
        Ok(Some(known))
    }

    /// Reads a stored definition and keeps it.
    pub(crate) fn read(&self, stored: &StoredDefinition) -> Result<Arc<Known>, Error> {
        let corrupt = |why: String| {
            let what = format!(
                "definition {} version {} cannot be read by this version",
                stored.name, stored.version
            );
            Error::new(Kind::Corrupt, format!("{what}: {why}"))
        };
        let tree = serde_json::from_str(&stored.tree).map_err(|e| corrupt(e.to_string()))?;
        let checked = from_tree(&tree).map_err(|problems| {
            corrupt(problems.first().map_or_else(|| "it has problems".to_owned(), ToString::to_string))
        })?;
        if checked.definition.digest != stored.digest {
            return Err(corrupt(format!(
                "its digest is {}, not {}",
                checked.definition.digest, stored.digest
            )));
        }
        let known = self.known(checked, stored.created_at);
        self.definitions.keep(&known);
        Ok(known)
    }

    pub(crate) fn known(&self, checked: Checked, created_at: Time) -> Arc<Known> {
        let meter = self.meter.definition(&checked.definition);
        Arc::new(Known { definition: checked.definition, warnings: checked.warnings, created_at, meter })
    }
}
