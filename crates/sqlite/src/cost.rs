//! What looking costs: on a store with a large backlog each statement uses its index, and takes steps by what it finds,
//! not by what exists. Steps of SQLite's virtual machine are counted, which no load on the machine changes.

use amends_core::Time;
use amends_store::conformance::samples::{TTL_MS, id};
use amends_store::{ListFilter, Lists as _, Nodes as _, Row, Work as _};
use rusqlite::types::Value;
use rusqlite::{Connection, StatementStatus, params_from_iter};

use crate::{Options, SqliteStore, advance, intake, journal, lists, mailbox, page, retention, work};

/// Sagas parked, due in the far future.
const PARKED: i64 = 200_000;
/// Sagas that ended, half of them pruned.
const ENDED: i64 = 50_000;
/// Sagas of each rarer kind: due, in flight, dead.
const FEW: i64 = 20;
/// Everything due lies before, every timer of a parked saga behind.
const NOW: i64 = 1_000_000;

/// Fills the tables as many sagas would have.
const FILL: &str = "
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
    INSERT INTO saga (id, fingerprint, saga, definition_version, digest, status, business_state, seq, step, operation, contradictions,
        overdue, created_at, updated_at, ended_at, due_at, owner_node, owner_epoch, pruned)
    SELECT ?2 || ':' || n, 'f', 'order', 1, 'd', ?3, 'INIT', 2, 'charge', 'action', 0, 0, n, n, ?4, ?5, ?6, ?7, ?8 * (n % 2) FROM n";

fn fill(
    conn: &Connection,
    count: i64,
    kind: &str,
    status: &str,
    ended: Option<i64>,
    due: Option<i64>,
    epoch: Option<i64>,
) {
    let owner = epoch.map(|epoch| format!("n{epoch}"));
    let values = rusqlite::params![count, kind, status, ended, due, owner, epoch, ended.is_some()];
    conn.execute(FILL, values).unwrap();
    if epoch.is_none() {
        let counted = rusqlite::params![ended.is_some(), status, count];
        conn.execute(
            "INSERT INTO tally VALUES (?1, ?2, 'order', ?3) ON CONFLICT DO UPDATE SET count = count + ?3",
            counted,
        )
        .unwrap();
    }
}

fn backlog() -> (tempfile::TempDir, SqliteStore, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    drop(SqliteStore::open(&path, Options::default()).unwrap());
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA synchronous = OFF; BEGIN").unwrap();
    fill(&conn, PARKED, "parked", "unknown", None, Some(NOW * 1_000), None);
    fill(&conn, ENDED, "ended", "completed", Some(NOW), None, None);
    fill(&conn, FEW, "due", "running", None, Some(NOW - 1), None);
    fill(&conn, FEW, "flight", "running", None, None, Some(1));
    fill(&conn, FEW, "dead", Row::DEAD, None, None, None);
    conn.execute(
        "INSERT INTO entry (saga, seq, nonce, at, keep, body) SELECT rowid, 1, 1, 1, 0, x'00' FROM saga WHERE rowid % 10 = 0",
        [],
    )
    .unwrap();
    conn.execute(
        "INSERT INTO mail (saga, input_id, body, posted_at, answer) SELECT rowid, 'm', x'00', 1, iif(rowid % 1000 = 0, NULL, x'00')
         FROM saga WHERE rowid % 100 = 0",
        [],
    )
    .unwrap();
    conn.execute_batch("UPDATE meta SET value = 1 WHERE name = 'epoch'; COMMIT").unwrap();
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    (folder, store, conn)
}

/// Runs a statement to its end, or to `rows`; gives its plan and the steps it took.
fn cost(conn: &Connection, sql: &str, params: &[Value], rows_max: usize) -> (String, i32) {
    let mut plan = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let plan = plan.query_map(params_from_iter(params), |row| row.get::<_, String>(3)).unwrap();
    let plan = plan.collect::<Result<Vec<_>, _>>().unwrap().join("; ");
    let mut statement = conn.prepare(sql).unwrap();
    let mut rows = statement.query(params_from_iter(params)).unwrap();
    let mut count = 0;
    while count < rows_max && rows.next().unwrap().is_some() {
        count += 1;
    }
    drop(rows);
    (plan, statement.get_status(StatementStatus::VmStep))
}

#[test]
fn every_lookup_uses_its_index_and_costs_what_it_finds() {
    let (_folder, _store, conn) = backlog();
    let int = Value::Integer;
    let text = |text: &str| Value::Text(text.to_owned());
    let none_due = int(NOW - 2);
    let all = i64::MAX;
    let page_of = |source: &str, status: &str| (page::sql(source), vec![int(all), text(status)]);
    let (all_rows, _) = page_of(page::ALL, "");
    let (unknown, unknown_params) = page_of(page::FREE, "unknown");
    let (dead, dead_params) = page_of(page::FREE, Row::DEAD);
    let (in_flight, in_flight_params) = page_of(page::IN_FLIGHT, "running");
    for (name, sql, params, index, steps_max) in [
        ("due: none", work::DUE, vec![none_due.clone(), int(100)], "saga_due", 50),
        ("due: some", work::DUE, vec![int(NOW), int(100)], "saga_due", 500),
        ("next due", work::NEXT_DUE, vec![], "saga_due", 50),
        ("owning epochs", work::NEXT_EPOCH, vec![int(-1)], "saga_owned", 50),
        ("owned", work::OWNED, vec![int(1), int(100)], "saga_owned", 500),
        ("last entry", advance::LAST, vec![int(10)], "sqlite_autoindex_entry_1", 60),
        ("oldest mail", advance::OLDEST_MAIL, vec![int(1_000)], "mail_waiting", 50),
        ("entries", journal::ENTRIES, vec![int(10), int(0), int(100)], "sqlite_autoindex_entry_1", 60),
        ("nonce", journal::NONCE, vec![text("parked:10"), int(1)], "sqlite_autoindex_saga_1", 60),
        ("mail waiting", mailbox::WAITING, vec![int(1_000), int(10)], "mail_waiting", 60),
        ("ended", retention::ENDED, vec![int(NOW + 1), int(10)], "saga_ended", 200),
        ("ended: none", retention::ENDED, vec![int(NOW - 1), int(10)], "saga_ended", 50),
        ("answered", retention::ANSWERED, vec![int(2), int(10)], "mail_answered", 200),
        ("due, counted", lists::DUE, vec![none_due], "saga_due", 50),
        ("oldest of a status", lists::OLDEST, vec![text("unknown")], "saga_free", 60),
        ("in flight, counted", lists::IN_FLIGHT, vec![], "saga_owned", 2_000),
        ("contradicted", lists::CONTRADICTED, vec![], "saga_contradicted", 50),
        ("submissions: none", intake::ANY, vec![int(NOW)], "amends_submission_due", 50),
        ("submissions", intake::DUE, vec![int(NOW), int(100)], "amends_submission_due", 50),
        ("submission of an id", intake::ARRIVED, vec![text("x")], "sqlite_autoindex_amends_submission_1", 50),
        ("dead groups", lists::DEAD, vec![int(10)], "saga_dead", 1_000),
        ("page of all", &all_rows, vec![int(all)], "SEARCH saga USING INTEGER PRIMARY KEY", 2_000),
        ("page of unknown", &unknown, unknown_params, "saga_free", 2_000),
        ("page of dead", &dead, dead_params, "saga_free", 2_000),
        ("page in flight", &in_flight, in_flight_params, "saga_owned", 3_000),
    ] {
        let (plan, steps) = cost(&conn, sql, &params, 50);
        assert!(plan.contains(index), "{name}: {plan}");
        assert!(!plan.contains("SCAN saga USING INDEX saga_free"), "{name}: {plan}");
        assert!(steps <= steps_max, "{name}: {steps} steps by {plan}");
    }
    // It looks at all mail that waits, which owners answer at once, and not at all mail.
    let (plan, steps) = cost(&conn, mailbox::MINE, &[int(1), int(100)], 100);
    assert!(plan.contains("mail_waiting"), "{plan}");
    assert!(steps < 20_000, "{steps} steps by {plan}");
}

#[tokio::test]
async fn a_large_backlog_is_in_nobodys_way() {
    let (_folder, store, _conn) = backlog();
    let lease = store.join("n1", TTL_MS, Time(NOW)).await.unwrap();
    assert_eq!(store.claim_due(&lease, Time(NOW), 1_000).await.unwrap().len(), 20);
    assert_eq!(store.claim_due(&lease, Time(NOW), 1_000).await.unwrap().len(), 0);
    assert_eq!(store.take_over(&lease, Time(NOW), 1_000).await.unwrap().len(), 20);
    assert_eq!(store.next_due().await.unwrap(), Some(Time(NOW * 1_000)));

    let stats = store.stats(Time(NOW)).await.unwrap();
    let of = |status: &str, count: u64| (status.to_owned(), "order".to_owned(), count);
    assert_eq!(stats.open, [of("dead", 20), of("running", 40), of("unknown", 200_000)]);
    assert_eq!(stats.ended, [("completed".to_owned(), 50_000)]);
    assert_eq!((stats.due, stats.oldest_open), (0, Some(Time(1))));

    // What is rare is found among many, and a search that finds nothing ends, a bounded part at a time.
    let find = |text: &str| ListFilter { text: Some(text.to_owned()), ..ListFilter::default() };
    let page = store.page(&find("parked:777"), None, 1_000).await.unwrap();
    assert_eq!((page.rows.len(), page.next), (111, None));
    assert!(page.rows.iter().any(|row| row.id == id("parked:777")));
    let page = store.page(&find("nothing has this"), None, 10).await.unwrap();
    assert_eq!((page.rows.len(), page.next), (0, None));
}
