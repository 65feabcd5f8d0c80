//! What the pages show is what runs.

#[allow(dead_code, reason = "its `main` is the example's")]
#[path = "../../examples/order.rs"]
mod order;

const EXAMPLE: &str = include_str!("../../examples/order.rs");

#[tokio::test]
async fn the_order_of_the_pages_runs() {
    let folder = tempfile::tempdir().unwrap();
    order::run(&folder.path().join("orders.db")).await.unwrap();
}

/// The text between the marks of this name.
fn marked<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, from) = text.split_once(&format!("// docs: begin {name}\n")).expect(name);
    from.split_once(&format!("// docs: end {name}")).expect(name).0
}

#[test]
fn pages_show_the_example_as_it_is() {
    let page = include_str!("../../../../docs/locks.md");
    assert!(
        page.contains(marked(EXAMPLE, "take_order")),
        "docs/locks.md does not show `take_order` of examples/order.rs as it is"
    );
}

#[test]
fn the_front_page_shows_the_example_of_this_crate() {
    let code = |page: &'static str| {
        page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap()
    };
    let own = code(include_str!("../../README.md"));
    assert_eq!(code(include_str!("../../../../README.md")), own);
}
