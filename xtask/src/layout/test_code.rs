//! Removes test code from the tokens of a file.

use super::lexer::Token;

/// The tokens of a file without its tests, and where the tests were.
pub(crate) struct WithoutTests {
    pub(crate) tokens: Vec<Token>,
    /// First and last line of each test item.
    pub(crate) test_lines: Vec<(usize, usize)>,
}

/// Removes the items behind `#[cfg(test)]`, `#[cfg(all(test, …))]` and `#[test]`. A file with `#![cfg(test)]` is empty.
pub(crate) fn without_tests(tokens: &[Token]) -> WithoutTests {
    let mut kept = Vec::new();
    let mut test_lines = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let Some((end, inner)) = attribute(tokens, at) else {
            kept.push(token.clone());
            at += 1;
            continue;
        };
        if !is_test(&tokens[at..end]) {
            kept.extend_from_slice(&tokens[at..end]);
            at = end;
            continue;
        }
        if inner {
            let last = tokens.last().map_or(1, |token| token.line);
            return WithoutTests { tokens: Vec::new(), test_lines: vec![(1, last)] };
        }
        let after = item_end(tokens, end);
        let last = tokens.get(after.saturating_sub(1)).map_or(token.line, |token| token.line);
        test_lines.push((token.line, last));
        at = after;
    }
    WithoutTests { tokens: kept, test_lines }
}

/// The end of the attribute that starts at `at`, if one does, and whether it is an inner one (`#![…]`).
pub(crate) fn attribute(tokens: &[Token], at: usize) -> Option<(usize, bool)> {
    if !tokens.get(at)?.is('#') {
        return None;
    }
    let inner = tokens.get(at + 1)?.is('!');
    let open = at + 1 + usize::from(inner);
    tokens.get(open)?.is('[').then(|| (closing(tokens, open) + 1, inner))
}

fn is_test(attribute: &[Token]) -> bool {
    let mut words = attribute.iter().filter_map(Token::word);
    match words.next() {
        Some("test") => true,
        Some("cfg") => attribute.iter().enumerate().any(|(at, token)| {
            token.is_word("test")
                && !attribute.get(at.wrapping_sub(2)).is_some_and(|token| token.is_word("not"))
        }),
        _ => false,
    }
}

/// The index of the bracket that closes the one at `open`; the last token, if none does.
pub(crate) fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if ['(', '[', '{'].iter().any(|bracket| token.is(*bracket)) {
            depth += 1;
        } else if [')', ']', '}'].iter().any(|bracket| token.is(*bracket)) {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at;
            }
        }
    }
    tokens.len().saturating_sub(1)
}

/// The index after the item, the field or the statement at `at`.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    while let Some((end, _)) = attribute(tokens, at) {
        at = end;
    }
    let is_field = tokens.get(at).is_some_and(|token| token.word().is_some())
        && tokens.get(at + 1).is_some_and(|token| token.is(':'));
    let until_semicolon =
        ["use", "const", "static", "type", "let"].iter().any(|word| starts_with(tokens, at, word));
    while let Some(token) = tokens.get(at) {
        if token.is(';') || is_field && token.is(',') {
            return at + 1;
        }
        if is_field && token.is('}') {
            return at;
        }
        if token.is('{') && !until_semicolon {
            return closing(tokens, at) + 1;
        }
        let opens = ['(', '[', '{'].iter().any(|bracket| token.is(*bracket));
        at = if opens { closing(tokens, at) + 1 } else { at + 1 };
    }
    tokens.len()
}

/// Whether the item at `at` has the keyword `word`, behind its visibility. `const fn` counts as a function.
fn starts_with(tokens: &[Token], mut at: usize, word: &str) -> bool {
    if tokens.get(at).is_some_and(|token| token.is_word("pub")) {
        at += 1;
        if tokens.get(at).is_some_and(|token| token.is('(')) {
            at = closing(tokens, at) + 1;
        }
    }
    tokens.get(at).is_some_and(|token| token.is_word(word))
        && !tokens.get(at + 1).is_some_and(|token| token.is_word("fn"))
}

#[cfg(test)]
mod tests {
    use super::super::lexer::tokens;
    use super::*;

    fn kept(text: &str) -> String {
        let kept = without_tests(&tokens(text));
        kept.tokens.iter().filter_map(Token::word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn test_items_are_removed_whole() {
        assert_eq!(kept("#[cfg(test)] mod tests { fn a() { b } } fn c() {}"), "fn c");
        assert_eq!(kept("#[cfg(test)]\n#[path = \"x\"]\nmod tests; use d;"), "use d");
        assert_eq!(kept("#[cfg(test)] pub(crate) use a::{b, c}; use d;"), "use d");
        assert_eq!(kept("#[cfg(all(test, not(feature = \"x\")))] fn a() -> [u8; 2] { b } e"), "e");
        assert_eq!(kept("struct S { #[cfg(test)] a: Vec<u8>, b: u8 }"), "struct S b u8");
        assert_eq!(kept("#[test] fn a() {} const B: C = D;"), "const B C D");
    }

    #[test]
    fn other_items_stay() {
        assert_eq!(kept("#[cfg(not(test))] fn a() {}"), "cfg not test fn a");
        assert_eq!(kept("#![cfg(test)] fn a() {}"), "");
    }

    #[test]
    fn lines_of_tests_are_reported() {
        let found = without_tests(&tokens("fn a() {}\n#[cfg(test)]\nmod tests {\n}\nfn b() {}"));
        assert_eq!(found.test_lines, [(2, 4)]);
    }
}
