//! What happens to a database server where it is the store.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::disk::{all_are_there, is_unready, order_until_refused};
use crate::api::Api;
use crate::ground::{Market, Setting, folder, order, refused_order};
use crate::kills::PAST_THE_LEASE;
use crate::nodes::Field;
use crate::patience::until;
use crate::servers::{Server, Servers};
use crate::shops::Conduct;
use crate::small_disk::SmallDisk;
use crate::store::StoreUrl;
use crate::wire::Harm;

/// How many orders are under way while something happens: every third is refused, so that it is undone.
const ORDERS: usize = 12;
/// The disk, and what lies on it until there has to be room.
const DISK_BYTES: u64 = 40 << 20;
const BALLAST_BYTES: usize = 28 << 20;

fn servers(store: &StoreUrl) -> Result<Servers> {
    store.servers().cloned().context("this happens to servers of the run's own: write --store postgres:")
}

async fn start_orders(api: &Api, prefix: &str) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for n in 0..ORDERS {
        let id = format!("{prefix}-{n}");
        let input = if n % 3 == 2 { refused_order() } else { order() };
        api.start("demo-order", &id, &input).await?;
        ids.push(id);
    }
    Ok(ids)
}

pub(super) async fn database_is_killed_and_stopped(store: StoreUrl) -> Result<()> {
    let servers = servers(&store)?;
    let market = Market::open(&store).await?;
    let api = market.ground.api.clone();
    let mut ids = Vec::new();
    for round in 0..2 {
        ids.extend(start_orders(&api, &format!("killed-{round}")).await?);
        servers.with_last(Server::restart)?;
    }
    ids.extend(start_orders(&api, "stopped").await?);
    servers.with_last(|server| server.pause(true))?;
    tokio::time::sleep(PAST_THE_LEASE).await;
    let submission = json!({ "saga": "demo-order", "id": "meanwhile", "input": order() });
    let refused = api.post("/v1/sagas", &submission).await?;
    ensure!(refused.status == 503, "{}: {}", refused.status, refused.text);
    servers.with_last(|server| server.pause(false))?;
    until("the engine notices that its lease has lapsed", || async {
        Ok((api.metric("amends_lease_lapses_total").await? >= 1.0).then_some(()))
    })
    .await?;
    api.start("demo-order", "meanwhile", &order()).await?;
    ids.push("meanwhile".to_owned());
    let settled = market.settle_clean(&ids).await?;
    ensure!(settled.verdict.completed + settled.verdict.compensated == ids.len(), "{:?}", settled.verdict);
    Ok(())
}

pub(super) async fn answers_to_commits_are_lost(store: StoreUrl) -> Result<()> {
    let field = Field::open(&store, Conduct::default(), 1).await?;
    let mut ids = Vec::new();
    for round in 0..6 {
        field.nodes[0].wire.harm(Harm::AnswerLost);
        ids.extend(start_orders(&field.api, &format!("lost-{round}")).await?);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let lost = field.met().get(Harm::AnswerLost.name()).copied().unwrap_or_default();
    ensure!(lost >= 4, "only {lost} answers were lost: nothing was shown");
    let settled = field.settle(&ids).await?;
    ensure!(settled.verdict.is_clean(), "{:#?}", settled.verdict);
    ensure!(settled.verdict.completed + settled.verdict.compensated == ids.len(), "{:?}", settled.verdict);
    Ok(())
}

#[allow(clippy::print_stderr, reason = "who may not mount a disk is told that nothing was shown")]
pub(super) async fn databases_disk_is_full(store: StoreUrl) -> Result<()> {
    let servers = servers(&store)?;
    let Some(disk) = SmallDisk::mount(DISK_BYTES)? else {
        eprintln!("only root can mount a small disk: that the database's disk is full is not shown");
        return Ok(());
    };
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![0; BALLAST_BYTES])?;
    let tables = disk.path().join("tables");
    fs::create_dir(&tables)?;
    let given = Command::new("chown").arg("-R").arg("postgres").arg(disk.path()).output()?;
    ensure!(given.status.success(), "{}", String::from_utf8_lossy(&given.stderr));
    let url = servers.fresh()?;
    // The log of the database stays where there is room: without it, PostgreSQL ends rather than to refuse.
    servers.sql(&format!("CREATE TABLESPACE small LOCATION '{}'", tables.display()))?;
    servers.sql("ALTER DATABASE postgres SET default_tablespace = small")?;
    let setting = Setting { store: Some(url), ..Setting::default() };
    let market = Market::set(&store, folder(&store)?, Conduct::default(), setting).await?;
    let (mut ids, told) = order_until_refused(&market).await?;
    ensure!(told.contains("its disk is full: free space there"), "{told}");
    is_unready(&market, "its disk is full").await?;
    all_are_there(&market, &ids).await?;
    fs::remove_file(&ballast)?;
    until("it is ready again by itself", || async {
        Ok((market.ground.api.get("/readyz").await?.status == 200).then_some(()))
    })
    .await?;
    market.ground.api.start("demo-order", "afterwards", &order()).await?;
    ids.push("afterwards".into());
    ensure!(ids.len() > 3, "only {} orders fit: nothing was shown", ids.len());
    let settled = market.settle_clean(&ids).await?;
    ensure!(settled.verdict.completed == ids.len(), "{:?}", settled.verdict);
    // The server has files open there.
    servers.with_last(|server| {
        server.kill();
        Ok(())
    })
}
