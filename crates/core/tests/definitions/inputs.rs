//! What an input must have for a definition, and the claims it leads to.

use amends_core::SagaId;
use amends_core::definition::{CLAIM_BYTES_MAX, check_input};
use amends_core::template::Why;
use serde_json::{Value, json};

use crate::{BASE, definition, edited};

fn check(text: &str, id: &str, input: &Value) -> Result<Vec<String>, (String, Why)> {
    check_input(&definition(text), &SagaId::new(id).expect("an id"), input)
        .map_err(|missing| (missing.path, missing.why))
}

#[test]
fn an_input_has_every_path_wherever_it_is_used() {
    assert_eq!(check(BASE, "7", &json!({"sku": 1})), Ok(vec!["order:7".into()]));
    assert_eq!(check(BASE, "7", &json!({"sku": null})), Ok(vec!["order:7".into()]), "null is there");
    for input in [json!({}), json!(null), json!("sku"), json!(["sku"])] {
        assert_eq!(check(BASE, "7", &input), Err(("input.sku".into(), Why::Absent)), "{input}");
    }
    for (from, to) in [
        ("post = \"/shipments\"", "post = \"/shipments/${input.a.b}\""),
        ("post = \"/shipments\"", "post = \"/shipments\"\nheaders = { x = \"${input.a.b}\" }"),
        ("post = \"/shipments\"", "post = \"/shipments\"\nform = { x = \"${input.a.b}\" }"),
        ("{ charge = \"${steps.charge.serial}\" }", "[[\"${input.a.b}\"]]"),
        ("get = \"/refunds/${key}\"", "get = \"/refunds?x=${input.a.b}\""),
        ("get = \"/charges/${key}\"", "post = \"/charges\", body = \"${input.a.b}\""),
        ("order:${id}", "order:${input.a.b}"),
    ] {
        let text = edited(from, to);
        assert_eq!(
            check(&text, "7", &json!({"sku": 1, "a": {}})),
            Err(("input.a.b".into(), Why::Absent)),
            "{to}"
        );
        check(&text, "7", &json!({"sku": 1, "a": {"b": "c"}})).expect(to);
        let paths = definition(&text).input_paths();
        assert_eq!(paths, ["input.a.b", "input.sku"], "{to}");
    }
}

#[test]
fn a_value_fits_where_it_stands_before_anything_is_sent() {
    let url = edited("post = \"/shipments\"", "post = \"/shipments/${input.to}\"");
    assert_eq!(check(&url, "7", &json!({"sku": 1, "to": ".."})), Err(("input.to".into(), Why::Segment)));
    assert_eq!(
        check(BASE, "..", &json!({"sku": 1})),
        Err(("id".into(), Why::Segment)),
        "the base calls /reservations/${{id}}"
    );
    let header = edited("post = \"/shipments\"", "post = \"/shipments\"\nheaders = { x = \"${input.to}\" }");
    assert_eq!(check(&header, "7", &json!({"sku": 1, "to": "a\nb"})), Err(("input.to".into(), Why::Header)));
    check(&header, "7", &json!({"sku": 1, "to": "a"})).expect("fits");
}

#[test]
fn claims_are_rendered_once_each_and_name_something() {
    let text = edited("[\"order:${id}\"]", "[\"b:${input.b}\", \"order:${id}\", \"b:${input.c}\", \"$$\"]");
    let claims = |b: Value| check(&text, "7", &json!({"sku": 1, "b": b, "c": "x"}));
    assert_eq!(claims(json!("x")), Ok(vec!["b:x".into(), "order:7".into(), "$".into()]));
    assert_eq!(claims(json!(1.50)).map(|claims| claims.len()), Ok(4));
    assert_eq!(claims(json!("a\u{1}b")), Err(("claims[0]".into(), Why::Claim)));
    let fitting = "x".repeat(CLAIM_BYTES_MAX - 2);
    assert_eq!(claims(json!(fitting)).map(|claims| claims[0].len()), Ok(CLAIM_BYTES_MAX));
    assert_eq!(claims(json!(format!("{fitting}x"))), Err(("claims[0]".into(), Why::Claim)));
    let whole = edited("[\"order:${id}\"]", "[\"${input.b}\"]");
    assert_eq!(check(&whole, "7", &json!({"sku": 1, "b": ""})), Err(("claims[0]".into(), Why::Claim)));
}
