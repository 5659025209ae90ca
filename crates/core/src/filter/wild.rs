//! Wildcards: `?`, `*`, `**` and `[…]`. Matching simulates a nondeterministic automaton: it keeps the set of reachable
//! pattern positions while it reads the text, so no pattern takes exponential time.

/// One step of a compiled pattern.
#[derive(Clone, Copy, Debug)]
pub(super) enum PatternStep<'a> {
    /// This byte.
    Byte(u8),
    /// Any byte except a slash.
    Any,
    /// Any number of bytes except slashes.
    Star,
    /// Any number of any bytes.
    DoubleStar,
    /// One byte of a class.
    Class(CharClass<'a>),
    /// No byte: the pattern is malformed here, and rsync matches nothing with it.
    Never,
}

/// A well-formed `[…]`: the bytes after the opening bracket, with the closing one.
#[derive(Clone, Copy, Debug)]
pub(super) struct CharClass<'a> {
    negated: bool,
    body: &'a [u8],
}

/// Compiles a pattern to tokens.
pub(super) fn compile(pattern: &[u8]) -> Vec<PatternStep<'_>> {
    let mut tokens = Vec::with_capacity(pattern.len());
    let mut rest = pattern;
    while let [first, tail @ ..] = rest {
        rest = tail;
        tokens.push(match first {
            b'?' => PatternStep::Any,
            b'*' => {
                let stars = 1 + rest.iter().take_while(|byte| **byte == b'*').count();
                rest = &rest[stars - 1..];
                if stars > 1 { PatternStep::DoubleStar } else { PatternStep::Star }
            }
            b'\\' => match rest {
                [escaped, tail @ ..] => {
                    rest = tail;
                    PatternStep::Byte(*escaped)
                }
                [] => PatternStep::Never,
            },
            b'[' => {
                if let Some((class, tail)) = CharClass::parse(rest) {
                    rest = tail;
                    PatternStep::Class(class)
                } else {
                    tokens.push(PatternStep::Never);
                    return tokens;
                }
            }
            byte => PatternStep::Byte(*byte),
        });
    }
    tokens
}

/// Whether the tokens match the whole text or, with `any_component`, the text after any of its slashes.
pub(super) fn matches(tokens: &[PatternStep<'_>], text: &[u8], any_component: bool) -> bool {
    let end = tokens.len();
    let mut now = vec![false; end + 1];
    let mut next = vec![false; end + 1];
    enter(tokens, &mut now, 0);
    for byte in text {
        next.fill(false);
        let mut alive = false;
        for at in (0..end).filter(|at| now[*at]) {
            let to = match &tokens[at] {
                PatternStep::Byte(wanted) if wanted == byte => at + 1,
                PatternStep::Any if *byte != b'/' => at + 1,
                PatternStep::Class(class) if class.contains(*byte) => at + 1,
                PatternStep::DoubleStar => at,
                PatternStep::Star if *byte != b'/' => at,
                _ => continue,
            };
            enter(tokens, &mut next, to);
            alive = true;
        }
        if any_component && *byte == b'/' {
            enter(tokens, &mut next, 0);
            alive = true;
        }
        if !alive && !any_component {
            return false;
        }
        std::mem::swap(&mut now, &mut next);
    }
    now[end]
}

/// Marks position `at`, and the positions after it that are reachable because a star matches the empty text.
fn enter(tokens: &[PatternStep<'_>], positions: &mut [bool], mut at: usize) {
    while !std::mem::replace(&mut positions[at], true)
        && matches!(tokens.get(at), Some(PatternStep::Star | PatternStep::DoubleStar))
    {
        at += 1;
    }
}

/// An item of a class.
enum ClassItem {
    Byte(u8),
    Range(u8, u8),
    Named(fn(u8) -> bool),
}

impl ClassItem {
    fn holds(&self, byte: u8) -> bool {
        match self {
            Self::Byte(one) => *one == byte,
            Self::Range(low, high) => (*low..=*high).contains(&byte),
            Self::Named(holds) => holds(byte),
        }
    }
}

impl<'a> CharClass<'a> {
    /// Parses a class after its opening bracket; `None` if it has no end or an unknown named class.
    fn parse(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let negated = matches!(text.first(), Some(b'!' | b'^'));
        let start = usize::from(negated);
        let (mut at, mut before) = (start, None);
        while text.get(at)? != &b']' || at == start {
            let (item, len) = next_item(&text[at..], before)?;
            before = if let ClassItem::Byte(byte) = item { Some(byte) } else { None };
            at += len;
        }
        Some((Self { negated, body: &text[start..=at] }, &text[at + 1..]))
    }

    /// Whether the class contains `byte`; no class contains a slash.
    fn contains(&self, byte: u8) -> bool {
        byte != b'/' && self.lists(byte) != self.negated
    }

    fn lists(&self, byte: u8) -> bool {
        let (mut rest, mut before) = (self.body, None);
        while rest.len() > 1
            && let Some((item, len)) = next_item(rest, before)
        {
            if item.holds(byte) {
                return true;
            }
            before = if let ClassItem::Byte(one) = item { Some(one) } else { None };
            rest = &rest[len..];
        }
        false
    }
}

/// The first item of `text` and its length in bytes; `before` is the byte that a range may begin with. `None` if
/// the class is malformed.
fn next_item(text: &[u8], before: Option<u8>) -> Option<(ClassItem, usize)> {
    match (text, before) {
        ([b'\\', escaped, ..], _) => Some((ClassItem::Byte(*escaped), 2)),
        ([] | [b'\\'], _) => None,
        ([b'-', b'\\', rest @ ..], Some(low)) => Some((ClassItem::Range(low, *rest.first()?), 3)),
        ([b'-', high, ..], Some(low)) if *high != b']' => Some((ClassItem::Range(low, *high), 2)),
        ([b'[', b':', rest @ ..], _) => {
            let end = rest.iter().position(|byte| *byte == b']')?;
            match rest[..end].strip_suffix(b":") {
                Some(name) => Some((ClassItem::Named(named(name)?), end + 3)),
                None => Some((ClassItem::Byte(b'['), 1)),
            }
        }
        ([byte, ..], _) => Some((ClassItem::Byte(*byte), 1)),
    }
}

/// The POSIX class of this name, in the C locale.
fn named(name: &[u8]) -> Option<fn(u8) -> bool> {
    Some(match name {
        b"alnum" => |byte| byte.is_ascii_alphanumeric(),
        b"alpha" => |byte| byte.is_ascii_alphabetic(),
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => |byte| byte.is_ascii_control(),
        b"digit" => |byte| byte.is_ascii_digit(),
        b"graph" => |byte| byte.is_ascii_graphic(),
        b"lower" => |byte| byte.is_ascii_lowercase(),
        b"print" => |byte| byte == b' ' || byte.is_ascii_graphic(),
        b"punct" => |byte| byte.is_ascii_punctuation(),
        b"space" => |byte| matches!(byte, b' ' | 0x09..=0x0d),
        b"upper" => |byte| byte.is_ascii_uppercase(),
        b"xdigit" => |byte| byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &[u8], expected: bool) {
        let got = matches(&compile(pattern.as_bytes()), text, false);
        assert_eq!(got, expected, "pattern `{pattern}`, text `{}`", text.escape_ascii());
    }

    #[test]
    fn classes_contain_their_items() {
        for (pattern, yes, no) in [
            ("[abc]", "abc", "d-/"),
            ("[a-c]", "abc", "d-"),
            ("[!a-c]", "dx]", "abc/"),
            ("[^a]", "b", "a/"),
            ("[]a]", "]a", "b["),
            ("[a-]", "a-", "b"),
            ("[-a]", "a-", "b"),
            (r"[\]]", "]", r"\"),
            (r"[a\-c]", "a-c", r"b\"),
            ("[[:digit:]x]", "09x", "a:"),
            ("[[:upper:]-z]", "AZ-z", "a"),
            ("[[:]", "[:", "a"),
            ("[[]", "[", "a"),
            ("[A-[:x]", "AZ[:x", "b"),
            (r"[+-\]]", "+A]", "^"),
        ] {
            yes.bytes().for_each(|byte| check(pattern, &[byte], true));
            no.bytes().for_each(|byte| check(pattern, &[byte], false));
        }
        check("[!a]", b"\xff", true);
    }

    #[test]
    fn malformed_patterns_match_nothing() {
        for pattern in ["[", "[a", "[!", r"[\", "[[:digit:]", "[[:nonsense:]]", "a*\\"] {
            for text in ["", "a", "[", "[a", "ab\\"] {
                check(pattern, text.as_bytes(), false);
            }
        }
    }

    #[test]
    fn many_stars_take_proportional_time() {
        let pattern = "*a".repeat(200) + "b";
        let text = "a".repeat(20_000);
        let begin = std::time::Instant::now();
        check(&pattern, text.as_bytes(), false);
        check(&pattern.replace('*', "**"), text.as_bytes(), false);
        assert!(begin.elapsed().as_secs() < 10);
    }
}
