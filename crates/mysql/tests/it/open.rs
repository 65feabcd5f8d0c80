//! What is refused when a store is opened, and what is made.

use amends_mysql::MySqlStore;
use amends_store::Kind;
use amends_store::conformance::samples::*;
use amends_testbed::mariadb::MariaDb;

async fn refused(url: &str) -> String {
    let error = MySqlStore::open(url).await.unwrap_err();
    assert_eq!(error.kind, Kind::Refused, "{error}");
    error.message
}

fn tables(server: &MariaDb) -> String {
    server.ask("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'amends'").unwrap()
}

#[tokio::test]
async fn settings_that_lose_what_was_committed_are_refused() {
    let settings = [
        ("innodb-flush-log-at-trx-commit", "2"),
        ("log-bin", "binlog"),
        ("sync-binlog", "0"),
        ("binlog-format", "STATEMENT"),
        ("max-allowed-packet", "1M"),
    ];
    let mut server = MariaDb::with(&settings).unwrap();
    let message = refused(&server.url()).await;
    for (name, _) in settings.iter().filter(|(name, _)| *name != "log-bin") {
        assert!(message.contains(&name.replace('-', "_")), "{name}: {message}");
    }
    assert_eq!(tables(&server), "0", "nothing was made");
    let sound = [("log-bin", "binlog"), ("sync-binlog", "1"), ("binlog-format", "MIXED")];
    server.restart_with(&sound).unwrap();
    let store = MySqlStore::open(&server.url()).await.unwrap();
    create(&store, submission(row("order:1"), &["a"])).await;
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_refused() {
    let server = MariaDb::with(&[("read-only", "1")]).unwrap();
    assert!(refused(&server.url()).await.contains("read_only is on: name the primary"));
}

#[tokio::test]
async fn tables_of_another_engine_and_of_later_versions_are_refused() {
    let server = MariaDb::start().unwrap();
    drop(MySqlStore::open(&server.url()).await.unwrap());
    server.ask("INSERT INTO amends_migration (version, applied_at) VALUES (99, NOW())").unwrap();
    assert!(refused(&server.url()).await.contains("version 99"));
    server
        .ask("DELETE FROM amends_migration WHERE version = 99; ALTER TABLE amends_claim ENGINE = Aria")
        .unwrap();
    assert!(refused(&server.url()).await.contains("ALTER TABLE amends_claim ENGINE = InnoDB"));
}

#[tokio::test]
async fn databases_and_users_that_are_not_there_are_named() {
    let server = MariaDb::start().unwrap();
    let url = server.url().replace("/amends", "/nowhere");
    // Who has no rights on it is not told whether it is there.
    let error = MySqlStore::open(&url).await.unwrap_err();
    assert!(error.kind == Kind::Unwritable && error.message.contains("nowhere"), "{error}");
    let url = format!("mysql://root@127.0.0.1:{}/nowhere", server.port());
    assert!(refused(&url).await.contains("make the database"));
    let url = server.url().replace("amends:amends@", "amends:hunter2@");
    let error = MySqlStore::open(&url).await.unwrap_err();
    assert_eq!(error.kind, Kind::Unwritable);
    assert!(error.message.contains("password") && !error.message.contains("hunter2"), "{error}");
}

/// Whatever the server has set for others: its character set, its mode, its clock's zone, its isolation.
#[tokio::test]
async fn settings_of_the_server_change_nothing_that_a_session_needs() {
    let server = MariaDb::with(&[
        ("character-set-server", "utf16"),
        ("collation-server", "utf16_general_ci"),
        ("sql-mode", "ANSI,NO_BACKSLASH_ESCAPES,ORACLE"),
        ("default-time-zone", "-11:00"),
        ("transaction-isolation", "SERIALIZABLE"),
        ("autocommit", "0"),
        ("default-storage-engine", "Aria"),
        ("auto-increment-increment", "7"),
        ("auto-increment-offset", "3"),
    ])
    .unwrap();
    let store = MySqlStore::open(&server.url()).await.unwrap();
    let first = create(&store, submission(row("Key").due(in_ms(-10)), &["a"])).await;
    assert_eq!(create(&store, submission(row("key ").due(in_ms(-10)), &["A"])).await, first + 7);
    let lease = join(&store, "n1").await;
    let due = claim_due(&store, &lease, 10).await;
    assert_eq!(due, ["Key", "key "]);
    let distance = lease.expires_at.0 - in_ms(0).0;
    assert!((3_000_000..=3_700_000).contains(&distance), "{distance}");
}

#[tokio::test]
async fn urls_are_refused_without_showing_their_password() {
    for url in [
        "mysql://u:hunter2@host:port/db",
        "mysql://u:hunter2@host",
        "mysql://u:hunter2@host/",
        "mysql://u:hunter2@host/db?require_ssl=true",
        "mysql://u:hunter2@host/db?no_such=1",
        "postgres://u:hunter2@host/db",
    ] {
        let message = refused(url).await;
        assert!(
            message.contains("mysql://user:password@host") && !message.contains("hunter2"),
            "{url}: {message}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_open_an_empty_database_at_once_make_it_once() {
    let server = MariaDb::start().unwrap();
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = server.url();
            tokio::spawn(async move { MySqlStore::open(&url).await.map(drop) })
        })
        .collect();
    for opened in opening {
        opened.await.unwrap().unwrap();
    }
    let versions = server.ask("SELECT COUNT(*) = MAX(version) FROM amends_migration").unwrap();
    assert_eq!(versions, "1");
}

/// A definition of a table commits by itself: what is half done when a node is killed is done by the next one.
#[tokio::test]
async fn tables_that_were_half_made_are_made_whole() {
    let server = MariaDb::start().unwrap();
    drop(MySqlStore::open(&server.url()).await.unwrap());
    server.ask("DELETE FROM amends_migration; DROP TABLE amends_lock, amends_probe").unwrap();
    let store = MySqlStore::open(&server.url()).await.unwrap();
    create(&store, submission(row("order:1"), &["a"])).await;
    assert_eq!(server.ask("SELECT COUNT(*) FROM amends_lock").unwrap(), "0");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let mut server = MariaDb::start().unwrap();
    let url = server.url();
    server.kill();
    let error = MySqlStore::open(&url).await.unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable);
    assert!(error.message.contains("see whether it runs"), "{error}");
}
