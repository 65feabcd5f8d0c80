//! What the pages show is what runs.

use amends_testbed::postgres::Postgres;

#[allow(dead_code, reason = "its `main` is the example's")]
#[path = "../../examples/order.rs"]
mod order;

#[allow(dead_code, reason = "its `main` is the example's")]
#[path = "../../examples/local_transaction.rs"]
mod local_transaction;

#[tokio::test]
async fn the_order_of_the_pages_runs() {
    let folder = tempfile::tempdir().unwrap();
    order::run(&folder.path().join("orders.db")).await.unwrap();
}

#[tokio::test]
async fn the_order_in_postgres_runs() {
    let server = tokio::task::spawn_blocking(|| Postgres::start().unwrap()).await.unwrap();
    local_transaction::run(&server.url()).await.unwrap();
}

/// The text between the marks of this name.
fn marked<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, from) = text.split_once(&format!("// docs: begin {name}\n")).expect(name);
    from.split_once(&format!("// docs: end {name}")).expect(name).0
}

#[test]
fn pages_show_the_examples_as_they_are() {
    let order = include_str!("../../examples/order.rs");
    let local = include_str!("../../examples/local_transaction.rs");
    for (page, text, example, name) in [
        ("locks.md", include_str!("../../../../docs/locks.md"), order, "take_order"),
        (
            "local-transactions.md",
            include_str!("../../../../docs/local-transactions.md"),
            local,
            "take_order",
        ),
    ] {
        assert!(
            text.contains(marked(example, name)),
            "docs/{page} does not show `{name}` of the example as it is"
        );
    }
}

#[test]
fn the_front_page_shows_the_example_of_this_crate() {
    let code = |page: &'static str| {
        page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap()
    };
    let own = code(include_str!("../../README.md"));
    assert_eq!(code(include_str!("../../../../README.md")), own);
}
