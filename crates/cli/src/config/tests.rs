//! Command lines together with settings.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::settle;
use super::sources::Sources;
use crate::args::{COMMANDS, Cli, Command, RefusedCommand, check_value, is_settable, parse_with};

/// Sources with these variables and files, the first of which takes precedence.
fn sources(dir: &Path, variables: &[(&str, &str)], files: &[&str]) -> Sources {
    let paths = files.iter().enumerate().map(|(at, text)| {
        let path = dir.join(format!("{at}.toml"));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    });
    Sources::of_test(paths.collect(), variables)
}

fn parse(line: &str, variables: &[(&str, &str)], files: &[&str]) -> Result<Cli, RefusedCommand> {
    let dir = tempfile::tempdir().unwrap();
    let sources = sources(dir.path(), variables, files);
    parse_with(line.split(' ').map(OsString::from), &|typed| settle(typed, &sources))
}

fn copy(line: &str, variables: &[(&str, &str)], files: &[&str]) -> crate::args::CopyArgs {
    match parse(line, variables, files).unwrap().command {
        Command::Copy(args) => *args,
        other => panic!("{other:?}"),
    }
}

fn refusal(line: &str, variables: &[(&str, &str)], files: &[&str]) -> String {
    match parse(line, variables, files) {
        Err(RefusedCommand::Line(line)) => line,
        other => panic!("{other:?}"),
    }
}

const SRC_DST: &str = "haul copy a b";

#[test]
fn the_first_that_says_something_counts() {
    let iops = |line: &str, variables: &[(&str, &str)], files: &[&str]| {
        copy(line, variables, files).transfer.limits.iops.map(std::num::NonZeroU64::get)
    };
    let (user, system) = ("[copy]\niops = 3\n[defaults]\niops = 4\n", "[copy]\niops = 5\n");
    let place = "[locations.nas]\nlocation = '/srv'\niops = 2\n";
    let all = [place, user, system];
    assert_eq!(iops("haul copy --iops 9 @nas b", &[("IOPS", "1")], &all), Some(9));
    assert_eq!(iops("haul copy @nas b", &[("IOPS", "1")], &all), Some(1));
    assert_eq!(iops("haul copy @nas b", &[], &all), Some(2));
    assert_eq!(iops(SRC_DST, &[], &all), Some(3));
    assert_eq!(iops(SRC_DST, &[], &["[defaults]\niops = 4\n", system]), Some(4));
    assert_eq!(iops(SRC_DST, &[], &["[sync]\niops = 4\n", system]), Some(5));
    assert_eq!(iops(SRC_DST, &[], &["[put]\nmax-parts = 4\n"]), None);
}

#[test]
fn an_option_and_its_opposite_replace_each_other() {
    let nice = |line: &str, files: &[&str]| copy(line, &[], files).transfer.limits.nice;
    let on = "[defaults]\nnice = true\n";
    assert!(nice(SRC_DST, &[on]) && !nice("haul copy --no-nice a b", &[on]));
    assert!(!nice(SRC_DST, &["[defaults]\nnice = false\n", on]));
    assert!(!nice(SRC_DST, &["[copy]\nno-nice = true\n", on]));
    let no_fsync = |line: &str, files: &[&str]| copy(line, &[], files).transfer.no_fsync;
    assert!(no_fsync(SRC_DST, &["[defaults]\nno-fsync = true\n"]));
    assert!(no_fsync(SRC_DST, &["[defaults]\nfsync = false\n"]));
    assert!(!no_fsync("haul copy --fsync a b", &["[defaults]\nfsync = false\n"]));
    assert!(nice_of_variable("yes") && nice_of_variable("1") && !nice_of_variable("off"));
}

fn nice_of_variable(value: &str) -> bool {
    copy(SRC_DST, &[("NICE", value)], &[]).transfer.limits.nice
}

#[test]
fn a_typed_option_removes_settings_that_exclude_it() {
    let quiet = "[defaults]\nquiet = true\n";
    assert!(!copy("haul copy -v a b", &[], &[quiet]).transfer.output.quiet);
    let args = copy("haul copy --json a b", &[], &[quiet]);
    assert!(args.transfer.output.json && !args.transfer.output.quiet);
    assert!(
        refusal(SRC_DST, &[], &["[defaults]\nquiet = true\njson = true\n"]).contains("cannot be used with")
    );
    let args = copy(SRC_DST, &[], &[quiet, "[defaults]\njson = true\n"]);
    assert!(!args.transfer.output.json && args.transfer.output.quiet);
}

#[test]
fn filter_rules_follow_those_of_the_command_line() {
    let files = ["[defaults]\nexclude = ['*.tmp']\n", "[copy]\nexclude = ['lost+found']\ninclude = 'x'\n"];
    let args = copy("haul copy --exclude a a b", &[], &files);
    let told = format!("{:?}", args.transfer.filter.rules.0);
    let at = |word: &str| told.find(&format!("\"{word}\"")).unwrap();
    assert!(at("a") < at("*.tmp") && at("*.tmp") < at("lost+found") && at("lost+found") < at("x"), "{told}");
}

#[test]
fn errors_name_file_and_line() {
    for (text, line, what) in [
        ("[defaults]\nbwlimt = '1M'\n", 2, "similar one is `bwlimit`"),
        ("[defaults]\n\nbwlimit = 'fast'\n", 3, "--bwlimit"),
        ("[defaults]\nnice = 'yes'\n", 2, "true or false"),
        ("[defaults]\nbwlimit = true\n", 2, "takes a value"),
        ("[defaults]\niops = [1]\n", 2, "one value"),
        ("[sync]\nforce-delete = true\n", 2, "cannot be a setting"),
        ("[sync]\ndelete = true\n", 2, "cannot be a setting"),
        ("[defaults]\ndry-run = true\n", 2, "cannot be a setting"),
        ("[defaults]\nsecret-access-key = 'x'\n", 2, "no secrets"),
        ("[ls]\nbwlimit = '1M'\n", 2, "other commands have it"),
        ("[defaults]\nmax_memory = '1G'\n", 2, "`max-memory`"),
        ("[defaults]\nendpoint-url = 'http://x'\n", 2, "not an option of haul"),
        ("[defaults]\nexclude-from = 'rules'\n", 2, "begin with / or ~/"),
        ("[locations.a]\nlocation = 's3:x'\n", 2, ""),
        ("[locations.a]\nlocation = 'x'\n", 2, "begins with /"),
        ("[locations.a]\nregion = 'x'\n", 1, "lacks `location`"),
        ("[locations.a]\nlocation = '/x'\nregio = 'x'\n", 3, "`region`"),
        ("[hosts.db]\npor = 1\n", 2, "`port`"),
    ] {
        let error = refusal(SRC_DST, &[], &["", text]);
        assert!(error.contains(&format!("/1.toml:{line}: ")) && error.contains(what), "{text:?}: {error}");
    }
    assert!(refusal(SRC_DST, &[("NICE", "maybe")], &[]).starts_with("HAUL_NICE: "));
    assert!(refusal(SRC_DST, &[("BWLIMT", "1M")], &[]).contains("`bwlimit`"));
    assert!(refusal(SRC_DST, &[("DRY_RUN", "1")], &[]).contains("cannot be a setting"));
    let _ = copy(SRC_DST, &[("SOMETHING_ELSE", "1")], &[]);
}

#[test]
fn broken_settings_end_only_commands_that_take_them() {
    let bad = ["[defaults]\nx = "];
    assert!(refusal(SRC_DST, &[], &bad).contains("/0.toml:2: "));
    for line in ["haul jobs", "haul help copy", "haul completions bash", "haul agent"] {
        assert!(parse(line, &[], &bad).is_ok(), "{line}");
    }
    assert!(matches!(parse("haul copy --help", &[], &bad), Err(RefusedCommand::Parser(_))));
}

#[test]
fn locations_and_hosts_arrive() {
    let files = [
        "[locations.b]\nlocation = 's3://bucket/p'\nprofile = 'x'\nregion = 'r'\n[hosts.db1]\nport = 22\n\
         rsh = 'ssh -4'\n",
        "[locations.b]\nlocation = '/other'\n[hosts.db1]\nremote-haul = '/opt/haul'\n",
    ];
    let args = copy("haul copy --profile y -e ssh a @b/c", &[("REGION", "z")], &files);
    let given = args.transfer.given.get();
    assert_eq!((given.locations.len(), given.hosts.len()), (1, 2));
    let place = &given.locations[0];
    assert_eq!((place.location.as_str(), &place.store), ("s3://bucket/p", &Default::default()));
    assert_eq!((given.hosts[0].port, &given.hosts[0].rsh), (Some(22), &None));
    assert_eq!(given.hosts[1].remote_haul.as_deref(), Some("/opt/haul"));
    let args = copy("haul copy a @b/c", &[], &files);
    let place = &args.transfer.given.get().locations[0];
    assert_eq!((place.store.profile.as_deref(), place.store.region.as_deref()), (Some("x"), Some("r")));
}

#[test]
fn two_locations_with_different_values_are_refused() {
    let text = "[locations.a]\nlocation = '/a'\niops = 1\n[locations.b]\nlocation = '/b'\niops = 2\n";
    assert!(refusal("haul copy @a @b", &[], &[text]).contains("different values of `iops`"));
    let args = copy("haul copy --iops 3 @a @b", &[], &[text]);
    assert_eq!(args.transfer.limits.iops.map(std::num::NonZeroU64::get), Some(3));
}
#[test]
fn options_that_protect_data_are_never_dropped() {
    let backup = "[copy]\nbackup = true\nbackup-dir = 'old'\n";
    let line = refusal("haul copy --inplace a b", &[], &[backup]);
    assert!(line.contains(":2: `backup` cannot be used with --inplace of the command line"), "{line}");
    let args = copy("haul copy --inplace --no-backup a b", &[], &[backup]).transfer;
    assert!(!args.older.backup && args.older.backup_dir.is_none() && args.delta.inplace);
    let args = copy(SRC_DST, &[], &["[copy]\nbackup = false\n", backup]).transfer;
    assert!(!args.older.backup && args.older.backup_dir.is_none());
    assert!(refusal("haul copy a b", &[], &["[copy]\ninplace = true\n", backup]).contains("`backup`"));
    let encrypt = "[put]\nencrypt = ['age1x']\n";
    assert!(
        refusal("haul put --resume s3://b/x", &[], &[encrypt])
            .contains("`encrypt` cannot be used with --resume")
    );
}

#[test]
fn options_without_the_one_that_they_require_have_no_effect() {
    let text = "[defaults]\nindex-refresh = '2d'\nsse-kms-key-id = 'k'\nallow-plain = true\n";
    for line in ["haul copy a b", "haul get s3://b/x", "haul put s3://b/x", "haul copy --index a b"] {
        assert!(parse(line, &[], &[text]).is_ok(), "{line}: {:?}", parse(line, &[], &[text]));
    }
    let refresh = |line: &str| copy(line, &[], &[text]).transfer.index.index_refresh.as_secs();
    assert_eq!((refresh("haul copy a b"), refresh("haul copy --index a b")), (7 * 86_400, 2 * 86_400));
}

#[test]
fn words_of_other_tools_count_as_typed() {
    let text = "[copy]\ndelta = 'on'\ncompress = 'lz4'\n";
    let transfer = |line: &str, files: &[&str]| copy(line, &[], files).transfer;
    assert_eq!(transfer(SRC_DST, &[text]).delta.delta, crate::args::DeltaMode::On);
    assert_eq!(transfer("haul copy --whole-file a b", &[text]).delta.delta, crate::args::DeltaMode::Off);
    for line in ["haul copy -z a b", "haul copy --no-compress a b", "haul copy --compress none a b"] {
        assert_eq!(transfer(line, &[text]).compress.wish(), transfer(line, &[]).compress.wish(), "{line}");
    }
}

/// Every option that settings can give has the same effect in a file as on the command line.
#[test]
fn each_option_in_a_file_is_as_on_the_command_line() {
    const VALUES: [&str; 23] = [
        "2024-05-01",
        "true",
        "5",
        "2d",
        "1G",
        "lz4",
        "on",
        "disk",
        "fail",
        "tls",
        "127.0.0.1",
        "u=rw",
        "zstd",
        "1:2",
        "1-2",
        "ntfs",
        "pause",
        "names",
        "a=b",
        "a:b",
        "innodb",
        "sha256",
        "AES256",
    ];
    let mut all = crate::args::command();
    all.build();
    let mut tried = 0;
    for name in COMMANDS {
        let ends = match name {
            "copy" | "sync" | "verify" | "probe" => "a b",
            "hash" | "plan" => "a",
            "pipe" => "db2 --into=cat -- cat",
            _ => "s3://b/x",
        };
        let command = all.find_subcommand(name).unwrap();
        for arg in command.get_arguments().filter(|arg| is_settable(name, arg)) {
            let long = arg.get_long().unwrap();
            let is_flag = !arg.get_action().takes_values();
            let fits = |value: &&&str| check_value(arg, &format!("--{long}={value}")).is_ok();
            let value = if is_flag {
                ""
            } else {
                VALUES.iter().find(fits).unwrap_or_else(|| panic!("{name} --{long}"))
            };
            let word = if is_flag { format!("--{long}") } else { format!("--{long}={value}") };
            // Some need another option.
            let Ok(expected) = parse(&format!("haul {name} {word} {ends}"), &[], &[]) else { continue };
            let is_file = arg.get_value_names().is_some_and(|names| names[0] == "FILE") && !is_flag;
            let written = match (is_flag, is_file) {
                (true, _) => "true".to_owned(),
                (false, true) => format!("'/{value}'"),
                (false, false) => format!("'{value}'"),
            };
            let found =
                parse(&format!("haul {name} {ends}"), &[], &[&format!("[{name}]\n{long} = {written}\n")]);
            let text = format!("{:?}", found.unwrap().command)
                .replace(&format!("\"/{value}\""), &format!("\"{value}\""));
            assert_eq!(
                without_given(&text),
                without_given(&format!("{:?}", expected.command)),
                "{name} --{long}"
            );
            tried += 1;
        }
    }
    assert!(tried > 200, "{tried} options were tried");
}

/// The effect of an option, without the list of values from settings.
fn without_given(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("GivenArgs(") {
        out.push_str(before);
        rest = after.split_once("})").map_or("", |(_, behind)| behind);
    }
    out + rest
}

#[test]
fn only_names_of_files_are_below_the_home_directory() {
    let text = "[defaults]\nexclude = ['~/a']\nexclude-from = '~/rules'\nremote-haul = '~/bin/haul'\nca-cert = '~/ca'\n";
    let args = copy(SRC_DST, &[], &[text]).transfer;
    let words = format!("{:?}", args.filter.rules.0);
    assert!(words.contains("\"~/a\"") && words.contains("\"/home/a/rules\""), "{words}");
    assert_eq!(
        (args.link.host.remote_haul.as_str(), args.store.address.ca_cert.as_deref()),
        ("~/bin/haul", Some("/home/a/ca"))
    );
}

#[test]
fn a_location_switches_off_options_of_all_stores() {
    let store = |own: &str| {
        let text =
            format!("[defaults]\nno-sign-request = true\n[locations.b]\nlocation = 's3://bucket'\n{own}\n");
        copy("haul copy a @b", &[], &[&text]).transfer.given.get().locations[0].store.no_sign_request
    };
    assert_eq!(
        (store(""), store("no-sign-request = false"), store("sign-request = true")),
        (None, Some(false), Some(false))
    );
    assert_eq!(store("no-sign-request = true"), Some(true));
    let both = "[locations.b]\nlocation = 's3://bucket'\nno-sign-request = true\nprofile = 'x'\n";
    assert!(refusal(SRC_DST, &[], &[both]).contains("`profile` cannot be used with `no-sign-request`"));
}
