//! What happens to nodes, database and the ways between them, and when.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use amends_shop::Draw;
use anyhow::{Result, ensure};

use super::{Evidence, Field};
use crate::kills::{PAST_THE_LEASE, pause};
use crate::load::Load;
use crate::patience::until;
use crate::servers::Server;
use crate::wire::Harm;

/// How long everything works between two trials.
const WORK_MS: std::ops::Range<u32> = 200..900;
/// How long something is away that comes back soon.
const AWAY_MS: std::ops::Range<u32> = 50..1_500;
/// How long ways stay harmed. Well below a lease: what is shown is what happens to commits.
const HARMED_MS: std::ops::Range<u32> = 500..4_000;
/// What a node says that was stopped past its lease.
const SAID: &str = "the node's lease lapsed";

/// A trial.
#[derive(Clone, Copy)]
enum Trial {
    /// A node is stopped past its lease, and continued.
    OutlastsLease,
    /// A node is killed, and comes back when others have its sagas.
    DiesForLong,
    /// A node is killed, and comes back at once.
    Dies,
    /// A node is stopped for a moment.
    Stops,
    DatabaseDies,
    DatabaseStops,
    DatabaseIsDisturbed,
    WayIsHarmed(fn(&mut Draw) -> Harm),
}

impl Trial {
    fn words(self) -> &'static str {
        match self {
            Self::OutlastsLease => "a node is stopped past its lease",
            Self::DiesForLong => "a node is killed for long",
            Self::Dies => "a node is killed",
            Self::Stops => "a node is stopped",
            Self::DatabaseDies => "the database is killed",
            Self::DatabaseStops => "the database is stopped",
            Self::DatabaseIsDisturbed => "the database ends all sessions",
            Self::WayIsHarmed(_) => "a way to the database is harmed",
        }
    }
}

/// One of each, and more of what is quick. Those that take long come first, so that others happen meanwhile.
const DECK: [Trial; 14] = [
    Trial::OutlastsLease,
    Trial::DatabaseDies,
    Trial::WayIsHarmed(|_| Harm::AnswerLost),
    Trial::Dies,
    Trial::WayIsHarmed(|_| Harm::HalfOpen),
    Trial::DatabaseIsDisturbed,
    Trial::WayIsHarmed(|_| Harm::Reset),
    Trial::DiesForLong,
    Trial::Stops,
    Trial::WayIsHarmed(|draw| Harm::Delay(Duration::from_millis(draw.below(300).into()))),
    Trial::Dies,
    Trial::DatabaseStops,
    Trial::WayIsHarmed(|_| Harm::AnswerLost),
    Trial::DatabaseDies,
];

/// What is to become of a node that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    /// It is continued, and must say that its lease is over. Its log had so many bytes when it was stopped.
    Thaw(usize),
    Start,
}

/// Whoever tries them.
pub(super) struct Trials {
    seed: u64,
    progress: fn(&str),
    /// Nodes that are away, and until when.
    away: BTreeMap<usize, (Instant, Return)>,
    pub(super) kills: u32,
    pub(super) stops: u32,
    pub(super) lapses: u32,
    /// How many of those whose lease lapsed said so.
    pub(super) said: u32,
    pub(super) server_faults: BTreeMap<&'static str, u32>,
}

impl Trials {
    pub(super) fn new(seed: u64, progress: fn(&str)) -> Self {
        let server_faults = BTreeMap::new();
        Self { seed, progress, away: BTreeMap::new(), kills: 0, stops: 0, lapses: 0, said: 0, server_faults }
    }

    /// Each trial of the deck once; at the end every node is there.
    pub(super) async fn deck(
        &mut self,
        number: u32,
        field: &mut Field,
        evidence: &Evidence,
        load: &Load,
    ) -> Result<()> {
        let mut deck: Vec<(usize, Trial)> = DECK.into_iter().enumerate().collect();
        if number > 0 {
            // The order of the first is the one that takes least time.
            deck.sort_by_key(|(n, _)| Draw::new(self.seed, &format!("deck {number} {n}")).below(1 << 20));
        }
        for (n, trial) in deck {
            let mut draw = Draw::new(self.seed, &format!("trial {number} {n}"));
            pause(&mut draw, WORK_MS).await;
            load.is_alive()?;
            self.returns(field, false).await?;
            self.try_one(trial, &mut draw, field, evidence).await?;
            (self.progress)(&format!(
                "deck {number}, trial {n}: {}; {} orders",
                trial.words(),
                load.accepted().await
            ));
        }
        self.returns(field, true).await
    }

    async fn try_one(
        &mut self,
        trial: Trial,
        draw: &mut Draw,
        field: &mut Field,
        evidence: &Evidence,
    ) -> Result<()> {
        match trial {
            Trial::OutlastsLease => {
                let n = self.may_lose(draw, field, evidence).await?;
                let log = field.nodes[n].engine.log().len();
                field.nodes[n].engine.freeze()?;
                self.stops += 1;
                self.lapses += 1;
                self.away.insert(n, (Instant::now() + PAST_THE_LEASE, Return::Thaw(log)));
            }
            Trial::DiesForLong => {
                let n = self.may_lose(draw, field, evidence).await?;
                field.nodes[n].engine.kill().await?;
                self.kills += 1;
                self.away.insert(n, (Instant::now() + PAST_THE_LEASE, Return::Start));
            }
            Trial::Dies => {
                let n = self.may_lose(draw, field, evidence).await?;
                field.nodes[n].engine.kill().await?;
                self.kills += 1;
                pause(draw, AWAY_MS).await;
                field.nodes[n].start_again().await?;
            }
            Trial::Stops => {
                let n = self.present(draw, field);
                field.nodes[n].engine.freeze()?;
                self.stops += 1;
                pause(draw, AWAY_MS).await;
                field.nodes[n].engine.thaw()?;
            }
            Trial::DatabaseDies => {
                let servers = evidence.servers();
                servers.with_last(|server| {
                    server.kill();
                    Ok(())
                })?;
                pause(draw, AWAY_MS).await;
                servers.with_last(Server::restart)?;
                *self.server_faults.entry("server killed").or_default() += 1;
            }
            Trial::DatabaseStops => {
                let servers = evidence.servers();
                servers.with_last(|server| server.pause(true))?;
                pause(draw, AWAY_MS).await;
                servers.with_last(|server| server.pause(false))?;
                *self.server_faults.entry("server stopped").or_default() += 1;
            }
            Trial::DatabaseIsDisturbed => {
                let name = evidence.servers().with_last(|server| server.disturb())?;
                *self.server_faults.entry(name).or_default() += 1;
            }
            Trial::WayIsHarmed(harm) => {
                let n = self.present(draw, field);
                field.nodes[n].wire.harm(harm(draw));
                pause(draw, HARMED_MS).await;
                field.nodes[n].wire.heal();
            }
        }
        Ok(())
    }

    /// A node that is there.
    fn present(&self, draw: &mut Draw, field: &Field) -> usize {
        let present: Vec<usize> = (0..field.nodes.len()).filter(|n| !self.away.contains_key(n)).collect();
        present[draw.below(u32::try_from(present.len()).unwrap_or(1)) as usize]
    }

    /// A node that may be lost: another one is there, and no saga would be taken over again before it has got on. Three take-overs in a
    /// row would rightly leave it to people.
    async fn may_lose(&mut self, draw: &mut Draw, field: &mut Field, evidence: &Evidence) -> Result<usize> {
        while field.nodes.len() - self.away.len() < 2 {
            self.returns(field, true).await?;
        }
        until("every open saga gets on after it was taken over", || async {
            Ok(matches!(evidence.just_taken_over(), Ok(0)).then_some(()))
        })
        .await?;
        Ok(self.present(draw, field))
    }

    /// Lets those come back whose time has come; `all`: waits for it.
    async fn returns(&mut self, field: &mut Field, all: bool) -> Result<()> {
        for (n, (at, how)) in self.away.clone() {
            if all {
                tokio::time::sleep_until(at.into()).await;
            } else if Instant::now() < at {
                continue;
            }
            let node = &mut field.nodes[n];
            match how {
                Return::Start => node.start_again().await?,
                Return::Thaw(log) => {
                    node.engine.thaw()?;
                    let says = async || Ok(node.engine.log()[log..].contains(SAID).then_some(()));
                    until(&format!("{} says that its lease is over", node.name()), says).await?;
                    self.said += 1;
                }
            }
            self.away.remove(&n);
        }
        ensure!(!all || self.away.is_empty(), "somebody is still away");
        Ok(())
    }
}
