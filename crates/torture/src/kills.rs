//! The long run: orders without pause, every kind of fault, and an engine that is killed again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use amends_shop::{Draw, Lie};
use anyhow::Result;

use crate::api::Api;
use crate::ground::{Ground, Market, Setting, folder};
use crate::load::Load;
use crate::patience::until;
use crate::report::Report;
use crate::servers::Server;
use crate::shops::Conduct;
use crate::store::StoreUrl;

/// The share of requests that meet a fault at the participant, and on their way.
pub(crate) const FAULT_RATE: f64 = 0.12;
pub(crate) const TROUBLE_RATE: f64 = 0.06;
/// How long the engine works before it is killed, at least and at most.
const WORK_MS: std::ops::Range<u32> = 150..900;
/// How long it stays dead.
const DEAD_MS: std::ops::Range<u32> = 0..200;
/// One kill in so many comes while the engine is starting up, or right after.
const AT_START_EVERY: u32 = 5;
/// One kill in so many finds the engine stopped.
const FROZEN_EVERY: u32 = 6;
/// How long it takes at most, on a machine that is not dead, to take over what is open.
const TAKE_OVER_MAX: Duration = Duration::from_secs(1);
/// How long faults go on after the last kill.
const AFTERMATH: Duration = Duration::from_secs(1);
/// Longer than a lease lasts.
pub(crate) const PAST_THE_LEASE: Duration = Duration::from_millis(16_500);

/// A long run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The store.
    pub store: StoreUrl,
    /// How often the engine is killed.
    pub kills: u32,
    /// How often it is stopped past its lease; each takes more than a quarter of a minute.
    pub lapses: u32,
    /// What chance is drawn from.
    pub seed: u64,
    /// How participants break their word: the run must then fail.
    pub lie: Option<Lie>,
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
        let folder = folder(&self.store)?;
        let conduct =
            Conduct { seed: self.seed, fault_rate: FAULT_RATE, trouble_rate: TROUBLE_RATE, lie: self.lie };
        let setting = Setting { store: Some(self.store.of_run(folder.path())?), ..Setting::default() };
        let mut market = Market::set(&self.store, folder, conduct, setting).await?;
        let load = Arc::new(Load::new(market.ground.api.clone(), self.seed));
        let loading = tokio::spawn(load.clone().run());
        let mut torturer = Torturer::new(&self, &load);
        let tortured = torturer.torture(&mut market.ground).await;
        let Torturer { kills, at_start, stops, lapses, server_faults, .. } = torturer;
        tokio::time::sleep(AFTERMATH).await;
        load.stop();
        loading.await??;
        tortured?;
        let ids = load.ids().await;
        let faults = market.shops.met();
        (self.progress)(&format!("{kills} kills, {} orders; faults stop, and all must end", ids.len()));
        market.shops.calm();
        let take_overs = take_overs(&market.ground, &ids).await?;
        let settled = market.settle(&ids).await?;
        let mut report = Report {
            store: self.store.name(),
            seed: self.seed,
            kills,
            kills_at_start: at_start,
            stops,
            lapses,
            server_faults,
            sagas: ids.len(),
            completed: 0,
            compensated: 0,
            dead: 0,
            unknown: 0,
            lost: 0,
            doubled: 0,
            wrongly_undone: 0,
            left_over: 0,
            take_overs,
            nodes: None,
            faults,
            seconds: began.elapsed().as_secs_f64(),
            findings: Vec::new(),
        };
        report.judge(settled.verdict);
        if !report.is_good() && self.lie.is_none() {
            let books = settled.folder.keep();
            report.findings.push(format!("ledgers, store and the engine's log are in {}", books.display()));
        }
        Ok(report)
    }
}

async fn take_overs(ground: &Ground, ids: &[String]) -> Result<usize> {
    let mut all = 0;
    for id in ids {
        all += ground.entries(id, "taken_over").await?.len();
    }
    Ok(all)
}

/// Whoever kills the engine.
struct Torturer<'a> {
    run: &'a Run,
    load: &'a Load,
    /// Deaths, two in quick succession counted as one.
    rounds: u32,
    kills: u32,
    at_start: u32,
    stops: u32,
    lapses: u32,
    /// What the store's own server suffered, by name.
    server_faults: BTreeMap<&'static str, u32>,
}

impl<'a> Torturer<'a> {
    fn new(run: &'a Run, load: &'a Load) -> Self {
        let server_faults = BTreeMap::new();
        Self { run, load, rounds: 0, kills: 0, at_start: 0, stops: 0, lapses: 0, server_faults }
    }

    async fn torture(&mut self, ground: &mut Ground) -> Result<()> {
        while self.kills < self.run.kills || self.lapses < self.run.lapses {
            let mut draw = Draw::new(self.run.seed, &format!("kill {} {}", self.kills, self.lapses));
            pause(&mut draw, WORK_MS).await;
            self.load.is_alive()?;
            // Spread over the run.
            if self.lapses * self.run.kills.max(1) < self.run.lapses * self.kills
                || self.kills == self.run.kills
            {
                self.outlast_the_lease(ground).await?;
                continue;
            }
            self.torture_server(&mut draw).await?;
            self.kill(ground, &mut draw).await?;
            (self.run.progress)(&format!(
                "{} of {} kills, {} orders accepted",
                self.kills,
                self.run.kills,
                self.load.accepted().await
            ));
        }
        Ok(())
    }

    /// One death, or two in quick succession.
    async fn kill(&mut self, ground: &mut Ground, draw: &mut Draw) -> Result<()> {
        let twice = self.rounds % AT_START_EVERY == AT_START_EVERY - 1 && self.kills + 1 < self.run.kills;
        may_die(&ground.api, twice).await?;
        if self.rounds % FROZEN_EVERY == FROZEN_EVERY - 1 {
            ground.engine.freeze()?;
            self.stops += 1;
            pause(draw, DEAD_MS).await;
        }
        ground.engine.kill().await?;
        self.rounds += 1;
        self.kills += 1;
        pause(draw, DEAD_MS).await;
        if twice {
            ground.engine.spawn_again()?;
            pause(draw, DEAD_MS).await;
            ground.engine.kill().await?;
            self.kills += 1;
            self.at_start += 1;
        }
        ground.engine.start_again().await
    }

    /// The store's own server, where it is the run's: killed and started again, stopped for a while, or disturbed.
    async fn torture_server(&mut self, draw: &mut Draw) -> Result<()> {
        let Some(servers) = self.run.store.servers() else { return Ok(()) };
        let name = match draw.below(4) {
            0 => {
                servers.with_last(|server| {
                    server.kill();
                    Ok(())
                })?;
                pause(draw, DEAD_MS).await;
                servers.with_last(Server::restart)?;
                "server killed"
            }
            1 => {
                servers.with_last(|server| server.pause(true))?;
                pause(draw, WORK_MS).await;
                servers.with_last(|server| server.pause(false))?;
                "server stopped"
            }
            2 => servers.with_last(|server| server.disturb())?,
            _ => return Ok(()),
        };
        *self.server_faults.entry(name).or_default() += 1;
        pause(draw, WORK_MS).await;
        Ok(())
    }

    /// Stops the engine until its lease has lapsed, and lets it go on.
    async fn outlast_the_lease(&mut self, ground: &Ground) -> Result<()> {
        may_die(&ground.api, false).await?;
        ground.engine.freeze()?;
        tokio::time::sleep(PAST_THE_LEASE).await;
        ground.engine.thaw()?;
        self.stops += 1;
        self.lapses += 1;
        Ok(())
    }
}

pub(crate) async fn pause(draw: &mut Draw, ms: std::ops::Range<u32>) {
    let ms = ms.start + draw.below(ms.end - ms.start);
    tokio::time::sleep(Duration::from_millis(ms.into())).await;
}

/// Waits until the engine may die without a saga being taken over three times with nothing between: then it would be left to
/// people, and rightly so. `twice`: it will be killed again before anything can happen.
async fn may_die(api: &Api, twice: bool) -> Result<()> {
    until("every open saga gets on between two deaths of the engine", || async {
        if !all_got_on(api).await? {
            return Ok(None);
        }
        if !twice {
            return Ok(Some(()));
        }
        // Some may not have been taken over yet in this life: that would be one more.
        let before = api.metric("amends_take_overs_total").await?;
        tokio::time::sleep(TAKE_OVER_MAX).await;
        let settled = before == api.metric("amends_take_overs_total").await? && all_got_on(api).await?;
        Ok(settled.then_some(()))
    })
    .await
}

/// Whether no open saga's last entry is its take-over.
async fn all_got_on(api: &Api) -> Result<bool> {
    let mut next = String::new();
    loop {
        let path = format!("/v1/sagas?status=accepting,running,compensating,unknown&limit=500&cursor={next}");
        let page = api.look(&path).await?.expect(200)?.body;
        for saga in page["items"].as_array().into_iter().flatten() {
            let journal = api.journal(saga["id"].as_str().unwrap_or_default()).await?;
            if journal.last().is_some_and(|entry| entry["kind"] == "taken_over") {
                return Ok(false);
            }
        }
        // A page may be empty and not the last: a store looks at so many rows at once.
        match page["next"].as_str() {
            Some(cursor) => next = cursor.to_owned(),
            None => return Ok(true),
        }
    }
}
