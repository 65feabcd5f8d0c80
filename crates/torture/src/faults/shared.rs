//! Two nodes on one database.

use anyhow::{Result, ensure};
use futures_util::future::try_join;
use serde_json::{Value, json};

use crate::api::{Api, saga_path};
use crate::ground::{order, refused_order};
use crate::nodes::{Evidence, Field, Watch};
use crate::patience::until;
use crate::proxy::{Rule, Trouble};
use crate::shops::Conduct;
use crate::store::StoreUrl;

/// How often the same saga is submitted to two nodes at once.
const RACES: usize = 20;

async fn two_nodes(store: &StoreUrl) -> Result<Field> {
    Field::open(store, Conduct::default(), 2).await
}

/// Starts an order of which the charge is on its way, and whose answer does not come for some seconds.
async fn charging(field: &Field, api: &Api, id: &str) -> Result<()> {
    let before = field.shops.met().get(Trouble::NoAnswers.name()).copied().unwrap_or_default();
    let payment = field.shops.proxy("payment")?;
    payment.rule(Rule::new("POST /charges ", Trouble::NoAnswers, 1));
    // Long enough for a mail to another node.
    payment.rule(Rule::new("GET /charges", Trouble::NoAnswers, 2));
    api.start("demo-order", id, &order()).await?;
    until("the charge is on its way", || async {
        let met = field.shops.met().get(Trouble::NoAnswers.name()).copied().unwrap_or_default();
        Ok((met > before).then_some(()))
    })
    .await
}

pub(super) async fn any_node_answers_for_any_saga(store: StoreUrl) -> Result<()> {
    let field = two_nodes(&store).await?;
    let (one, two) = (field.nodes[0].api.clone(), field.nodes[1].api.clone());

    // First, while no connection is open on which a call could get through.
    retried(&field, &one, &two).await?;

    // Looked at, listed, waited for: where it is not.
    charging(&field, &one, "looked-at").await?;
    let seen = two.saga("looked-at").await?;
    ensure!(seen["status"] == "running" && seen["input"] == order(), "{seen}");
    ensure!(!two.journal("looked-at").await?.is_empty(), "no journal");
    let list = two.get("/v1/sagas?q=looked-at").await?.expect(200)?;
    ensure!(list.body["items"][0]["id"] == "looked-at", "{}", list.text);
    let submission = json!({ "saga": "demo-order", "id": "looked-at", "input": order() });
    let waited = two.post("/v1/sagas?wait=50s", &submission).await?.expect(200)?;
    ensure!(waited.body["status"] == "completed", "{}", waited.text);

    // Cancelled where it is not: both nodes show it.
    charging(&field, &one, "cancelled").await?;
    let why = json!({ "reason": "second thoughts" });
    let cancelled = two.post(&format!("{}/cancel", saga_path("cancelled")), &why).await?.expect(200)?;
    ensure!(cancelled.body["direction"] == "undo", "{}", cancelled.text);
    ensure!(one.saga("cancelled").await?["direction"] == "undo", "the owner does not know of it");
    two.ends("cancelled", "compensated").await?;
    let again = one.post(&format!("{}/cancel", saga_path("cancelled")), &why).await?;
    ensure!(matches!(again.status, 200 | 409), "{}", again.text);

    let raced = submitted_to_both(&one, &two).await?;

    let ids = ["looked-at", "cancelled", "retried"].map(str::to_owned).into_iter().chain(raced);
    let settled = field.settle(&ids.collect::<Vec<_>>()).await?;
    ensure!(settled.verdict.is_clean(), "{:#?}", settled.verdict);
    ensure!(settled.verdict.compensated >= 1, "{:?}", settled.verdict);
    Ok(())
}

/// A person retries at the second node what waits at the first.
async fn retried(field: &Field, one: &Api, two: &Api) -> Result<()> {
    let payment = field.shops.proxy("payment")?;
    payment.accept(false);
    one.start("demo-order", "retried", &order()).await?;
    until("the charge was refused", || async {
        let journal = one.journal("retried").await?;
        let refused = |entry: &Value| entry["step"] == "charge" && entry["outcome"] == "not_executed";
        Ok(journal.iter().any(refused).then_some(()))
    })
    .await?;
    let retry = json!({ "reason": "it is back", "step": "charge" });
    let stale = two.act("retried", "retry", 1, &retry).await?;
    ensure!(stale.problem() == "stale-version", "{}", stale.text);
    payment.accept(true);
    until("the retry meets the version that was seen", || async {
        let seen = two.saga("retried").await?;
        let answer =
            two.act("retried", "retry", seen["version"].as_u64().unwrap_or_default(), &retry).await?;
        // It may have been tried again, or be done, by itself meanwhile.
        ensure!(matches!(answer.status, 200 | 409 | 412), "{}", answer.text);
        Ok((answer.status != 412).then_some(()))
    })
    .await?;
    two.ends("retried", "completed").await.map(drop)
}

/// The same saga submitted to both nodes at once: one of them is told that it is new.
async fn submitted_to_both(one: &Api, two: &Api) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for n in 0..RACES {
        let id = format!("race-{n}");
        let input = if n % 4 == 3 { refused_order() } else { order() };
        let submission = json!({ "saga": "demo-order", "id": id, "input": input });
        let (a, b) = try_join(one.post("/v1/sagas", &submission), two.post("/v1/sagas", &submission)).await?;
        let mut told = [a.status, b.status];
        told.sort_unstable();
        ensure!(told == [200, 201], "{id}: {} {}", a.text, b.text);
        ensure!(a.body["created_at"] == b.body["created_at"], "two sagas: {} {}", a.text, b.text);
        let mut other = submission.clone();
        other["input"]["qty"] = 2.into();
        let refused = two.post("/v1/sagas", &other).await?.expect(422)?;
        ensure!(refused.problem() == "input-conflict", "{}", refused.text);
        ids.push(id);
    }
    Ok(ids)
}

pub(super) async fn a_revived_node_loses_what_it_had(store: StoreUrl) -> Result<()> {
    let field = two_nodes(&store).await?;
    let servers = store.servers().expect("invariant: two nodes share a server");
    let evidence = Evidence::begin(servers)?;
    let (one, two) = (&field.nodes[0], &field.nodes[1]);
    field.shops.proxy("payment")?.rule(Rule::new("POST /charges ", Trouble::NoAnswers, 6));
    let mut ids: Vec<String> = (0..12).map(|n| format!("order-{n}")).collect();
    for id in &ids {
        one.api.start("demo-order", id, &order()).await?;
    }
    until("calls are under way", || async {
        Ok(field.shops.met().contains_key(Trouble::NoAnswers.name()).then_some(()))
    })
    .await?;
    let watch = Watch::start(evidence.clone());
    one.engine.freeze()?;
    for id in &ids {
        two.api.ends(id, "completed").await?;
    }
    let watched = watch.end().await?;
    ensure!(watched.findings.is_empty() && watched.looks > 0, "{watched:?}");
    let take_overs = evidence.take_overs()?;
    ensure!(take_overs > 0, "nothing was taken over: nothing was shown");
    // What it had is over and done when it goes on. It goes on in the middle of whatever it was doing.
    let before = evidence.written()?;
    one.engine.thaw()?;
    until("the node says that its lease is over, and what became of its sagas", || async {
        let log = one.engine.log();
        Ok((log.contains("the node's lease lapsed") && log.contains("joined anew")).then_some(()))
    })
    .await?;
    ensure!(one.api.metric("amends_lease_lapses_total").await? >= 1.0, "the lapse is not counted");
    ensure!(evidence.written()? == before, "it has written what it had decided under its former lease");
    // From now on it works as before.
    one.api.start("demo-order", "afterwards", &order()).await?;
    one.api.ends("afterwards", "completed").await?;
    ids.push("afterwards".into());
    ensure!(evidence.out_of_turn()? == 0 && evidence.epochs_backwards()? == 0, "entries out of turn");
    let settled = field.settle(&ids).await?;
    ensure!(settled.verdict.is_clean() && settled.verdict.completed == ids.len(), "{:?}", settled.verdict);
    Ok(())
}

/// What a version to come writes.
const FROM_TOMORROW: &str = r#"{"teleported":{"to":"mars"}}"#;
/// How it reads to whoever knows it: an entry that changes nothing.
const FROM_TODAY: &str = r#"{"taken_over":{"epoch":1,"lapsed":false,"busy":false,"next":[]}}"#;

pub(super) async fn a_newer_version_writes_what_this_one_does_not_know(store: StoreUrl) -> Result<()> {
    let mut field = two_nodes(&store).await?;
    let evidence = Evidence::begin(store.servers().expect("invariant: two nodes share a server"))?;
    let one = field.nodes[0].api.clone();
    let ids: Vec<String> = ["tomorrow", "tomorrow-too", "today"].map(str::to_owned).to_vec();
    for id in &ids {
        charging(&field, &one, id).await?;
    }
    for node in &mut field.nodes {
        node.engine.kill().await?;
    }
    evidence.ask(&format!(
        "INSERT INTO {{entry}} (saga, seq, nonce, at, keep, body)
            SELECT s.rowid, max(e.seq) + 1, 1, max(e.at), false, CAST('{FROM_TOMORROW}' AS {{bytes}})
            FROM {{saga}} s JOIN {{entry}} e ON e.saga = s.rowid WHERE s.id LIKE 'tomorrow%' GROUP BY s.rowid"
    ))?;
    field.nodes[0].start_again().await?;
    for id in &ids[..2] {
        let parked = one.ends(id, "dead").await?;
        let reason = parked["reason"].as_str().unwrap_or_default();
        ensure!(
            reason.contains("newer version") && reason.contains("run a node of that version"),
            "{parked}"
        );
    }
    let dead = one.get("/v1/dead-letters").await?.expect(200)?;
    ensure!(
        dead.body["items"][0]["error_class"] == "unreadable" && dead.body["items"][0]["count"] == 2,
        "{}",
        dead.text
    );
    // No others, and the node goes on.
    one.ends("today", "completed").await?;
    one.start("demo-order", "afterwards", &order()).await?;
    one.ends("afterwards", "completed").await?;
    // A person who acts on it is told, and nothing is changed.
    let version = one.saga("tomorrow").await?["version"].as_u64().unwrap_or_default();
    let close = json!({ "reason": "enough of it" });
    let refused = one.act("tomorrow", "close", version, &close).await?.expect(409)?;
    ensure!(refused.text.contains("newer version"), "{}", refused.text);

    // A node that knows the entry: to it, it reads like one that this version knows.
    evidence.ask(&format!(
        "UPDATE {{entry}} SET body = CAST('{FROM_TODAY}' AS {{bytes}}) WHERE body = CAST('{FROM_TOMORROW}' AS {{bytes}})"
    ))?;
    ensure!(one.saga("tomorrow").await?["status"] != "completed", "nobody has started yet");
    field.nodes[1].start_again().await?;
    let ids: Vec<String> = ids.into_iter().chain(["afterwards".to_owned()]).collect();
    for id in &ids {
        field.nodes[1].api.ends(id, "completed").await?;
    }
    let settled = field.settle(&ids).await?;
    ensure!(settled.verdict.is_clean() && settled.verdict.completed == ids.len(), "{:?}", settled.verdict);
    Ok(())
}
