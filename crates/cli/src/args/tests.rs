use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::error::ErrorKind;

use super::cli::Cli;
use super::{Command, CopyArgs, DeltaMode, FilterWord, RefusedCommand, SyncArgs, VerifyMode};

fn parse(words: &[&str]) -> Result<Command, RefusedCommand> {
    let words = std::iter::once(&"haul").chain(words).map(OsString::from);
    super::parse(words).map(|cli| cli.command)
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
    assert!(!line(words).contains('\n'), "{words:?}");
    let words: Vec<OsString> = std::iter::once(&"haul").chain(words).map(OsString::from).collect();
    super::parse::attempt(&words).unwrap_err().kind()
}

/// The line that a refused command gets.
fn line(words: &[&str]) -> String {
    match parse(words) {
        Err(refused @ RefusedCommand::Line(_)) if refused.exit_code() != 2 => {
            panic!("{words:?}: {refused:?}")
        }
        Err(RefusedCommand::Line(line)) => line,
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn the_definitions_are_valid() {
    super::command().debug_assert();
}

#[test]
fn options_may_stand_between_locations() {
    let args = copy(&["a", "b", "h:c", "dst"]);
    assert_eq!(args.ends, ["a", "b", "h:c", "dst"]);
    assert_eq!(copy(&["-n", "a", "-x", "b", "-v", "dst", "-c"]).ends, ["a", "b", "dst"]);
    assert_eq!(copy(&["a", "--", "-n", "-x"]).ends, ["a", "-n", "-x"]);
    assert_eq!(refused(&["copy"]), ErrorKind::MissingRequiredArgument);
    let Ok(Command::Verify(args)) = parse(&["verify", "a", "--json", "b", "-x"]) else { panic!("refused") };
    assert_eq!(args.ends, ["a", "b"]);
    let args = sync(&["a", "-n", "b", "-v"]);
    assert_eq!(args.ends, ["a", "b"]);
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
        "-avFf- q",
        "--exclude",
        "*",
        "-FF",
        "--include=z",
    ];
    let expected = [
        FilterWord::Exclude("*.o".into()),
        FilterWord::Include("-x*".into()),
        FilterWord::ExcludeFrom("f".into()),
        FilterWord::RsyncFilter,
        FilterWord::Filter("- q".into()),
        FilterWord::Exclude("*".into()),
        FilterWord::RsyncFilter,
        FilterWord::RsyncFilter,
        FilterWord::Include("z".into()),
    ];
    assert_eq!(copy(&words).transfer.filter.rules.0, expected);
}

#[test]
fn arguments_may_hold_any_byte() {
    let odd = |bytes: &[u8]| OsStr::from_bytes(bytes).to_os_string();
    let words: [OsString; 6] =
        ["haul".into(), "copy".into(), "--exclude".into(), odd(b"\xff*"), odd(b"a\xfe"), odd(b"b\n\xfd")];
    let Ok(Cli { command: Command::Copy(args) }) = super::parse(words) else { panic!("refused") };
    assert_eq!(args.ends, [odd(b"a\xfe"), odd(b"b\n\xfd")]);
    assert_eq!(args.transfer.filter.rules.0, [FilterWord::Exclude(odd(b"\xff*"))]);
}

#[test]
fn short_options_can_be_combined() {
    let args = copy(&["-anxuv0", "-e", "ssh -p 22", "a", "b"]);
    assert!(args.transfer.dry_run && args.transfer.archive && args.transfer.update);
    assert!(args.transfer.filter.one_file_system && args.transfer.filter.from0 && args.transfer.verbose);
    assert_eq!(args.transfer.link.host.rsh.as_deref(), Some("ssh -p 22"));
}

#[test]
fn options_have_defaults() {
    let transfer = copy(&["a", "b"]).transfer;
    assert_eq!(transfer.link.max_memory, 256 * 1024 * 1024);
    assert_eq!((transfer.link.timeout, transfer.link.connections.streams), (30, None));
    assert_eq!(transfer.link.host.remote_haul, "haul");
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
fn contradicting_options_are_refused() {
    assert_eq!(refused(&["copy", "-c", "--size-only", "a", "b"]), ErrorKind::ArgumentConflict);
    assert_eq!(refused(&["copy", "-q", "--json", "a", "b"]), ErrorKind::ArgumentConflict);
    assert_eq!(refused(&["verify", "--manifest", "m", "--exclude", "x", "b"]), ErrorKind::ArgumentConflict);
    let output = copy(&["--no-progress", "--progress", "a", "b"]).transfer.output;
    assert!(output.progress && !output.no_progress, "the last one counts");
}

#[test]
fn the_last_of_quiet_and_verbose_counts() {
    let args = copy(&["-aviq", "a", "b"]).transfer;
    assert!(args.output.quiet && !args.verbose && !args.itemize_changes);
    let args = copy(&["-q", "-vi", "a", "b"]).transfer;
    assert!(!args.output.quiet && args.verbose && args.itemize_changes);
}

#[test]
fn only_sync_deletes() {
    let args = sync(&["--delete", "--max-delete", "7", "--ignore-errors", "a", "b"]);
    assert!(args.delete && args.ignore_errors);
    assert_eq!(args.max_delete, Some(7));
    for word in ["--delete", "--max-delete=7", "--ignore-errors"] {
        assert!(line(&["copy", word, "a", "b"]).contains("haul sync"), "{word}");
    }
}

/// Options that `copy`, `sync` and `verify` accept.
const ALWAYS_ACCEPTED: &[&str] = &[
    "-r",
    "-a",
    "-h",
    "-l",
    "-p",
    "-t",
    "-g",
    "-o",
    "-D",
    "-H",
    "-A",
    "-X",
    "-S",
    "-U",
    "-P",
    "-s",
    "-n",
    "-c",
    "-ah",
    "-aHAX",
    "-aHAXS",
    "-rlptgoD",
    "-rlptgoDh",
    "-anc",
    "-aaPP",
    "--recursive",
    "--archive",
    "--links",
    "--perms",
    "--times",
    "--atimes",
    "--group",
    "--owner",
    "--devices",
    "--specials",
    "--hard-links",
    "--acls",
    "--xattrs",
    "--sparse",
    "--human-readable",
    "--numeric-ids",
    "--partial",
    "--mkpath",
    "--fsync",
    "--no-motd",
    "--stats",
    "--secluded-args",
    "--protect-args",
    "--inc-recursive",
    "--info=progress2",
    "--info=stats2,progress",
];

#[test]
fn rsync_options_for_the_default_behaviour_are_accepted() {
    for command in ["copy", "sync", "verify"] {
        for word in ALWAYS_ACCEPTED {
            if let Err(error) = parse(&[command, word, "a", "b"]) {
                panic!("haul {command} {word} a b: {error:?}");
            }
        }
    }
    for command in ["copy", "sync"] {
        for word in [
            "-av",
            "-avz",
            "-avh",
            "-achv",
            "-avzP",
            "-aHAXvn",
            "-rvz",
            "-vv",
            "--existing",
            "--ignore-non-existing",
        ] {
            assert!(parse(&[command, word, "a", "b"]).is_ok(), "haul {command} {word} a b");
        }
    }
    for word in
        ["--delete", "--del", "--delete-before", "--delete-during", "--delete-delay", "--delete-after"]
    {
        assert!(sync(&["-achv", word, "a", "b"]).delete, "{word}");
    }
    assert!(copy(&["--ignore-non-existing", "a", "b"]).transfer.existing);
    let Ok(Command::Rm(args)) = parse(&["rm", "-rn", "s3://b/x"]) else { panic!("refused") };
    assert!(args.recursive && args.dry_run);
}

#[test]
fn bundles_set_each_of_their_options() {
    let args = copy(&["-achvn", "src/", "dst/"]);
    let transfer = &args.transfer;
    assert!(transfer.archive && transfer.checksum && transfer.verbose && transfer.dry_run);
    assert_eq!(args.ends, ["src/", "dst/"]);
    assert!(copy(&["-aHL", "a", "b"]).transfer.links.copy_links);
    assert!(sync(&["--follow-symlinks", "a", "b"]).transfer.links.copy_links);
    assert!(copy(&["-avzP", "a", "b"]).transfer.accepted.progress());
    assert!(copy(&["--info=progress2", "a", "b"]).transfer.accepted.progress());
    assert!(!copy(&["--info=progress0", "-av", "a", "b"]).transfer.accepted.progress());
    assert!(!copy(&["--no-fsync", "--fsync", "a", "b"]).transfer.no_fsync, "the last one counts");
    assert!(copy(&["--fsync", "--no-fsync", "a", "b"]).transfer.no_fsync);
    assert!(!copy(&["--owner-by-name", "--numeric-ids", "a", "b"]).transfer.owner_by_name);
    assert!(copy(&["--numeric-ids", "--owner-by-name", "a", "b"]).transfer.owner_by_name);
    assert_eq!(refused(&["copy", "--info=name", "a", "b"]), ErrorKind::ValueValidation);
}

#[test]
fn metadata_is_left_out_by_the_words_of_rsync() {
    for (long, short, back) in [
        ("--no-owner", "--no-o", "-o"),
        ("--no-group", "--no-g", "-g"),
        ("--no-perms", "--no-p", "-p"),
        ("--no-times", "--no-t", "-t"),
        ("--omit-dir-times", "-O", "--no-O"),
        ("--omit-link-times", "-J", "--no-J"),
        ("--no-acls", "--no-A", "-A"),
        ("--no-xattrs", "--no-X", "-X"),
    ] {
        let left_out = |words: &[&str]| {
            let args = copy(words).transfer.preserve;
            let all =
                [args.no_owner, args.no_group, args.no_perms, args.no_times, args.no_acls, args.no_xattrs];
            all.iter().chain(&[args.omit_dir_times, args.omit_link_times]).filter(|one| **one).count()
        };
        assert_eq!(left_out(&["-a", long, "a", "b"]), 1, "{long}");
        assert_eq!(left_out(&[short, "a", "b"]), 1, "{short}");
        assert_eq!(left_out(&[short, back, "a", "b"]), 0, "{short} {back}");
        assert_eq!(left_out(&[back, short, "a", "b"]), 1, "{back} {short}");
    }
    let args = copy(&["--no-owner", "--no-times", "--no-acls", "-a", "a", "b"]).transfer.preserve;
    assert!(!args.no_owner && !args.no_times && args.no_acls, "-a does not stand for -A");
}

#[test]
fn h_is_help_only_if_it_stands_alone() {
    let is_help = |words: &[&str]| match parse(words) {
        Err(RefusedCommand::Parser(error)) if error.kind() == ErrorKind::DisplayHelp => {
            error.exit_code() == 0
        }
        _ => false,
    };
    for command in
        ["copy", "sync", "verify", "hash", "put", "get", "pipe", "ls", "rm", "plan", "probe", "jobs"]
    {
        assert!(is_help(&[command, "-h"]) && is_help(&[command, "--help"]), "{command}");
        if command != "jobs" {
            assert!(!is_help(&[command, "-h", "s3://a/b"]), "{command}");
            assert!(!is_help(&[command, "-hh"]), "{command}");
        }
    }
    assert!(is_help(&["-h"]) && is_help(&["--help"]) && is_help(&["copy", "-a", "--help"]));
    assert!(!is_help(&["-h", "a", "b"]));
    assert!(parse(&["copy", "-h", "a", "b"]).is_ok() && parse(&["ls", "-h", "s3://a/"]).is_ok());
    assert_eq!(refused(&["copy", "-avh"]), ErrorKind::MissingRequiredArgument);
}

#[test]
fn bad_pages_need_pages_that_are_checked() {
    for command in ["copy", "verify", "put"] {
        let alone = [command, "--bad-pages", "warn", "a", "b"];
        assert_eq!(refused(&alone), ErrorKind::MissingRequiredArgument);
        assert!(parse(&[command, "--pages", "off", "--bad-pages", "warn", "a", "b"]).is_ok());
    }
}

#[test]
fn the_commands_of_the_stories_parse() {
    for words in [
        "sync -achv --delete /tmp/data /data",
        "copy -av ec2:/var/lib/mysql/ /var/lib/mysql/",
        "copy -avh /srv/src/ /srv/dst/",
        "copy -avz file other:/tmp/",
        "copy -r -n a b",
        "copy --recursive s3://bucket/prefix dir/",
        "sync -rlptgoD --numeric-ids --partial --delete-after /srv/ nas:/srv/",
        "put --compress zstd s3://backups/db1.xb",
    ] {
        let list: Vec<&str> = words.split(' ').collect();
        assert!(parse(&list).is_ok(), "haul {words}: {:?}", parse(&list));
    }
}

#[test]
fn options_of_other_tools_get_advice_in_one_line() {
    for (word, advice) in [
        ("--zl=3", "zstd:LEVEL"),
        ("--delete", "haul sync"),
        ("--delete-after", "haul sync"),
        ("--copy-dest=x", "earlier copy"),
        ("--trust-sender", "checks all that another host sends"),
        ("--delay-updates", "renames each file"),
        ("--no-links", "always keeps"),
        ("--contimeout=3", "--timeout"),
        ("--parallel=8", "--streams"),
        ("--transfers", "--streams"),
        ("--s3-session-token", "never from the command line"),
        ("-avk", "symbolic links"),
    ] {
        let text = line(&["copy", word, "a", "b"]);
        assert!(text.contains(advice) && !text.contains('\n'), "{word}: {text}");
    }
    assert!(line(&["put", "--parallel=8", "s3://b/x"]).contains("omit it"));
    // The advice for another command is better than none.
    for (words, advice) in [
        (
            ["get", "--numeric-ids"],
            "`--numeric-ids` of rsync is not an option of `haul get`; `haul copy` takes it",
        ),
        (
            ["ls", "--mir"],
            "`--mir` of robocopy is not an option of `haul ls`; for `haul copy`: `haul copy` never",
        ),
        (
            ["get", "--mt=8"],
            "`--mt` of robocopy is not an option of `haul get`; for `haul copy`: haul adapts",
        ),
        (["copy", "--mir"], "`--mir` of robocopy is not an option of `haul copy`: `haul copy` never deletes"),
        (["copy", "--dst"], "`--dst` is not an option of `haul copy`: `haul copy --help` lists them"),
    ] {
        let text = line(&[&words[..], &["a", "b"]].concat());
        assert!(text.starts_with(advice), "{words:?}: {text}");
    }
    assert!(line(&["verify", "-avi", "a", "b"]).contains("ssh -i KEY"));
    for (command, advice) in [
        ("scp", "haul copy"),
        ("mirror", "haul sync"),
        ("version", "--version"),
        ("doctor", "--doctor"),
        ("tree", "haul plan"),
        ("src/", "haul copy SRC DST"),
    ] {
        assert!(line(&[command, "a", "b"]).contains(advice), "{command}");
    }
    assert!(line(&["-avh", "a", "b"]).contains("haul copy -avh"));
}

#[test]
fn suggestions_are_made_only_for_typing_errors() {
    let text = |word: &str| line(&["copy", word, "a", "b"]);
    for (word, meant) in
        [("--bwlimt=1M", "--bwlimit"), ("--excude=x", "--exclude"), ("--dry-rn", "--dry-run")]
    {
        assert!(text(word).contains(meant), "{word}: {}", text(word));
    }
    for word in ["--nice-ids", "--numbers", "--verbatim", "--delt-updates-now", "--timeofday"] {
        assert!(!text(word).contains("similar") && !text(word).contains("-- "), "{word}: {}", text(word));
    }
}
