//! What the three participants do, and what each of them guarantees. They keep it across their own crashes.
//!
//! - Inventory replays: the same key gets the first call's answer.
//! - Payment does a charge, refund or invoice at most once a key, but answers a repeat with an error; its query tells. Its
//!   voucher office knows no keys at all, yet refuses what arrives after `Amends-Expires`.
//! - Shipping keeps the fence: undoing what never arrived is recorded, and what arrives after that is refused.
//!
//! Only the voucher office looks at `Amends-Expires`: the others promise nothing about lateness, so they carry out whatever
//! comes, however late, and it is the engine's affair that this does no harm.

use std::io;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::ledger::{Ledger, Operation};

/// A request, as far as participants look at it.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// `Idempotency-Key`; of a query: the last segment of its path.
    pub(crate) key: String,
    /// `Amends-Action-Key`.
    pub(crate) action_key: Option<String>,
    /// `Amends-Expires`.
    pub(crate) expires: Option<jiff::Timestamp>,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn is_query(&self) -> bool {
        self.method == Method::GET
    }

    /// Whether `Amends-Expires` has passed. Asked while the books are locked, so that a query that says "never seen" after that
    /// time cannot be overtaken.
    fn is_late(&self) -> bool {
        self.expires.is_some_and(|at| at < jiff::Timestamp::now())
    }

    /// Whether carrying it out twice is done twice.
    pub(crate) fn is_unprotected(&self) -> bool {
        self.path.starts_with("/vouchers")
    }
}

/// What is answered.
pub(crate) type Answer = (StatusCode, Value);

/// Carries a request out, or answers a query.
pub(crate) fn handle(ledger: &mut Ledger, request: &Request) -> io::Result<Answer> {
    if request.is_query() {
        return Ok(query(ledger, request));
    }
    match request.path.as_str() {
        "/reservations" => replay(ledger, request, "reservation_id"),
        "/reservations/release" => {
            undo_by_serial(ledger, request, "reservation", "release_id", Repeat::Replayed)
        }
        "/charges" => effect(ledger, request, "charge_id"),
        "/refunds" => undo_by_serial(ledger, request, "charge", "refund_id", Repeat::Refused),
        "/invoices" => effect(ledger, request, "invoice_id"),
        "/vouchers" => unprotected(ledger, request, "voucher_id"),
        "/vouchers/cancel" if request.is_late() => Ok(too_late()),
        "/vouchers/cancel" => {
            undo_by_serial(ledger, request, "voucher", "cancellation_id", Repeat::DoneAgain)
        }
        "/slots" => fenced(ledger, request, "slot_id"),
        "/slots/release" => fenced_undo(ledger, request),
        "/shipments" => fenced(ledger, request, "shipment_id"),
        _ => Ok((StatusCode::NOT_FOUND, json!({ "error": "no such path" }))),
    }
}

/// What happens to a second call with the same key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Repeat {
    Replayed,
    Refused,
    DoneAgain,
}

/// `idempotency = "replay"`.
fn replay(ledger: &mut Ledger, request: &Request, serial: &str) -> io::Result<Answer> {
    if let Some(line) = ledger.done(&request.key) {
        return Ok(done(serial, line.serial.as_deref()));
    }
    act(ledger, request, serial)
}

/// `idempotency = "effect"`.
fn effect(ledger: &mut Ledger, request: &Request, serial: &str) -> io::Result<Answer> {
    if ledger.done(&request.key).is_some() {
        return Ok(repeat_refused());
    }
    act(ledger, request, serial)
}

/// `idempotency = "none"` with `seals_after`.
fn unprotected(ledger: &mut Ledger, request: &Request, serial: &str) -> io::Result<Answer> {
    if request.is_late() {
        return Ok(too_late());
    }
    act(ledger, request, serial)
}

/// `fenced = true`.
fn fenced(ledger: &mut Ledger, request: &Request, serial: &str) -> io::Result<Answer> {
    if let Some(line) = ledger.done(&request.key) {
        return Ok(done(serial, line.serial.as_deref()));
    }
    if ledger.undone(&request.key).is_some() {
        return Ok(rejected("it was undone before it arrived"));
    }
    act(ledger, request, serial)
}

/// The compensation of a fenced action: undoes it if it was done, else sees to it that it never will be.
fn fenced_undo(ledger: &mut Ledger, request: &Request) -> io::Result<Answer> {
    let answer = |undone: bool| (StatusCode::OK, json!({ "undone": undone }));
    let Some(action_key) = &request.action_key else {
        return Ok((StatusCode::BAD_REQUEST, json!({ "error": "Amends-Action-Key is missing" })));
    };
    if let Some(line) = ledger.done(&request.key) {
        return Ok(answer(line.operation == Operation::Compensation));
    }
    let executed = ledger.done(action_key).is_some();
    let operation = if executed { Operation::Compensation } else { Operation::Tombstone };
    ledger.write(&request.key, operation, action_key)?;
    Ok(answer(executed))
}

fn act(ledger: &mut Ledger, request: &Request, serial: &str) -> io::Result<Answer> {
    if let Some(reason) = ledger.refused(&request.key) {
        return Ok(rejected(reason));
    }
    if let Some(reason) = refusal(&request.body) {
        ledger.refuse(&request.key, reason)?;
        return Ok(rejected(reason));
    }
    let line = ledger.write(&request.key, Operation::Action, &request.key)?;
    Ok(done(serial, line.serial.as_deref()))
}

fn undo_by_serial(
    ledger: &mut Ledger,
    request: &Request,
    names: &str,
    serial: &str,
    repeat: Repeat,
) -> io::Result<Answer> {
    match (ledger.done(&request.key), repeat) {
        (Some(line), Repeat::Replayed) => return Ok(done(serial, line.serial.as_deref())),
        (Some(_), Repeat::Refused) => return Ok(repeat_refused()),
        (Some(_), Repeat::DoneAgain) | (None, _) => {}
    }
    let Some(action) = request.body[names].as_str().and_then(|number| ledger.by_serial(number)) else {
        return Ok(rejected("there is nothing of this number to undo"));
    };
    let of = action.key.clone();
    let line = ledger.write(&request.key, Operation::Compensation, &of)?;
    Ok(done(serial, line.serial.as_deref()))
}

fn query(ledger: &Ledger, request: &Request) -> Answer {
    let (status_word, serial) = match request.path.as_str() {
        "/charges" => (true, "charge_id"),
        "/refunds" => (true, "refund_id"),
        "/invoices" => (true, "invoice_id"),
        "/reservations" => (false, "reservation_id"),
        "/vouchers" => (false, "voucher_id"),
        "/vouchers/cancel" => (false, "cancellation_id"),
        _ => return (StatusCode::BAD_REQUEST, json!({ "error": "no such query" })),
    };
    match (ledger.done(&request.key), ledger.refused(&request.key), status_word) {
        (Some(line), _, true) => (StatusCode::OK, json!({ "status": "SUCCESS", serial: line.serial })),
        (Some(line), _, false) => (StatusCode::OK, json!({ serial: line.serial })),
        (None, Some(reason), true) => (StatusCode::OK, json!({ "status": "FAIL", "reason": reason })),
        (None, Some(reason), false) => {
            (StatusCode::CONFLICT, json!({ "outcome": "rejected", "reason": reason }))
        }
        (None, None, true) => (StatusCode::OK, json!({ "status": "NOT_EXIST" })),
        (None, None, false) => (StatusCode::NOT_FOUND, json!({ "outcome": "never_seen" })),
    }
}

/// What business would refuse.
fn refusal(body: &Value) -> Option<&'static str> {
    match (body["sku"].as_str(), body["card"].as_str(), body["address"].as_str()) {
        (Some("sold-out"), _, _) => Some("sold out"),
        (_, Some("blocked"), _) => Some("the card is blocked"),
        (_, _, Some("nowhere")) => Some("nobody delivers there"),
        _ => None,
    }
}

fn done(serial: &str, number: Option<&str>) -> Answer {
    (StatusCode::OK, json!({ serial: number }))
}

fn rejected(reason: &str) -> Answer {
    (StatusCode::UNPROCESSABLE_ENTITY, json!({ "outcome": "rejected", "reason": reason }))
}

fn repeat_refused() -> Answer {
    (StatusCode::CONFLICT, json!({ "error": "this number was used before; ask what became of it" }))
}

fn too_late() -> Answer {
    (
        StatusCode::REQUEST_TIMEOUT,
        json!({ "error": "it arrived after Amends-Expires and was not carried out" }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shop {
        ledger: Ledger,
        _folder: tempfile::TempDir,
    }

    impl Shop {
        fn open() -> Self {
            let folder = tempfile::tempdir().unwrap();
            Self { ledger: Ledger::open(folder.path(), "shop", None).unwrap(), _folder: folder }
        }

        fn call(&mut self, method: Method, path: &str, key: &str, body: Value) -> (u16, Value) {
            let action_key = key.strip_suffix("compensation").map(|rest| format!("{rest}action"));
            let expires = body["expires"].as_str().map(|at| at.parse().unwrap());
            let request = Request { method, path: path.into(), key: key.into(), action_key, expires, body };
            let (status, body) = handle(&mut self.ledger, &request).unwrap();
            (status.as_u16(), body)
        }

        fn post(&mut self, path: &str, key: &str, body: Value) -> (u16, Value) {
            self.call(Method::POST, path, key, body)
        }

        fn get(&mut self, path: &str, key: &str) -> (u16, Value) {
            self.call(Method::GET, path, key, Value::Null)
        }
    }

    #[test]
    fn inventory_replays_answers_and_refusals() {
        let mut shop = Shop::open();
        let first = shop.post("/reservations", "a:r:action", json!({"sku": "x"}));
        assert_eq!(first, (200, json!({"reservation_id": "s-1"})));
        assert_eq!(shop.post("/reservations", "a:r:action", json!({"sku": "x"})), first);
        let released = shop.post("/reservations/release", "a:r:compensation", json!({"reservation": "s-1"}));
        assert_eq!(released, (200, json!({"release_id": "s-2"})));
        assert_eq!(
            shop.post("/reservations/release", "a:r:compensation", json!({"reservation": "s-1"})),
            released
        );
        let refused = shop.post("/reservations", "b:r:action", json!({"sku": "sold-out"}));
        assert_eq!(refused.0, 422);
        assert_eq!(shop.post("/reservations", "b:r:action", json!({"sku": "now there"})), refused);
        assert_eq!(shop.get("/reservations", "b:r:action").0, 409);
        assert_eq!(shop.get("/reservations", "c:r:action"), (404, json!({"outcome": "never_seen"})));
    }

    #[test]
    fn payment_does_it_once_and_its_query_tells() {
        let mut shop = Shop::open();
        assert_eq!(shop.get("/charges", "a:c:action").1["status"], "NOT_EXIST");
        assert_eq!(shop.post("/charges", "a:c:action", json!({"card": "ok"})).0, 200);
        assert_eq!(shop.post("/charges", "a:c:action", json!({"card": "ok"})).0, 409);
        assert_eq!(shop.get("/charges", "a:c:action").1, json!({"status": "SUCCESS", "charge_id": "s-1"}));
        assert_eq!(shop.post("/charges", "b:c:action", json!({"card": "blocked"})).0, 422);
        assert_eq!(shop.get("/charges", "b:c:action").1["status"], "FAIL");
        assert_eq!(shop.post("/refunds", "a:c:compensation", json!({"charge": "s-1"})).0, 200);
        assert_eq!(shop.post("/refunds", "a:c:compensation", json!({"charge": "s-1"})).0, 409);
    }

    #[test]
    fn vouchers_are_not_protected_but_never_late() {
        let mut shop = Shop::open();
        assert_eq!(shop.post("/vouchers", "a:v:action", json!({"expires": "2020-01-01T00:00:00Z"})).0, 408);
        assert_eq!(shop.get("/vouchers", "a:v:action").0, 404);
        assert_eq!(shop.post("/vouchers", "a:v:action", json!({})).1["voucher_id"], "s-1");
        assert_eq!(shop.post("/vouchers", "a:v:action", json!({})).1["voucher_id"], "s-2");
    }

    #[test]
    fn fence_keeps_tombstones() {
        let mut shop = Shop::open();
        let undo = |shop: &mut Shop, id: &str| {
            shop.post("/slots/release", &format!("{id}:s:compensation"), json!({}))
        };
        assert_eq!(undo(&mut shop, "a"), (200, json!({"undone": false})));
        assert_eq!(shop.post("/slots", "a:s:action", json!({})).1["outcome"], "rejected");
        assert_eq!(undo(&mut shop, "a"), (200, json!({"undone": false})));
        let slot = shop.post("/slots", "b:s:action", json!({}));
        assert_eq!(undo(&mut shop, "b"), (200, json!({"undone": true})));
        assert_eq!(undo(&mut shop, "b"), (200, json!({"undone": true})));
        assert_eq!(shop.post("/slots", "b:s:action", json!({})), slot);
    }
}
