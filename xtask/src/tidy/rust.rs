//! Rules on what Rust files say.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;
use super::tokens::{group, is_group, is_ident, is_punct, levels, line, test_modules, without_tests};
use super::tree::{File, Tree};

/// Test code that lies in `src`, where a panic is the way to fail: the suite that every store must pass, and the
/// simulation.
const TEST_CODE: &[&str] = &["crates/store/src/conformance", "crates/sim/"];

/// What the core must not reach for: time and everything else from outside come to it inside inputs.
const OUTSIDE_CORE: &[&str] = &["env", "fs", "net", "process", "thread"];

/// Every Rust file can be read: what cannot is checked by no other rule.
pub(super) fn readable(tree: &Tree) -> Vec<Finding> {
    let unreadable = |file: &File| match file.rust.as_ref()? {
        Ok(_) => None,
        Err(reason) => Some(Finding::new(&file.path, 0, format!("cannot be read as Rust: {reason}"))),
    };
    tree.files.iter().filter_map(unreadable).collect()
}

/// No `unsafe`, in tests neither.
pub(super) fn no_unsafe(tree: &Tree) -> Vec<Finding> {
    find(tree, |level, at| is_ident(&level[at], "unsafe"), "unsafe code; nothing here needs it")
}

/// No macro that stands for work to be done, or for a look at a value while writing.
pub(super) fn nothing_unfinished(tree: &Tree) -> Vec<Finding> {
    let unfinished = |level: &[TokenTree], at: usize| {
        let named = ["todo", "unimplemented", "dbg"].iter().any(|name| is_ident(&level[at], name));
        named && level.get(at + 1).is_some_and(|next| is_punct(next, '!'))
    };
    find(tree, unfinished, "unfinished: write it, or return an error that says what is missing")
}

/// No test that is not run.
pub(super) fn no_ignored_tests(tree: &Tree) -> Vec<Finding> {
    const MESSAGE: &str = "a test that is not run proves nothing: run it, or delete it";
    let mut findings = find(tree, is_ignore_attribute, MESSAGE);
    for file in tree.with_extension("rs") {
        let ignored = |text: &str| text.trim_start().starts_with("//") && text.contains("```ignore");
        findings.extend(
            file.lines()
                .filter(|(_, text)| ignored(text))
                .map(|(line, _)| Finding::new(&file.path, line, MESSAGE)),
        );
    }
    findings
}

fn is_ignore_attribute(level: &[TokenTree], at: usize) -> bool {
    let Some(attribute) = level.get(at + 1).and_then(group).filter(|_| is_punct(&level[at], '#')) else {
        return false;
    };
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match tokens.as_slice() {
        [first, ..] if is_ident(first, "ignore") => true,
        [first, TokenTree::Group(rest)] if is_ident(first, "cfg_attr") => {
            rest.stream().into_iter().any(|token| is_ident(&token, "ignore"))
        }
        _ => false,
    }
}

/// No `unwrap()` in product code: an error is returned, and a broken invariant is named by `expect`.
pub(super) fn no_unwrap(tree: &Tree) -> Vec<Finding> {
    let unwrap = |level: &[TokenTree], at: usize| {
        let [dot, name, arguments] = &level[at..level.len().min(at + 3)] else { return false };
        is_punct(dot, '.') && is_ident(name, "unwrap") && is_group(arguments, Delimiter::Parenthesis)
    };
    let message = "unwrap() outside tests: return the error, or name the invariant with expect()";
    product_code(tree).flat_map(|(file, code)| find_in(file, &code, unwrap, message)).collect()
}

/// The core knows neither clock nor files, network, environment, threads.
pub(super) fn pure_core(tree: &Tree) -> Vec<Finding> {
    let impure = |level: &[TokenTree], at: usize| match &level[at..level.len().min(at + 4)] {
        [now, ..] if is_ident(now, "SystemTime") => true,
        [std, first, second, what]
            if is_ident(std, "std") && is_punct(first, ':') && is_punct(second, ':') =>
        {
            match group(what) {
                Some(list) => list.stream().into_iter().any(|token| is_outside(&token)),
                None => is_outside(what),
            }
        }
        [instant, first, second, now] => {
            is_ident(instant, "Instant")
                && is_punct(first, ':')
                && is_punct(second, ':')
                && is_ident(now, "now")
        }
        _ => false,
    };
    let message = "the core is pure: time, randomness and everything from outside arrive inside inputs";
    product_code(tree)
        .filter(|(file, _)| file.path.starts_with("crates/core/src/"))
        .flat_map(|(file, code)| find_in(file, &code, impure, message))
        .collect()
}

fn is_outside(token: &TokenTree) -> bool {
    OUTSIDE_CORE.iter().any(|module| is_ident(token, module))
}

/// Files under `src` of the crates, without their tests.
pub(super) fn product_code(tree: &Tree) -> impl Iterator<Item = (&File, TokenStream)> {
    let test_modules: Vec<String> =
        tree.rust().flat_map(|(file, tokens)| test_module_paths(file, tokens)).collect();
    let is_product = move |file: &File| {
        let in_source = file.path.starts_with("crates/") && file.path.contains("/src/");
        let is_in = |module: &String| {
            file.path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        let is_test =
            test_modules.iter().any(is_in) || TEST_CODE.iter().any(|path| file.path.starts_with(path));
        in_source && !is_test
    };
    tree.rust().filter(move |(file, _)| is_product(file)).map(|(file, tokens)| (file, without_tests(tokens)))
}

/// Where the test modules lie that a file declares, without the `.rs`.
fn test_module_paths(file: &File, tokens: &TokenStream) -> Vec<String> {
    let own = file.path.trim_end_matches(".rs");
    let is_root = ["lib.rs", "main.rs", "mod.rs"].contains(&file.name());
    let folder = if is_root { own.rsplit_once('/').map_or("", |(folder, _)| folder) } else { own };
    test_modules(tokens).iter().map(|name| format!("{folder}/{name}")).collect()
}

/// A finding wherever `matches` says so of a position in a level of any Rust file.
fn find(tree: &Tree, matches: impl Fn(&[TokenTree], usize) -> bool, message: &str) -> Vec<Finding> {
    tree.rust().flat_map(|(file, tokens)| find_in(file, tokens, &matches, message)).collect()
}

fn find_in(
    file: &File,
    tokens: &TokenStream,
    matches: impl Fn(&[TokenTree], usize) -> bool,
    message: &str,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for level in levels(tokens) {
        let places = (0..level.len()).filter(|at| matches(&level, *at));
        findings.extend(places.map(|at| Finding::new(&file.path, line(&level[at]), message)));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines on which `rule` finds something in `text` at `path`.
    fn lines(rule: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        let mut lines: Vec<usize> =
            rule(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn file_that_is_no_rust_is_found() {
        assert_eq!(lines(readable, "crates/core/src/a.rs", "fn a( {"), [0]);
        assert!(lines(readable, "crates/core/src/a.rs", "fn a() {}").is_empty());
    }

    #[test]
    fn unsafe_is_found_in_tests_too_but_not_in_comments_and_strings() {
        let text = "// unsafe\nconst A: &str = \"unsafe\";\nfn a() { unsafe { b() } }\n#[test]\nfn c() { unsafe {} }";
        assert_eq!(lines(no_unsafe, "crates/core/tests/a.rs", text), [3, 5]);
    }

    #[test]
    fn unfinished_macros_are_found_also_inside_macros() {
        let text =
            "fn a() { todo!() }\nfn b() { vec![dbg!(1)]; }\nfn c() { unimplemented!(\"c\") }\nlet todo = 1;";
        assert_eq!(lines(nothing_unfinished, "xtask/src/a.rs", text), [1, 2, 3]);
    }

    #[test]
    fn ignored_tests_are_found_in_every_form() {
        let text = "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n#[cfg_attr(unix, ignore)]\nfn b() {}\n/// ```ignore\n/// ```\nfn ignore() {}";
        assert_eq!(lines(no_ignored_tests, "crates/core/src/a.rs", text), [2, 4, 6]);
    }

    #[test]
    fn unwrap_is_found_in_product_code_alone() {
        let text =
            "fn a() { b().unwrap(); c().unwrap_or(1); }\n#[cfg(test)]\nmod tests { fn d() { e().unwrap() } }";
        assert_eq!(lines(no_unwrap, "crates/core/src/a.rs", text), [1]);
        for path in ["crates/core/tests/a.rs", "crates/store/src/conformance/a.rs", "xtask/src/a.rs"] {
            assert!(lines(no_unwrap, path, text).is_empty(), "{path}");
        }
    }

    #[test]
    fn file_that_is_declared_as_a_test_is_no_product_code() {
        let text = "fn a() { b().unwrap(); }";
        let found =
            |declaring: (&str, &str), path: &str| no_unwrap(&Tree::of(&[declaring, (path, text)])).len();
        let (root, inner) = ("crates/a/src/lib.rs", "crates/a/src/b.rs");
        assert_eq!(found((root, "#[cfg(test)] mod tests;"), "crates/a/src/tests.rs"), 0);
        assert_eq!(found((root, "#[cfg(test)] mod tests;"), "crates/a/src/tests/one.rs"), 0);
        assert_eq!(found((inner, "#[cfg(test)] mod tests;"), "crates/a/src/b/tests.rs"), 0);
        assert_eq!(found((inner, "#[cfg(test)] mod tests;"), "crates/a/src/tests.rs"), 1);
        assert_eq!(found((root, "mod tests;"), "crates/a/src/tests.rs"), 1);
        assert_eq!(found((root, "#[cfg(test)] mod tests;"), "crates/a/src/tests_of.rs"), 1);
    }

    #[test]
    fn core_that_reaches_outside_is_found() {
        let text = "use std::time::Duration;\nuse std::time::SystemTime;\nuse std::{fmt, fs};\nfn a() { std::env::var(\"A\") }\nfn b() { Instant::now() }\nfn c(at: Instant) {}";
        assert_eq!(lines(pure_core, "crates/core/src/a.rs", text), [2, 3, 4, 5]);
        assert!(lines(pure_core, "crates/engine/src/a.rs", text).is_empty());
    }
}
