//! Reads rules in rsync's language.

use super::format::{MergeRule, Prefixes, RuleFormat};
use super::rule::{Rule, Sides};
use crate::path::MAX_PATH_LEN;

/// The meaning of a text in the language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A rule.
    Rule(Rule),
    /// Drop all rules so far.
    Clear,
    /// Read a file once, in this place.
    Merge(MergeRule),
    /// Read a file in each directory.
    DirMerge(MergeRule),
    /// Exclude the names that CVS ignores. The lists of these names have this format.
    Cvs(RuleFormat),
}

/// Why a text is no rule, with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule {
    /// The text.
    pub text: Vec<u8>,
    /// The reason.
    pub why: String,
}

/// Reads all rules of a file.
///
/// # Errors
/// The first text that is no rule.
pub fn parse_file<E: From<BadRule>>(
    text: &[u8],
    format: &RuleFormat,
    found: &mut dyn FnMut(Parsed) -> Result<(), E>,
) -> Result<(), E> {
    let mut add = |rule: &[u8]| parse_rule(rule, format)?.into_iter().try_for_each(&mut *found);
    if format.words {
        let mut rest = text;
        while let Some((word, after)) = next_word(rest, format) {
            add(word)?;
            rest = after;
        }
        return Ok(());
    }
    let ends = |byte: &u8| if format.nul { *byte == 0 } else { matches!(byte, b'\n' | b'\r') };
    let lines = text.split(ends).filter(|line| !matches!(line.first(), None | Some(b'#' | b';')));
    lines.into_iter().try_for_each(&mut add)
}

/// The next rule of a text that is split at white space. A rule with a prefix contains the space after it.
fn next_word<'a>(text: &'a [u8], format: &RuleFormat) -> Option<(&'a [u8], &'a [u8])> {
    let start = text.iter().position(|byte| !is_space(*byte))?;
    let text = &text[start..];
    let end_from = |from: usize| {
        text.iter().skip(from).position(|byte| is_space(*byte)).map_or(text.len(), |len| from + len)
    };
    let first = end_from(0);
    let has_prefix_alone = format.prefixes == Prefixes::Rules
        && !text[..first].contains(&b'_')
        && text.get(first) == Some(&b' ')
        && !matches!(&text[..first], b"!" | b"clear")
        && !text[..first].ends_with(b"C");
    let end = if has_prefix_alone { end_from(first + 1) } else { first };
    Some((&text[..end], &text[end..]))
}

/// Whether isspace(3) holds in the C locale.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Reads one rule. An empty text says nothing, and `e` says two things.
///
/// # Errors
/// The text, if it is no rule.
pub fn parse_rule(text: &[u8], format: &RuleFormat) -> Result<Vec<Parsed>, BadRule> {
    let bad = |why: &str| BadRule { text: text.to_vec(), why: why.to_owned() };
    if text.len() > MAX_PATH_LEN {
        return Err(bad("the rule is too long"));
    }
    let (include, pattern) = match (format.prefixes, text) {
        (_, []) => return Ok(Vec::new()),
        (Prefixes::Rules, text) => return prefixed(text, format),
        (Prefixes::None { .. }, b"!") if format.clears => return Ok(vec![Parsed::Clear]),
        (Prefixes::Old { .. }, b"!") => return Ok(vec![Parsed::Clear]),
        (Prefixes::Old { .. }, [b'+', b' ', rest @ ..]) => (true, rest),
        (Prefixes::Old { .. }, [b'-', b' ', rest @ ..]) => (false, rest),
        (Prefixes::Old { include } | Prefixes::None { include }, text) => (include, text),
    };
    if pattern.is_empty() {
        return Err(bad("the pattern is empty"));
    }
    Ok(vec![Parsed::Rule(Rule {
        include,
        pattern: pattern.to_vec(),
        sides: format.sides.unwrap_or(format.plain),
        negated: false,
        absolute: format.absolute,
        perishable: format.perishable,
    })])
}

/// The kinds of rules, by their letters and names.
const KINDS: [(u8, &[u8]); 9] = [
    (b'-', b"exclude"),
    (b'+', b"include"),
    (b'.', b"merge"),
    (b':', b"dir-merge"),
    (b'H', b"hide"),
    (b'S', b"show"),
    (b'P', b"protect"),
    (b'R', b"risk"),
    (b'!', b"clear"),
];

/// The letter of a rule, and the text after its name and a comma.
fn kind(text: &[u8]) -> Option<(u8, &[u8])> {
    let named = KINDS.iter().find_map(|(letter, name)| {
        let rest = text.strip_prefix(*name)?;
        matches!(rest.first(), None | Some(b' ' | b'_' | b',')).then_some((*letter, rest))
    });
    let (letter, rest) = named.or_else(|| {
        let (first, rest) = text.split_first()?;
        KINDS.iter().any(|(letter, _)| letter == first).then_some((*first, rest))
    })?;
    Some((letter, if letter == b'!' { rest } else { rest.strip_prefix(b",").unwrap_or(rest) }))
}

/// The modifiers of a rule.
#[derive(Default)]
struct Modifiers {
    prefixes: Option<Prefixes>,
    absolute: bool,
    negated: bool,
    cvs: bool,
    excludes_itself: bool,
    is_private: bool,
    perishable: bool,
    at_source: bool,
    at_destination: bool,
    words: bool,
}

/// Reads a rule of the full language.
fn prefixed(text: &[u8], format: &RuleFormat) -> Result<Vec<Parsed>, BadRule> {
    let bad = |why: String| BadRule { text: text.to_vec(), why };
    let Some((letter, rest)) = kind(text) else {
        let why = "a rule begins with one of - + P R H S ! . : or its name, and a space precedes the pattern";
        return Err(bad(why.to_owned()));
    };
    if letter == b'!' {
        return if rest.is_empty() {
            Ok(vec![Parsed::Clear])
        } else {
            Err(bad("`!` stands alone".to_owned()))
        };
    }
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'_')).unwrap_or(rest.len());
    let modifiers = modifiers(letter, &rest[..end]).map_err(bad)?;
    let pattern = rest.get(end + 1..).unwrap_or_default();
    let own_sides = match (letter, modifiers.at_source, modifiers.at_destination) {
        (b'H' | b'S', ..) | (_, true, false) => Some(Sides::Source),
        (b'P' | b'R', ..) | (_, false, true) => Some(Sides::Destination),
        (_, true, true) => Some(Sides::Both),
        _ => None,
    };
    if own_sides.is_some() && format.sides.is_some() {
        return Err(bad("the merge rule of this file names the sides of all its rules".to_owned()));
    }
    let sides = own_sides.or(format.sides);
    let absolute = modifiers.absolute || format.absolute;
    let perishable = modifiers.perishable || format.perishable;
    let inner = |prefixes| RuleFormat {
        prefixes,
        words: modifiers.words,
        clears: false,
        sides,
        absolute,
        perishable,
        ..format.clone()
    };
    let is_merge = matches!(letter, b'.' | b':');
    let format_of_file = match (modifiers.prefixes, modifiers.cvs) {
        (_, true) => inner(Prefixes::Rules).cvs(),
        (prefixes, false) => inner(prefixes.unwrap_or(Prefixes::Rules)),
    };
    if modifiers.cvs && !is_merge {
        let none = pattern.is_empty() && rest.len() == end;
        return if none {
            Ok(vec![Parsed::Cvs(format_of_file)])
        } else {
            Err(bad("`C` takes no pattern".to_owned()))
        };
    }
    if pattern.is_empty() && !(is_merge && modifiers.cvs) {
        return Err(bad(format!("a {} is missing", if is_merge { "file" } else { "pattern" })));
    }
    if !is_merge {
        return Ok(vec![Parsed::Rule(Rule {
            include: matches!(letter, b'+' | b'S' | b'R'),
            pattern: pattern.to_vec(),
            sides: sides.unwrap_or(format.plain),
            negated: modifiers.negated,
            absolute,
            perishable,
        })]);
    }
    let file = if pattern.is_empty() { b".cvsignore".to_vec() } else { pattern.to_vec() };
    let merge = MergeRule {
        file,
        format: format_of_file,
        is_private: modifiers.is_private || modifiers.cvs,
        excludes_itself: modifiers.excludes_itself,
        tag: None,
    };
    if merge.name().is_empty() {
        return Err(bad("it names a directory".to_owned()));
    }
    let itself = merge.excludes_itself.then(|| Rule::exclude(merge.name()).at(format.plain));
    let merge = if letter == b':' { Parsed::DirMerge(merge) } else { Parsed::Merge(merge) };
    Ok(itself.map(Parsed::Rule).into_iter().chain([merge]).collect())
}

fn modifiers(letter: u8, text: &[u8]) -> Result<Modifiers, String> {
    let is_merge = matches!(letter, b'.' | b':');
    let names_side = matches!(letter, b'H' | b'S' | b'P' | b'R');
    let mut all = Modifiers::default();
    for modifier in text {
        match modifier {
            b'-' | b'+' if is_merge && all.prefixes.is_none() && !all.cvs => {
                all.prefixes = Some(Prefixes::None { include: *modifier == b'+' });
            }
            b'/' => all.absolute = true,
            b'!' if !is_merge => all.negated = true,
            b'C' if (is_merge || letter == b'-') && all.prefixes.is_none() => all.cvs = true,
            b'e' if is_merge => all.excludes_itself = true,
            b'n' if is_merge => all.is_private = true,
            b'w' if is_merge => all.words = true,
            b'p' => all.perishable = true,
            b's' if !names_side => all.at_source = true,
            b'r' if !names_side => all.at_destination = true,
            b'x' => return Err("haul has no rules for extended attributes; --no-xattrs omits all".to_owned()),
            other => {
                let kind = KINDS
                    .iter()
                    .find(|(kind, _)| *kind == letter)
                    .map_or("", |(_, name)| std::str::from_utf8(name).unwrap_or_default());
                return Err(format!(
                    "{kind} takes no modifier `{}`; a space precedes the pattern",
                    other.escape_ascii()
                ));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Vec<Parsed>, String> {
        parse_rule(text.as_bytes(), &RuleFormat::new(Prefixes::Rules)).map_err(|bad| bad.why)
    }

    #[test]
    fn short_and_long_names_are_one_rule() {
        for (short, long) in [
            ("- a", "exclude a"),
            ("+_a", "include,_a"),
            ("-,!p a/", "exclude,!p a/"),
            ("H a", "hide a"),
            ("S a", "show a"),
            ("P a", "protect a"),
            ("R a", "risk a"),
            ("-s a", "H a"),
            ("+r a", "R a"),
            ("!", "clear"),
            (". a", "merge a"),
            (":en- a", "dir-merge,en- a"),
            (":C", "dir-merge,C .cvsignore"),
        ] {
            let parsed = one(short);
            assert!(parsed.is_ok() && parsed == one(long), "{short}: {parsed:?}, {long}: {:?}", one(long));
        }
        let rule = Rule { negated: true, perishable: true, ..Rule::exclude("*/") };
        assert_eq!(one("-!p */"), Ok(vec![Parsed::Rule(rule)]));
        assert_eq!(one("-sr  a_b "), Ok(vec![Parsed::Rule(Rule::exclude(" a_b "))]));
        let Ok(merge) = one(":e /x/.f") else { panic!("a rule") };
        assert_eq!(merge[0], Parsed::Rule(Rule::exclude(".f")));
        assert!(matches!(&merge[1], Parsed::DirMerge(merge) if merge.dir() == Some(b"/x")));
    }

    #[test]
    fn a_text_that_is_no_rule_is_refused() {
        for text in [
            "a",
            "-a",
            "- ",
            "-",
            "-n a",
            "+C",
            "-C a",
            "Hs a",
            "Pr a",
            "!x",
            "! x",
            ":! a",
            "-x user.a",
            ". ",
            ":/",
            ":+- a",
            "excluded a",
        ] {
            assert!(one(text).is_err(), "{text}: {:?}", one(text));
        }
    }

    #[test]
    fn files_have_lines_or_words() {
        let rules = |text: &str, format: &RuleFormat| {
            let mut all = Vec::new();
            let parsed = parse_file(text.as_bytes(), format, &mut |rule| -> Result<(), BadRule> {
                all.push(rule);
                Ok(())
            });
            parsed.map(|()| all)
        };
        let (a, b) = (Parsed::Rule(Rule::exclude("a")), Parsed::Rule(Rule::include("b c")));
        let full = RuleFormat::new(Prefixes::Rules);
        assert_eq!(rules("# x\n; y\n\n- a\r\n+ b c\n", &full), Ok(vec![a.clone(), b.clone()]));
        assert_eq!(rules("- a\0+ b c\0", &RuleFormat { nul: true, ..full.clone() }), Ok(vec![a.clone(), b]));
        let words = RuleFormat { words: true, ..full.clone() };
        assert_eq!(rules("- a\n! -_a", &words), Ok(vec![a.clone(), Parsed::Clear, a.clone()]));
        assert_eq!(rules(" a\t!  a", &full.clone().cvs()), Ok(vec![a.clone(), Parsed::Clear, a]));
        let sided = RuleFormat { sides: Some(Sides::Source), ..full };
        assert_eq!(rules("- a", &sided), Ok(vec![Parsed::Rule(Rule::exclude("a").at(Sides::Source))]));
        assert!(rules("P a", &sided).is_err());
    }
}
