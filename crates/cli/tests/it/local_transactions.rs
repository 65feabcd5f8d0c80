//! `docs/local-transactions.md`, run as it stands there: on PostgreSQL, MariaDB and SQLite.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use amends_testbed::mariadb::MariaDb;
use amends_testbed::postgres::Postgres;
use serde_json::{Value, json};

use crate::http;
use crate::participants::{Call, Participants};
use crate::program::Server;
use crate::sql::Sql;

/// What stands on the page under this name.
fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/local-transactions.md");
    let text = std::fs::read_to_string(path).unwrap();
    let marked = text
        .split_once(&format!("<!-- test: {name} -->\n```"))
        .unwrap_or_else(|| panic!("{name} is not on the page"))
        .1;
    let (_language, block) = marked.split_once('\n').unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// A block of the page, for another order.
fn of_order(block: &str, order: u64, amount: &str) -> String {
    block.replace("789", &order.to_string()).replace("12.50", amount)
}

type Connect = dyn Fn() -> Sql + Send + Sync;

/// The service: what its handlers answer, with SQL alone; and payment and shipping, which are others'.
fn service(database: &'static str, connect: Arc<Connect>) -> Participants {
    Participants::start(move |call: &Call| {
        let path: Vec<&str> = call.what.split(['/', ' ']).collect();
        match path[..] {
            ["POST", "", "payment", "charges"] if call.body["amount"] == "666.00" => {
                (402, json!({ "reason": "no money" }))
            }
            ["POST", "", "payment", "charges"] => (200, json!({ "charge_id": "c-1" })),
            ["POST", "", "shipping", "shipments"] => (200, json!({})),
            ["POST", "", "orders", "orders", order, what] => {
                let order: u64 = order.parse().unwrap();
                let mut sql = connect();
                let (block, state) = match what {
                    "reserved" => (String::new(), "RESERVED"),
                    "release" => (page(&format!("{database} release")), "CANCELED"),
                    "finish" => (page(&format!("{database} finish")), "DONE"),
                    other => panic!("{other}"),
                };
                sql.block(&of_order(&block, order, "")).unwrap();
                // Whoever was second finds what the first has done.
                let found = sql.ask(&format!("SELECT state FROM orders WHERE id = {order}"));
                if found == state { (200, json!({})) } else { (409, json!({ "state": found })) }
            }
            _ => (404, json!({ "error": call.what })),
        }
    })
}

fn get(server: &Server, id: &str) -> Option<Value> {
    let (status, body) = http::call("GET", &format!("{}/v1/sagas/{}", server.url, id), &[], "");
    (status == 200).then_some(body)
}

/// Waits until the saga has ended.
fn ended(server: &Server, id: &str) -> Value {
    // Only what hangs is ended by it.
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(saga) = get(server, id)
            && ["completed", "compensated", "dead"].contains(&saga["status"].as_str().unwrap())
        {
            return saga;
        }
        assert!(Instant::now() < until, "{id} has not ended: {:?}; {}", get(server, id), server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn holds(database: &'static str, store: &str, connect: Arc<Connect>, prepare: impl FnOnce()) {
    let participants = service(database, connect.clone());
    let config = participants.config(&["orders", "payment", "shipping"]);
    let mut server = Server::start(&format!("[store]\nurl = \"{store}\"\n{config}"));
    server.define(&page("definition"));
    prepare();
    let mut sql = connect();
    for statement in page("tables").lines() {
        sql.run(statement.trim_end_matches(';')).unwrap();
    }
    sql.run("INSERT INTO stock VALUES ('tea', 7)").unwrap();
    for order in 1..=5 {
        sql.run(&format!("INSERT INTO orders VALUES ({order}, 'INIT', 1, 'tea', 2)")).unwrap();
    }
    let begin = page(&format!("{database} begin"));
    let state = |sql: &mut Sql, order: u64| {
        sql.ask(&format!("SELECT CONCAT(state, ' ', version) FROM orders WHERE id = {order}"))
    };
    let begin_of = |server: &Server, order: u64, amount: &str| {
        let mut block = of_order(&begin, order, amount);
        if database == "postgres" {
            let lock = format!("{}/v1/locks/order:{order}", server.url);
            let (status, body) = http::call("POST", &lock, JSON, "{\"ttl\": \"60s\"}");
            assert_eq!(status, 201, "{body}");
            let token = body["token"].to_string();
            block = block.replace("1764500000000", &token);
        }
        block
    };

    // Rolled back: none of it ever was.
    let block = begin_of(&server, 1, "1.50").replace("COMMIT;", "ROLLBACK;");
    assert!(sql.block(&block).unwrap());
    assert_eq!(state(&mut sql, 1), "INIT 1");
    // Committed: the saga runs to its end, and with it the order.
    let block = begin_of(&server, 2, "12.50");
    assert!(sql.block(&block).unwrap());
    let done = ended(&server, "order:2");
    assert_eq!((&done["status"], &done["business_state"]), (&json!("completed"), &json!("DONE")), "{done:#}");
    assert_eq!(state(&mut sql, 2), "DONE 3");
    assert_eq!(get(&server, "order:1"), None);
    // The same transaction again finds its row gone on, and stops before anything else.
    assert!(!sql.block(&block).unwrap());
    if database == "postgres" {
        // Somebody else has taken the lock since: the transaction does not commit.
        let stale = block.replace("order:2", "order:3").replace("id = 2", "id = 3");
        assert!(sql.block(&stale).unwrap_err().contains("is not held"));
        assert_eq!(state(&mut sql, 3), "INIT 1");
        let release = format!("{}/v1/locks/order:2", server.url);
        let token = block.split("'order:2', ").nth(1).unwrap().split(')').next().unwrap().to_owned();
        let (status, body) =
            http::call("DELETE", &release, JSON, &format!("{{\"token\": {token}, \"saga\": \"order:2\"}}"));
        assert_eq!(status, 200, "{body}");
    }
    // Refused by the payment: undone, with the stock.
    assert!(sql.block(&begin_of(&server, 3, "666.00")).unwrap());
    assert_eq!(ended(&server, "order:3")["status"], "compensated");
    assert_eq!(
        (state(&mut sql, 3), sql.ask("SELECT free FROM stock")),
        ("CANCELED 3".to_owned(), "5".to_owned())
    );
    // A second release changes nothing, whoever sends it.
    let release = of_order(&page(&format!("{database} release")), 3, "");
    assert!(!sql.block(&release).unwrap());
    assert_eq!(sql.ask("SELECT free FROM stock"), "5");
    // Committed while no engine runs: it goes on when one does.
    let block = begin_of(&server, 4, "3.00");
    server.kill();
    assert!(sql.block(&block).unwrap());
    server.start_again();
    assert_eq!(ended(&server, "order:4")["status"], "completed");
    // Not enough is left for the fifth.
    let block =
        begin_of(&server, 5, "1.00").replace("free - 2", "free - 9").replace("free >= 2", "free >= 9");
    assert!(!sql.block(&block).unwrap());
    assert_eq!((state(&mut sql, 5), get(&server, "order:5")), ("INIT 1".to_owned(), None));
}

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];

#[test]
fn the_page_holds_in_postgresql() {
    let postgres = Postgres::start().unwrap();
    postgres.ask("CREATE ROLE shop LOGIN; CREATE SCHEMA shop AUTHORIZATION shop; ALTER ROLE shop SET search_path = shop").unwrap();
    let url = format!("postgres://shop@127.0.0.1:{}/postgres", postgres.port());
    holds("postgres", &postgres.url(), Arc::new(move || Sql::postgres(&url)), || {
        postgres.ask(&page("postgres rights")).unwrap();
    });
    assert_eq!(postgres.ask("SELECT count(*) FROM amends.submission").unwrap(), "0");
}

#[test]
fn the_page_holds_in_mariadb() {
    let mariadb = MariaDb::start().unwrap();
    mariadb.ask("CREATE USER shop@'%' IDENTIFIED BY 'shop'; CREATE DATABASE shop; GRANT ALL ON shop.* TO shop@'%'").unwrap();
    let url = format!("mysql://shop:shop@127.0.0.1:{}/shop", mariadb.port());
    holds("mysql", &mariadb.url(), Arc::new(move || Sql::mariadb(&url)), || {
        mariadb.ask(&page("mysql rights")).unwrap();
    });
    assert_eq!(mariadb.ask("SELECT COUNT(*) FROM amends_submission").unwrap(), "0");
}

#[test]
fn the_page_holds_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let store = format!("sqlite://{}", path.display());
    let connect: Arc<Connect> = Arc::new(move || Sql::sqlite(&path));
    holds("sqlite", &store, connect.clone(), || {});
    assert_eq!(connect().ask("SELECT count(*) FROM amends_submission"), "0");
}
