//! Adds the settings to a command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Arg;
use clap::parser::ValueSource;

use super::choose::{Line, choose};
use super::entry::{Entry, key};
use super::settings::Settings;
use super::sources::Sources;
use crate::args::{Given, HostOptions, Settled, Typed};
use crate::locations::split_name;

/// What the settings add to a command line; `None`: nothing.
///
/// # Errors
/// One line that names the file, its line, the cause and the way out.
pub(crate) fn settle(typed: &Typed<'_>, sources: &Sources) -> Result<Option<Settled>, String> {
    if sources.files.is_empty() && sources.variables.is_empty() {
        return Ok(None);
    }
    let settings = Settings::load(sources)?;
    let line = line(typed);
    let mut settled = Settled::default();
    for chosen in choose(&settings, &line)? {
        if chosen.is_rule {
            let values = chosen.words.iter().filter_map(|word| word.split_once('='));
            settled.given.rules.extend(values.map(|(_, value)| (chosen.long.clone(), OsString::from(value))));
        } else {
            settled.words.extend(chosen.words.into_iter().map(OsString::from));
            settled.given.options.push(chosen.long);
        }
    }
    // The command line and variables take precedence over the tables of locations and hosts.
    let is_taken = |long: &str| {
        let mut variables = settings.variables.iter().map(Entry::key);
        line.keys.iter().any(|typed| typed == key(long)) || variables.any(|name| name == key(long))
    };
    let Given { locations, hosts, .. } = &mut settled.given;
    locations.extend(settings.places.iter().map(|place| place.located(&is_taken)));
    hosts.extend(settings.hosts.iter().map(|host| HostOptions {
        host: host.host.clone(),
        port: host.port,
        rsh: host.rsh.clone().filter(|_| !is_taken("rsh")),
        remote_haul: host.remote_haul.clone().filter(|_| !is_taken("remote-haul")),
        bootstrap: host.bootstrap.filter(|_| !is_taken("bootstrap")),
        streams: host.streams.filter(|_| !is_taken("streams")),
    }));
    let adds = !settled.words.is_empty()
        || !settled.given.rules.is_empty()
        || !settled.given.locations.is_empty()
        || !settled.given.hosts.is_empty();
    Ok(adds.then_some(settled))
}

/// What of a command line decides which settings apply.
fn line(typed: &Typed<'_>) -> Line {
    let mut line = Line { command: typed.command.to_owned(), ..Line::default() };
    let Some(command) = typed.parser.find_subcommand(typed.command) else { return line };
    let is_typed =
        |arg: &&Arg| typed.matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    for arg in command.get_arguments().filter(is_typed) {
        if !arg.is_positional() {
            line.typed.push(arg.get_id().to_string());
            line.keys.extend(arg.get_long().map(|long| key(long).to_owned()));
        } else if arg.get_id() != "command" {
            let values = typed.matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
            line.names.extend(values.filter_map(name));
        }
    }
    line
}

fn name(value: &OsStr) -> Option<String> {
    let (name, _) = split_name(value.as_bytes())?;
    std::str::from_utf8(name).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::args::{Cli, Command, Refused, parse_with};

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

    fn parse(line: &str, variables: &[(&str, &str)], files: &[&str]) -> Result<Cli, Refused> {
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
            Err(Refused::Line(line)) => line,
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
    fn what_is_typed_removes_what_excludes_it() {
        let quiet = "[defaults]\nquiet = true\n";
        let args = copy("haul copy --json a b", &[], &[quiet]);
        assert!(args.transfer.output.json && !args.transfer.output.quiet);
        assert!(
            refusal(SRC_DST, &[], &["[defaults]\nquiet = true\njson = true\n"])
                .contains("cannot be used with")
        );
        let args = copy(SRC_DST, &[], &[quiet, "[defaults]\njson = true\n"]);
        assert!(!args.transfer.output.json && args.transfer.output.quiet);
    }

    #[test]
    fn filter_rules_follow_those_of_the_command_line() {
        let files =
            ["[defaults]\nexclude = ['*.tmp']\n", "[copy]\nexclude = ['lost+found']\ninclude = 'x'\n"];
        let args = copy("haul copy --exclude a a b", &[], &files);
        let told = format!("{:?}", args.transfer.filter.words);
        let at = |word: &str| told.find(&format!("\"{word}\"")).unwrap();
        assert!(
            at("a") < at("*.tmp") && at("*.tmp") < at("lost+found") && at("lost+found") < at("x"),
            "{told}"
        );
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
            assert!(
                error.contains(&format!("/1.toml:{line}: ")) && error.contains(what),
                "{text:?}: {error}"
            );
        }
        assert!(refusal(SRC_DST, &[("NICE", "maybe")], &[]).starts_with("HAUL_NICE: "));
        assert!(refusal(SRC_DST, &[("BWLIMT", "1M")], &[]).contains("`bwlimit`"));
        assert!(refusal(SRC_DST, &[("DRY_RUN", "1")], &[]).contains("cannot be a setting"));
        let _ = copy(SRC_DST, &[("SOMETHING_ELSE", "1")], &[]);
        // An option that needs another one.
        assert!(refusal(SRC_DST, &[], &["[copy]\nsse-kms-key-id = 'x'\n"]).contains("haul config show copy"));
    }

    #[test]
    fn broken_settings_end_only_commands_that_take_them() {
        let bad = ["[defaults]\nx = "];
        assert!(refusal(SRC_DST, &[], &bad).contains("/0.toml:2: "));
        for line in ["haul jobs", "haul help copy", "haul completions bash", "haul agent"] {
            assert!(parse(line, &[], &bad).is_ok(), "{line}");
        }
        assert!(matches!(parse("haul copy --help", &[], &bad), Err(Refused::Parser(_))));
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
}
