//! Connections to participants that break in every way.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::ground::{Market, order, refused_order};
use crate::proxy::{Rule, Trouble};
use crate::store::StoreUrl;

/// Where the calls of an order go, and what they are.
const CALLS: [(&str, &str); 3] =
    [("inventory", "POST /reservations "), ("payment", "POST /charges "), ("shipping", "POST /shipments ")];
/// Where its compensations go.
const UNDOS: [(&str, &str); 2] =
    [("payment", "POST /refunds "), ("inventory", "POST /reservations/release ")];
/// Queries, of which some meet the same trouble.
const QUERIES: [(&str, &str); 2] = [("payment", "GET /charges"), ("payment", "GET /refunds")];

/// One order goes through and another is undone, and each call on the way meets the troubles: the first `times` requests of it.
/// Gives the outcomes that the engine journalled.
async fn all_calls_meet(store: &StoreUrl, troubles: &[Trouble]) -> Result<Vec<String>> {
    let market = Market::open(store).await?;
    for (name, about) in CALLS.iter().chain(&UNDOS).chain(&QUERIES) {
        for trouble in troubles {
            market.shops.proxy(name)?.rule(Rule::new(about, *trouble, 1));
        }
    }
    let api = market.ground.api.clone();
    api.start("demo-order", "through", &order()).await?;
    api.ends("through", "completed").await?;
    // Everything else is undone, and its calls meet the troubles anew.
    for (name, about) in CALLS.iter().chain(&UNDOS) {
        for trouble in troubles {
            market.shops.proxy(name)?.rule(Rule::new(about, *trouble, 1));
        }
    }
    api.start("demo-order", "undone", &refused_order()).await?;
    api.ends("undone", "compensated").await?;
    let mut outcomes = Vec::new();
    for id in ["through", "undone"] {
        for entry in market.ground.entries(id, "answered").await? {
            outcomes.push(entry["outcome"].as_str().unwrap_or_default().to_owned());
        }
    }
    let met: u32 = market.shops.met().values().sum();
    ensure!(met >= 5, "only {met} troubles were met: nothing was shown");
    market.settle_clean(&["through".into(), "undone".into()]).await?;
    Ok(outcomes)
}

fn count(outcomes: &[String], word: &str) -> usize {
    outcomes.iter().filter(|outcome| *outcome == word).count()
}

pub(super) async fn reply_is_dropped_after_the_commit(store: StoreUrl) -> Result<()> {
    let outcomes = all_calls_meet(&store, &[Trouble::AnswerCut(0)]).await?;
    ensure!(count(&outcomes, "unknown") >= CALLS.len() + UNDOS.len(), "{outcomes:?}");
    Ok(())
}

pub(super) async fn connection_is_delayed(store: StoreUrl) -> Result<()> {
    let troubles = [Trouble::Delay(Duration::from_millis(60)), Trouble::Delay(Duration::from_millis(600))];
    all_calls_meet(&store, &troubles).await.map(drop)
}

pub(super) async fn connection_is_reset(store: StoreUrl) -> Result<()> {
    let outcomes = all_calls_meet(&store, &[Trouble::Reset, Trouble::ResetAtAnswer]).await?;
    ensure!(count(&outcomes, "unknown") > 0, "{outcomes:?}");
    Ok(())
}

pub(super) async fn connection_is_half_open(store: StoreUrl) -> Result<()> {
    // Within the first line, within the head, and within the body.
    for bytes in [3, 120, usize::MAX] {
        let outcomes = all_calls_meet(&store, &[Trouble::HalfOpen(bytes)]).await?;
        ensure!(count(&outcomes, "unknown") > 0, "{outcomes:?}");
    }
    Ok(())
}

pub(super) async fn connection_is_one_way(store: StoreUrl) -> Result<()> {
    let outcomes = all_calls_meet(&store, &[Trouble::NoRequests, Trouble::NoAnswers]).await?;
    ensure!(count(&outcomes, "unknown") > 0, "{outcomes:?}");
    Ok(())
}

pub(super) async fn answer_is_cut_at_any_byte(store: StoreUrl) -> Result<()> {
    let cuts = [1, 12, 17, 40, 90, 130];
    for pair in cuts.chunks(2) {
        let troubles: Vec<Trouble> = pair.iter().map(|bytes| Trouble::AnswerCut(*bytes)).collect();
        let outcomes = all_calls_meet(&store, &troubles).await?;
        ensure!(count(&outcomes, "unknown") > 0, "{outcomes:?}");
    }
    Ok(())
}

pub(super) async fn connection_is_refused(store: StoreUrl) -> Result<()> {
    let market = Market::open(&store).await?;
    let api = market.ground.api.clone();
    let payment = market.shops.proxy("payment")?;
    payment.accept(false);
    api.start("demo-order", "through", &order()).await?;
    let refused = |entry: &serde_json::Value| entry["step"] == "charge" && entry["outcome"] == "not_executed";
    crate::patience::until("the connection is refused twice", || async {
        let journal = api.journal("through").await?;
        Ok((journal.iter().filter(|entry| refused(entry)).count() >= 2).then_some(()))
    })
    .await?;
    payment.accept(true);
    api.ends("through", "completed").await?;
    let asked = market.ground.entries("through", "asked").await?;
    ensure!(asked.is_empty(), "what was refused before the wire was asked about: {asked:?}");
    market.settle_clean(&["through".into()]).await.map(drop)
}
