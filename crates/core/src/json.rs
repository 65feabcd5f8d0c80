//! JSON trees: equality by exact text, digests, pointers and depth.
//!
//! Numbers keep the text they were written in (amounts of money must not pass through binary floating point), so two
//! trees are equal when their members are, in any order, and their numbers have the same text: `1` is not `1.0`. Only
//! an exponent is written in one way, whatever its source: `1E5` and `1e+5` are the same number.

mod distinct;

pub use distinct::has_distinct_names;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// How deeply arrays and objects may be nested in anything that comes from outside: far more than any business message
/// needs, and half of what JSON readers give up at, so that a tree can be wrapped in an entry and still be read again.
pub const DEPTH_MAX: usize = 64;

/// Whether two trees are equal: the same members in any order, numbers of the same text.
#[must_use]
pub fn same(a: &Value, b: &Value) -> bool {
    // `arbitrary_precision` makes numbers their text, and maps compare without regard to order.
    a == b
}

/// The one text that equal trees have in common: no spaces, object members sorted by the bytes of their names.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            // Sorted here rather than trusted to the map: its order depends on a feature that any crate may turn on.
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            out.push('{');
            for (i, (name, member)) in members.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_text(name, out);
                out.push(':');
                write_canonical(member, out);
            }
            out.push('}');
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(text).expect("invariant: a text can be written as JSON"));
}

/// SHA-256 of the canonical text, as 64 hexadecimal digits.
#[must_use]
pub fn digest(value: &Value) -> String {
    hex::encode(Sha256::digest(canonical(value)))
}

/// What tells a submission of the same saga from one of another (rule 14): SHA-256 of the definition's name, a zero byte, and the
/// canonical text of the input, as 64 hexadecimal digits.
#[must_use]
pub fn fingerprint(name: &str, input: &Value) -> String {
    let mut hasher = Sha256::new();
    hasher.update(name.as_bytes());
    hasher.update([0]);
    hasher.update(canonical(input));
    hex::encode(hasher.finalize())
}

/// Member names that begin like this are how the JSON reader marks numbers of exact text: a tree that has them would not be
/// read again as it was written.
pub const NAME_RESERVED: &str = "$serde_json::private::";

/// Whether a tree can be kept: arrays and objects nested at most [`DEPTH_MAX`] deep, no member name reserved.
#[must_use]
pub fn can_be_kept(value: &Value) -> bool {
    fn within(value: &Value, left: usize) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
            Value::Array(items) => left > 0 && items.iter().all(|item| within(item, left - 1)),
            Value::Object(members) => {
                left > 0
                    && members
                        .iter()
                        .all(|(name, member)| !name.starts_with(NAME_RESERVED) && within(member, left - 1))
            }
        }
    }
    within(value, DEPTH_MAX)
}

/// Whether a text is a JSON pointer (RFC 6901): empty, or `/`-separated names in which `~` is written `~0` and `/` `~1`.
#[must_use]
pub fn is_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/'))
        && text.split('~').skip(1).all(|after| after.starts_with('0') || after.starts_with('1'))
}

/// What the first pointer that names something in the tree names.
#[must_use]
pub fn first_at<'a>(value: &'a Value, pointers: &[String]) -> Option<&'a Value> {
    pointers.iter().find_map(|pointer| value.pointer(pointer))
}
