//! Rules on ports: they stay small, and the engine knows nothing behind them.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenTree};

use super::Finding;
use super::rust::product_code;
use super::tokens::{group, is_group, is_ident, is_punct, levels, line};
use super::tree::Tree;

/// Several small ports rather than a fat one: each method more is one more that every store, the simulation and every
/// test double must get right.
const METHODS_MAX: usize = 8;

/// No public trait has more than [`METHODS_MAX`] methods.
pub(super) fn small(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, tokens) in tree.rust().filter(|(file, _)| file.path.starts_with("crates/")) {
        for level in levels(tokens) {
            for at in (0..level.len()).filter(|at| is_public_trait(&level, *at)) {
                let methods = methods(&level[at..]);
                if methods > METHODS_MAX {
                    let message =
                        format!("a trait of {methods} methods: split it, {METHODS_MAX} are the most");
                    findings.push(Finding::new(&file.path, line(&level[at]), message));
                }
            }
        }
    }
    findings
}

fn is_public_trait(level: &[TokenTree], at: usize) -> bool {
    let before = |token: &TokenTree| is_ident(token, "pub") || is_group(token, Delimiter::Parenthesis);
    is_ident(&level[at], "trait") && at.checked_sub(1).is_some_and(|at| before(&level[at]))
}

/// The number of methods in the body of the trait that starts here: each has its `fn` directly in the body.
fn methods(from_trait: &[TokenTree]) -> usize {
    let body = from_trait.iter().find(|token| is_group(token, Delimiter::Brace)).and_then(group);
    body.map_or(0, |body| body.stream().into_iter().filter(|token| is_ident(token, "fn")).count())
}

/// Where the port through which the engine calls participants is declared.
const CALL_PORT: &str = "crates/participants/src/port.rs";

/// The engine uses of the participants' crate only what its port declares: how a participant is reached is chosen where
/// the program is put together, and the simulation puts its own world there.
pub(super) fn engine_calls_by_port(tree: &Tree) -> Vec<Finding> {
    let port = tree.rust().find(|(file, _)| file.path == CALL_PORT);
    let declared = port
        .map(|(_, tokens)| public_names(&tokens.clone().into_iter().collect::<Vec<_>>()))
        .unwrap_or_default();
    let mut findings = Vec::new();
    for (file, code) in product_code(tree).filter(|(file, _)| file.path.starts_with("crates/engine/")) {
        for level in levels(&code) {
            for at in (0..level.len()).filter(|at| is_ident(&level[*at], "amends_participants")) {
                for name in used_names(&level[at + 1..]).into_iter().filter(|name| !declared.contains(name)) {
                    let message = format!("amends_participants::{name} is not in the port ({CALL_PORT})");
                    findings.push(Finding::new(&file.path, line(&level[at]), message));
                }
            }
        }
    }
    findings
}

/// The names of the public items of a file.
fn public_names(tokens: &[TokenTree]) -> BTreeSet<String> {
    let kinds = ["struct", "enum", "trait", "type", "fn", "const"];
    let name = |window: &[TokenTree]| match window {
        [public, kind, TokenTree::Ident(name)]
            if is_ident(public, "pub") && kinds.iter().any(|word| is_ident(kind, word)) =>
        {
            Some(name.to_string())
        }
        _ => None,
    };
    tokens.windows(3).filter_map(name).collect()
}

/// The names that a path or a list of paths brings in after the name of the crate: its first part, or after `port` the
/// second; of a list each.
fn used_names(after_crate: &[TokenTree]) -> Vec<String> {
    match after_crate {
        [first, second, rest @ ..] if is_punct(first, ':') && is_punct(second, ':') => names_at(rest),
        _ => Vec::new(),
    }
}

fn names_at(path: &[TokenTree]) -> Vec<String> {
    match path {
        [TokenTree::Ident(module), rest @ ..] if module == "port" => used_names(rest),
        [TokenTree::Ident(name), ..] => vec![name.to_string()],
        [TokenTree::Group(list), ..] => {
            let tokens: Vec<TokenTree> = list.stream().into_iter().collect();
            tokens.split(|token| is_punct(token, ',')).flat_map(names_at).collect()
        }
        [TokenTree::Punct(all), ..] if all.as_char() == '*' => vec!["*".to_owned()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trait of `methods` methods, some with bodies and function types that must not be counted.
    fn found(visibility: &str, methods: usize) -> usize {
        let methods: String = (0..methods)
            .map(|n| format!("async fn m{n}(&self, f: fn(u8)) {{ fn inner() {{}} }}\n"))
            .collect();
        let text = format!("mod a {{ {visibility} trait Port: Send {{ {methods} }} }}");
        small(&Tree::of(&[("crates/store/src/port.rs", &text)])).len()
    }

    #[test]
    fn fat_public_trait_is_found() {
        assert_eq!(found("pub", METHODS_MAX), 0);
        assert_eq!(found("pub", METHODS_MAX + 1), 1);
        assert_eq!(found("pub(crate)", METHODS_MAX + 1), 1);
    }

    #[test]
    fn private_trait_is_its_modules_own_business() {
        assert_eq!(found("", METHODS_MAX + 1), 0);
    }

    /// The names not of the port that an engine of this text uses.
    fn beyond_the_port(text: &str) -> Vec<String> {
        let port = "pub trait Caller { fn call(&self); }\npub enum Called {}\nstruct Hidden;";
        let tree = Tree::of(&[(CALL_PORT, port), ("crates/engine/src/worker.rs", text)]);
        let named = |finding: Finding| finding.message.split([':', ' ']).nth(2).map(str::to_owned);
        engine_calls_by_port(&tree).into_iter().filter_map(named).collect()
    }

    #[test]
    fn engine_may_use_the_port() {
        let text = "use amends_participants::{Caller, port::{Called, Caller as C}}; use amends_participants::port::Called; \
            fn a(b: &dyn amends_participants::Caller) {} #[cfg(test)] mod tests { use amends_participants::Http; }";
        assert_eq!(beyond_the_port(text), [""; 0]);
    }

    #[test]
    fn engine_that_knows_more_than_the_port_is_found() {
        assert_eq!(beyond_the_port("use amends_participants::{Caller, Http};"), ["Http"]);
        assert_eq!(beyond_the_port("fn a() { amends_participants::http::Client::new() }"), ["http"]);
        assert_eq!(beyond_the_port("use amends_participants::port::Hidden;"), ["Hidden"]);
        assert_eq!(beyond_the_port("use amends_participants::*;"), ["*"]);
    }
}
