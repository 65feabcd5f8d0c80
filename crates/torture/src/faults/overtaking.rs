//! Compensations that come before the action they undo.

use std::time::Duration;

use amends_shop::Operation;
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::api::saga_path;
use crate::ground::{Market, order};
use crate::patience::until;
use crate::proxy::{Rule, Trouble};
use crate::store::StoreUrl;

/// An express order whose slot never reaches shipping in time, cancelled; gives the market and the saga when it has ended.
async fn cancelled(store: &StoreUrl, trouble: Trouble) -> Result<(Market, Value)> {
    let market = Market::open(store).await?;
    market.shops.proxy("shipping")?.rule(Rule::new("POST /slots ", trouble, u32::MAX));
    let api = market.ground.api.clone();
    api.start("demo-express-order", "order", &order()).await?;
    until("the slot is on its way", || async {
        Ok(market.shops.met().contains_key(trouble.name()).then_some(()))
    })
    .await?;
    let reason = json!({ "reason": "changed their mind" });
    let answer = api.insist(&format!("{}/cancel", saga_path("order")), &reason).await?;
    ensure!(answer.status == 200, "{}", answer.text);
    let saga = api.ends("order", "compensated").await?;
    Ok((market, saga))
}

fn slot(saga: &Value) -> Result<&Value> {
    let steps = saga["steps"].as_array().into_iter().flatten();
    steps.into_iter().find(|step| step["name"] == "slot").ok_or_else(|| anyhow::anyhow!("no slot: {saga:#}"))
}

/// What shipping's ledger says of the slot.
fn effects(market: &Market) -> Result<Vec<Operation>> {
    let of_it = market.lines()?.into_iter().filter(|line| line.of == "order:slot:action");
    Ok(of_it.map(|line| line.operation).collect())
}

pub(super) async fn compensation_overtakes_the_action(store: StoreUrl) -> Result<()> {
    let (market, saga) = cancelled(&store, Trouble::Late(Duration::from_secs(4))).await?;
    ensure!(slot(&saga)?["status"] == "skipped", "{saga:#}");
    ensure!(effects(&market)? == [Operation::Tombstone], "{:?}", effects(&market)?);
    let answers = market.shops.proxy("shipping")?.delivered().await?;
    ensure!(!answers.is_empty(), "nothing came late: nothing was shown");
    ensure!(answers.iter().all(|line| line.contains(" 422 ")), "what came late was not refused: {answers:?}");
    ensure!(effects(&market)? == [Operation::Tombstone], "{:?}", effects(&market)?);
    market.settle_clean(&["order".into()]).await.map(drop)
}

pub(super) async fn compensation_of_what_never_ran(store: StoreUrl) -> Result<()> {
    let (market, saga) = cancelled(&store, Trouble::NoRequests).await?;
    let slot = slot(&saga)?;
    ensure!(slot["status"] == "skipped" && slot["knowledge"] == "sealed", "{saga:#}");
    ensure!(effects(&market)? == [Operation::Tombstone], "{:?}", effects(&market)?);
    market.settle_clean(&["order".into()]).await.map(drop)
}
