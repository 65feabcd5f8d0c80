//! Sagas begun by `amends_submit` in transactions of callers that have no other right.

use std::sync::Arc;

use amends_mysql::MySqlStore;
use amends_store::Work as _;
use amends_store::conformance::Fixture;
use amends_store::conformance::intake::Caller;
use amends_store::conformance::samples::*;
use amends_testbed::mariadb::MariaDb;
use async_trait::async_trait;
use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use tokio::sync::Mutex;

/// What a caller needs: nothing else is granted.
const ROLE: &str =
    "CREATE USER shop@'%' IDENTIFIED BY 'shop'; CREATE DATABASE shop; GRANT ALL ON shop.* TO shop@'%';
    GRANT EXECUTE ON PROCEDURE amends.amends_submit TO shop@'%'";

struct Program(Mutex<Conn>);

async fn connect(server: &MariaDb) -> Conn {
    let url = format!("mysql://shop:shop@127.0.0.1:{}/shop", server.port());
    Conn::new(mysql_async::Opts::from_url(&url).unwrap()).await.unwrap()
}

async fn call(conn: &mut Conn, saga: &str, id: &str, input: &str) -> Result<(), String> {
    conn.exec_drop("CALL amends.amends_submit(?, ?, ?)", (saga, id, input)).await.map_err(|e| e.to_string())
}

#[async_trait]
impl Caller for Program {
    async fn submit(&self, saga: &str, id: &str, input: &str) -> Result<(), String> {
        call(&mut *self.0.lock().await, saga, id, input).await
    }

    fn compares_trees(&self) -> bool {
        false
    }

    fn depth_max(&self) -> usize {
        // MariaDB reads no more.
        31
    }

    fn notices_twins(&self) -> bool {
        false
    }
}

async fn open() -> (MariaDb, Arc<MySqlStore>) {
    let server = MariaDb::start().unwrap();
    let store = Arc::new(MySqlStore::open(&server.url()).await.unwrap());
    server.ask(ROLE).unwrap();
    (server, store)
}

async fn make() -> (Fixture, Arc<dyn Caller>) {
    let (server, store) = open().await;
    let program = Program(Mutex::new(connect(&server).await));
    (Fixture::new(store, server), Arc::new(program))
}

amends_store::intake_suite!(make);

async fn waiting(store: &MySqlStore) -> u64 {
    store.intake().unwrap().backlog().await.unwrap().waiting
}

#[tokio::test]
async fn what_is_rolled_back_never_was_with_the_business_rows() {
    let (server, store) = open().await;
    let mut conn = connect(&server).await;
    conn.query_drop("CREATE TABLE orders (id INT PRIMARY KEY) ENGINE = InnoDB").await.unwrap();
    for (end, expected) in [("ROLLBACK", 0), ("COMMIT", 1)] {
        conn.query_drop("START TRANSACTION").await.unwrap();
        conn.query_drop("INSERT INTO orders VALUES (1)").await.unwrap();
        call(&mut conn, "order", "order:1", "{}").await.unwrap();
        // An error leaves nothing of its own behind, also if the caller goes on.
        assert!(call(&mut conn, "order", "order:1", "[]").await.unwrap_err().contains("order:1"));
        assert!(call(&mut conn, "order", "", "[]").await.is_err());
        assert_eq!(waiting(&store).await, 0);
        conn.query_drop(end).await.unwrap();
        assert_eq!(waiting(&store).await, expected);
        let orders: Vec<i64> = conn.query("SELECT id FROM orders").await.unwrap();
        assert_eq!(orders.len() as u64, expected);
    }
}

/// The second waits for the first, and then for what became of it; at both levels of isolation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_transactions_with_one_id_the_second_waits() {
    let (server, store) = open().await;
    let cases =
        [("COMMIT", "{\"a\": 1}", true), ("COMMIT", "{\"a\":2}", false), ("ROLLBACK", "{\"a\":2}", true)];
    for level in ["READ COMMITTED", "REPEATABLE READ"] {
        for (end, second, is_ok) in cases {
            let id = format!("order:{level}:{end}:{second}");
            let (mut first, mut other) = (connect(&server).await, connect(&server).await);
            for conn in [&mut first, &mut other] {
                conn.query_drop(format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")).await.unwrap();
                conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT").await.unwrap();
            }
            call(&mut first, "order", &id, "{\"a\":1}").await.unwrap();
            let of_other = id.clone();
            let asked = tokio::spawn(async move {
                let answer = call(&mut other, "order", &of_other, second).await;
                other.query_drop("COMMIT").await.unwrap();
                answer
            });
            let blocked = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
            while server.ask(blocked).unwrap() == "0" {
                assert!(!asked.is_finished(), "it did not wait");
            }
            first.query_drop(end).await.unwrap();
            let answer = asked.await.unwrap();
            assert_eq!(answer.is_ok(), is_ok, "{id}: {answer:?}");
        }
    }
    assert_eq!(waiting(&store).await, 6);
}

#[tokio::test]
async fn a_user_with_its_one_right_can_do_nothing_else() {
    let (server, store) = open().await;
    let mut conn = connect(&server).await;
    for forbidden in [
        "SELECT * FROM amends.amends_submission",
        "DELETE FROM amends.amends_submission",
        "SELECT * FROM amends.amends_saga",
    ] {
        assert!(conn.query_drop(forbidden).await.unwrap_err().to_string().contains("denied"), "{forbidden}");
    }
    // A session of another character set and mode writes the same bytes.
    conn.query_drop("SET NAMES latin1; SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")
        .await
        .unwrap();
    conn.query_drop(b"CALL amends.amends_submit('order', 'caf\xe9', '{\"a\": \"\xe9\"}')".to_vec())
        .await
        .unwrap();
    let taken = store.intake().unwrap().take(now(), 1_000, 10).await.unwrap();
    let found: Vec<_> = taken.iter().map(|a| (a.id.as_str(), a.input.as_str())).collect();
    assert_eq!(found, [("café", "{\"a\": \"é\"}")]);
    assert!(taken[0].by.starts_with("shop@"), "{}", taken[0].by);
    for null in ["NULL, 'a', '{}'", "'order', NULL, '{}'", "'order', 'a', NULL"] {
        let error = conn.query_drop(format!("CALL amends.amends_submit({null})")).await.unwrap_err();
        assert!(error.to_string().contains("NULL"), "{error}");
    }
}

/// Trees of equal values and another text are not told apart before an engine looks.
#[tokio::test]
async fn another_order_of_members_is_for_the_engine_where_there_is_a_saga_and_an_error_where_there_is_none() {
    let (server, store) = open().await;
    let mut conn = connect(&server).await;
    call(&mut conn, "order", "order:1", r#"{"a":1,"b":2}"#).await.unwrap();
    assert!(call(&mut conn, "order", "order:1", r#"{"b":2,"a":1}"#).await.is_err());
    assert_eq!(waiting(&store).await, 1);
}
