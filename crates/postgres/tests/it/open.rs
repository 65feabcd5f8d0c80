//! What is refused when a store is opened, and what is made.

use amends_postgres::PostgresStore;
use amends_store::conformance::samples::{commit, row, submission};
use amends_store::{Item, Kind, Outcome, Submitted};
use amends_testbed::postgres::Postgres;

async fn refused(url: &str) -> String {
    let error = PostgresStore::open(url).await.unwrap_err();
    assert_eq!(error.kind, Kind::Refused, "{error}");
    error.message
}

#[tokio::test]
async fn settings_that_lose_what_was_committed_are_refused() {
    let settings = [("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "off")];
    let server = Postgres::with(&settings).unwrap();
    let message = refused(&server.url()).await;
    for (name, _) in settings {
        assert!(message.contains(&format!("{name} is off")), "{message}");
    }
    server.ask("ALTER SYSTEM SET default_transaction_read_only = on").unwrap();
    server.ask("SELECT pg_reload_conf()").unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !refused(&server.url()).await.contains("default_transaction_read_only") {
        assert!(std::time::Instant::now() < until);
    }
    assert_eq!(server.ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'amends'").unwrap(), "0");
}

/// A session that comes later still waits for the disk.
#[tokio::test]
async fn a_setting_that_is_changed_later_loses_nothing() {
    let server = Postgres::start().unwrap();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    server.ask("ALTER SYSTEM SET synchronous_commit = off").unwrap();
    server.ask("SELECT pg_reload_conf()").unwrap();
    server
        .ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'amends'")
        .unwrap();
    // What the session that commits has set, written down by itself.
    server
        .ask(
            "CREATE TABLE seen (value text);
            CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN INSERT INTO seen SELECT current_setting(''synchronous_commit''); RETURN NEW; END';
            CREATE TRIGGER see BEFORE INSERT ON amends.entry FOR EACH STATEMENT EXECUTE FUNCTION see()",
        )
        .unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !matches!(
        commit(&store, Item::Submit(submission(row("order:1"), &[]))).await,
        Outcome::Submitted(Submitted::Created(_))
    ) {
        assert!(std::time::Instant::now() < until);
    }
    assert_eq!(server.ask("SHOW synchronous_commit").unwrap(), "off");
    assert_eq!(server.ask("SELECT value FROM seen").unwrap(), "on");
}

#[tokio::test]
async fn a_replica_is_refused() {
    let mut server = Postgres::start().unwrap();
    drop(PostgresStore::open(&server.url()).await.unwrap());
    server.restart_as_replica().unwrap();
    assert!(refused(&server.url()).await.contains("replica"));
}

#[tokio::test]
async fn other_encodings_databases_and_later_tables_are_refused() {
    let server = Postgres::start().unwrap();
    let database = |name: &str| format!("postgres://postgres@127.0.0.1:{}/{name}", server.port());
    server.ask("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0").unwrap();
    assert!(refused(&database("latin")).await.contains("UTF8"));
    assert!(refused(&database("nowhere")).await.contains("nowhere"));
    drop(PostgresStore::open(&server.url()).await.unwrap());
    server.ask("INSERT INTO amends.migration (version) VALUES (99)").unwrap();
    assert!(refused(&server.url()).await.contains("version 99"));
}

#[tokio::test]
async fn urls_are_refused_without_showing_their_password() {
    for url in [
        "postgres://u:hunter2@host:port/db",
        "postgres://u:hunter2@host",
        "postgres://u:hunter2@host/db?sslmode=perhaps",
    ] {
        let message = refused(url).await;
        assert!(
            message.contains("postgres://user:password@host") && !message.contains("hunter2"),
            "{message}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_open_an_empty_database_at_once_make_it_once() {
    let server = Postgres::start().unwrap();
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = server.url();
            tokio::spawn(async move { PostgresStore::open(&url).await.map(drop) })
        })
        .collect();
    for opened in opening {
        opened.await.unwrap().unwrap();
    }
    assert_eq!(server.ask("SELECT version FROM amends.migration ORDER BY 1").unwrap(), "1\n2\n3\n4\n5");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let mut server = Postgres::start().unwrap();
    let url = server.url();
    server.kill();
    let error = PostgresStore::open(&url).await.unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable);
    assert!(error.message.contains("see whether it runs"), "{error}");
}
