//! Tests of the whole table: each accepted word has the documented effect, and each refusal names options that exist.

use std::collections::HashSet;
use std::ffi::OsString;

use clap::{Arg, Command};

use super::behind::{BEHIND, ValueShape};
use super::commands::{ALIASES, refused};
use super::word::{TOOLS, Word, WordVerdict, words};
use crate::args::parse::{parse, parser};
use crate::args::{COMMANDS, RefusedCommand};

/// Locations that each command accepts.
fn ends(command: &str) -> &'static [&'static str] {
    match command {
        "copy" | "mv" | "move" | "sync" | "verify" | "probe" => &["a", "b"],
        "hash" | "plan" => &["a"],
        "pipe" => &["db2", "--into=cat", "--", "cat"],
        _ => &["s3://bucket/key"],
    }
}

/// A value that each option of haul that has other names accepts, with the options that it requires.
const SAMPLES: [(&str, &str, &[&str]); 11] = [
    ("--endpoint", "http://h:1", &[]),
    ("--region", "r", &[]),
    ("--storage-class", "c", &[]),
    ("--sse", "AES256", &[]),
    ("--sse-kms-key-id", "k", &["--sse=aws:kms"]),
    ("--compress", "zstd:3", &[]),
    ("--profile", "p", &[]),
    ("--ca-cert", "f", &[]),
    ("--min-age", "2024-05-01", &[]),
    ("--max-age", "2024-05-01", &[]),
    ("--expires", "90s", &[]),
];

/// All values that the parser finds in a command line.
fn meaning(command: &str, words: &[&str]) -> Result<String, String> {
    let all = ["haul", command].into_iter().chain(words.iter().copied()).chain(ends(command).iter().copied());
    match crate::args::parse(all.map(OsString::from)) {
        Ok(cli) => Ok(format!("{:?}", cli.command)),
        Err(refused) if refused.exit_code() != 2 => panic!("{command} {words:?}: {refused:?}"),
        Err(RefusedCommand::Line(line)) => Err(line),
        Err(RefusedCommand::Parser(error)) => panic!("{command} {words:?}: {error}"),
    }
}

#[track_caller]
fn same(command: &str, words: &[&str], as_words: &[&str]) {
    let expected = meaning(command, as_words).unwrap_or_else(|line| panic!("{command} {as_words:?}: {line}"));
    assert_eq!(meaning(command, words), Ok(expected), "haul {command} {words:?} is unlike {as_words:?}");
}

fn own(name: &str) -> Command {
    parser(name).find_subcommand(name).cloned().unwrap_or_else(|| panic!("{name} is no command"))
}

/// The option of a command with this name; `hidden` names count too.
fn option(command: &Command, name: &str) -> Option<Arg> {
    let is_short = |arg: &Arg| {
        let mut letters = name.strip_prefix('-').unwrap_or_default().chars();
        let (first, second) = (letters.next(), letters.next());
        second.is_none() && first.is_some() && arg.get_short() == first
    };
    let is_long = |arg: &Arg| name.strip_prefix("--").is_some_and(|long| arg.get_long() == Some(long));
    command.get_arguments().find(|arg| is_long(arg) || is_short(arg)).cloned()
}

fn names_at() -> impl Iterator<Item = (&'static Word, &'static str, &'static str)> {
    words().flat_map(|word| {
        word.at.iter().flat_map(move |at| word.names.iter().map(move |name| (word, *at, *name)))
    })
}

#[test]
fn there_are_hundreds_of_words_of_all_tools() {
    let names: HashSet<&str> = words().flat_map(|word| word.names.iter().copied()).collect();
    assert!(names.len() > 400, "{}", names.len());
    for tool in TOOLS {
        let count =
            words().filter(|word| word.tools.contains(&tool)).map(|word| word.names.len()).sum::<usize>();
        assert!(count >= 10, "{tool:?}: {count}");
    }
}

#[test]
fn each_word_has_one_row_for_a_command() {
    let mut seen = HashSet::new();
    let twice: Vec<(&str, &str)> =
        names_at().map(|(_, at, name)| (at, name)).filter(|place| !seen.insert(*place)).collect();
    assert!(twice.is_empty(), "{twice:?} are twice in the table");
    assert!(seen.iter().all(|(at, _)| COMMANDS.contains(at)));
}

#[test]
fn the_definitions_with_all_words_are_valid() {
    for name in COMMANDS {
        parser(name).debug_assert();
    }
}

#[test]
fn accepted_words_have_the_meaning_of_the_table() {
    for (word, at, name) in names_at() {
        match word.verdict {
            WordVerdict::Hint(_) => {}
            WordVerdict::Default => same(at, &[name], &[]),
            WordVerdict::Undoes(option) => {
                same(at, &[name], &[]);
                same(at, &[option, name], &[]);
                same(at, &[name, option], &[option]);
            }
            WordVerdict::Means(option, value) => {
                let given = format!("{option}={value}");
                same(at, &[name], &[&given]);
                assert_ne!(meaning(at, &[&given]), meaning(at, &[]), "{option}={value} is the default");
            }
            WordVerdict::DefaultValue(value) => {
                same(at, &[name, value], &[]);
                same(at, &[&format!("{name}={value}")], &[]);
                assert!(meaning(at, &[name, "other-value"]).is_err_and(|line| line.contains(value)));
            }
            WordVerdict::Same(option) => same_as(at, name, option),
        }
    }
}

fn same_as(at: &str, name: &str, option: &str) {
    let target = super::tests::option(&own(at), option).unwrap_or_else(|| panic!("{at} has no {option}"));
    if !target.get_action().takes_values() {
        same(at, &[name], &[option]);
        return;
    }
    let (_, value, required) = SAMPLES
        .into_iter()
        .find(|sample| sample.0 == option)
        .unwrap_or_else(|| panic!("a sample for {option}"));
    let with = |words: &[&'static str]| -> Vec<String> {
        required.iter().chain(words).map(|word| (*word).to_owned()).collect()
    };
    let expected = [with(&[]), vec![format!("{option}={value}")]].concat();
    for form in [vec![format!("{name}={value}")], vec![name.to_owned(), value.to_owned()]] {
        let form = [with(&[]), form].concat();
        let text = |words: &[String]| words.to_vec();
        let (form, expected) = (text(&form), text(&expected));
        let form: Vec<&str> = form.iter().map(String::as_str).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        same(at, &form, &expected);
    }
}

#[test]
fn refused_words_get_one_line_with_the_advice_of_the_table() {
    for (word, at, name) in names_at() {
        let WordVerdict::Hint(advice) = word.verdict else { continue };
        let forms = if name.starts_with("--") {
            vec![vec![name.to_owned()], vec![format!("{name}=x")], vec![name.to_owned(), "x".to_owned()]]
        } else {
            vec![vec![name.to_owned()]]
        };
        for form in forms {
            let form: Vec<&str> = form.iter().map(String::as_str).collect();
            let line = meaning(at, &form).err().unwrap_or_else(|| panic!("haul {at} {form:?} is accepted"));
            assert!(line.starts_with(&format!("`{name}`")) && line.contains(advice), "{at} {form:?}: {line}");
            assert!(!line.contains('\n') && !line.contains("similar"), "{at} {form:?}: {line}");
        }
    }
}

#[test]
fn a_known_word_never_gets_a_guess() {
    let names: HashSet<&str> = words().flat_map(|word| word.names.iter().copied()).collect();
    for name in names {
        for at in ["copy", "put", "ls", "jobs"] {
            let all = ["haul", at, name].into_iter().chain(ends(at).iter().copied()).map(OsString::from);
            if let Err(RefusedCommand::Line(line)) = crate::args::parse(all) {
                assert!(!line.contains("similar"), "{at} {name}: {line}");
            }
        }
    }
}

/// The options that a text gives as those of haul: each with the command that has it, if the text names one. Words in
/// single quotes, and in code that does not begin with `haul`, are those of other programs.
fn named_options(text: &str) -> Vec<(Option<String>, String)> {
    let mut found = Vec::new();
    for (at, part) in text.split('`').enumerate() {
        let bare = unquoted(part);
        let mut tokens = bare.split([' ', '|', '(', ')', ',', ';', ':']);
        let command = match at % 2 {
            0 => None,
            _ => {
                let Some(after) = tokens.by_ref().find(|token| *token == "haul").and(tokens.next()) else {
                    continue;
                };
                found.push((Some(after.to_owned()), String::new()));
                Some(after.to_owned())
            }
        };
        let option = |token: &&str| token.trim_start_matches('-').starts_with(char::is_alphanumeric);
        let options = tokens.filter(|token| token.starts_with('-')).filter(option);
        let options = options.map(|token| token.split('=').next().unwrap_or_default());
        found.extend(options.map(|token| (command.clone(), token.trim_end_matches('.').to_owned())));
    }
    found
}

/// The text without its quoted parts (single quotes). An apostrophe follows a letter.
fn unquoted(text: &str) -> String {
    let (mut bare, mut quoted, mut last) = (String::new(), false, ' ');
    for char in text.chars() {
        if char == '\'' && (quoted || !last.is_alphanumeric()) {
            quoted = !quoted;
        } else if !quoted {
            bare.push(char);
        }
        last = char;
    }
    bare
}

/// Fails if the text names an option that a command does not have.
fn check(text: &str, at: &[&str]) {
    for (command, name) in named_options(text) {
        let commands = command.as_deref().map_or(at.to_vec(), |command| vec![command]);
        for command in commands {
            if name.is_empty() {
                let all = crate::args::command();
                let known = all.get_subcommands().any(|other| other.get_name() == command)
                    || ALIASES.iter().any(|(alias, _)| *alias == command);
                assert!(
                    known || command == "help" || command == "..." || command == "--version",
                    "{text}: {command}"
                );
                continue;
            }
            assert!(option(&own(command), &name).is_some(), "{text}: haul {command} has no {name}");
        }
    }
}

#[test]
fn advice_names_only_options_that_exist() {
    for word in words() {
        if let WordVerdict::Hint(advice) = word.verdict {
            check(advice, &word.at);
        }
    }
    for row in BEHIND.iter() {
        check(row.advice, &row.at);
    }
    for (_, advice) in refused() {
        check(advice, &[]);
    }
    let found =
        named_options("use haul's --x Y, (-v) `find -z`, 'ssh -p', or `a | haul copy -0 --f=1 SRC`: --q");
    let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["--x", "-v", "", "-0", "--f", "--q"]);
}

#[test]
fn aliases_and_refused_commands_are_not_commands() {
    let all = crate::args::command();
    let own: Vec<&str> = all.get_subcommands().map(Command::get_name).collect();
    let mut seen = HashSet::new();
    let names = refused().flat_map(|(names, _)| names);
    for name in names.chain(ALIASES.iter().map(|(alias, _)| *alias)) {
        assert!(seen.insert(name) && !own.contains(&name), "{name}");
    }
    for (alias, name) in ALIASES {
        assert!(own.contains(name));
        let words = if *alias == "mirror" { vec!["--delete"] } else { Vec::new() };
        let words: Vec<&str> = [*alias].into_iter().chain(words).chain(ends(name).iter().copied()).collect();
        assert_eq!(line(&words), Ok(()), "{words:?}");
    }
    for (names, advice) in refused() {
        for name in names {
            let line = meaning(name, &[]).unwrap_err();
            assert!(
                line.starts_with(&format!("`{name}` is not a command: ")) && line.ends_with(advice),
                "{line}"
            );
        }
    }
}

fn line(words: &[&str]) -> Result<(), String> {
    let all = std::iter::once(&"haul").chain(words).map(OsString::from);
    match crate::args::parse(all) {
        Ok(_) => Ok(()),
        Err(RefusedCommand::Line(line)) => Err(line),
        Err(other) => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn aliases_do_no_more_than_the_commands_of_other_tools() {
    assert!(line(&["cp", "-r", "a", "b"]).is_ok() && line(&["check", "a", "b"]).is_ok());
    assert!(line(&["cat", "s3://b/k"]).is_ok());
    for name in ["cp", "mv", "move"] {
        for force in ["-f", "-rf", "--force"] {
            assert_eq!(meaning(name, &[force]), meaning(name, &[]), "{name} {force}");
        }
    }
    assert_eq!(meaning("copy", &["-f", "- x"]), meaning("copy", &["--filter", "- x"]));
    for name in ["mv", "move"] {
        assert_eq!(meaning(name, &[]), meaning("copy", &["--remove-source-files"]));
    }
    assert!(line(&["sync", "--remove-source-files", "a", "b"]).is_err_and(|line| line.contains("haul mv")));
    assert!(line(&["cat", "s3://b/k", "file"]).is_err_and(|line| line.contains("haul get SRC FILE")));
    assert!(line(&["mirror", "a", "b"]).is_err_and(|line| line.contains("needs --delete")));
    for delete in ["--delete", "--remove", "-n", "--delete-after"] {
        assert!(line(&["mirror", delete, "a", "b"]).is_ok(), "{delete}");
    }
    assert!(line(&["cp", "--copy-dest=x", "a", "b"]).is_err_and(|line| line.contains("`haul cp`")));
}

#[test]
fn the_help_of_an_alias_says_how_it_differs() {
    let help = |name: &str| match parse(["haul", name, "-h"].map(OsString::from)) {
        Err(RefusedCommand::Parser(help)) => help.to_string(),
        _ => panic!("{name} has no help"),
    };
    assert!(help("copy").contains("never delete") && !help("mv").contains("never delete"));
    assert!(help("mv").contains("remove the source files") && help("du").contains("how much"));
}

/// A value of the shape.
fn sample(shape: ValueShape) -> &'static str {
    match shape {
        ValueShape::Number => "2222",
        ValueShape::Size => "64M",
        ValueShape::Duration => "10s",
        ValueShape::Assignment => "Port=22",
        ValueShape::Options => "-achv --delete",
        ValueShape::Key => "id_ed25519",
        ValueShape::Config => ".ssh/config",
        ValueShape::Word => "word",
        ValueShape::Begins(words) => words.split(',').next().unwrap_or_default(),
    }
}

#[test]
fn values_behind_options_without_value_are_no_locations() {
    for row in BEHIND.iter() {
        let value = sample(row.shape);
        assert!(row.shape.fits(value), "{value}");
        for at in row.at.iter() {
            let taken = option(&own(at), row.name);
            let takes_none = |arg: Arg| {
                let values = arg.get_num_args();
                !arg.get_action().takes_values() || values.is_some_and(|values| !values.takes_values())
            };
            assert!(taken.is_some_and(takes_none), "{at} {}", row.name);
            let said = line(&[at, row.name, value, "a", "b"]).unwrap_err();
            assert!(
                said.starts_with(&format!("`{} {value}`", row.name)) && said.contains(row.advice),
                "{said}"
            );
            assert!(line(&[at, row.name, "a", "b"]).is_ok() && line(&[at, "a", row.name, "b"]).is_ok());
            // Bundles end with the letter; behind the sources a value is the destination, behind `--` anything.
            if !row.name.starts_with("--") {
                let bundle = format!("-r{}", &row.name[1..]);
                assert!(line(&[at, &bundle, value, "a", "b"]).is_err(), "{bundle}");
            }
            if !value.starts_with('-') {
                assert!(line(&[at, "a", row.name, value]).is_ok(), "{at} a {} {value}", row.name);
                assert!(line(&[at, row.name, "--", value, "b"]).is_ok());
            }
        }
    }
    assert!(line(&["copy", "-P2222", "a", "b"]).is_err_and(|line| line.contains("ssh -p PORT")));
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), "# own\nHost db1\n").unwrap();
    let config = config.path().to_str().unwrap();
    assert!(line(&["copy", "-F", config, "a", "b"]).is_err_and(|line| line.contains("ssh -F FILE")));
    assert!(line(&["copy", "--stats=10s", "a", "b"]).is_err_and(|line| line.contains("of rclone")));
    assert!(line(&["copy", "--exclude", "-P", "22", "b"]).is_ok(), "-P is the pattern");
    assert!(line(&["copy", "-n", "Cargo.toml", "b"]).is_ok());
}

#[test]
fn shapes_are_narrow() {
    for (shape, yes, no) in [
        (ValueShape::Number, &["1", "2222"][..], &["a", "12345678", "1a", ""][..]),
        (ValueShape::Size, &["100", "64M", "1.5GiB", "10k"], &["M", "2024-01", "1x", "data"]),
        (ValueShape::Duration, &["10s", "1m30s", "1h"], &["10", "s", "1d", "5times"]),
        (ValueShape::Assignment, &["Port=22", "a-b=c"], &["a/b=c", "=c", "a=", "a"]),
        (ValueShape::Options, &["-a --b"], &["-a", "a b"]),
        (ValueShape::Begins("bbr,cubic"), &["bbr", "bbr2"], &["b", "data"]),
    ] {
        assert!(yes.iter().all(|text| shape.fits(text)), "{shape:?} {yes:?}");
        assert!(!no.iter().any(|text| shape.fits(text)), "{shape:?} {no:?}");
    }
}

#[test]
fn options_of_robocopy_are_no_locations() {
    for (words, said) in [
        ("copy a b /MIR", "`/MIR` of robocopy is not an option of `haul copy`: `haul copy` never deletes"),
        ("sync a b /MIR /MT:16", "`/MIR` of robocopy"),
        ("copy a b /MT:16", "`/MT:16` of robocopy"),
        ("copy a b /LOG+:x.txt", "use --log-file FILE"),
        ("copy a b /E", "a directory of this name is /E/"),
        ("cp a /XF b", "--exclude PATTERN"),
        ("copy a b /e", "a directory of this name is /e/"),
        ("copy Cargo.toml b /mt:8", "`/mt:8` of robocopy"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        assert!(line(&words).is_err_and(|line| line.contains(said)), "{words:?}: {:?}", line(&words));
    }
    for words in [
        "copy a /E",
        "copy a b /dst",
        "copy Cargo.toml src /e",
        "copy a b /MIR/",
        "copy a b ./MIR",
        "copy a b -- /E",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(line(&words), Ok(()), "{words:?}");
    }
}
