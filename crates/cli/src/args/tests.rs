use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::{Cli, Command, CopyArgs, DeltaMode, FilterWord, SyncArgs, VerifyMode};

fn parse(words: &[&str]) -> Result<Command, clap::Error> {
    Cli::try_parse_from([&["haul"], words].concat()).map(|cli| cli.command)
}

fn copy(words: &[&str]) -> CopyArgs {
    match parse(&[&["copy"], words].concat()) {
        Ok(Command::Copy(args)) => *args,
        other => panic!("{other:?}"),
    }
}

fn sync(words: &[&str]) -> SyncArgs {
    match parse(&[&["sync"], words].concat()) {
        Ok(Command::Sync(args)) => *args,
        other => panic!("{other:?}"),
    }
}

fn refused(words: &[&str]) -> ErrorKind {
    match parse(words) {
        Err(error) => {
            assert_eq!(error.exit_code(), 2, "{words:?}");
            error.kind()
        }
        Ok(command) => panic!("{command:?}"),
    }
}

#[test]
fn the_definitions_are_sound() {
    Cli::command().debug_assert();
}

#[test]
fn options_stand_anywhere_between_the_ends() {
    let args = copy(&["a", "b", "h:c", "dst"]);
    assert_eq!(args.ends, ["a", "b", "h:c", "dst"]);
    assert_eq!(copy(&["-n", "a", "-x", "b", "-v", "dst", "-c"]).ends, ["a", "b", "dst"]);
    assert_eq!(copy(&["a", "--", "-n", "-x"]).ends, ["a", "-n", "-x"]);
    assert_eq!(refused(&["copy"]), ErrorKind::MissingRequiredArgument);
    let Ok(Command::Verify(args)) = parse(&["verify", "a", "--json", "b", "-x"]) else { panic!("refused") };
    assert_eq!(args.ends, ["a", "b"]);
    let args = sync(&["a", "-n", "b", "-v"]);
    assert_eq!((args.source, args.destination), ("a".into(), "b".into()));
    assert_eq!(refused(&["sync", "a", "b", "c"]), ErrorKind::UnknownArgument);
}

#[test]
fn rules_keep_the_order_of_the_command_line() {
    let words = [
        "--exclude=*.o",
        "a",
        "--include",
        "-x*",
        "--exclude-from",
        "f",
        "b",
        "--exclude",
        "*",
        "--include=z",
    ];
    let expected = [
        FilterWord::Exclude("*.o".into()),
        FilterWord::Include("-x*".into()),
        FilterWord::ExcludeFrom("f".into()),
        FilterWord::Exclude("*".into()),
        FilterWord::Include("z".into()),
    ];
    assert_eq!(copy(&words).transfer.filter.words, expected);
}

#[test]
fn any_byte_is_welcome() {
    let odd = |bytes: &[u8]| OsStr::from_bytes(bytes).to_os_string();
    let words: [OsString; 6] =
        ["haul".into(), "copy".into(), "--exclude".into(), odd(b"\xff*"), odd(b"a\xfe"), odd(b"b\n\xfd")];
    let Ok(Cli { command: Command::Copy(args) }) = Cli::try_parse_from(words) else { panic!("refused") };
    assert_eq!(args.ends, [odd(b"a\xfe"), odd(b"b\n\xfd")]);
    assert_eq!(args.transfer.filter.words, [FilterWord::Exclude(odd(b"\xff*"))]);
}

#[test]
fn short_options_go_together() {
    let args = copy(&["-anxuv0", "-e", "ssh -p 22", "a", "b"]);
    assert!(args.transfer.dry_run && args.transfer.archive && args.transfer.update);
    assert!(args.transfer.filter.one_file_system && args.transfer.filter.from0 && args.transfer.verbose);
    assert_eq!(args.transfer.link.rsh.as_deref(), Some("ssh -p 22"));
}

#[test]
fn what_is_not_said_has_its_default() {
    let transfer = copy(&["a", "b"]).transfer;
    assert_eq!(transfer.link.max_memory, 256 * 1024 * 1024);
    assert_eq!((transfer.link.timeout, transfer.link.streams), (30, None));
    assert_eq!(transfer.link.remote_haul, "haul");
    assert_eq!(transfer.verify, VerifyMode::Wire);
    assert_eq!((transfer.filter.min_size, transfer.filter.max_size), (None, None));
    assert_eq!((transfer.delta.delta, transfer.delta.inplace), (DeltaMode::Auto, false));
}

#[test]
fn sizes_and_numbers_are_checked() {
    let filter = copy(&["--min-size", "1K", "--max-size=1.5MB", "a", "b"]).transfer.filter;
    assert_eq!((filter.min_size, filter.max_size), (Some(1024), Some(1_500_000)));
    assert_eq!(refused(&["copy", "--min-size", "x", "a", "b"]), ErrorKind::ValueValidation);
    assert_eq!(refused(&["copy", "--streams", "0", "a", "b"]), ErrorKind::ValueValidation);
    assert_eq!(refused(&["copy", "--timeout", "0", "a", "b"]), ErrorKind::ValueValidation);
    assert_eq!(refused(&["copy", "--verify", "maybe", "a", "b"]), ErrorKind::InvalidValue);
}

#[test]
fn what_contradicts_itself_is_refused() {
    assert_eq!(refused(&["copy", "-c", "--size-only", "a", "b"]), ErrorKind::ArgumentConflict);
    assert_eq!(refused(&["copy", "-q", "-v", "a", "b"]), ErrorKind::ArgumentConflict);
    assert_eq!(refused(&["copy", "-q", "--json", "a", "b"]), ErrorKind::ArgumentConflict);
    assert_eq!(refused(&["verify", "--manifest", "m", "--exclude", "x", "b"]), ErrorKind::ArgumentConflict);
    let output = copy(&["--no-progress", "--progress", "a", "b"]).transfer.output;
    assert!(output.progress && !output.no_progress, "the last one counts");
}

#[test]
fn deleting_belongs_to_sync() {
    let args = sync(&["--delete", "--max-delete", "7", "--ignore-errors", "a", "b"]);
    assert!(args.delete && args.ignore_errors);
    assert_eq!(args.max_delete, Some(7));
    for word in ["--delete", "--max-delete=7", "--ignore-errors"] {
        assert_eq!(refused(&["copy", word, "a", "b"]), ErrorKind::UnknownArgument);
    }
}

#[test]
fn habits_from_rsync_are_told_what_to_do() {
    for (word, advice) in [
        ("--zc=lz4", "zstd:LEVEL"),
        ("--delete", "haul sync"),
        ("-rt", "always copied"),
        ("-aP", "goes on"),
        ("--no-whole-file", "--delta on"),
    ] {
        let mut error = parse(&["copy", word, "a", "b"]).unwrap_err();
        super::explain(&mut error);
        assert!(error.to_string().contains(advice), "{word}: {error}");
    }
}
