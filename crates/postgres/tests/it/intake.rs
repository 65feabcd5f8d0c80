//! Sagas begun by `amends.submit` in transactions of callers that have no other right.

use std::sync::Arc;
use std::time::Duration;

use amends_core::{SagaId, json};
use amends_postgres::PostgresStore;
use amends_store::conformance::Fixture;
use amends_store::conformance::intake::Caller;
use amends_store::conformance::samples::{create, now, row, submission};
use amends_store::{Intake, Submission, Work as _};
use amends_testbed::postgres::Postgres;
use async_trait::async_trait;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use tokio_postgres::{Client, NoTls};

/// What a role needs: nothing else is granted to it.
const ROLE: &str = "CREATE ROLE shop LOGIN; GRANT USAGE ON SCHEMA amends TO shop;
    GRANT EXECUTE ON FUNCTION amends.submit(text, text, json) TO shop";

const SUBMIT: &str = "SELECT amends.submit($1, $2, $3::text::json)";

struct Program(Client);

async fn connect(server: &Postgres, role: &str) -> Client {
    let url = format!("postgres://{role}@127.0.0.1:{}/postgres", server.port());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn words(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}

#[async_trait]
impl Caller for Program {
    async fn submit(&self, saga: &str, id: &str, input: &str) -> Result<(), String> {
        self.0.query(SUBMIT, &[&saga, &id, &input]).await.map(drop).map_err(|e| words(&e))
    }
}

async fn open() -> (Postgres, Arc<PostgresStore>) {
    let server = Postgres::start().unwrap();
    let store = Arc::new(PostgresStore::open(&server.url()).await.unwrap());
    server.ask(ROLE).unwrap();
    (server, store)
}

async fn make() -> (Fixture, Arc<dyn Caller>) {
    let (server, store) = open().await;
    let program = Program(connect(&server, "shop").await);
    (Fixture::new(store, server), Arc::new(program))
}

amends_store::intake_suite!(make);

async fn waiting(store: &PostgresStore) -> u64 {
    store.intake().unwrap().backlog().await.unwrap().waiting
}

#[tokio::test]
async fn what_is_rolled_back_never_was() {
    let (server, store) = open().await;
    let mut client = connect(&server, "shop").await;
    let tx = client.transaction().await.unwrap();
    assert!(tx.query_one(SUBMIT, &[&"order", &"order:1", &"{}"]).await.unwrap().get::<_, bool>(0));
    assert!(!tx.query_one(SUBMIT, &[&"order", &"order:1", &"{ }"]).await.unwrap().get::<_, bool>(0));
    assert_eq!(waiting(&store).await, 0);
    tx.rollback().await.unwrap();
    assert_eq!(waiting(&store).await, 0);
    // One that fails takes the whole transaction with it.
    let tx = client.transaction().await.unwrap();
    tx.query_one(SUBMIT, &[&"order", &"order:1", &"{}"]).await.unwrap();
    assert!(tx.query_one(SUBMIT, &[&"order", &"order:1", &"[]"]).await.is_err());
    assert!(tx.commit().await.is_err() || waiting(&store).await == 0);
    assert_eq!(waiting(&store).await, 0);
}

/// The second waits for the first, and then for what became of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_transactions_with_one_id_the_second_waits() {
    let (server, store) = open().await;
    for (commits, second, expected) in
        [(true, "{\"a\":1}", Ok(false)), (true, "{\"a\":2}", Err(())), (false, "{\"a\":2}", Ok(true))]
    {
        let id = format!("order:{commits}:{second}");
        let mut first = connect(&server, "shop").await;
        let tx = first.transaction().await.unwrap();
        tx.query_one(SUBMIT, &[&"order", &id, &"{\"a\": 1}"]).await.unwrap();
        let other = connect(&server, "shop").await;
        let (of_other, input) = (id.clone(), second.to_owned());
        let asked = tokio::spawn(async move {
            other.query_one(SUBMIT, &[&"order", &of_other, &input]).await.map(|row| row.get::<_, bool>(0))
        });
        let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while server.ask(blocked).unwrap() == "0" {
            assert!(!asked.is_finished(), "it did not wait");
        }
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        assert_eq!(asked.await.unwrap().map_err(drop), expected, "{id}");
    }
    assert_eq!(waiting(&store).await, 3);
}

#[tokio::test]
async fn a_role_with_its_two_rights_can_do_nothing_else() {
    let (server, store) = open().await;
    let client = connect(&server, "shop").await;
    for forbidden in [
        "SELECT * FROM amends.submission",
        "INSERT INTO amends.submission (id, saga, input, fingerprint, submitted_by, submitted_at) VALUES ('x', 'x', '1', 'x', 'x', 1)",
        "DELETE FROM amends.submission",
        "SELECT * FROM amends.saga",
        "SELECT amends.canonical('1', 1)",
    ] {
        assert!(
            words(&client.simple_query(forbidden).await.unwrap_err()).contains("permission denied"),
            "{forbidden}"
        );
    }
    // Objects that shadow what the function uses change nothing.
    server.ask("GRANT CREATE ON SCHEMA public TO shop").unwrap();
    let shadow = "CREATE FUNCTION public.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT 'x'::bytea $$;
        CREATE TEMPORARY TABLE pg_class (x int); SET search_path = public, pg_catalog";
    client.batch_execute(shadow).await.unwrap();
    client.query_one(SUBMIT, &[&"order", &"order:1", &"{}"]).await.unwrap();
    let nobody = server.ask("CREATE ROLE nobody LOGIN; SELECT 1").map(|_| ());
    nobody.unwrap();
    let client = connect(&server, "nobody").await;
    assert!(
        words(&client.query(SUBMIT, &[&"order", &"order:2", &"{}"]).await.unwrap_err()).contains("denied")
    );
    let taken = store.intake().unwrap().take(now(), 1_000, 10).await.unwrap();
    assert_eq!(
        taken.iter().map(|a| (a.id.as_str(), a.by.as_str())).collect::<Vec<_>>(),
        [("order:1", "shop")]
    );
    let expected = json::fingerprint("order", &serde_json::json!({}));
    assert_eq!(server.ask("SELECT fingerprint FROM amends.submission").unwrap(), expected);
}

#[tokio::test]
async fn a_commit_knocks_and_a_lost_connection_is_made_again() {
    let (server, store) = open().await;
    let client = connect(&server, "shop").await;
    let intake: &dyn Intake = store.intake().unwrap();
    // The first is when it begins to listen.
    intake.knock().await;
    client.query_one(SUBMIT, &[&"order", &"order:1", &"{}"]).await.unwrap();
    intake.knock().await;
    // Where others wait already nobody knocks; nor where it is switched off.
    client.query_one(SUBMIT, &[&"order", &"order:2", &"{}"]).await.unwrap();
    assert_eq!(intake.take(now(), 60_000, 10).await.unwrap().len(), 2);
    client.batch_execute("SET amends.notify = off").await.unwrap();
    client.query_one(SUBMIT, &[&"order", &"order:3", &"{}"]).await.unwrap();
    let silent = tokio::time::timeout(Duration::from_millis(300), intake.knock()).await;
    assert!(silent.is_err(), "somebody knocked");
    client.batch_execute("RESET amends.notify").await.unwrap();

    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    assert_eq!(server.ask(cut).unwrap(), "1");
    // It listens again, and says that something may have been missed.
    intake.knock().await;
    assert_eq!(intake.take(now(), 60_000, 10).await.unwrap().len(), 1);
    client.query_one(SUBMIT, &[&"order", &"order:4", &"{}"]).await.unwrap();
    intake.knock().await;
    assert_eq!(intake.take(now(), 60_000, 10).await.unwrap().len(), 1);
}

/// Two-phase commits of callers work without notifications.
#[tokio::test]
async fn a_prepared_transaction_waits_until_it_is_committed() {
    let server = Postgres::with(&[("max_prepared_transactions", "2")]).unwrap();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    server.ask("SET amends.notify = off; BEGIN; SELECT amends.submit('order', 'order:1', '{}'); PREPARE TRANSACTION 'x'").unwrap();
    assert_eq!(waiting(&store).await, 0);
    server.ask("COMMIT PREPARED 'x'").unwrap();
    assert_eq!(waiting(&store).await, 1);
}

/// The API was quicker than the first one's commit, with another input: whoever comes later is told, although a row waits.
#[tokio::test]
async fn a_row_that_will_be_refused_answers_for_nobody() {
    let (server, store) = open().await;
    let mut client = connect(&server, "shop").await;
    let tx = client.transaction().await.unwrap();
    tx.query_one(SUBMIT, &[&"order", &"order:1", &"{}"]).await.unwrap();
    let other = json::fingerprint("order", &serde_json::json!([]));
    create(&*store, Submission { fingerprint: other, ..submission(row("order:1"), &[]) }).await;
    tx.commit().await.unwrap();
    let error = client.query(SUBMIT, &[&"order", &"order:1", &"{}"]).await.unwrap_err();
    assert!(words(&error).contains("another definition or input"), "{error}");
    assert_eq!(waiting(&store).await, 1);
}

/// A snapshot that is older than what others have done since is told so, rather than being wrong.
#[tokio::test]
async fn at_a_stricter_isolation_the_transaction_is_tried_again() {
    let (server, _store) = open().await;
    let mut client = connect(&server, "shop").await;
    let strict = client.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let tx = strict.start().await.unwrap();
    tx.query("SELECT 1", &[]).await.unwrap();
    server.ask("SELECT amends.submit('order', 'order:1', '{\"a\":1}')").unwrap();
    let error = tx.query(SUBMIT, &[&"order", &"order:1", &"{\"a\":2}"]).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "40001", "{error}");
}

/// Texts that are read in different ways, or that canonical text is easily got wrong for.
const HARD: [&str; 40] = [
    "null",
    "true",
    " false ",
    "0",
    "-0",
    "-0.0",
    "1",
    "1.0",
    "1.00",
    " 12.50 ",
    "1e2",
    "1E2",
    "1e+2",
    "1E-2",
    "1.5E10",
    "0e0",
    "123456789012345678901234567890",
    "0.1234567890123456789012345678901234567890",
    "9007199254740993",
    "1e400",
    "\"\"",
    "\"e5 1E5\"",
    r#""\" \\ \/ \b \f \n \r \t""#,
    r#""\u0001\u001f\u007f\u0080""#,
    r#""é\u00e9 \ud83d\ude00 😀""#,
    "\"\u{2028}\u{feff}<>&'\"",
    "\"\u{7f}\u{85}\"",
    "[]",
    "{}",
    " [ ] ",
    " { } ",
    "[[],{},[{}]]",
    r#"{"b":1,"a":2}"#,
    r#"{"é":1,"z":2,"Z":3,"":4,"a b":5,"😀":6,"～":7}"#,
    r#"{"\u0062":1,"a":{"y":[1,2.0,{"q":null}],"x":"\u0041"}}"#,
    r#"{"a\"b":1,"a\\b":2,"a\nb":3}"#,
    r#"{"aa":1,"a":2,"A":3,"aB":4,"ab":5}"#,
    r#"{"a":[1,[2,[3,[4]]]]}"#,
    "\r\n\t[\r\n1,\t2\r\n]\n",
    r#"{"1":1,"10":2,"2":3}"#,
];

/// JSON trees of any kind, with numbers of any text.
fn trees() -> impl Strategy<Value = String> {
    let number = "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,12})?([eE][+-]?[0-9]{1,3})?";
    let text = any::<String>().prop_map(|text| {
        let text = text.replace('\0', "");
        serde_json::to_string(&text).expect("a text")
    });
    let leaf =
        prop_oneof![Just("null".to_owned()), Just("true".to_owned()), number.prop_map(|n| n), text.clone()];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let members = proptest::collection::btree_map(text.clone(), inner.clone(), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..6).prop_map(|items| format!("[{}]", items.join(" , "))),
            members.prop_map(|members| {
                // Not in the order of their names.
                let members: Vec<String> =
                    members.iter().rev().map(|(name, value)| format!("{name} : {value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_canonical_text_is_the_engines() {
    // In a database that sorts words as people do.
    let server = Postgres::start().unwrap();
    let create = "CREATE DATABASE words TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8' LOCALE_PROVIDER icu ICU_LOCALE 'en'";
    server.ask(create).unwrap();
    let url = format!("postgres://postgres@127.0.0.1:{}/words", server.port());
    let _store = PostgresStore::open(&url).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut texts: Vec<String> = HARD.map(str::to_owned).to_vec();
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..400 {
        texts.push(trees().new_tree(&mut runner).unwrap().current());
    }
    let ask = client.prepare("SELECT amends.canonical($1::text::json, 64)").await.unwrap();
    let mut seen = 0;
    for text in texts {
        let Ok(tree) = serde_json::from_str::<Value>(&text) else { panic!("{text}") };
        let made: String =
            client.query_one(&ask, &[&text]).await.unwrap_or_else(|e| panic!("{text}: {}", words(&e))).get(0);
        assert_eq!(made, json::canonical(&tree), "{text}");
        seen += 1;
    }
    assert!(seen >= 440);
    // What PostgreSQL cannot hold, or no engine would read.
    for text in [r#""\u0000""#, r#""\ud800""#, r#"{"\u0000":1}"#] {
        assert!(client.query_one(&ask, &[&text]).await.is_err(), "{text}");
    }
}

#[tokio::test]
async fn what_is_missing_is_said() {
    let (server, _store) = open().await;
    let client = connect(&server, "shop").await;
    for sql in [
        "SELECT amends.submit(NULL, 'order:1', '{}')",
        "SELECT amends.submit('order', NULL, '{}')",
        "SELECT amends.submit('order', 'order:1', NULL)",
    ] {
        assert!(words(&client.simple_query(sql).await.unwrap_err()).contains("NULL"), "{sql}");
    }
    // Whatever the session makes of backslashes.
    client
        .batch_execute("SET standard_conforming_strings = off; SET escape_string_warning = off")
        .await
        .unwrap();
    assert!(client.query(SUBMIT, &[&"order", &"a\u{1}b", &"{}"]).await.is_err());
    client
        .simple_query("SELECT amends.submit(saga => 'order', id => 'order:1', input => '{\"a\": 1.50}')")
        .await
        .unwrap();
    assert!(SagaId::new("order:1").is_ok());
}
