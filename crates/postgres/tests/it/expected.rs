//! What a batch of one statement must notice, and what it gives.

use amends_postgres::PostgresStore;
use amends_store::conformance::samples::*;
use amends_store::{Advance, Advanced, Item, Journal as _, Outcome, Submitted};
use amends_testbed::postgres::Postgres;

#[tokio::test]
async fn numbers_go_to_whom_they_belong() {
    let server = Postgres::start().unwrap();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let rowid = create(&store, submission(row("order:0"), &[])).await;
    // Rows are written in the order of their ids, numbers follow that of arrival.
    let new = ["order:3", "order:1", "order:2"];
    let mut batch: Vec<Item> = new.iter().map(|id| Item::Submit(submission(row(id), &[id]))).collect();
    batch.insert(1, Item::Advance(end("order:0", rowid, 1, now())));
    let mut outcomes = store.commit(batch).await;
    assert!(matches!(outcomes.remove(1), Outcome::Advanced(Advanced::Committed)));
    let mut last = rowid;
    for (id, outcome) in new.into_iter().zip(outcomes) {
        let Outcome::Submitted(Submitted::Created(number)) = outcome else { panic!("{id}: {outcome:?}") };
        let stored = store.load(&amends_core::SagaId::new(id).unwrap()).await.unwrap().unwrap();
        assert!(number > last && stored.row.rowid == number && stored.entries.len() == 1, "{id}: {stored:?}");
        let claim = format!("SELECT saga FROM amends.claim WHERE name = '{id}'");
        assert_eq!(server.ask(&claim).unwrap(), number.to_string());
        last = number;
    }
}

/// Also where the entry that it was decided on is there.
#[tokio::test]
async fn another_sagas_number_conflicts() {
    let server = Postgres::start().unwrap();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let first = create(&store, submission(row("order:1"), &[])).await;
    create(&store, submission(row("order:2"), &[])).await;
    for item in [advance("order:2", first, 1, 1), end("order:2", first, 1, now())] {
        assert_eq!(step(&store, item).await, Advanced::Conflict);
    }
    // An entry that is not there yet is not the last one either.
    assert_eq!(step(&store, advance("order:1", first, 2, 1)).await, Advanced::Conflict);
    assert_eq!(step(&store, end("order:1", first, 2, now())).await, Advanced::Conflict);
    assert_eq!(server.ask("SELECT count(*) FROM amends.entry").unwrap(), "2");
}

/// Nothing is appended that the primary key could refuse, but it must still be the last.
#[tokio::test]
async fn a_row_without_an_entry_is_written_only_behind_the_last_one() {
    let server = Postgres::start().unwrap();
    let store = PostgresStore::open(&server.url()).await.unwrap();
    let rowid = create(&store, submission(row("order:1"), &[])).await;
    assert_eq!(step(&store, advance("order:1", rowid, 1, 1)).await, Advanced::Committed);
    let parked =
        |after| Advance { row: Some(row("order:1").due(now())), ..advance("order:1", rowid, after, 0) };
    assert_eq!(step(&store, parked(1)).await, Advanced::Conflict);
    assert_eq!(step(&store, parked(2)).await, Advanced::Committed);
}

/// Who made the tables need not be who uses them.
#[tokio::test]
async fn rights_on_the_tables_are_enough() {
    let server = Postgres::start().unwrap();
    drop(PostgresStore::open(&server.url()).await.unwrap());
    server
        .ask(
            "CREATE USER engine; GRANT USAGE ON SCHEMA amends TO engine; GRANT ALL ON ALL TABLES IN SCHEMA amends TO engine;
            GRANT ALL ON ALL SEQUENCES IN SCHEMA amends TO engine",
        )
        .unwrap();
    let url = format!("postgres://engine@127.0.0.1:{}/postgres", server.port());
    let store = PostgresStore::open(&url).await.unwrap();
    let rowid = create(&store, submission(row("order:1"), &["a"])).await;
    assert_eq!(step(&store, end("order:1", rowid, 1, now())).await, Advanced::Committed);
}
