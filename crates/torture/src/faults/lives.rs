//! Deaths, stops and strange clocks of the engine.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::ground::{Ground, Market, Setting, folder, order};
use crate::kills::PAST_THE_LEASE;
use crate::patience::until;
use crate::proxy::{Rule, Trouble};
use crate::script::{Reply, Script};
use crate::shops::section;
use crate::store::StoreUrl;

pub(super) async fn killed_between_the_record_and_the_send(store: StoreUrl) -> Result<()> {
    // What is sent may be journalled before (no keys), or with what enabled it (keys): neither has arrived when the engine dies.
    for (saga, shop, about, step) in [
        ("demo-gift-order", "payment", "POST /vouchers ", "voucher"),
        ("demo-order", "inventory", "POST /reservations ", "reserve"),
        ("demo-order", "payment", "POST /charges ", "charge"),
    ] {
        let mut market = Market::open(&store).await?;
        market.shops.proxy(shop)?.rule(Rule::new(about, Trouble::NoRequests, 1));
        let api = market.ground.api.clone();
        api.start(saga, "order", &order()).await?;
        until("the request is on its way", || async {
            Ok(market.shops.met().contains_key(Trouble::NoRequests.name()).then_some(()))
        })
        .await?;
        let key = format!("order:{step}:action");
        if saga == "demo-gift-order" {
            let recorded = market.ground.entries("order", "sending").await?;
            ensure!(
                recorded.iter().any(|entry| entry["step"] == step),
                "the attempt is not recorded: {recorded:?}"
            );
        }
        ensure!(market.lines()?.iter().all(|line| line.key != key), "it has arrived: nothing is shown");
        market.ground.kill_and_restart().await?;
        api.ends("order", "completed").await?;
        let settled = market.settle_clean(&["order".into()]).await?;
        let effects = settled.lines.iter().filter(|line| line.key == key).count();
        ensure!(effects == 1, "{key} happened {effects} times");
    }
    Ok(())
}

pub(super) async fn stopped_past_the_lease(store: StoreUrl) -> Result<()> {
    let market = Market::open(&store).await?;
    let payment = market.shops.proxy("payment")?;
    // Calls are under way, and their effects have happened, when the engine stops.
    payment.rule(Rule::new("POST /charges ", Trouble::NoAnswers, 4));
    let ids: Vec<String> = (0..12).map(|n| format!("order-{n}")).collect();
    let api = market.ground.api.clone();
    for id in &ids {
        api.start("demo-order", id, &order()).await?;
    }
    until("calls are under way", || async {
        Ok(market.shops.met().contains_key(Trouble::NoAnswers.name()).then_some(()))
    })
    .await?;
    market.ground.engine.freeze()?;
    tokio::time::sleep(PAST_THE_LEASE).await;
    market.ground.engine.thaw()?;
    until("the engine notices that its lease has lapsed", || async {
        Ok((api.metric("amends_lease_lapses_total").await? >= 1.0).then_some(()))
    })
    .await?;
    let settled = {
        let mut taken_over = 0;
        for id in &ids {
            api.ends(id, "completed").await?;
            taken_over += market.ground.entries(id, "taken_over").await?.len();
        }
        ensure!(taken_over > 0, "nothing was under way: nothing was shown");
        market.settle_clean(&ids).await?
    };
    ensure!(settled.verdict.completed == ids.len(), "{:?}", settled.verdict);
    Ok(())
}

/// Where the library is that lies about the wall clock.
fn faketime() -> Result<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").context("/usr/lib")?.filter_map(Result::ok);
    let found = folders
        .map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"))
        .chain([PathBuf::from("/usr/lib/faketime/libfaketimeMT.so.1")])
        .find(|file| file.is_file());
    found.context("the wall clock of a single process is set by libfaketime: install the package faketime")
}

/// A step that its participant puts off once, so that a timer of `wait` runs between its two attempts.
fn timer(name: &str, wait: &str) -> String {
    format!(
        r#"
saga = "{name}"
version = 1
[participants.a]
idempotency = "replay"
[[step]]
name = "only"
pivot = true
[step.action]
to = "a"
post = "/only"
retry = {{ initial = "{wait}", max_interval = "{wait}", max_attempts = 3, budget = "20m" }}
"#
    )
}

pub(super) async fn wall_clock_jumps_an_hour(store: StoreUrl) -> Result<()> {
    let library = faketime()?;
    let script = Script::start(|call| {
        let attempt = call.headers.get("amends-attempt").and_then(|value| value.to_str().ok());
        if attempt == Some("1") { Reply::Json(429, Value::Null) } else { Reply::Json(200, json!({})) }
    })
    .await?;
    let folder = folder(&store)?;
    let clock = folder.path().join("clock");
    std::fs::write(&clock, "+0")?;
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let setting = Setting {
        environment: vec![
            variable("LD_PRELOAD", &library.display().to_string()),
            variable("FAKETIME_TIMESTAMP_FILE", &clock.display().to_string()),
            variable("FAKETIME_NO_CACHE", "1"),
            // Only the wall clock can be set; the clocks that never jump are the machine's.
            variable("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ],
        ..Setting::default()
    };
    let ground = Ground::set(&store, folder, &section("a", script.at), setting).await?;
    let api = ground.api.clone();
    api.define(&timer("quick", "300ms")).await?;
    api.define(&timer("slow", "5m")).await?;
    let waiting = async |saga: &str, id: &str| {
        api.start(saga, id, &json!({})).await?;
        ground.entry(id, "answered").await
    };
    waiting("slow", "patient").await?;
    let ids = ["forward", "back", "further-back", "home"];
    for (id, clock_is) in ids.iter().zip(["+3600", "+0", "-3600", "+0"]) {
        waiting("quick", id).await?;
        std::fs::write(&clock, clock_is)?;
        api.ends(id, "completed").await?;
    }
    for id in ids {
        let sent = script.count("POST /only", &format!("{id}:only:action"));
        ensure!(sent == 2, "{id} was sent {sent} times instead of twice");
    }
    let sent = script.count("POST /only", "patient:only:action");
    ensure!(sent == 1, "a timer of five minutes fired when the clock jumped an hour");
    for id in ids.into_iter().chain(["patient"]) {
        let taken_over = ground.entries(id, "taken_over").await?;
        ensure!(taken_over.is_empty(), "{id} was taken over: {taken_over:?}");
    }
    let lapses = api.metric("amends_lease_lapses_total").await?;
    ensure!(lapses == 0.0, "the lease lapsed {lapses} times");
    Ok(())
}
