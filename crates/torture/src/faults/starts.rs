//! The same saga submitted by many at once.

use anyhow::{Result, ensure};
use futures_util::future::join_all;
use serde_json::json;

use crate::ground::{Market, order};
use crate::store::StoreUrl;

const STARTS: usize = 50;

pub(super) async fn fifty_starts_of_one_id(store: StoreUrl) -> Result<()> {
    let market = Market::open(&store).await?;
    let api = market.ground.api.clone();
    let submission = json!({ "saga": "demo-order", "id": "order", "input": order() });
    let answers = join_all((0..STARTS).map(|_| api.post("/v1/sagas", &submission))).await;
    let mut new = 0;
    for answer in answers {
        let answer = answer?;
        ensure!(matches!(answer.status, 200 | 201), "{}: {}", answer.status, answer.text);
        new += usize::from(answer.status == 201);
        for (name, expected) in [("id", "order"), ("saga", "demo-order")] {
            ensure!(answer.body[name] == expected, "{}", answer.text);
        }
        let (created, known) = (&answer.body["created_at"], api.saga("order").await?["created_at"].clone());
        ensure!(*created == known, "{created} is not {known}");
    }
    ensure!(new == 1, "{new} of {STARTS} submissions were told that it is new");
    let mut other = submission.clone();
    other["input"]["qty"] = 2.into();
    let refused = api.post("/v1/sagas", &other).await?.expect(422)?;
    ensure!(refused.problem() == "input-conflict", "{}", refused.text);
    api.ends("order", "completed").await?;
    // After its end too.
    api.post("/v1/sagas", &submission).await?.expect(200)?;
    api.post("/v1/sagas", &other).await?.expect(422)?;
    market.settle_clean(&["order".into()]).await.map(drop)
}

pub(super) async fn fifty_starts_while_the_engine_dies(store: StoreUrl) -> Result<()> {
    let mut market = Market::open(&store).await?;
    let api = market.ground.api.clone();
    let input = order();
    let starts = join_all((0..STARTS).map(|_| api.start("demo-order", "order", &input)));
    let (answers, restarted) = tokio::join!(starts, market.ground.kill_and_restart());
    restarted?;
    for answer in answers {
        ensure!(answer?["id"] == "order", "another saga was answered");
    }
    api.ends("order", "completed").await?;
    market.settle_clean(&["order".into()]).await.map(drop)
}
