//! The rule that ports stay small.

use proc_macro2::{Delimiter, TokenTree};

use super::Finding;
use super::tokens::{group, is_group, is_ident, levels, line};
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
}
