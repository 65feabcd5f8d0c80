//! No room left where the server keeps its tables.

use std::time::{Duration, Instant};

use amends_store::conformance::samples::*;
use amends_store::{Health as _, Item, Journal as _, Kind, Outcome, Submission, Submitted};
use amends_testbed::mariadb::MariaDb;

use crate::support::{open, until};

/// All tables in one file that may not grow any more, as on a disk that is full.
const TIGHT: [(&str, &str); 2] =
    [("innodb-file-per-table", "0"), ("innodb-data-file-path", "ibdata1:4M:autoextend:max:24M")];

const WIDE: [(&str, &str); 2] =
    [("innodb-file-per-table", "0"), ("innodb-data-file-path", "ibdata1:4M:autoextend:max:64M")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_room_no_work_is_taken_and_with_room_again_it_is() {
    let mut server = MariaDb::with(&TIGHT).unwrap();
    let store = open(&server.url()).await;
    let new = |nth: u64| {
        let text = format!("order:{nth}");
        let mut new = Submission { nonce: nth, ..submission(row(&text), &[&text]) };
        new.entries[0].body = vec![b'x'; 200_000];
        new
    };
    let end = Instant::now() + Duration::from_secs(60);
    let (mut known, mut nth) = (Vec::new(), 0);
    let error = loop {
        assert!(Instant::now() < end, "there is room for {} of them", known.len());
        nth += 1;
        match commit(&*store, Item::Submit(new(nth))).await {
            Outcome::Submitted(Submitted::Created(_)) => known.push(nth),
            Outcome::Failed(error) => break error,
            other @ (Outcome::Submitted(_) | Outcome::Advanced(_)) => panic!("{other:?}"),
        }
    };
    assert_eq!(error.kind, Kind::Unwritable, "{error}");
    assert!(error.message.contains("its disk is full"), "{error}");
    assert_eq!(store.health().unwrap_err().kind, Kind::Unwritable);
    // What was refused is not there, nor a part of it.
    assert!(store.load(&id(&format!("order:{nth}"))).await.unwrap().is_none());
    assert_eq!(store.wrote(&id(&format!("order:{nth}")), 1, nth).await.unwrap(), None);

    server.restart_with(&WIDE).unwrap();
    until("the store takes work again", || store.health().is_ok()).await;
    assert!(matches!(submit(&*store, new(nth)).await, Submitted::Created(_)));
    for nth in known {
        assert_eq!(store.wrote(&id(&format!("order:{nth}")), 1, nth).await.unwrap(), Some(true));
    }
}
