//! The rule that `lib.rs` is only the map of its crate.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;
use super::tokens::{is_group, is_ident, is_punct, line};
use super::tree::Tree;

/// Each `lib.rs` has documentation, modules in files of their own, and re-exports; nothing else.
pub(super) fn only_the_map(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, tokens) in tree.rust().filter(|(file, _)| file.path.ends_with("src/lib.rs")) {
        let lines = other_items(tokens);
        let message = "lib.rs holds documentation, modules and re-exports; this belongs into a module";
        findings.extend(lines.into_iter().map(|line| Finding::new(&file.path, line, message)));
        if !file.text.trim_start().starts_with("//!") && !file.text.contains("#![doc") {
            findings.push(Finding::new(&file.path, 1, "lib.rs begins with what the crate is for (`//!`)"));
        }
    }
    findings
}

/// The lines of the items that are neither `use` nor `mod name;`.
fn other_items(tokens: &TokenStream) -> Vec<usize> {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut lines = Vec::new();
    let mut rest = tokens.as_slice();
    while !rest.is_empty() {
        rest = after_attributes_and_visibility(rest);
        let Some(first) = rest.first() else { break };
        let end = rest
            .iter()
            .position(|token| {
                is_punct(token, ';') || (!is_ident(first, "use") && is_group(token, Delimiter::Brace))
            })
            .map_or(rest.len(), |end| end + 1);
        let (item, next) = rest.split_at(end);
        let is_module = is_ident(first, "mod") && item.last().is_some_and(|last| is_punct(last, ';'));
        if !is_module && !is_ident(first, "use") {
            lines.push(line(first));
        }
        rest = next;
    }
    lines
}

fn after_attributes_and_visibility(mut tokens: &[TokenTree]) -> &[TokenTree] {
    loop {
        tokens = match tokens {
            [hash, bang, body, rest @ ..]
                if is_punct(hash, '#') && is_punct(bang, '!') && is_group(body, Delimiter::Bracket) =>
            {
                rest
            }
            [hash, body, rest @ ..] if is_punct(hash, '#') && is_group(body, Delimiter::Bracket) => rest,
            [public, scope, rest @ ..]
                if is_ident(public, "pub") && is_group(scope, Delimiter::Parenthesis) =>
            {
                rest
            }
            [public, rest @ ..] if is_ident(public, "pub") => rest,
            _ => return tokens,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        only_the_map(&Tree::of(&[("crates/core/src/lib.rs", text)]))
            .iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn documentation_modules_and_re_exports_are_the_map() {
        let text = "//! A crate.\n#![forbid(x)]\nmod a;\n#[cfg(feature = \"b\")]\npub mod b;\npub(crate) mod c;\n/// Doc.\npub use a::{A, B};\nuse c::C;\n";
        assert!(lines(text).is_empty());
    }

    #[test]
    fn anything_else_is_found() {
        let text = "//! A crate.\npub fn a() {}\nmod b {}\npub use c::{D, E};\nstruct F;\nimpl F {}\nmacro_rules! g { () => {} }\nmod h;\n#[cfg(test)]\nmod tests { fn i() {} }";
        assert_eq!(lines(text), [2, 3, 5, 6, 7, 10]);
    }

    #[test]
    fn crate_without_documentation_is_found() {
        assert_eq!(lines("mod a;"), [1]);
    }

    #[test]
    fn other_files_may_hold_anything() {
        assert!(only_the_map(&Tree::of(&[("crates/core/src/a.rs", "fn a() {}")])).is_empty());
    }
}
