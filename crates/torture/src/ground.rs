//! Where a fault happens: a folder, a store, participants, and the engine.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use amends_shop::{DEFINITIONS, Line, Verdict, compare, free_address, has_ended};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::Api;
use crate::engine::{Engine, Start};
use crate::patience::{LONG, until};
use crate::shops::{Conduct, Shops, ledgers, section};
use crate::store::StoreUrl;

/// A folder, an engine with a store of its own, and a client of it.
#[derive(Debug)]
pub struct Ground {
    /// The engine.
    pub engine: Engine,
    /// A client of the engine.
    pub api: Api,
    /// The folder in which everything is. Last, so that it goes when nothing uses it any more.
    pub folder: TempDir,
}

/// How a ground differs from the usual one.
#[derive(Debug, Default)]
pub struct Setting {
    /// The store's URL; default a fresh one in the ground's folder.
    pub store: Option<String>,
    /// Variables of the engine's environment.
    pub environment: Vec<(String, String)>,
    /// Writes beyond a limit fail, rather than end the engine.
    pub write_errors: bool,
}

/// Makes the folder of a ground.
///
/// # Errors
/// If it cannot be made.
pub fn folder(store: &StoreUrl) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("amends-torture-");
    let made = match store.place() {
        Some(place) => builder.tempdir_in(place),
        None => builder.tempdir(),
    };
    made.context("no temporary folder can be made")
}

impl Ground {
    /// Starts an engine on a fresh store. `config`: its `amends.toml`.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn new(store: &StoreUrl, config: &str) -> Result<Self> {
        Self::set(store, folder(store)?, config, Setting::default()).await
    }

    /// Starts an engine in this folder.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn set(store: &StoreUrl, folder: TempDir, config: &str, setting: Setting) -> Result<Self> {
        std::fs::write(folder.path().join("amends.toml"), config)?;
        let port = free_address(&[]).context("no port is free")?.port();
        let store = match setting.store {
            Some(store) => store,
            None => store.fresh(folder.path())?,
        };
        let engine = Engine::start(Start {
            folder: folder.path().to_owned(),
            store,
            port,
            environment: setting.environment,
            write_errors: setting.write_errors,
        })
        .await?;
        let api = Api::new(&engine.url());
        Ok(Self { engine, api, folder })
    }

    /// Starts an engine on a fresh store with one scripted participant, under all these names.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn scripted(store: &StoreUrl, names: &[(&str, std::net::SocketAddr)]) -> Result<Self> {
        let config: String = names.iter().map(|(name, at)| section(name, *at)).collect();
        Self::new(store, &config).await
    }

    /// `kill -9`, and a new start.
    ///
    /// # Errors
    /// If it does not come back.
    pub async fn kill_and_restart(&mut self) -> Result<()> {
        self.engine.kill().await?;
        self.engine.start_again().await
    }

    /// Waits until an entry of this kind is in a saga's journal, and gives it.
    ///
    /// # Errors
    /// If none comes.
    pub async fn entry(&self, id: &str, kind: &str) -> Result<Value> {
        until(&format!("{kind} in the journal of {id}"), || async {
            Ok(self.api.journal(id).await?.into_iter().find(|entry| entry["kind"] == kind))
        })
        .await
    }

    /// The entries of this kind in a saga's journal.
    ///
    /// # Errors
    /// If the saga is not known.
    pub async fn entries(&self, id: &str, kind: &str) -> Result<Vec<Value>> {
        Ok(self.api.journal(id).await?.into_iter().filter(|entry| entry["kind"] == kind).collect())
    }
}

/// A ground with the shop on it.
#[derive(Debug)]
pub struct Market {
    /// The engine's side.
    pub ground: Ground,
    /// The participants' side.
    pub shops: Shops,
}

/// How it ended.
#[derive(Debug)]
pub struct Settled {
    /// The comparison.
    pub verdict: Verdict,
    /// The sagas, as the API shows them.
    pub sagas: Vec<Value>,
    /// Every line of every ledger.
    pub lines: Vec<Line>,
    /// Where all of it is, until this is dropped.
    pub folder: TempDir,
}

/// What every order has unless a fault says otherwise.
#[must_use]
pub fn order() -> Value {
    json!({ "sku": "teapot", "qty": 1, "amount": 20, "card": "4000-0001", "address": "Harbour Street 7" })
}

/// An order of which business refuses the last step, so that all is undone.
#[must_use]
pub fn refused_order() -> Value {
    let mut order = order();
    order["address"] = "nowhere".into();
    order
}

impl Market {
    /// Opens a shop without faults on a fresh store, and registers its definitions.
    ///
    /// # Errors
    /// If something does not start.
    pub async fn open(store: &StoreUrl) -> Result<Self> {
        Self::set(store, folder(store)?, Conduct::default(), Setting::default()).await
    }

    /// Opens a shop.
    ///
    /// # Errors
    /// If something does not start.
    pub async fn set(store: &StoreUrl, folder: TempDir, conduct: Conduct, setting: Setting) -> Result<Self> {
        let shops = Shops::open(folder.path(), conduct).await?;
        let ground = Ground::set(store, folder, &shops.config(), setting).await?;
        for definition in DEFINITIONS {
            ground.api.define(definition).await?;
        }
        Ok(Self { ground, shops })
    }

    /// Ends all faults, waits until every saga has ended, closes everything, and compares the books.
    ///
    /// # Errors
    /// If something cannot be read or stopped. A saga that does not end is part of the verdict.
    pub async fn settle(self, ids: &[String]) -> Result<Settled> {
        let Self { mut ground, shops } = self;
        shops.calm();
        let sagas = at_rest(&ground.api, ids).await?;
        ground.engine.stop().await?;
        // What was still on its way arrives now, after every saga has ended: it must not change anything.
        shops.close().await?;
        let lines = ledgers(ground.folder.path())?;
        let verdict = compare(&sagas, &actions(&sagas), &lines);
        Ok(Settled { verdict, sagas, lines, folder: ground.folder })
    }

    /// [`Market::settle`], and the books must be right.
    ///
    /// # Errors
    /// If anything was lost, doubled or left over.
    pub async fn settle_clean(self, ids: &[String]) -> Result<Settled> {
        let settled = self.settle(ids).await?;
        ensure!(settled.verdict.is_clean(), "{:#?}", settled.verdict);
        Ok(settled)
    }

    /// The lines of the ledgers as they are now.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn lines(&self) -> Result<Vec<Line>> {
        ledgers(self.folder())
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.ground.folder.path()
    }
}

/// The sagas when nothing moves them any more, or as they are when [`LONG`] is over.
pub(crate) async fn at_rest(api: &Api, ids: &[String]) -> Result<Vec<Value>> {
    let began = Instant::now();
    let mut sagas = Vec::new();
    for id in ids {
        loop {
            let saga = api.saga(id).await?;
            // A dead one is a person's: it does not end by itself.
            if has_ended(&saga) || saga["status"] == "dead" || began.elapsed() > LONG {
                sagas.push(saga);
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(sagas)
}

/// The steps of each definition, all of which have an action here.
pub(crate) fn actions(sagas: &[Value]) -> HashMap<String, Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    sagas
        .iter()
        .filter_map(|saga| {
            let steps = saga["steps"].as_array()?.iter().filter_map(|step| text(&step["name"])).collect();
            Some((text(&saga["saga"])?, steps))
        })
        .collect()
}
