//! What the database itself tells, asked past all nodes and proxies: who owns what, and who wrote which entry.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::task::JoinHandle;

use super::dialect::Dialect;
use crate::servers::Servers;

/// Sagas that nobody has although somebody should: their owner's lease is over, or they are due and nobody's.
const WITHOUT_OWNER: &str = "SELECT s.rowid FROM {saga} s WHERE s.owner_epoch IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM {node} n WHERE n.epoch = s.owner_epoch AND n.expires_at > {now})
    UNION ALL SELECT s.rowid FROM {saga} s WHERE s.owner_epoch IS NULL AND s.due_at IS NOT NULL AND s.due_at <= {now}";

/// Open sagas of which the last entry is a take-over: two more in a row, and they would rightly be left to people.
const JUST_TAKEN_OVER: &str = "SELECT count(*) FROM {saga} s WHERE s.ended_at IS NULL AND 'taken_over' =
    (SELECT w.kind FROM {wrote} w WHERE w.saga = s.rowid ORDER BY w.seq DESC LIMIT 1)";

/// Entries written by another than who wrote the one before, and that are no take-over.
const OUT_OF_TURN: &str = "SELECT count(*) FROM (
        SELECT node, kind, lag(node) OVER (PARTITION BY saga ORDER BY seq) AS former FROM {wrote}) w
    WHERE former IS NOT NULL AND node <> former AND kind <> 'taken_over'";

/// Take-overs under an epoch smaller than the one before.
const EPOCHS_BACKWARDS: &str = "SELECT count(*) FROM (
        SELECT epoch, lag(epoch) OVER (PARTITION BY saga ORDER BY seq) AS former FROM {wrote} WHERE epoch IS NOT NULL) w
    WHERE epoch < former";

const TAKE_OVERS: &str = "SELECT count(*) FROM {wrote} WHERE kind = 'taken_over'";

const WRITTEN: &str = "SELECT count(*) FROM {entry}";

/// Asks the database. Nodes must have made their tables before it begins.
#[derive(Debug, Clone)]
pub struct Evidence {
    servers: Servers,
    dialect: Dialect,
}

impl Evidence {
    /// From now on the database writes down who writes what.
    ///
    /// # Errors
    /// If it is none that can, or has no tables yet.
    pub fn begin(servers: &Servers) -> Result<Self> {
        let dialect = Dialect::of(servers)?;
        servers.sql(dialect.begin())?;
        Ok(Self { servers: servers.clone(), dialect })
    }

    /// The servers.
    #[must_use]
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Entries `taken_over` in all journals.
    ///
    /// # Errors
    /// If the database cannot be asked; so with all others.
    pub fn take_overs(&self) -> Result<usize> {
        self.count(TAKE_OVERS)
    }

    /// Entries of a node that had lost the saga to another one.
    ///
    /// # Errors
    /// As [`Evidence::take_overs`].
    pub fn out_of_turn(&self) -> Result<usize> {
        self.count(OUT_OF_TURN)
    }

    /// Take-overs under an epoch that was over.
    ///
    /// # Errors
    /// As [`Evidence::take_overs`].
    pub fn epochs_backwards(&self) -> Result<usize> {
        self.count(EPOCHS_BACKWARDS)
    }

    /// Open sagas of which the last entry is a take-over.
    ///
    /// # Errors
    /// As [`Evidence::take_overs`].
    pub fn just_taken_over(&self) -> Result<usize> {
        self.count(JUST_TAKEN_OVER)
    }

    /// All entries.
    ///
    /// # Errors
    /// As [`Evidence::take_overs`].
    pub fn written(&self) -> Result<usize> {
        self.count(WRITTEN)
    }

    fn count(&self, sql: &str) -> Result<usize> {
        Ok(self.ask(sql)?.trim().parse()?)
    }

    /// Runs SQL in which `{saga}`, `{entry}`, `{node}`, `{wrote}` stand for tables, `{now}` for the server's clock in milliseconds, and
    /// `{bytes}` for the type of what entries hold. Gives its rows, a line each.
    ///
    /// # Errors
    /// As [`Evidence::take_overs`].
    pub fn ask(&self, question: &str) -> Result<String> {
        self.servers.sql(&self.dialect.ask(question))
    }

    fn without_owner(&self) -> Result<Vec<u64>> {
        let rows = self.ask(WITHOUT_OWNER)?;
        rows.split_whitespace().map(|row| Ok(row.parse()?)).collect()
    }
}

/// How often is looked who owns what.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// An answer that takes longer than this tells that the database was away.
const AWAY: Duration = Duration::from_secs(1);
/// The longest that a saga may be without an owner: a lease and one scan.
const OWNERLESS_MAX: Duration = Duration::from_secs(15 + 5);

/// Looks all the time how long sagas are without an owner. While the database is away nobody can own anything: that does not count.
#[derive(Debug)]
pub struct Watch {
    end: Arc<AtomicBool>,
    looking: JoinHandle<Watched>,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Watched {
    /// The longest that a saga was without an owner.
    pub longest: Duration,
    /// How often was looked.
    pub looks: usize,
    /// Sagas that were without one for too long, in words.
    pub findings: Vec<String>,
}

impl Watch {
    /// Begins to look.
    #[must_use]
    pub fn start(evidence: Evidence) -> Self {
        let end: Arc<AtomicBool> = Arc::default();
        let looking = tokio::spawn(look(evidence, end.clone()));
        Self { end, looking }
    }

    /// Ends it.
    ///
    /// # Errors
    /// If it broke.
    pub async fn end(self) -> Result<Watched> {
        self.end.store(true, Ordering::Relaxed);
        self.looking.await.context("whoever looks who owns what has failed")
    }
}

async fn look(evidence: Evidence, end: Arc<AtomicBool>) -> Watched {
    let mut watched = Watched::default();
    // Since when, and how long the database had been away by then.
    let mut without: HashMap<u64, (Instant, Duration)> = HashMap::new();
    let mut away = Duration::ZERO;
    let mut last = Instant::now();
    while !end.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK_EVERY).await;
        let asked = Instant::now();
        let Ok(rows) = evidence.without_owner() else {
            away += last.elapsed();
            last = Instant::now();
            continue;
        };
        if asked.elapsed() > AWAY {
            away += last.elapsed();
        }
        last = Instant::now();
        watched.looks += 1;
        without.retain(|row, _| rows.contains(row));
        for row in rows {
            let (since, was_away) = *without.entry(row).or_insert((asked, away));
            let long = since.elapsed().saturating_sub(away - was_away);
            if long > OWNERLESS_MAX && watched.longest <= OWNERLESS_MAX {
                watched.findings.push(format!("saga {row} is without an owner for {long:?}"));
            }
            watched.longest = watched.longest.max(long);
        }
    }
    watched
}
