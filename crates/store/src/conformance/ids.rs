//! Ids that are easily confused.

use std::sync::Arc;

use super::samples::*;
use crate::{Advance, Advanced, Cursor, ListFilter, NodeLease, Store};

/// Blanks, quotes, case, patterns, accents, direction marks: each is another saga.
pub async fn ids_are_compared_byte_by_byte(store: Arc<dyn Store>) {
    let hostile = [
        "key",
        "Key",
        "KEY",
        "key ",
        " key",
        "k  ey",
        "k ey",
        "k%y",
        "k_y",
        "'key'",
        "\"key\"",
        "key'; DROP TABLE saga; --",
        "{key}",
        "key:step:action",
        "../key",
        "a/b?c#d",
        "%00",
        "\\0",
        "🔑",
        "🔑🔑",
        "ключ",
        "é",
        "e\u{301}",
        "\u{202e}yek",
        "\u{feff}key",
        "0",
        "00",
        "1e3",
        "null",
        "ß",
        "SS",
    ];
    for text in hostile {
        let lease = join(&*store, text).await;
        let rowid = create(&*store, submission(row(text).owned(&lease), &[text])).await;
        assert_eq!(step(&*store, advance(text, rowid, 1, 1)).await, Advanced::Committed);
        let mail = store.post(&id(text), text, text.as_bytes(), now()).await.unwrap().unwrap();
        assert_eq!(store.mine(&lease, 10).await.unwrap().len(), 1);
        let answered = Advance { mail: vec![(mail, vec![])], ..advance(text, rowid, 2, 0) };
        assert_eq!(step(&*store, answered).await, Advanced::Committed);
    }
    for text in hostile {
        let stored = load(&*store, text).await;
        assert_eq!((stored.row.id.as_str(), stored.entries.len()), (text, 2));
        assert_eq!(stored.row.owner.map(|(node, _)| node).as_deref(), Some(text));
        assert_eq!(store.wrote(&id(text), 2, 1_001).await.unwrap(), Some(true), "{text:?}");
    }
}

/// Numbers larger than any store gives: from a cursor, a caller or a fault, they are answered, not refused.
pub async fn numbers_of_nothing_find_nothing(store: Arc<dyn Store>) {
    let rowid = create(&*store, submission(row("order:1"), &[])).await;
    for number in [u64::MAX, u64::MAX - 1, i64::MAX.cast_unsigned(), i64::MAX.cast_unsigned() + 1] {
        assert_eq!(store.entries(&id("order:1"), number, 10).await.unwrap(), []);
        assert_eq!(store.wrote(&id("order:1"), number, 1).await.unwrap(), None);
        assert_eq!(store.answer(number).await.unwrap(), None);
        assert_eq!(store.by_name("order", Some(number)).await.unwrap(), None);
        assert_eq!(store.list(Some(("order".to_owned(), number)), 10).await.unwrap(), []);
        let page = store.page(&ListFilter::default(), Some(Cursor(number)), 10).await.unwrap();
        assert_eq!(page.rows.len(), 1);
        let lease = NodeLease { node: "n1".to_owned(), epoch: number, expires_at: in_ms(HOUR_MS) };
        assert_eq!(store.claim_due(&lease, now(), 10).await.unwrap(), []);
        assert_eq!(store.mine(&lease, 10).await.unwrap(), []);
        assert_eq!(step(&*store, advance("order:1", number, 1, 0)).await, Advanced::Conflict);
        assert_eq!(step(&*store, advance("order:1", rowid, number, 0)).await, Advanced::Conflict);
        let mail = Advance { mail: vec![(number, vec![])], ..advance("order:1", rowid, 1, 0) };
        assert_eq!(step(&*store, mail).await, Advanced::Committed);
    }
}

/// 256 bytes, in one-byte and in four-byte characters.
pub async fn the_longest_id_fits(store: Arc<dyn Store>) {
    for text in ["k".repeat(256), "🔑".repeat(64), format!("{} ", "k".repeat(255))] {
        assert_eq!(text.len(), 256);
        create(&*store, submission(row(&text), &[&text])).await;
        assert_eq!(load(&*store, &text).await.row.id.as_str(), text);
    }
}
