//! Ids and idempotency keys.

use amends_core::{Key, SAGA_ID_BYTES_MAX, SagaId, parse_key};

/// A key, and the same bytes as an id.
///
/// # Panics
/// If the parser does what it must not.
pub fn key(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some((saga, step, kind, generation)) = parse_key(text) {
        let key = Key::new(&saga, step, kind, generation);
        assert_eq!(key.as_str(), text, "a key is made of its parts again");
        assert!(key.hash().len() == 32 && key.hash().bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(!step.contains(':'), "the step {step:?} has a colon");
    }
    match SagaId::new(text) {
        Ok(id) => {
            assert!(
                (1..=SAGA_ID_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control),
                "{text:?}"
            );
            let stored = serde_json::to_string(&id).expect("invariant: an id is a text");
            let again: SagaId = serde_json::from_str(&stored).unwrap_or_else(|e| panic!("{stored}: {e}"));
            assert_eq!(again, id);
        }
        Err(bad) => assert!(bad.to_string().len() < 200, "{bad}"),
    }
}
