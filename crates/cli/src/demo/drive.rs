//! Orders come in, people cancel some, and the engine is killed in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use amends_shop::Order;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::crew::{Crew, Report};
use super::engine::Engine;
use crate::client::{Api, Payload};
use crate::commands::saga;
use crate::exit::{Exit, Failure};
use crate::output::Progress;

/// How many submissions are under way at once.
const AT_ONCE: usize = 32;
/// Orders a second, so that the faults of a run do not all fall into its first second …
const ORDERS_PER_SECOND: f64 = 50.0;
/// … but at least, and at most, so long for all of them.
const SECONDS: std::ops::RangeInclusive<f64> = 4.0..=30.0;
/// The engine is killed when these shares of the orders are accepted. Only twice: a saga that is taken over three times
/// before anything could happen to it is left to people (rule 1), and a slow machine may not get on for seconds.
const KILLS: [f64; 2] = [0.5, 0.75];
/// How long a client waits before it repeats what failed, and for how long it does.
const AGAIN: Duration = Duration::from_millis(100);
const GIVE_UP: Duration = Duration::from_secs(120);

/// The clients' side of a run.
#[derive(Debug)]
pub(super) struct Drive {
    pub(super) api: Api,
    pub(super) accepted: AtomicU32,
    /// Submissions that were sent again, because the first answer was lost or the server was away.
    pub(super) repeated: AtomicU32,
    pub(super) cancels: AtomicU32,
    kills: AtomicU32,
}

impl Drive {
    pub(super) fn new(api: Api) -> Self {
        Self { api, accepted: 0.into(), repeated: 0.into(), cancels: 0.into(), kills: 0.into() }
    }

    /// Submits every order; comes back when all are accepted and every cancel was said. `kill`: the engine is killed meanwhile.
    pub(super) async fn run(
        self: Arc<Self>,
        orders: Vec<Order>,
        engine: Arc<Mutex<Engine>>,
        kill: bool,
        crew: &Crew,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let count = u32::try_from(orders.len()).unwrap_or(u32::MAX);
        let seconds = (f64::from(count) / ORDERS_PER_SECOND).clamp(*SECONDS.start(), *SECONDS.end());
        let pause = Duration::from_secs_f64(if kill { seconds / f64::from(count.max(1)) } else { 0.0 });
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut clients = JoinSet::new();
        if kill {
            clients.spawn(kills(self.clone(), engine, count));
        }
        let began = Instant::now();
        for (n, order) in (0..).zip(orders) {
            tokio::time::sleep_until(began + pause * n).await;
            let place =
                places.clone().acquire_owned().await.expect("invariant: the semaphore is never closed");
            let drive = self.clone();
            clients.spawn(async move {
                drive.submit(&order).await?;
                drop(place);
                if let Some(after) = order.cancelled_after {
                    tokio::time::sleep(after).await;
                    drive.cancel(&order.id).await?;
                }
                Ok(())
            });
            progress.show(&self.so_far(count, &crew.report()));
            while let Some(ended) = clients.try_join_next() {
                check(ended)?;
            }
        }
        while let Some(ended) = clients.join_next().await {
            check(ended)?;
        }
        Ok(())
    }

    fn so_far(&self, count: u32, report: &Report) -> String {
        let (accepted, kills) = (self.accepted.load(Ordering::Relaxed), self.kills.load(Ordering::Relaxed));
        let faults: u32 = report.faults.values().sum();
        let crashes = report.crashes;
        format!(
            "{accepted} of {count} orders accepted, {faults} faults, participants killed {crashes}x, engine killed {kills}x"
        )
    }

    async fn submit(&self, order: &Order) -> Result<(), Failure> {
        let body = Payload::json(&json!({ "saga": order.saga, "id": order.id, "input": order.input }));
        self.persistently("/v1/sagas", &body).await?;
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn cancel(&self, id: &str) -> Result<(), Failure> {
        let body = Payload::json(&json!({ "reason": "the customer changed their mind" }));
        match self.persistently(&format!("{}/cancel", saga::path(id)), &body).await {
            Ok(_) => {}
            // It is too late: that is an answer too.
            Err(failure) if failure.exit == Exit::Conflict => {}
            Err(failure) => return Err(failure),
        }
        self.cancels.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Sends until there is an answer: under the same id it is one operation, however often it is sent.
    async fn persistently(&self, path: &str, body: &Payload) -> Result<Value, Failure> {
        let began = Instant::now();
        loop {
            match self.api.send(Method::POST, path, Some(body.clone()), None, Duration::ZERO).await {
                Ok(answer) => return Ok(answer.body),
                Err(failure)
                    if matches!(failure.exit, Exit::Failed | Exit::TimeOver) && began.elapsed() < GIVE_UP =>
                {
                    self.repeated.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(AGAIN).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

fn check(ended: Result<Result<(), Failure>, JoinError>) -> Result<(), Failure> {
    ended.map_err(|e| Failure::failed(format!("a client of the demo broke: {e}"), "run it again"))?
}

/// Kills the engine at its moments.
async fn kills(drive: Arc<Drive>, engine: Arc<Mutex<Engine>>, count: u32) -> Result<(), Failure> {
    for share in KILLS {
        while f64::from(drive.accepted.load(Ordering::Relaxed)) < f64::from(count) * share {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        engine.lock().await.kill_and_restart().await?;
        drive.kills.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
