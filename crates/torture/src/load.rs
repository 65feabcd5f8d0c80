//! Whoever orders: without pause, each order until it is acknowledged, some cancelled again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use amends_shop::{Order, order};
use anyhow::{Result, ensure};
use serde_json::json;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

use crate::api::{Api, saga_path};

/// Submissions under way at once.
const AT_ONCE: usize = 16;
/// Orders a second: enough that every fault meets some at work, few enough that a busy machine gets on with them.
const ORDERS_PER_SECOND: f64 = 12.0;
/// The share of orders that business refuses or people cancel.
const CANCELLED_OR_REFUSED: f64 = 0.25;

/// Whoever orders.
#[derive(Debug)]
pub(crate) struct Load {
    api: Api,
    seed: u64,
    tag: String,
    /// Ids of all orders that were accepted.
    ids: Mutex<Vec<String>>,
    stop: AtomicBool,
    failed: AtomicBool,
}

impl Load {
    pub(crate) fn new(api: Api, seed: u64) -> Self {
        // A store that is named may hold an earlier run.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let tag = format!("{seed}-{}", since.as_millis());
        Self { api, seed, tag, ids: Mutex::default(), stop: false.into(), failed: false.into() }
    }

    /// Orders until it is told to stop.
    pub(crate) async fn run(self: Arc<Self>) -> Result<()> {
        let result = self.clone().order_on().await;
        self.failed.store(result.is_err(), Ordering::Relaxed);
        result
    }

    /// Tells it to order no more.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ids of all orders that were accepted so far.
    pub(crate) async fn ids(&self) -> Vec<String> {
        self.ids.lock().await.clone()
    }

    /// How many were accepted so far.
    pub(crate) async fn accepted(&self) -> usize {
        self.ids.lock().await.len()
    }

    /// # Errors
    /// If an order was refused for good.
    pub(crate) fn is_alive(&self) -> Result<()> {
        ensure!(!self.failed.load(Ordering::Relaxed), "whoever orders has failed");
        Ok(())
    }

    async fn order_on(self: Arc<Self>) -> Result<()> {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut clients: JoinSet<Result<()>> = JoinSet::new();
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / ORDERS_PER_SECOND));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for n in 0.. {
            ticks.tick().await;
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let place = places.clone().acquire_owned().await?;
            let order = order(self.seed, &self.tag, n, CANCELLED_OR_REFUSED);
            let load = self.clone();
            clients.spawn(async move {
                // Each goes to another node, where there are several.
                load.submit(&load.api.beginning_at(n), order).await?;
                drop(place);
                Ok(())
            });
            while let Some(ended) = clients.try_join_next() {
                ended??;
            }
        }
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// An order, and perhaps its cancel. Under the same id it is one order, however often and wherever it is sent.
    async fn submit(&self, api: &Api, order: Order) -> Result<()> {
        let accepted = api.start(order.saga, &order.id, &order.input).await?;
        ensure!(accepted["id"] == *order.id, "another saga was answered: {accepted}");
        self.ids.lock().await.push(order.id.clone());
        if let Some(after) = order.cancelled_after {
            tokio::time::sleep(after).await;
            let why = json!({ "reason": "the customer changed their mind" });
            let elsewhere = api.beginning_at(self.ids.lock().await.len().try_into()?);
            let cancelled = elsewhere.insist(&format!("{}/cancel", saga_path(&order.id)), &why).await?;
            // It may be too late: that is an answer too.
            ensure!(matches!(cancelled.status, 200 | 202 | 409), "{}: {}", order.id, cancelled.text);
        }
        Ok(())
    }
}
