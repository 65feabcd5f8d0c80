//! The definitions in `examples/`, run against participants that do as their comments say.

use std::path::Path;

use serde_json::{Value, json};

use crate::http;
use crate::participants::{Call, Participants};
use crate::program::{Ran, Server, run};

/// A server on which the example is registered.
fn with_example(name: &str, participants: &Participants, names: &[&str]) -> Server {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name).canonicalize().unwrap();
    let server = Server::start(&participants.config(names));
    let file = file.to_str().unwrap();
    // Registration has nothing to warn of, and `check` says the same.
    let checked =
        run(server.folder.path(), &["-o", "json", "check", file, "--config", "amends.toml", "--faults", "1"])
            .exits(0)
            .json();
    assert_eq!(checked["warnings"], json!([]), "{checked:#}");
    let applied = server.cli(&["definition", "apply", file]).exits(0);
    assert!(!applied.err.contains("warning"), "{applied:?}");
    server
}

fn start(server: &Server, saga: &str, id: &str, input: &Value) -> Ran {
    server.cli(&["-o", "json", "saga", "start", saga, id, "--input", &input.to_string(), "--wait", "60s"])
}

fn order_desk(call: &Call) -> (u16, Value) {
    match call.what.as_str() {
        "POST /inventory/reservations" => {
            (200, json!({"reservation_id": format!("r of {}", call.body["sku"])}))
        }
        "POST /payment/charges" if call.body["amount"] == "0.00" => {
            (402, json!({"reason": "nothing to charge"}))
        }
        "POST /payment/charges" => (200, json!({"charge_id": "c-1", "status": "SUCCESS"})),
        "POST /payment/refunds" => (200, json!({"refund_id": "f-1"})),
        "POST /shipping/shipments" if call.body["sku"] == "piano" => (422, json!({"reason": "too heavy"})),
        "POST /shipping/shipments" => (200, json!({"shipment_id": "s-1"})),
        "POST /inventory/reservations/release" => (200, json!({})),
        what => (404, json!({"error": what})),
    }
}

#[test]
fn order_is_fulfilled_or_undone_in_reverse() {
    let participants = Participants::start(order_desk);
    let server = with_example("order-fulfilment.toml", &participants, &["inventory", "payment", "shipping"]);
    let input = |sku: &str, amount: &str| json!({"sku": sku, "qty": 2, "amount": amount, "currency": "EUR"});
    let done = start(&server, "order-fulfilment", "order:1", &input("A-1", "19.90")).exits(0).json();
    assert_eq!((&done["business_state"], &done["steps"][1]["serial"]), (&json!("DONE"), &json!("c-1")));

    start(&server, "order-fulfilment", "order:2", &input("piano", "19.90")).exits(8);
    let undone: Vec<Call> =
        participants.calls().into_iter().filter(|call| call.key.starts_with("order:2:")).collect();
    let whats: Vec<&str> = undone.iter().map(|call| call.what.as_str()).collect();
    assert_eq!(
        whats,
        [
            "POST /inventory/reservations",
            "POST /payment/charges",
            "POST /shipping/shipments",
            "POST /payment/refunds",
            "POST /inventory/reservations/release",
        ]
    );
    assert_eq!(undone[3].body["charge"], "c-1");
    assert_eq!(undone[4].body["reservation"], "r of \"piano\"");

    let refused = start(&server, "order-fulfilment", "order:3", &input("A-1", "0.00")).exits(8).json();
    assert_eq!(refused["business_state"], "CANCELED");
    assert_eq!(participants.count("POST /payment/refunds"), 1);
    let missing = start(&server, "order-fulfilment", "order:4", &json!({"sku": "A-1"})).exits(2);
    missing.says(&["input.qty"]);
}

#[test]
fn transfer_waits_for_the_clearing_run_to_call_back() {
    let participants = Participants::start(|call| match call.what.as_str() {
        "POST /clearing/payments" if call.body["amount"] == "9.00" => {
            (422, json!({"reason": "account closed"}))
        }
        "POST /clearing/payments" => (202, json!({"payment": {"id": "p-1"}})),
        what if what.starts_with("GET /clearing/payments/") => (200, json!({"state": "CLEARING"})),
        what if what.ends_with("/debits/undo") => (200, json!({"undone": true})),
        _ => (200, json!({})),
    });
    let server =
        with_example("money-transfer.toml", &participants, &["limits", "ledger", "clearing", "mail"]);
    let input = |amount: &str, to: &str| json!({"from": {"iban": "DE02", "name": "A"}, "to": {"iban": to, "name": "B"}, "amount": amount, "currency": "EUR"});
    let transfer = input("250.00", "FR76");
    server.cli(&["saga", "start", "money-transfer", "t:1", "--input", &transfer.to_string()]).exits(0);
    while participants.count("POST /clearing/payments") == 0 {
        std::thread::yield_now();
    }
    // Both accounts are taken until it is known what became of it.
    let other = input("1.00", "FR76");
    server
        .cli(&["saga", "start", "money-transfer", "t:2", "--input", &other.to_string()])
        .exits(4)
        .says(&["held by t:1"]);
    let callback = json!({"key": "t:1:credit:action", "event_id": "e-1", "outcome": "done", "fact": {"payment": {"id": "p-1"}}});
    for _ in 0..2 {
        let url = format!("{}/v1/callbacks", server.url);
        let (status, answer) =
            http::call("POST", &url, &[("Content-Type", "application/json")], &callback.to_string());
        assert_eq!(status, 202, "{answer}");
    }
    server.cli(&["saga", "watch", "t:1", "--wait", "60s"]).exits(0);
    let mail = participants.calls().into_iter().find(|call| call.what == "POST /mail/mails").unwrap();
    assert_eq!(mail.key, "t:1:notify:action");

    let refused = start(&server, "money-transfer", "t:3", &input("9.00", "FR77")).exits(8).json();
    assert_eq!(refused["business_state"], "RETURNED");
    assert_eq!(participants.count("POST /ledger/accounts/DE02/debits/undo"), 1);
}

#[test]
fn journey_is_booked_whole_or_not_at_all() {
    let participants = Participants::start(|call| match call.what.as_str() {
        what if what.starts_with("PUT /airline/bookings/") => (200, json!({"locator": "QX7"})),
        "POST /hotel/stays" => (200, json!({"stay": {"number": "h-1", "room": 12}})),
        "POST /cars/rentals" if call.body["class"] == "none left" => (422, json!({"reason": "all out"})),
        "POST /cars/rentals" => (200, json!({"number": "k-1"})),
        "POST /cars/rentals/cancel" => (200, json!({"undone": true})),
        "POST /airline/bookings/QX7/tickets" => (200, json!({"tickets": ["t-1", "t-2"]})),
        "DELETE /airline/bookings/QX7" | "POST /hotel/stays/h-1/cancellations" | "POST /mail/mails" => {
            (200, json!({}))
        }
        what => (404, json!({"error": what})),
    });
    let server = with_example("travel-booking.toml", &participants, &["airline", "hotel", "cars", "mail"]);
    let input = |car: &str| json!({"traveller": "T", "days": 5, "flight": "XY 123", "hotel": "seaside", "car": car, "mail": "t@example.org"});
    start(&server, "travel-booking", "trip:1", &input("small")).exits(0);
    let calls = participants.calls();
    let issue = calls.iter().find(|call| call.what == "POST /airline/bookings/QX7/tickets").unwrap();
    assert_eq!(issue.body, json!({"stay": {"number": "h-1", "room": 12}, "rental": "k-1"}));
    let mail = calls.iter().find(|call| call.what == "POST /mail/mails").unwrap();
    assert_eq!(mail.body["tickets"], json!({"tickets": ["t-1", "t-2"]}));

    start(&server, "travel-booking", "trip:2", &input("none left")).exits(8);
    assert_eq!(participants.count("DELETE /airline/bookings/QX7"), 1);
    assert_eq!(participants.count("POST /hotel/stays/h-1/cancellations"), 1);
    assert_eq!(participants.count("POST /airline/bookings/QX7/tickets"), 1);
}
