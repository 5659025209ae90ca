//! Rules from `--exclude`, `--include` and the files of `--exclude-from` and `--include-from`.

use std::ffi::OsStr;
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;

use haul_core::filter::Rule;
use haul_core::path::MAX_PATH_LEN;
use haul_core::{Error, Result, Side};

use super::errors::usage;
use super::records::{Records, Separator, open_list};
use crate::args::FilterWord;

/// The rules, in the order of the command line.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if a file cannot be read or a pattern is empty.
pub(crate) fn read_rules(words: &[FilterWord], from0: bool) -> Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for word in words {
        match word {
            FilterWord::Exclude(text) => add(&mut rules, text.as_bytes(), false)?,
            FilterWord::Include(text) => add(&mut rules, text.as_bytes(), true)?,
            FilterWord::ExcludeFrom(file) => read_file(&mut rules, open_list(file)?, file, from0, false)?,
            FilterWord::IncludeFrom(file) => read_file(&mut rules, open_list(file)?, file, from0, true)?,
        }
    }
    Ok(rules)
}

fn read_file(
    rules: &mut Vec<Rule>,
    reader: impl BufRead,
    file: &OsStr,
    from0: bool,
    include: bool,
) -> Result<()> {
    let separator = if from0 { Separator::Nul } else { Separator::AnyLineEnd };
    for line in Records::new(reader, separator, MAX_PATH_LEN) {
        let line =
            line.map_err(|error| Error::io(Side::Local, "read the rules", &error).on(file.as_bytes()))?;
        if !matches!(line.first(), Some(b'#' | b';')) {
            add(rules, &line, include)?;
        }
    }
    Ok(())
}

/// Adds one rule. As in rsync, `+ ` or `- ` before the pattern selects include or exclude, and `!` alone drops all
/// rules so far; an empty text is no rule.
fn add(rules: &mut Vec<Rule>, text: &[u8], include: bool) -> Result<()> {
    let (pattern, include) = match text {
        [] => return Ok(()),
        b"!" => {
            rules.clear();
            return Ok(());
        }
        [b'+', b' ', rest @ ..] => (rest, true),
        [b'-', b' ', rest @ ..] => (rest, false),
        all => (all, include),
    };
    if pattern.is_empty() {
        return Err(usage("read the rule", "the pattern is empty").on(text));
    }
    rules.push(if include { Rule::include(pattern) } else { Rule::exclude(pattern) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_text(text: &[u8], from0: bool, include: bool) -> Vec<Rule> {
        let mut rules = Vec::new();
        read_file(&mut rules, text, OsStr::new("list"), from0, include).unwrap();
        rules
    }

    #[test]
    fn lists_of_rules_are_those_of_rsync() {
        let rules = from_text(b"# comment\n; too\n\n*.o\r\n+ keep\n- drop\n a#b \n", false, false);
        let expected =
            [Rule::exclude("*.o"), Rule::include("keep"), Rule::exclude("drop"), Rule::exclude(" a#b ")];
        assert_eq!(rules, expected);
        assert_eq!(
            from_text(b"a\nb\0c\xff\0", true, true),
            [Rule::include("a\nb"), Rule::include(*b"c\xff")]
        );
        assert_eq!(from_text(b"a\n!\nb\n", false, false), [Rule::exclude("b")]);
    }

    #[test]
    fn rules_keep_their_order() {
        let words = [
            FilterWord::Include("a".into()),
            FilterWord::Exclude("*".into()),
            FilterWord::Exclude("+ z".into()),
        ];
        let expected = [Rule::include("a"), Rule::exclude("*"), Rule::include("z")];
        assert_eq!(read_rules(&words, false).unwrap(), expected);
        assert!(read_rules(&[FilterWord::Exclude("- ".into())], false).is_err());
    }
}
