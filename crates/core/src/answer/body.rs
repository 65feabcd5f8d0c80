//! A body as a participant sent it: what it says, and the words it gives as a reason.

use serde_json::Value;

use crate::json;

/// The most bytes of a reason that are kept: a sentence or two for a person, not a page.
pub const REASON_BYTES_MAX: usize = 500;

/// A body, read once.
pub(super) enum Body {
    /// Nothing, or white space.
    Empty,
    /// JSON that can be kept ([`json::can_be_kept`]).
    Json(Value),
    /// Anything else, as a text.
    Text(String),
}

impl Body {
    pub(super) fn read(bytes: &[u8]) -> Self {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Self::Empty;
        }
        match serde_json::from_slice(bytes) {
            Ok(value) if json::can_be_kept(&value) => Self::Json(value),
            Ok(_) | Err(_) => Self::Text(String::from_utf8_lossy(bytes).into_owned()),
        }
    }

    pub(super) fn json(&self) -> Option<&Value> {
        match self {
            Self::Json(value) => Some(value),
            Self::Empty | Self::Text(_) => None,
        }
    }

    /// The word in its member `outcome`.
    pub(super) fn outcome(&self) -> Option<&str> {
        self.json()?.get("outcome")?.as_str()
    }

    /// What it says, as a fact: the JSON, null if empty, text if not JSON.
    pub(super) fn into_fact(self) -> Value {
        match self {
            Self::Empty => Value::Null,
            Self::Json(value) => value,
            Self::Text(text) => Value::String(text),
        }
    }

    /// The participant's own words: `reason`, else a problem's `title`, else its `detail`, else that it answered `status`
    /// and with what text.
    pub(super) fn reason(&self, status: u16) -> String {
        let member = |name| self.json()?.get(name)?.as_str().filter(|text| !text.trim().is_empty());
        if let Some(words) = ["reason", "title", "detail"].into_iter().find_map(member) {
            return tidy(words);
        }
        match self {
            // A page of HTML tells a person nothing.
            Self::Text(text) if !text.trim_start().starts_with('<') => {
                tidy(&format!("answered {status}: {text}"))
            }
            Self::Empty | Self::Json(_) | Self::Text(_) => format!("answered {status}"),
        }
    }

    /// [`Self::reason`] with the status in front, for answers whose status a person needs to see.
    pub(super) fn reason_with_status(&self, status: u16) -> String {
        let words = self.reason(status);
        if words.starts_with("answered ") { words } else { tidy(&format!("answered {status}: {words}")) }
    }
}

/// One line of at most [`REASON_BYTES_MAX`] bytes: control characters become spaces, the rest is cut off.
fn tidy(text: &str) -> String {
    const CUT: &str = "…";
    let mut out = String::new();
    for c in text.trim().chars() {
        let c = if c.is_control() { ' ' } else { c };
        if out.len() + c.len_utf8() > REASON_BYTES_MAX - CUT.len() {
            out.push_str(CUT);
            break;
        }
        out.push(c);
    }
    out
}
