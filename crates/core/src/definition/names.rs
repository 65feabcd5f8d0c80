//! Names of sagas, steps, participants and business states.

use super::diagnostic::Report;
use super::fields::At;

/// The most characters of a name.
pub const NAME_CHARS_MAX: usize = 64;

/// Whether a text is a name: `[a-z][a-z0-9_-]{0,63}`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

/// Reads a name. Also a bad one is given back, after it was reported, so that what refers to it is not reported too.
pub(super) fn read_name<'t>(at: &At<'t>, of: &str, example: &str, report: &mut Report) -> Option<&'t str> {
    let text = at.text(example, report)?;
    check_name(text, at, of, report);
    Some(text)
}

pub(super) fn check_name(text: &str, at: &At<'_>, of: &str, report: &mut Report) {
    if is_name(text) {
        return;
    }
    let shown: String = text.chars().take(NAME_CHARS_MAX).collect();
    let mut fitting: String = text
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' { c } else { '-' })
        .skip_while(|c| !c.is_ascii_lowercase())
        .take(NAME_CHARS_MAX)
        .collect();
    if fitting.is_empty() {
        fitting.push_str("a-name");
    }
    report.problem(
        &at.place,
        format!(
            "{shown:?} is no name for {of}: 1 to {NAME_CHARS_MAX} of a-z, 0-9, `_` and `-`, a letter first"
        ),
        format!("name it, for example, \"{fitting}\""),
    );
}

/// Reads the name of a business state: any short text, in whatever language and case the business writes it.
pub(super) fn read_state(at: &At<'_>, report: &mut Report) -> Option<String> {
    let text = at.text("RESERVED", report)?;
    if text.is_empty()
        || text.len() > NAME_CHARS_MAX
        || text.contains(char::is_control)
        || text.trim() != text
    {
        report.problem(
            &at.place,
            format!(
                "a business state has 1 to {NAME_CHARS_MAX} bytes, no control characters, no space around it"
            ),
            "name it, for example, \"RESERVED\"",
        );
    }
    Some(text.to_owned())
}
