//! Rules on what the text of any file says.

use super::Finding;
use super::tree::Tree;

/// One word a line; `#` begins a comment line.
const FORBIDDEN: &str = "xtask/forbidden-words.txt";
/// Put together here so that this file does not break its own rule.
const TO_DO: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Names and checksums of other people's packages, which we do not choose.
const NOT_OURS: &str = "Cargo.lock";

/// No word of the forbidden list is anywhere in the tree.
pub(super) fn forbidden(tree: &Tree) -> Vec<Finding> {
    let Some(list) = tree.file(FORBIDDEN) else {
        return vec![Finding::new(FORBIDDEN, 0, "is missing, so nothing could be looked for")];
    };
    let lower = |text: &str| text.to_ascii_lowercase();
    let words: Vec<String> =
        list.text.lines().map(str::trim).filter(|line| is_word(line)).map(lower).collect();
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| ![FORBIDDEN, NOT_OURS].contains(&file.path.as_str())) {
        for (number, line) in file.lines() {
            let line = lower(line);
            for word in words.iter().filter(|word| line.contains(word.as_str())) {
                let message = format!("`{word}` has no place here (listed in {FORBIDDEN})");
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
    findings
}

fn is_word(line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#')
}

/// A note of what is left to do names the issue where it is kept, like `(#12)` right after the word; else it is
/// forgotten.
pub(super) fn to_do_names_issue(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path != NOT_OURS) {
        for (number, line) in file.lines() {
            for word in TO_DO.iter().filter(|word| has_orphan(line, word)) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("{word} without an issue: write `{word}(#12)`"),
                ));
            }
        }
    }
    findings
}

/// Whether `word` stands in `line` as a whole word that is not followed by an issue.
fn has_orphan(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let rest = &line[at + word.len()..];
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let is_whole = !before.is_some_and(is_part) && !rest.chars().next().is_some_and(is_part);
        let issue = rest.strip_prefix("(#").and_then(|rest| rest.split_once(')')).map(|(issue, _)| issue);
        let names_issue =
            issue.is_some_and(|issue| !issue.is_empty() && issue.chars().all(|c| c.is_ascii_digit()));
        is_whole && !names_issue
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_word_is_found_in_any_case_but_not_in_the_list() {
        let tree = Tree::of(&[
            (FORBIDDEN, "# Comment\n\n/planted/\n"),
            ("docs/a.md", "fine\nsee /Planted/path\n"),
            ("crates/a.rs", "// Comment\n"),
            (NOT_OURS, "/planted/"),
        ]);
        let found: Vec<_> =
            forbidden(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect();
        assert_eq!(found, [("docs/a.md".to_owned(), 2)]);
    }

    #[test]
    fn missing_list_is_found() {
        assert_eq!(forbidden(&Tree::of(&[])).len(), 1);
    }

    #[test]
    fn to_do_without_issue_is_found() {
        let word = TO_DO[0];
        for (line, is_orphan) in [
            (format!("// {word}: later"), true),
            (format!("// {word}(#): later"), true),
            (format!("// {word}(me): later"), true),
            (format!("// {word}(#12): later"), false),
            (format!("// {word}(#12), {word}"), true),
            (format!("const {word}_LIST"), false),
            (format!("MAS{word}"), false),
        ] {
            let found = to_do_names_issue(&Tree::of(&[("a.rs", &line)]));
            assert_eq!(found.len(), usize::from(is_orphan), "{line}");
        }
    }
}
