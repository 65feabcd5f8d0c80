//! Stored entries: what a store gives back may be damaged, or of another version.

use std::sync::{Arc, LazyLock};

use amends_core::definition::{Definition, from_toml};
use amends_core::{Entry, EntryKind, Input, Jitter, Now, OpRef, Time, decide, replay, status, wanted};
use amends_store::StoredEntry;

/// A definition in which everything can happen: branches, a pivot, a fence, queries, a step without action.
static DEFINITION: LazyLock<Arc<Definition>> = LazyLock::new(|| {
    let text = r#"
saga = "entries"
version = 1
claims = ["order:${id}"]
deadline = "30m"
[participants.a]
idempotency = "replay"
fenced = true
[participants.b]
idempotency = "none"
seals_after = "15m"
[[step]]
name = "one"
after = []
[step.action]
to = "a"
post = "/one"
serial = "/id"
[step.compensation]
post = "/undo-one"
[[step]]
name = "two"
after = []
[step.action]
to = "b"
post = "/two"
query = { get = "/two/${key}" }
[step.compensation]
post = "/undo-two"
query = { get = "/undo-two/${key}" }
[[step]]
name = "decide"
after = ["one", "two"]
[[step]]
name = "last"
pivot = true
[step.action]
to = "a"
post = "/last/${steps.one.serial}"
"#;
    from_toml(text).unwrap_or_else(|problems| panic!("{problems:#?}")).definition
});

/// Entries, one a line, as JSON of their kinds. The first's digest is made to fit.
///
/// # Panics
/// If a parser, or the machine over what it read, does what it must not.
pub fn stored_entries(data: &[u8]) {
    let mut entries = Vec::new();
    for (seq, line) in (1_u32..).zip(data.split(|byte| *byte == b'\n')) {
        let at = Time(1_700_000_000_000 + i64::from(seq) * 10);
        let stored = StoredEntry { seq: u64::from(seq), at, keep: false, body: line.to_vec() };
        match stored.decode() {
            Ok(mut entry) => {
                let again = StoredEntry::encode(&entry);
                let read = again.decode().unwrap_or_else(|e| panic!("{entry:?} is not read again: {e}"));
                assert_eq!(read, entry, "read another way");
                pin(&mut entry);
                entries.push(entry);
            }
            Err(reason) => {
                assert!(reason.len() < 2_000, "{} bytes of reason", reason.len());
                break;
            }
        }
    }
    let Ok(saga) = replay(DEFINITION.clone(), &entries) else { return };
    let _ =
        (status::status(&saga), status::business_state(&saga), status::reason(&saga), status::focus(&saga));
    let at = saga.updated_at.plus_ms(1_000);
    let _ = (wanted(&saga, at), saga.wake_at(at));
    for input in [Input::Tick, Input::TakeOver { epoch: 7, lapsed: true }] {
        let Ok(decision) = decide(&saga, &input, Now { at, jitter: Jitter::NONE }) else { continue };
        let mut live = saga.clone();
        for entry in &decision.entries {
            amends_core::apply(&mut live, entry).unwrap_or_else(|e| panic!("{entry:?} does not follow: {e}"));
        }
        assert_eq!(live, decision.after, "replay is not live");
        for op in (0..saga.steps.len()).flat_map(|step| [OpRef::action(step), OpRef::compensation(step)]) {
            let _ = saga.can_ask(op);
        }
    }
}

/// A journal of another definition is refused at once: it would show nothing.
fn pin(entry: &mut Entry) {
    if let EntryKind::Submitted { digest, .. } = &mut entry.kind {
        digest.clone_from(&DEFINITION.digest);
    }
}
