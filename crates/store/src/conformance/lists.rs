//! Lists and counts.

use std::sync::Arc;

use amends_core::Time;

use super::samples::*;
use crate::{Advance, Cursor, DeadGroup, ListFilter, Row, Stats, Store};

/// All ids of a list, asked for `limit` at a time.
async fn list(store: &dyn Store, filter: &ListFilter, limit: usize) -> Vec<String> {
    let (mut cursor, mut ids) = (None, Vec::new());
    loop {
        let page = store.page(filter, cursor, limit).await.expect("the store answers");
        assert!(page.rows.len() <= limit, "{} rows, asked for {limit}", page.rows.len());
        ids.extend(page.rows.into_iter().map(|row| row.id.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            return ids;
        }
    }
}

/// Rows of one moment keep their order, and what arrives while somebody pages neither moves nor hides any.
pub async fn pages_are_newest_first_and_stable(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    for nth in 0..9 {
        let owned =
            if nth % 2 == 0 { row(&format!("s{nth}")) } else { row(&format!("s{nth}")).owned(&lease) };
        create(&*store, submission(owned, &[])).await;
    }
    let newest_first = ["s8", "s7", "s6", "s5", "s4", "s3", "s2", "s1", "s0"];
    let running = ListFilter { status: vec!["running".to_owned()], ..ListFilter::default() };
    for filter in [&ListFilter::default(), &running] {
        for limit in [1, 2, 3, 4, 8, 9, 10, 1_000] {
            assert_eq!(list(&*store, filter, limit).await, newest_first, "limit {limit}");
        }
    }

    let first = store.page(&running, None, 4).await.unwrap();
    assert_eq!(first.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["s8", "s7", "s6", "s5"]);
    assert_eq!(first.next, Some(Cursor(first.rows[3].rowid)));
    create(&*store, submission(row("s9"), &[])).await;
    let second = store.page(&running, first.next, 4).await.unwrap();
    assert_eq!(second.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["s4", "s3", "s2", "s1"]);
    assert_eq!(store.page(&running, Some(Cursor(0)), 4).await.unwrap().rows, []);
}

/// Every condition must hold; several statuses are any of them.
pub async fn filters_hold_together(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    let at = |text: &str, saga: &str, status: &str, step: Option<&str>, created: i64| Row {
        saga: saga.to_owned(),
        step: step.map(str::to_owned),
        created_at: Time(created),
        ..row(text).status(status)
    };
    let rows = [
        at("1", "order", "running", None, 10).owned(&lease),
        at("2", "order", "unknown", Some("charge"), 20).due(Time(5)),
        at("3", "transfer", "unknown", Some("charge"), 30).owned(&lease),
        at("4", "order", "dead", Some("ship"), 40),
        at("5", "order", "dead", Some("charge"), 50),
        at("6", "order", "completed", None, 60),
    ];
    for row in rows {
        create(&*store, submission(row, &[])).await;
    }
    let filter = |status: &[&str], saga: Option<&str>, step: Option<&str>, before: Option<i64>| ListFilter {
        status: status.iter().map(|&status| status.to_owned()).collect(),
        saga: saga.map(str::to_owned),
        step: step.map(str::to_owned),
        created_before: before.map(Time),
        text: None,
    };
    for (filter, ids) in [
        (filter(&["unknown"], None, None, None), vec!["3", "2"]),
        (filter(&["dead", "unknown", "dead"], None, None, None), vec!["5", "4", "3", "2"]),
        (filter(&["running", "completed"], None, None, None), vec!["6", "1"]),
        (filter(&["none such"], None, None, None), vec![]),
        (filter(&[], Some("transfer"), None, None), vec!["3"]),
        (filter(&[], None, Some("charge"), None), vec!["5", "3", "2"]),
        (filter(&["dead"], Some("order"), Some("charge"), None), vec!["5"]),
        (filter(&[], None, None, Some(30)), vec!["2", "1"]),
        (filter(&["dead", "unknown"], Some("order"), Some("charge"), Some(50)), vec!["2"]),
    ] {
        for limit in [1, 2, 100] {
            assert_eq!(list(&*store, &filter, limit).await, ids, "{filter:?}, limit {limit}");
        }
    }
}

/// A part of the id, as it is written: no patterns, no folding of case.
pub async fn text_is_found_literally(store: Arc<dyn Store>) {
    for text in ["Order:1", "order:1", "a%b", "a_b", "axb", "ключ", "'; DROP TABLE saga; --"] {
        create(&*store, submission(row(text), &[])).await;
    }
    for (text, ids) in [
        ("order", vec!["order:1"]),
        ("rder:", vec!["order:1", "Order:1"]),
        ("%", vec!["a%b"]),
        ("a_b", vec!["a_b"]),
        ("лю", vec!["ключ"]),
        ("'", vec!["'; DROP TABLE saga; --"]),
        ("nowhere", vec![]),
    ] {
        let filter = ListFilter { text: Some(text.to_owned()), ..ListFilter::default() };
        assert_eq!(list(&*store, &filter, 10).await, ids, "{text}");
    }
}

/// Alike in definition, step, operation and class of error; the largest first.
pub async fn dead_sagas_are_grouped(store: Arc<dyn Store>) {
    assert_eq!(store.dead_groups(10).await.unwrap(), []);
    let dead = |text: &str, step: Option<&str>, class: Option<&str>, at: i64| Row {
        step: step.map(str::to_owned),
        operation: step.map(|_| "action".to_owned()),
        error_class: class.map(str::to_owned),
        updated_at: Time(at),
        ..row(text).status(Row::DEAD)
    };
    for row in [
        dead("1", Some("charge"), Some("refused"), 50),
        dead("2", Some("charge"), Some("refused"), 10),
        dead("3", Some("charge"), Some("unknown"), 20),
        dead("4", None, None, 30),
        dead("5", Some("charge"), Some("refused"), 40),
        Row { step: Some("charge".to_owned()), ..row("6") },
    ] {
        create(&*store, submission(row, &[])).await;
    }
    let group = |step: Option<&str>, class: Option<&str>, count, oldest, newest| DeadGroup {
        saga: "order".to_owned(),
        step: step.map(str::to_owned),
        operation: step.map(|_| "action".to_owned()),
        error_class: class.map(str::to_owned),
        count,
        oldest: Time(oldest),
        newest: Time(newest),
    };
    let groups = [
        group(Some("charge"), Some("refused"), 3, 10, 50),
        group(None, None, 1, 30, 30),
        group(Some("charge"), Some("unknown"), 1, 20, 20),
    ];
    assert_eq!(store.dead_groups(10).await.unwrap(), groups);
    assert_eq!(store.dead_groups(1).await.unwrap(), groups[..1]);
}

/// Submitted, parked, claimed, moved, parked by force, ended: the counts are always those of the rows.
pub async fn counts_follow_every_change(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    let stats = async || store.stats(now()).await.unwrap();
    let open = |counts: &[(&str, &str, u64)]| -> Vec<(String, String, u64)> {
        counts.iter().map(|&(status, saga, count)| (status.to_owned(), saga.to_owned(), count)).collect()
    };
    let first = create(&*store, submission(row("1").owned(&lease), &[])).await;
    let transfer = Row { saga: "transfer".to_owned(), created_at: Time(2_000), ..row("2").owned(&lease) };
    let second = create(&*store, submission(transfer.clone(), &[])).await;
    let third = Row { created_at: Time(3_000), ..row("3").due(in_ms(HOUR_MS)) };
    create(&*store, submission(third, &[])).await;
    let found = stats().await;
    assert_eq!(found.open, open(&[("running", "order", 2), ("running", "transfer", 1)]));
    assert_eq!((found.oldest_open, found.due, found.oldest_due), (Some(Time(1_000)), 0, None));

    let overdue = in_ms(-50);
    let parked = Row { contradictions: 2, ..row("1").status("unknown").due(overdue) };
    step(&*store, Advance { row: Some(parked), ..advance("1", first, 1, 1) }).await;
    let found = stats().await;
    assert_eq!(
        found.open,
        open(&[("running", "order", 1), ("running", "transfer", 1), ("unknown", "order", 1)])
    );
    assert_eq!((found.due, found.oldest_due, found.contradictions), (1, Some(overdue), 1));

    assert_eq!(claim_due(&*store, &lease, 10).await, ["1"]);
    assert_eq!((stats().await.open, stats().await.due), (found.open, 0));
    step(&*store, end("1", first, 2, now())).await;
    step(
        &*store,
        Advance { row: Some(transfer.status("dead").due(in_ms(HOUR_MS))), ..advance("2", second, 1, 1) },
    )
    .await;
    store.post(&id("1"), "m1", b"", now()).await.unwrap();
    let found = stats().await;
    assert_eq!(found.open, open(&[("dead", "transfer", 1), ("running", "order", 1)]));
    assert_eq!(found.ended, [("completed".to_owned(), 1)]);
    assert_eq!((found.oldest_open, found.due), (Some(Time(2_000)), 1));

    store.park(Row { rowid: second, saga: "transfer".to_owned(), ..row("2").status("stuck") }).await.unwrap();
    let found = stats().await;
    assert_eq!(found.open, open(&[("running", "order", 1), ("stuck", "transfer", 1)]));
    create(&*store, submission(row("4").owned(&lease), &[])).await;
    store.leave(&lease).await.unwrap();
    assert_eq!(stats().await.due, 2, "the ended one with mail, and the lapsed node's");
}

/// By its whole id only.
pub async fn a_row_is_found_by_its_id(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    assert_eq!(store.row(&id("order:1")).await.unwrap(), Some(Row { rowid, ..row("order:1") }));
    assert_eq!(store.row(&id("order:")).await.unwrap(), None);
}

/// Nothing is listed, counted or due, and it takes work.
pub async fn a_new_store_is_empty_and_well(store: Arc<dyn Store>) {
    let lease = join(&*store, "n1").await;
    assert!(store.health().is_ok());
    assert_eq!(list(&*store, &ListFilter::default(), 10).await, Vec::<String>::new());
    assert_eq!(store.stats(now()).await.unwrap(), Stats::default());
    assert_eq!(claim_due(&*store, &lease, 10).await, Vec::<String>::new());
    assert_eq!(store.mine(&lease, 10).await.unwrap(), []);
    assert_eq!(store.prune(now(), 10).await.unwrap(), 0);
}
