//! Thousands of failures, failures at a host, and owners that this user cannot set.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use haul_testkit::{CommandRun, Need};

use crate::scene::{HAUL, Scene, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Root, Need::Program("setpriv");
        ten_thousand_failures_are_grouped_and_all_of_them_are_listed,
        a_failure_at_a_host_is_named_with_the_host,
        an_owner_that_this_user_cannot_set_is_no_update,
    ]
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
            // A directory with something in it, where a file is to be.
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

fn a_failure_at_a_host_is_named_with_the_host() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("readable", 1);
    fs::set_permissions(source.file("secret", 1), Permissions::from_mode(0o0)).unwrap();
    let remote_haul = format!("setpriv {} {HAUL}", WITHOUT.join(" "));
    let at = scene.remote(source.path()).into_string().unwrap();
    for (from, more) in [(format!("{at}/"), "/secret"), (format!("{at}/secret"), "")] {
        let run =
            scene.haul("copy").args(["-e", &scene.sshd().shell(), "--remote-haul", &remote_haul, &from]);
        let run = run.arg(slash(copy.path())).finish().expect_code(1);
        let named =
            format!("failed to open `{}{more}` (source): Permission denied", from.trim_end_matches('/'));
        assert!(run.err().contains(&named), "{run}");
    }
}

/// As rsync does, whose -i shows nothing for such an entry.
fn an_owner_that_this_user_cannot_set_is_no_update() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("file", 1);
    source.file("dir/file", 1);
    for name in ["dir", "dir/file", "file"] {
        std::os::unix::fs::chown(source.join(name), Some(5), Some(6)).unwrap();
    }
    let run = |more: &[&str]| {
        let run = CommandRun::new("setpriv", scene.tag())
            .env("HOME", scene.home())
            .args(["--bounding-set=-chown", "--inh-caps=-chown"])
            .args([HAUL, "copy"]);
        run.args(more).arg(slash(source.path())).arg(slash(copy.path())).finish().expect_code(0)
    };
    let first = run(&["--no-progress"]).err();
    assert!(first.contains("owner could not be set on 3 entries: Operation not permitted"), "{first}");
    assert!(first.contains("--no-owner --no-group leaves them out"), "{first}");
    let without = run(&["--no-progress", "--no-owner", "--no-group"]).err();
    assert!(!without.contains("owner"), "the way out is one: {without}");
    for more in [&["--json", "-i"][..], &["--json", "--dry-run"]] {
        let again = summary(&run(more));
        again.assert_accounted();
        assert_eq!([again.of("updated"), again.of("copied"), again.of("same")], [0, 0, 4], "{again:?}");
    }
    fs::set_permissions(source.join("dir"), Permissions::from_mode(0o700)).unwrap();
    let changed = summary(&run(&["--json"]));
    assert_eq!([changed.of("updated"), changed.of("same")], [1, 3], "{changed:?}");
}
