//! Looking at Rust as tokens: what is in comments and strings is never mistaken for code.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// The tokens of a stream and of every group in it, each level by itself.
pub(super) fn levels(stream: &TokenStream) -> Vec<Vec<TokenTree>> {
    let own: Vec<TokenTree> = stream.clone().into_iter().collect();
    let inner: Vec<_> = own.iter().filter_map(group).flat_map(|group| levels(&group.stream())).collect();
    std::iter::once(own).chain(inner).collect()
}

/// The stream without its test code: items under `#[test]`, `#[cfg(test)]` and other attributes that end in `test`.
pub(super) fn without_tests(stream: &TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    let mut tokens = stream.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        let attribute = is_punct(&token, '#').then(|| tokens.peek().and_then(group)).flatten();
        if attribute.is_some_and(is_test_attribute) {
            // The item ends with its body or, without one, with a semicolon.
            tokens.by_ref().find(|token| is_punct(token, ';') || is_group(token, Delimiter::Brace));
            continue;
        }
        kept.push(match token {
            TokenTree::Group(group) => {
                TokenTree::Group(Group::new(group.delimiter(), without_tests(&group.stream())))
            }
            other => other,
        });
    }
    kept.into_iter().collect()
}

/// The names of the modules in files of their own that the stream declares for tests: `#[cfg(test)] mod name;`.
pub(super) fn test_modules(stream: &TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
    let module = |window: &[TokenTree]| match window {
        [hash, TokenTree::Group(attribute), word, TokenTree::Ident(name), end]
            if is_punct(hash, '#')
                && is_test_attribute(attribute)
                && is_ident(word, "mod")
                && is_punct(end, ';') =>
        {
            Some(name.to_string())
        }
        _ => None,
    };
    tokens.windows(5).filter_map(module).collect()
}

/// Whether the attribute marks a test (`test`, `tokio::test`, `cfg(test)`).
fn is_test_attribute(attribute: &Group) -> bool {
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match tokens.as_slice() {
        [cfg, TokenTree::Group(condition)] if is_ident(cfg, "cfg") => {
            condition.stream().into_iter().next().is_some_and(|first| is_ident(&first, "test"))
        }
        [.., last] if is_ident(last, "test") => true,
        [.., last, TokenTree::Group(_)] => is_ident(last, "test"),
        _ => false,
    }
}

/// Whether the token is this word.
pub(super) fn is_ident(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

/// Whether the token is this sign.
pub(super) fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// Whether the token is a group in these brackets.
pub(super) fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    group(token).is_some_and(|group| group.delimiter() == delimiter)
}

/// The token as a group.
pub(super) fn group(token: &TokenTree) -> Option<&Group> {
    match token {
        TokenTree::Group(group) => Some(group),
        TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    }
}

/// The line on which the token starts, from 1.
pub(super) fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(text: &str) -> TokenStream {
        text.parse().unwrap()
    }

    #[test]
    fn test_items_are_left_out_and_the_rest_stays() {
        let text = "
            fn a() {} #[cfg(test)] mod tests { fn b() {} }
            #[test] fn c() {} #[tokio::test(start_paused = true)] async fn d() {}
            #[cfg(test)] use e; #[cfg(unix)] fn f() {} mod g { #[test] fn h() {} fn i() {} }
            #[cfg(not(test))] fn j() {}";
        let expected =
            stream("fn a() {} #[cfg(unix)] fn f() {} mod g { fn i() {} } #[cfg(not(test))] fn j() {}");
        assert_eq!(without_tests(&stream(text)).to_string(), expected.to_string());
    }

    #[test]
    fn modules_declared_for_tests_are_known_by_name() {
        let text =
            "mod a; #[cfg(test)] mod b; #[cfg(unix)] mod c; #[cfg(test)] mod d { } #[cfg(test)] use e;";
        assert_eq!(test_modules(&stream(text)), ["b"]);
    }

    #[test]
    fn levels_reach_into_macros() {
        let found = levels(&stream("outer!(a [b { deep }])"));
        assert!(found.iter().flatten().any(|token| is_ident(token, "deep")));
    }
}
