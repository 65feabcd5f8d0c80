//! Rules on Markdown: records, links, white space.

use std::collections::HashMap;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::Finding;
use super::tree::{File, Tree};

const RECORDS: &str = "docs/adr/";
const RECORD_HEADINGS: &[&str] = &["## Context", "## Decision", "## Consequences"];

/// Each file in `docs/adr` has a number of its own, in name and title, and the headings of a record.
pub(super) fn decision_records(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for file in tree.files.iter().filter(|file| file.path.starts_with(RECORDS)) {
        let mut found = |message: String| findings.push(Finding::new(&file.path, 0, message));
        let Some(number) = record_number(file.name()) else {
            found("a record is named NNNN-words-of-the-title.md, in lower case".to_owned());
            continue;
        };
        if let Some(other) = seen.insert(number, file.name()) {
            found(format!("{other} has this number already"));
        }
        let first = file.text.lines().next().unwrap_or_default();
        if first.strip_prefix(&format!("# {number}: ")).is_none_or(|title| title.trim().is_empty()) {
            found(format!("its first line must be `# {number}: Title`"));
        }
        for heading in
            RECORD_HEADINGS.iter().filter(|heading| !file.text.lines().any(|line| line == **heading))
        {
            found(format!("has no heading `{heading}`"));
        }
    }
    findings
}

/// The number in a well-formed file name of a record.
fn record_number(name: &str) -> Option<&str> {
    let (number, words) = name.strip_suffix(".md")?.split_once('-')?;
    let is_number = number.len() == 4 && number.chars().all(|c| c.is_ascii_digit());
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (is_number && !words.is_empty() && words.chars().all(is_word)).then_some(number)
}

/// Each link to a place in this repository leads to a file or folder that is there, and to a heading that is there.
pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        for (line, link) in relative_links(file) {
            if let Err(reason) = follow(tree, file, &link) {
                findings.push(Finding::new(&file.path, line, format!("link to {link}: {reason}")));
            }
        }
    }
    findings
}

/// The links of a file that have no scheme, with the lines they are on.
fn relative_links(file: &File) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (event, range) in Parser::new(&file.text).into_offset_iter() {
        if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event {
            let has_scheme = dest_url.starts_with("mailto:") || dest_url.contains("://");
            if !has_scheme {
                links.push((file.text[..range.start].matches('\n').count() + 1, dest_url.into_string()));
            }
        }
    }
    links
}

fn follow(tree: &Tree, from: &File, link: &str) -> Result<(), String> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    if path.starts_with('/') {
        return Err("is absolute; write it relative to this file".to_owned());
    }
    let target = if path.is_empty() { from.path.clone() } else { resolve(&from.path, path)? };
    let is_folder =
        target.is_empty() || tree.paths.iter().any(|path| path.starts_with(&format!("{target}/")));
    if !is_folder && !tree.paths.contains(&target) {
        return Err(format!("there is no {target}"));
    }
    match (anchor, tree.file(&target)) {
        (Some(anchor), Some(file))
            if file.extension() == Some("md") && !anchors(&file.text).contains(&anchor.to_owned()) =>
        {
            Err(format!("{target} has no heading for #{anchor}"))
        }
        _ => Ok(()),
    }
}

/// The path from the root that `link` means in the file `from`.
fn resolve(from: &str, link: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or("leads out of the repository")?;
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// The anchors of a text's headings, made as code hosts make them: lower case, spaces become dashes, other signs go,
/// repeated ones are counted.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut heading: Option<String> = None;
    for event in Parser::new(text) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
            (Event::End(TagEnd::Heading(_)), Some(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let count = counts.entry(anchor.clone()).or_default();
                anchors.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
                *count += 1;
            }
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    heading.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// No tab and no space at the end of a line in Markdown, where they mean something that nobody sees.
pub(super) fn white_space(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        for (number, line) in file.lines() {
            if line.contains('\t') {
                findings.push(Finding::new(&file.path, number, "a tab: use spaces"));
            }
            if line.ends_with([' ', '\t']) {
                findings.push(Finding::new(&file.path, number, "white space at the end of the line"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "# 0001: One\n\n## Context\n\n## Decision\n\n## Consequences\n";

    #[test]
    fn record_with_a_bad_name_number_title_or_heading_is_found() {
        for (path, text, expected) in [
            ("docs/adr/0001-one.md", RECORD, None),
            ("docs/adr/one.md", RECORD, Some("is named")),
            ("docs/adr/0001-One.md", RECORD, Some("is named")),
            ("docs/adr/0002-one.md", RECORD, Some("# 0002: Title")),
            ("docs/adr/0001-one.md", &RECORD.replace(": One", ": "), Some("# 0001: Title")),
            ("docs/adr/0001-one.md", &RECORD.replace("## Decision", "## Choice"), Some("## Decision")),
        ] {
            let found = decision_records(&Tree::of(&[(path, text)]));
            assert_eq!(found.len(), usize::from(expected.is_some()), "{path}: {found:?}");
            assert!(
                found.iter().all(|finding| expected.is_some_and(|part| finding.message.contains(part))),
                "{found:?}"
            );
        }
    }

    #[test]
    fn two_records_of_one_number_are_found() {
        let tree = Tree::of(&[("docs/adr/0001-one.md", RECORD), ("docs/adr/0001-other.md", RECORD)]);
        assert_eq!(decision_records(&tree).len(), 1);
    }

    /// What following the links of `docs/a.md` finds, in a tree with a few other files.
    fn broken(text: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&[
            ("docs/a.md", text),
            ("docs/b.md", "# Two `words`, so\n\n## Again\n\n## Again\n"),
            ("README.md", "# amends\n"),
            ("docs/adr/0001-one.md", RECORD),
        ]);
        links(&tree).into_iter().map(|finding| (finding.line, finding.message)).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text = "# Here\n[a](b.md) [b](../README.md) [c](adr/) [d](adr) [e](./b.md#two-words-so) [f](b.md#again-1) [g](#here) \
            [h](https://example.org/x) [i](mailto:a@example.org) [j][ref] `[k](none.md)` [l](..)\n\n[ref]: b.md\n\n```\n[m](none.md)\n```\n";
        assert_eq!(broken(text), []);
    }

    #[test]
    fn links_that_lead_nowhere_are_found_with_their_line() {
        for (link, reason) in [
            ("none.md", "there is no docs/none.md"),
            ("b.md#gone", "docs/b.md has no heading for #gone"),
            ("#gone", "docs/a.md has no heading for #gone"),
            ("/README.md", "is absolute"),
            ("../../x.md", "leads out of the repository"),
        ] {
            let found = broken(&format!("first line\n\n[a]({link})\n"));
            assert_eq!(found.len(), 1, "{link}");
            assert!(found[0].0 == 3 && found[0].1.contains(reason), "{found:?}");
        }
        assert_eq!(broken("![picture](none.png)").len(), 1);
    }

    #[test]
    fn tabs_and_trailing_spaces_are_found() {
        let tree = Tree::of(&[("a.md", "fine\na\tb\nend \nend\t\n"), ("a.py", "x \n")]);
        let lines: Vec<usize> = white_space(&tree).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3, 4, 4]);
    }
}
