//! Definitions and durations.

use amends_core::definition::{
    Checked, DIAGNOSTICS_MAX, DURATION_MAX_MS, Diagnostic, from_json, from_toml, from_tree, parse_duration,
    show_duration,
};

/// The most bytes of what is said about one problem: a few sentences, whatever the text was.
const WORDS_BYTES_MAX: usize = 4_000;

/// A definition in TOML.
///
/// # Panics
/// If the parser does what it must not.
pub fn definition_toml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    judge(text, from_toml(text));
}

/// A definition in JSON.
///
/// # Panics
/// If the parser does what it must not.
pub fn definition_json(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    judge(text, from_json(text));
}

fn judge(text: &str, read: Result<Checked, Vec<Diagnostic>>) {
    match read {
        Ok(Checked { definition, warnings }) => {
            warnings.iter().for_each(|warning| is_kind(text, warning));
            let stored = definition.tree.to_string();
            let again =
                from_json(&stored).unwrap_or_else(|e| panic!("what is stored is not read again: {e:?}"));
            assert_eq!(again.definition.digest, definition.digest, "another digest");
            assert_eq!(again.definition, definition, "another definition");
            let of_tree =
                from_tree(&definition.tree).unwrap_or_else(|e| panic!("the tree is not read: {e:?}"));
            assert_eq!(of_tree.definition, definition, "another definition of the tree");
            assert_eq!(of_tree.warnings.len(), warnings.len(), "other warnings");
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            assert!(problems.len() <= DIAGNOSTICS_MAX + 1, "{} problems at once", problems.len());
            problems.iter().for_each(|problem| is_kind(text, problem));
        }
    }
}

/// It says what is wrong, where, and what to do.
fn is_kind(text: &str, said: &Diagnostic) {
    assert!(!said.reason.is_empty() && !said.remedy.is_empty(), "{said:?}");
    assert!(said.to_string().len() <= WORDS_BYTES_MAX, "{} bytes of words", said.to_string().len());
    // An empty text has a first line too.
    assert!(said.line <= text.matches('\n').count() + 1, "line {} of {text:?}", said.line);
}

/// A duration.
///
/// # Panics
/// If the parser does what it must not.
pub fn duration(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse_duration(text) {
        Ok(ms) => {
            assert!((1..=DURATION_MAX_MS).contains(&ms), "{text:?} is {ms} ms");
            let shown = show_duration(ms);
            assert_eq!(parse_duration(&shown), Ok(ms), "{text:?} is shown as {shown}");
            assert!(shown.len() <= text.len() + 2, "{text:?} is shown as {shown}");
        }
        Err(bad) => assert!(bad.to_string().len() < 400, "{bad}"),
    }
}
