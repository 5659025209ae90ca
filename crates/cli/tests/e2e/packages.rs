//! The files of the packages besides the program. `packaging/test` tests the packages themselves.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::{Need, assert_same_tree};

use crate::scene::{HAUL, Scene, slash};
use crate::sftp::plain;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![the_nightly_sync_of_the_unit_runs, the_packages_agree_with_the_workspace];
    all.extend(cases![Need::Program("systemd-analyze"); the_units_are_valid_and_confined]);
    all
}

/// The directory with the files of the packages.
fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

fn read(name: &str) -> String {
    fs::read_to_string(packaging().join(name)).unwrap()
}

/// The value of the line `KEY=VALUE` of a unit or of an environment file.
fn value(text: &str, key: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no line {key}=")).to_owned()
}

fn the_nightly_sync_of_the_unit_runs() {
    let scene = Scene::new();
    let source = plain(&scene, "a source", &[3 << 20], 20);
    let copy = scene.join("a copy");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("superfluous"), "").unwrap();
    let conf = read("sync.conf");
    let mut settings: BTreeMap<&str, String> =
        ["SOURCE", "DESTINATION", "OPTIONS"].into_iter().map(|key| (key, value(&conf, key))).collect();
    assert!(settings["DESTINATION"].contains(':') && !settings["OPTIONS"].is_empty(), "{settings:?}");
    settings.insert("SOURCE", slash(source.path()).into_string().unwrap());
    settings.insert("DESTINATION", slash(&copy).into_string().unwrap());
    // As systemd.service(5) expands it: `$WORD` becomes words, `${WORD}` stays one.
    let mut command = Vec::new();
    for word in value(&read("haul-sync@.service"), "ExecStart").split(' ') {
        match word.strip_prefix('$') {
            None => command.push(word.to_owned()),
            Some(name) => match name.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) => command.push(settings[name].clone()),
                None => command.extend(settings[name].split_whitespace().map(str::to_owned)),
            },
        }
    }
    assert_eq!(command[..2], ["/usr/bin/haul", "sync"]);
    let _ = scene.haul("sync").args(&command[2..]).finish().expect_success();
    assert_same_tree(source.path(), &copy);
}

fn the_units_are_valid_and_confined() {
    let scene = Scene::new();
    let place = |name: &str| scene.join(format!("haul-sync@{name}"));
    // The program is not installed here.
    let service = read("haul-sync@.service").replace("/usr/bin/haul", HAUL);
    let timer = read("haul-sync@.timer");
    fs::write(place(".service"), &service).unwrap();
    fs::write(place("night.service"), &service).unwrap();
    fs::write(place("night.timer"), &timer).unwrap();
    let analyze = |words: &[&str], files: &[PathBuf]| {
        let run = Command::new("systemd-analyze").args(words).args(files).output().unwrap();
        (run.status.success(), String::from_utf8([run.stdout, run.stderr].concat()).unwrap())
    };
    let units = [place("night.service"), place("night.timer")];
    let (valid, said) = analyze(&["verify", "--man=no"], &units);
    assert!(valid && said.is_empty(), "{said}");
    let (confined, said) = analyze(&["security", "--offline=true", "--threshold=30"], &units[..1]);
    assert!(confined, "the exposure is more than 3.0: {said}");
    // These checks can fail.
    fs::write(place("night.service"), service.replace("ProtectClock", "ProtectClocks")).unwrap();
    assert!(analyze(&["verify", "--man=no"], &units).1.contains("ProtectClocks"));
    fs::write(place("night.service"), service.replace("CapabilityBoundingSet", "#")).unwrap();
    assert!(!analyze(&["security", "--offline=true", "--threshold=30"], &units[..1]).0);
}

fn the_packages_agree_with_the_workspace() {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .unwrap();
    let workspace: serde_json::Value = serde_json::from_slice(&cargo.stdout).unwrap();
    let packages = workspace["packages"].as_array().unwrap();
    let haul = packages.iter().find(|package| package["name"] == "haul").unwrap();
    let packed = read("nfpm.yaml");
    for line in [
        "name: haul".to_owned(),
        format!("license: {}", haul["license"].as_str().unwrap()),
        "version: ${VERSION}".to_owned(),
    ] {
        assert!(packed.lines().any(|other| other == line), "nfpm.yaml lacks `{line}`");
    }
    // The script takes the version and the description from these lines.
    let release = fs::read_to_string(packaging().join("../scripts/release")).unwrap();
    let lines = |path: &str| fs::read_to_string(packaging().join("..").join(path)).unwrap();
    let version = format!("version = {}", haul["version"]);
    assert_eq!(lines("Cargo.toml").lines().find(|line| line.starts_with("version =")), Some(&version[..]));
    let description = format!("description = {}", haul["description"]);
    assert!(lines("crates/cli/Cargo.toml").lines().any(|line| line == description));
    // The oldest glibc of the programs is the one that the packages depend on.
    assert!(release.contains("*-gnu) zig_target+=.2.17"));
    assert!(packed.contains("libc6 (>= 2.17)") && packed.contains("glibc >= 2.17"));
    // Everything in the directory is used.
    let used = release + &read("compiler");
    for entry in fs::read_dir(packaging()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let unit = name.starts_with("haul-sync@.") && used.contains("/packaging/haul-sync@.{service,timer}");
        assert!(
            unit || used.contains(&format!("packaging/{name}")) || used.contains(&format!("/{name} ")),
            "scripts/release does not use {name}"
        );
    }
    // pip accepts only the content that was pinned.
    for line in read("tools.txt").lines().filter(|line| !line.starts_with('#')) {
        assert!(line.contains("==") && line.contains(" --hash=sha256:"), "{line}");
    }
}
