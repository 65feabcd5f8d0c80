//! A holder that stands still past its lease does not know it: its late write is refused by its token.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use amends::Amends;
use amends::locks::AcquireError;
use amends_testbed::mariadb::MariaDb;
use amends_testbed::postgres::Postgres;
use sqlx::{Connection as _, MySqlConnection, PgConnection};

use crate::support::Killed;

const STORE: &str = "AMENDS_TEST_PAUSED_STORE";
const TTL: Duration = Duration::from_millis(1_000);

/// Not a test of its own: the holder that the others stop. It checks nothing but what the database says.
#[tokio::test]
async fn process_that_is_paused() {
    let Ok(url) = std::env::var(STORE) else { return };
    let amends = Amends::open(&url).await.unwrap();
    let held = amends.locks().acquire("order:1", TTL).await.unwrap();
    let (name, token) = (held.name(), held.token());
    if url.starts_with("postgres") {
        let mut connection = PgConnection::connect(&url).await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        sqlx::query("INSERT INTO orders VALUES ('late')").execute(&mut *tx).await.unwrap();
        wait_for_word();
        let check = sqlx::query("SELECT amends.check_lock($1, $2)").bind(name).bind(token.cast_signed());
        let refused = check.execute(&mut *tx).await.unwrap_err();
        assert!(refused.to_string().contains("is not held under token"), "{refused}");
        assert!(tx.commit().await.is_ok(), "which rolls back");
    } else {
        let mut connection = MySqlConnection::connect(&url).await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        sqlx::query("INSERT INTO orders VALUES ('late')").execute(&mut *tx).await.unwrap();
        wait_for_word();
        let check = sqlx::query("CALL amends_check_lock(?, ?)").bind(name).bind(token);
        let refused = check.execute(&mut *tx).await.unwrap_err();
        assert!(refused.to_string().contains("is not held under token"), "{refused}");
        tx.rollback().await.unwrap();
    }
}

/// Says that the lock is held, and goes on when told to: until then it may stand still.
fn wait_for_word() {
    std::io::stderr().write_all(b"held\n").unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Whatever else the holder writes, this line is its own.
async fn late_write_is_refused(url: String) {
    let amends = Amends::open(&url).await.unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "paused::process_that_is_paused", "--nocapture"])
        .env(STORE, &url)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let Killed(child) = &mut Killed(child);
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while line != "held\n" {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended by itself");
    }
    signal(child.id(), "STOP");
    let held = loop {
        match amends.locks().acquire("order:1", Duration::from_secs(600)).await {
            Ok(held) => break held,
            Err(AcquireError::Busy(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    };
    signal(child.id(), "CONT");
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut said, &mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    let _ = held.abandon("nothing was written").await;
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), process.to_string()]).status().unwrap();
    assert!(sent.success());
}

#[tokio::test]
async fn the_late_write_of_a_paused_holder_is_refused_by_its_token_in_postgres() {
    let server = tokio::task::spawn_blocking(|| Postgres::start().unwrap()).await.unwrap();
    server.ask("CREATE TABLE orders (id text PRIMARY KEY)").unwrap();
    late_write_is_refused(server.url()).await;
    assert_eq!(server.ask("SELECT count(*) FROM orders").unwrap(), "0");
}

#[tokio::test]
async fn the_late_write_of_a_paused_holder_is_refused_by_its_token_in_mariadb() {
    let server = tokio::task::spawn_blocking(|| MariaDb::start().unwrap()).await.unwrap();
    server.ask("CREATE TABLE orders (id VARCHAR(20) PRIMARY KEY)").unwrap();
    late_write_is_refused(server.url()).await;
    assert_eq!(server.ask("SELECT COUNT(*) FROM orders").unwrap().trim(), "0");
}
