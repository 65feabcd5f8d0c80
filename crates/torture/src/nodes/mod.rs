//! The long run on a shared store: several nodes, each with a way of its own to the database, all of which fail.
//!
//! Nodes are killed, stopped for a moment, and stopped or dead for longer than their lease; the database is killed, stopped and ends
//! sessions; ways to it are slow, reset, half open, or lose the answer to a COMMIT. Orders go to all nodes meanwhile. The database itself
//! is looked at from outside: who owns what, and who wrote which entry.

mod dialect;
mod evidence;
mod field;
mod trials;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

pub use evidence::{Evidence, Watch};
pub use field::{Field, Node};

use crate::kills::{FAULT_RATE, TROUBLE_RATE};
use crate::load::Load;
use crate::report::{Nodes, Report};
use crate::shops::Conduct;
use crate::store::StoreUrl;
use trials::Trials;

/// How long faults go on after the last order.
const AFTERMATH: Duration = Duration::from_secs(1);

/// A long run of several nodes.
#[derive(Debug, Clone)]
pub struct Run {
    /// The store: one that nodes can share, of the run's own.
    pub store: StoreUrl,
    /// How many nodes.
    pub nodes: usize,
    /// How many sagas at least: trials go on until so many are accepted, and each kind was tried.
    pub sagas: u32,
    /// What chance is drawn from.
    pub seed: u64,
    /// Told how far it is.
    pub progress: fn(&str),
}

impl Run {
    /// Runs it.
    ///
    /// # Errors
    /// If the run itself breaks. What it finds is in the report.
    pub async fn run(self) -> Result<Report> {
        let began = Instant::now();
        let servers = self.store.servers().cloned();
        let servers =
            servers.context("several nodes need a store that they share: write --store postgres:")?;
        let conduct =
            Conduct { seed: self.seed, fault_rate: FAULT_RATE, trouble_rate: TROUBLE_RATE, lie: None };
        let mut field = Field::open(&self.store, conduct, self.nodes).await?;
        let evidence = Evidence::begin(&servers)?;
        let watch = Watch::start(evidence.clone());
        let load = Arc::new(Load::new(field.api.clone(), self.seed));
        let loading = tokio::spawn(load.clone().run());
        let mut trials = Trials::new(self.seed, self.progress);
        let mut tried = Ok(());
        let mut deck = 0;
        while tried.is_ok() && (deck == 0 || load.accepted().await < self.sagas as usize) {
            tried = trials.deck(deck, &mut field, &evidence, &load).await;
            deck += 1;
        }
        tokio::time::sleep(AFTERMATH).await;
        load.stop();
        loading.await??;
        tried?;
        let ids = load.ids().await;
        (self.progress)(&format!("{} orders; faults stop, and all must end", ids.len()));
        let mut faults = field.shops.met();
        faults.extend(field.met());
        let settled = field.settle(&ids).await?;
        let watched = watch.end().await?;
        let mut report = Report {
            store: self.store.name(),
            seed: self.seed,
            kills: trials.kills,
            kills_at_start: 0,
            stops: trials.stops,
            lapses: trials.lapses,
            server_faults: trials.server_faults,
            sagas: ids.len(),
            completed: 0,
            compensated: 0,
            dead: 0,
            unknown: 0,
            lost: 0,
            doubled: 0,
            wrongly_undone: 0,
            left_over: 0,
            take_overs: evidence.take_overs()?,
            nodes: Some(Nodes {
                count: self.nodes,
                said: trials.said,
                longest_without_owner_ms: watched.longest.as_millis().try_into().unwrap_or(u64::MAX),
                looks: watched.looks,
                out_of_turn: evidence.out_of_turn()?,
                epochs_backwards: evidence.epochs_backwards()?,
            }),
            faults,
            seconds: began.elapsed().as_secs_f64(),
            findings: Vec::new(),
        };
        report.judge(settled.verdict);
        report.findings.extend(watched.findings);
        if !report.is_good() {
            let books = settled.folder.keep();
            report.findings.push(format!("ledgers and the nodes' logs are in {}", books.display()));
        }
        Ok(report)
    }
}

/// Adds what was met.
fn add(all: &mut BTreeMap<&'static str, u32>, met: BTreeMap<&'static str, u32>) {
    for (name, times) in met {
        *all.entry(name).or_default() += times;
    }
}
