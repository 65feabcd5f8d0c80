//! Definitions that tests use.

/// Three steps, the first two with an undo, the last of no return.
pub(crate) const ORDER: &str = r#"
saga = "order"
version = 1
claims = ["order:${id}"]

[participants.inventory]
idempotency = "replay"
[participants.payment]
idempotency = "effect"
[participants.shipping]
idempotency = "replay"

[[step]]
name = "reserve"
reaches = "RESERVED"
[step.action]
to = "inventory"
post = "/reservations"
body = { sku = "${input.sku}", qty = "${input.qty}" }
serial = "/serial"
[step.compensation]
post = "/reservations/release"
body = { reservation = "${steps.reserve.serial}" }

[[step]]
name = "charge"
reaches = "PAID"
[step.action]
to = "payment"
post = "/charges"
body = { amount = "${input.amount}" }
serial = "/serial"
query = { get = "/charges/${key}" }
[step.compensation]
post = "/refunds"
body = { charge = "${steps.charge.serial}" }
query = { get = "/refunds/${key}" }

[[step]]
name = "confirm"
pivot = true
reaches = "DONE"
[step.action]
to = "shipping"
post = "/shipments"
body = { order = "${id}" }
"#;

/// Two steps on one resource, without a pivot.
pub(crate) const SEAT: &str = r#"
saga = "seat"
version = 1
claims = ["seat:${input.seat}"]

[participants.hall]
idempotency = "replay"

[[step]]
name = "hold"
[step.action]
to = "hall"
post = "/holds"
body = { seat = "${input.seat}" }
[step.compensation]
post = "/holds/release"
body = { seat = "${input.seat}" }

[[step]]
name = "pay"
[step.action]
to = "hall"
post = "/payments"
[step.compensation]
post = "/payments/undo"
"#;

/// One step that cannot be repeated, asked about or undone by the participant: after a time-out it is a person's.
pub(crate) const FAX: &str = r#"
saga = "fax"
version = 1

[participants.machine]
idempotency = "none"

[[step]]
name = "send"
effect = "none"
[step.action]
to = "machine"
post = "/faxes"
body = { text = "${input.text}" }
on_unknown = { verify = ["10s"], verify_for = "1m" }
"#;

/// Two branches that come together.
pub(crate) const TRIP: &str = r#"
saga = "trip"
version = 1

[participants.airline]
idempotency = "replay"
[participants.hotel]
idempotency = "replay"

[[step]]
name = "flight"
after = []
[step.action]
to = "airline"
post = "/flights"
[step.compensation]
post = "/flights/cancel"

[[step]]
name = "room"
after = []
[step.action]
to = "hotel"
post = "/rooms"
[step.compensation]
post = "/rooms/cancel"

[[step]]
name = "mail"
after = ["flight", "room"]
effect = "none"
[step.action]
to = "hotel"
post = "/mails"
"#;
