//! What is sent: operations and queries, rendered.

use amends_core::request::{Payload, RenderArgs, Request, perform, query};
use amends_core::template::{Missing, Scope, StepFacts};
use amends_core::{Definition, Key, OpKind, SagaId};
use serde_json::{Value, json};

use crate::{BASE, definition};

/// What the tests render with: an order of one sku; `reserve` has answered with number 11, `charge` with 22.
fn render(
    definition: &Definition,
    step: usize,
    operation: OpKind,
    serial: Option<&Value>,
    of: fn(&RenderArgs<'_>) -> Result<Request, Missing>,
) -> Result<Request, Missing> {
    let id = SagaId::new("order:7").expect("an id");
    let name = &definition.steps[step].name;
    let key = Key::new(&id, name, operation, 1);
    let action_key = Key::new(&id, name, OpKind::Action, 1);
    let input = json!({"sku": "x y", "amount": 5});
    let facts = [json!({"no": 11}), json!({"no": 22}), json!(null), json!(null)];
    let scope = Scope {
        id: id.as_str(),
        input: &input,
        key: Some(&key),
        action_key: Some(&action_key),
        serial,
        step: &|step| Some(StepFacts { fact: &facts[step], serial: facts[step].get("no") }),
    };
    of(&RenderArgs { definition, step, operation, attempt: 3, scope })
}

#[test]
fn an_action_and_its_compensation() {
    let definition = definition(BASE);
    let action = render(&definition, 0, OpKind::Action, None, perform).expect("a request");
    assert_eq!(
        (action.to.as_str(), action.method.as_str(), action.path.as_str()),
        ("stock", "POST", "/reservations/order:7")
    );
    assert_eq!(action.body, Some(Payload::Json(json!({"sku": "x y"}))));
    assert_eq!((action.key.as_str(), action.step.as_str()), ("order:7:reserve:action", "reserve"));
    assert_eq!((action.operation, action.attempt, action.is_query), (OpKind::Action, 3, false));
    assert_eq!((action.timeout_ms, action.action_key, action.headers.len()), (3_000, None, 0));
    let undo = render(&definition, 0, OpKind::Compensation, None, perform).expect("a request");
    assert_eq!(undo.body, Some(Payload::Json(json!({"of": "order:7:reserve:action"}))));
    assert_eq!(
        undo.action_key.as_ref().map(Key::as_str),
        Some("order:7:reserve:action"),
        "a fenced compensation names it"
    );
    let refund = render(&definition, 1, OpKind::Compensation, None, perform).expect("a request");
    assert_eq!((refund.body, refund.action_key), (Some(Payload::Json(json!({"charge": 22}))), None));
}

#[test]
fn a_query() {
    let definition = definition(BASE);
    let asked = render(&definition, 1, OpKind::Action, None, query).expect("a request");
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", "/charges/order:7:charge:action"));
    assert_eq!((asked.body, asked.is_query, asked.attempt), (None, true, 3));
    assert_eq!(asked.key.as_str(), "order:7:charge:action");
}

#[test]
fn a_query_by_serial_is_asked_only_with_one() {
    let definition = definition(&BASE.replace("/charges/${key}", "/charges?no=${serial}"));
    let op = definition.steps[1].action.as_ref().expect("an action");
    assert_eq!(op.query.as_ref().map(|query| query.needs_serial), Some(true));
    let missing = render(&definition, 1, OpKind::Action, None, query).expect_err("no serial");
    assert_eq!(missing.path, "serial");
    let asked = render(&definition, 1, OpKind::Action, Some(&json!("a&b")), query).expect("a request");
    assert_eq!(asked.path, "/charges?no=a%26b");
}

#[test]
fn headers_and_forms() {
    let text = BASE.replace(
        "post = \"/mails\"",
        "post = \"/mails\"\nheaders = { X-Order = \"no ${id}\", Idempotency-Key = \"${key_hash}\" }\n\
         form = { to = \"${input.sku}\", n = 2, \"a&b\" = \"=${input.amount}\", gift = true }",
    );
    let definition = definition(&text);
    let sent = render(&definition, 3, OpKind::Action, None, perform).expect("a request");
    let hash = sent.key.hash();
    let headers: Vec<(&str, &str)> =
        sent.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(headers, [("idempotency-key", hash.as_str()), ("x-order", "no order:7")]);
    assert_eq!(sent.body, Some(Payload::Form("a%26b=%3D5&gift=true&n=2&to=x+y".into())));
}

#[test]
fn two_sends_of_the_same_payload_have_the_same_digest() {
    let definition = definition(BASE);
    let sent = render(&definition, 0, OpKind::Action, None, perform).expect("a request");
    let digest = sent.digest();
    assert_eq!((digest.len(), digest.chars().all(|c| c.is_ascii_hexdigit())), (16, true));
    let again = Request { attempt: 9, headers: vec![("x".into(), "y".into())], ..sent.clone() };
    assert_eq!(again.digest(), digest);
    let body = |value: Value| Request { body: Some(Payload::Json(value)), ..sent.clone() }.digest();
    assert_eq!(body(json!({"sku": "x y"})), digest);
    let others = [
        body(json!({"sku": "x"})),
        body(json!("sku=x")),
        Request { body: Some(Payload::Form("sku=x".into())), ..sent.clone() }.digest(),
        Request { body: None, ..sent.clone() }.digest(),
        Request { path: "/other".into(), ..sent.clone() }.digest(),
        Request { method: amends_core::definition::Method::Put, ..sent.clone() }.digest(),
    ];
    for (i, other) in others.iter().enumerate() {
        assert!(*other != digest && !others[..i].contains(other), "{i}");
    }
}
