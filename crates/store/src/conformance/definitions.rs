//! Definitions never change once they are registered.

use std::sync::Arc;

use amends_core::Time;

use super::samples::now;
use crate::{Store, StoredDefinition};

fn definition(name: &str, version: u64) -> StoredDefinition {
    StoredDefinition {
        name: name.to_owned(),
        version,
        digest: format!("{name}@{version}"),
        tree: format!("{{\"saga\":\"{name}\",\"amount\":9007199254740993,\"π\":\"'; --\\n\"}}"),
        created_at: Time(now().0),
    }
}

/// New, then known; with other content the stored one comes back, and stays.
pub async fn a_definition_is_registered_once_and_for_all(store: Arc<dyn Store>) {
    let first = definition("order", 1);
    assert_eq!(store.register(first.clone()).await.unwrap(), Ok(true));
    let again = StoredDefinition { created_at: Time(5), ..first.clone() };
    assert_eq!(store.register(again).await.unwrap(), Ok(false));
    let other = StoredDefinition { digest: "other".to_owned(), tree: "{}".to_owned(), ..first.clone() };
    assert_eq!(store.register(other).await.unwrap(), Err(first.clone()));

    assert_eq!(store.by_digest("order@1").await.unwrap(), Some(first.clone()));
    assert_eq!(store.by_digest("other").await.unwrap(), None);
    assert_eq!(store.by_name("order", Some(1)).await.unwrap(), Some(first));
}

/// The highest, in whichever order they came; numbers are compared as numbers.
pub async fn the_highest_version_is_found_by_name(store: Arc<dyn Store>) {
    for version in [2, 10, 9] {
        store.register(definition("order", version)).await.unwrap().unwrap();
    }
    store.register(definition("order-other", 99)).await.unwrap().unwrap();
    assert_eq!(store.by_name("order", None).await.unwrap(), Some(definition_of(&*store, 10).await));
    assert_eq!(store.by_name("order", Some(9)).await.unwrap().map(|d| d.version), Some(9));
    assert_eq!(store.by_name("order", Some(1)).await.unwrap(), None);
    assert_eq!(store.by_name("Order", None).await.unwrap(), None);
}

async fn definition_of(store: &dyn Store, version: u64) -> StoredDefinition {
    let digest = format!("order@{version}");
    store.by_digest(&digest).await.expect("the store answers").expect("it is registered")
}

/// By name, then version, after what was seen last.
pub async fn definitions_are_listed_in_pages(store: Arc<dyn Store>) {
    assert_eq!(store.list(None, 10).await.unwrap(), []);
    for (name, version) in [("b", 2), ("a", 10), ("b", 1), ("a", 9), ("c", 1)] {
        store.register(definition(name, version)).await.unwrap().unwrap();
    }
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = store.list(after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.name.clone(), last.version));
        seen.extend(page.into_iter().map(|d| format!("{}@{}", d.name, d.version)));
    }
    assert_eq!(seen, ["a@9", "a@10", "b@1", "b@2", "c@1"]);
}
