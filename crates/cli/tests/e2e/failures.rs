//! Thousands of failures.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use haul_testkit::{CommandRun, Need};

use crate::scene::{HAUL, Scene, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![Need::Root, Need::Program("setpriv"); ten_thousand_failures_are_grouped_and_all_of_them_are_listed]
}

/// The words that run a program as root without the right to pass over permissions.
const WITHOUT: [&str; 2] =
    ["--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"];

fn ten_thousand_failures_are_grouped_and_all_of_them_are_listed() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.many("many", 10_000, 1..50);
    let mut expected = BTreeSet::new();
    for number in 0..10_000 {
        let name = format!("many/{:04}/{number:07}.txt", number / 100);
        match number {
            // A folder with something in it, where a file is to be.
            0..50 => drop(copy.file(format!("{name}/in the way"), 1)),
            9_950.. => continue,
            _ => fs::set_permissions(source.join(&name), Permissions::from_mode(0o0)).unwrap(),
        }
        expected.insert(name);
    }
    source.file("locked/file", 10);
    fs::set_permissions(source.join("locked"), Permissions::from_mode(0o0)).unwrap();
    expected.insert("locked".to_owned());
    let list = scene.join("failed");
    let run = |more: &[&str]| {
        let run = CommandRun::new("setpriv", scene.tag())
            .env("HOME", scene.home())
            .args(WITHOUT)
            .arg(HAUL)
            .arg("copy");
        let run = run.args(more).arg("--failed").arg(&list).arg(slash(source.path())).arg(slash(copy.path()));
        run.limit(Duration::from_secs(120)).finish().expect_code(1)
    };
    let listed = || fs::read_to_string(&list).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let said = run(&["--no-progress"]).err();
    assert!(said.lines().count() <= 50, "they do not scroll the terminal away: {said}");
    assert!(said.contains("9,951 entries failed"), "{said}");
    assert!(said.contains("Permission denied (9,900 entries)"), "grouped by cause: {said}");
    assert!(said.contains("… and 9897 more") && said.contains("full list: "), "{said}");
    assert_eq!(listed().len(), expected.len(), "each once");
    assert_eq!(listed().into_iter().collect::<BTreeSet<_>>(), expected);
    // The others are there, and none of them is tried again.
    let again = summary(&run(&["--json"]));
    again.assert_accounted();
    assert_eq!([again.of("copied"), again.of("failed")], [0, 9_951], "{again:?}");
    let counts: Vec<u64> = again.0["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["count"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [9_900, 50, 1], "{again:?}");
    assert_eq!(listed().into_iter().collect::<BTreeSet<_>>(), expected);
    fs::set_permissions(source.join("locked"), Permissions::from_mode(0o755)).unwrap();
}
