//! What happens to Redis where it is the store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use amends_testbed::redis::Redis;
use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::engine::{Engine, binary};
use crate::ground::{Market, Setting, folder, order, refused_order};
use crate::patience::until;
use crate::servers::{Kind, Servers};
use crate::shops::Conduct;
use crate::store::StoreUrl;

/// How many orders are under way while something happens: every third is refused, so that it is undone.
const ORDERS: usize = 12;

fn servers(store: &StoreUrl) -> Result<Servers> {
    store
        .servers()
        .filter(|servers| servers.kind == Kind::Redis)
        .cloned()
        .context("this happens to Redis servers of the run's own: write --store redis:")
}

async fn start_orders(market: &Market, prefix: &str) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for n in 0..ORDERS {
        let id = format!("{prefix}-{n}");
        let input = if n % 3 == 2 { refused_order() } else { order() };
        market.ground.api.start("demo-order", &id, &input).await?;
        ids.push(id);
    }
    Ok(ids)
}

pub(super) async fn redis_is_killed_and_stopped(store: StoreUrl) -> Result<()> {
    let servers = servers(&store)?;
    let market = Market::open(&store).await?;
    let mut ids = Vec::new();
    for round in 0..4 {
        ids.extend(start_orders(&market, &format!("round-{round}")).await?);
        if round % 2 == 0 {
            servers.with_redis(|server| {
                server.kill();
                server.restart()
            })?;
        } else {
            servers.with_redis(|server| server.process().pause(true))?;
            tokio::time::sleep(Duration::from_millis(700)).await;
            servers.with_redis(|server| server.process().pause(false))?;
        }
    }
    let settled = market.settle_clean(&ids).await?;
    ensure!(settled.verdict.completed + settled.verdict.compensated == ids.len(), "{:?}", settled.verdict);
    Ok(())
}

pub(super) async fn functions_are_flushed_under_load(store: StoreUrl) -> Result<()> {
    let servers = servers(&store)?;
    let market = Market::open(&store).await?;
    let done = Arc::new(AtomicBool::new(false));
    let flushing = tokio::spawn({
        let (servers, done) = (servers.clone(), done.clone());
        async move {
            let mut flushes = 0;
            while !done.load(Ordering::Relaxed) {
                servers.with_redis(|server| {
                    server.ask(&["FUNCTION", "FLUSH"])?;
                    server.ask(&["SCRIPT", "FLUSH"])
                })?;
                flushes += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok::<_, anyhow::Error>(flushes)
        }
    });
    let mut ids = Vec::new();
    for round in 0..4 {
        for n in 0..ORDERS {
            let id = format!("flush-{round}-{n}");
            // Sent once each: no failure may be seen.
            let answer = market
                .ground
                .api
                .post("/v1/sagas", &json!({ "saga": "demo-order", "id": id, "input": order() }))
                .await?;
            ensure!(answer.status == 201, "{}: {}", answer.status, answer.text);
            ids.push(id);
        }
    }
    for id in &ids {
        market.ground.api.ends(id, "completed").await?;
    }
    done.store(true, Ordering::Relaxed);
    ensure!(flushing.await?? > 3, "nothing was flushed: nothing was shown");
    market.settle_clean(&ids).await.map(drop)
}

pub(super) async fn redis_runs_out_of_memory(store: StoreUrl) -> Result<()> {
    let servers = servers(&store)?;
    let market = Market::open(&store).await?;
    let mut ids = start_orders(&market, "before").await?;
    servers.with_redis(|server| server.ask(&["CONFIG", "SET", "maxmemory", "1mb"]).map(drop))?;
    until("the engine says that the store takes no writes", || async {
        let answer = market
            .ground
            .api
            .post("/v1/sagas", &json!({ "saga": "demo-order", "id": "too-much", "input": order() }))
            .await?;
        Ok((answer.status == 503).then_some(()))
    })
    .await?;
    servers.with_redis(|server| server.ask(&["CONFIG", "SET", "maxmemory", "0"]).map(drop))?;
    ids.extend(start_orders(&market, "after").await?);
    let settled = market.settle_clean(&ids).await?;
    ensure!(settled.verdict.completed + settled.verdict.compensated == ids.len(), "{:?}", settled.verdict);
    Ok(())
}

pub(super) async fn an_old_snapshot_is_restored(store: StoreUrl) -> Result<()> {
    let servers = servers(&store)?;
    let mut market = Market::open(&store).await?;
    let before = start_orders(&market, "before").await?;
    for id in &before {
        market
            .ground
            .api
            .wait(id, "its end", |saga| saga["status"] == "completed" || saga["status"] == "compensated")
            .await?;
    }
    // Everything is synced: the files are what a backup would have.
    let backup = tempfile::tempdir()?;
    servers.with_redis(|server| copy(server.folder(), backup.path()))?;
    let after = start_orders(&market, "after").await?;
    for id in &after {
        market
            .ground
            .api
            .wait(id, "its end", |saga| saga["status"] == "completed" || saga["status"] == "compensated")
            .await?;
    }
    // A node remembers what it saw at least as often as it renews its lease.
    tokio::time::sleep(Duration::from_secs(6)).await;
    servers.with_redis(|server| {
        server.kill();
        server.forget_data()?;
        copy(backup.path(), server.folder())?;
        server.restart()
    })?;
    // The engine that runs pauses, and says what to do.
    until("the engine notices that the store went back", || async {
        let ready = market.ground.api.get("/readyz").await?;
        Ok((ready.status == 503 && ready.text.contains("accept-loss")).then_some(()))
    })
    .await?;
    let refused = market
        .ground
        .api
        .post("/v1/sagas", &json!({ "saga": "demo-order", "id": "later", "input": order() }))
        .await?;
    ensure!(
        refused.status == 503,
        "it goes on as if nothing had been lost: {} {}",
        refused.status,
        refused.text
    );
    // One that starts says so and ends: it has nothing to do here.
    market.ground.engine.kill().await?;
    let (_, said) = Engine::start_in_vain(market.ground.engine.start_with()).await?;
    ensure!(said.contains("went back to commit") && said.contains("accept-loss"), "{said}");

    let url = servers.with_redis(|server| Ok(server.url()))?;
    let accepted = std::process::Command::new(binary()?)
        .args(["doctor", "--store", &url, "--accept-loss", "--reason", "the disk was replaced"])
        .current_dir(market.folder())
        .output()?;
    ensure!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
    market.ground.engine.start_again().await?;
    market.ground.api.start("demo-order", "later", &order()).await?;
    market.ground.api.ends("later", "completed").await?;
    for id in &before {
        market.ground.api.saga(id).await?;
    }
    Ok(())
}

pub(super) async fn a_replica_is_promoted(store: StoreUrl) -> Result<()> {
    let servers = servers(&store)?;
    let own = folder(&store)?;
    let url = servers.fresh()?;
    let replica = servers.with_redis(|primary: &mut Redis| primary.replica())?;
    let setting = Setting { store: Some(format!("{url}?wait=1")), ..Setting::default() };
    let mut market = Market::set(&store, own, Conduct::default(), setting).await?;
    let mut ids = start_orders(&market, "before").await?;
    servers.with_redis(|primary| {
        primary.kill();
        replica.promote()
    })?;
    market.ground.engine.kill().await?;
    // It has no replica now, and waits for none.
    market.ground.engine.start_with().store = replica.url();
    market.ground.engine.start_again().await?;
    ids.extend(start_orders(&market, "after").await?);
    let settled = market.settle_clean(&ids).await?;
    ensure!(settled.verdict.completed + settled.verdict.compensated == ids.len(), "{:?}", settled.verdict);
    Ok(())
}

/// Copies a folder of files and folders.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
