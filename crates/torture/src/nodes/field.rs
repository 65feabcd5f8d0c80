//! Where several nodes work: one database, a way to it for each, the shop, and a client of all.

use std::collections::BTreeMap;
use std::path::Path;

use amends_shop::{DEFINITIONS, compare, free_address};
use anyhow::{Context as _, Result};
use tempfile::TempDir;

use super::dialect::url_of;
use crate::api::Api;
use crate::engine::{Engine, Start};
use crate::ground::{Settled, actions, at_rest, folder};
use crate::servers::Servers;
use crate::shops::{Conduct, Shops, ledgers};
use crate::store::StoreUrl;
use crate::wire::Wire;

/// One of the nodes.
#[derive(Debug)]
pub struct Node {
    /// Its process.
    pub engine: Engine,
    /// A client of it alone.
    pub api: Api,
    /// Its way to the database.
    pub wire: Wire,
    name: String,
    /// How often it was started: sessions carry it, so that the database can tell who wrote what.
    life: u32,
    database: String,
    servers: Servers,
}

impl Node {
    async fn start(servers: &Servers, config: &str, at: &Path, name: &str) -> Result<Self> {
        let at = at.join(name);
        std::fs::create_dir(&at)?;
        std::fs::write(at.join("amends.toml"), config)?;
        let (database, to) = servers.with_last(|server| Ok((server.url(), server.at())))?;
        let wire = Wire::start(to).await?;
        let database = database.replace(&to.to_string(), &wire.at.to_string());
        let port = free_address(&[]).context("no port is free")?.port();
        let start = Start {
            folder: at,
            store: url_of(servers, &database, name, 1)?,
            port,
            environment: Vec::new(),
            write_errors: false,
        };
        let engine = Engine::start(start).await?;
        let api = Api::new(&engine.url());
        let servers = servers.clone();
        Ok(Self { engine, api, wire, name: name.to_owned(), life: 1, database, servers })
    }

    /// Starts it again after its death, and waits until it listens.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub async fn start_again(&mut self) -> Result<()> {
        self.life += 1;
        self.engine.start_with().store = url_of(&self.servers, &self.database, &self.name, self.life)?;
        self.engine.start_again().await
    }

    /// What it is called: `node-1`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// All of it.
#[derive(Debug)]
pub struct Field {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// A client of all of them.
    pub api: Api,
    /// The participants' side.
    pub shops: Shops,
    /// The folder in which everything is. Last, so that it goes when nothing uses it any more.
    pub folder: TempDir,
}

impl Field {
    /// Starts so many nodes on a fresh database, and registers the shop's definitions.
    ///
    /// # Errors
    /// If something does not start, or the store is none that nodes can share.
    pub async fn open(store: &StoreUrl, conduct: Conduct, count: usize) -> Result<Self> {
        let servers = store.servers().context("several nodes need a server of the run's own")?;
        servers.fresh()?;
        let folder = folder(store)?;
        let shops = Shops::open(folder.path(), conduct).await?;
        let mut nodes = Vec::new();
        for n in 1..=count {
            nodes.push(Node::start(servers, &shops.config(), folder.path(), &format!("node-{n}")).await?);
        }
        let urls: Vec<String> = nodes.iter().map(|node| node.engine.url()).collect();
        let api = Api::across(&urls);
        for definition in DEFINITIONS {
            api.define(definition).await?;
        }
        Ok(Self { nodes, api, shops, folder })
    }

    /// What was done to the ways to the database.
    #[must_use]
    pub fn met(&self) -> BTreeMap<&'static str, u32> {
        let mut all = BTreeMap::new();
        for node in &self.nodes {
            super::add(&mut all, node.wire.met());
        }
        all
    }

    /// Ends all faults of participants and ways, waits until every saga has ended, stops everything, and compares the books. All nodes
    /// must be there.
    ///
    /// # Errors
    /// If something cannot be read or stopped. A saga that does not end is part of the verdict.
    pub async fn settle(self, ids: &[String]) -> Result<Settled> {
        let Self { nodes, api, shops, folder } = self;
        shops.calm();
        for node in &nodes {
            node.wire.heal();
        }
        let sagas = at_rest(&api, ids).await?;
        for mut node in nodes {
            node.engine.stop().await?;
        }
        // What was still on its way arrives now, after every saga has ended: it must not change anything.
        shops.close().await?;
        let lines = ledgers(folder.path())?;
        let verdict = compare(&sagas, &actions(&sagas), &lines);
        Ok(Settled { verdict, sagas, lines, folder })
    }
}
