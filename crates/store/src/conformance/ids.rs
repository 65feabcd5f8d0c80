//! Ids that are easily confused.

use std::sync::Arc;

use super::samples::*;
use crate::{Advance, Advanced, Store};

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

/// 256 bytes, in one-byte and in four-byte characters.
pub async fn the_longest_id_fits(store: Arc<dyn Store>) {
    for text in ["k".repeat(256), "🔑".repeat(64), format!("{} ", "k".repeat(255))] {
        assert_eq!(text.len(), 256);
        create(&*store, submission(row(&text), &[&text])).await;
        assert_eq!(load(&*store, &text).await.row.id.as_str(), text);
    }
}
