//! An SFTP server that falsifies one field of one kind of answer at a time, as source and as destination. After each,
//! the run has ended with a documented exit code; 0 means that the copy is equal; nothing outside of the destination
//! was touched; the server did not control the terminal; memory is bounded.

mod table;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use haul_testkit::compare::fingerprint;
use haul_testkit::harm::harm;
use haul_testkit::lying_sftp::{Field, ServerLie};
use haul_testkit::process::{assert_all_gone, joined};
use haul_testkit::{CommandRun, Finished, TestTree, tree_differences};
use std::os::unix::ffi::OsStrExt;

use crate::scene::{HAUL, LYING_SERVER, REMOTE, Scene, slash};
use crate::{TestCase, cases};
use table::{LieCase, ServerRole};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![lies_about_packets_harm_nothing, lies_of_a_source_harm_nothing, lies_of_a_destination_harm_nothing,]
}

/// Runs at a time: most of them wait for a server that says nothing.
const AT_ONCE: usize = 10;
const MIB: u64 = 1 << 20;
const BUDGET: u64 = 48 * MIB;
const STAGED: &str = ".haul-0123456789abcdef.part";
const ESCAPE: &[u8] = b"\x1b]0;title\x07\x1b[2J\r\nforged\xc2\x9b31m\xe2\x80\xae";

fn lies_about_packets_harm_nothing() {
    all_end_well(&table::packets());
}

fn lies_of_a_source_harm_nothing() {
    all_end_well(&table::of_a_source());
}

fn lies_of_a_destination_harm_nothing() {
    all_end_well(&table::of_a_destination());
}

/// Tells every lie to a run of its own, some at a time, and fails with all that went wrong.
fn all_end_well(lies: &[LieCase]) {
    let scene = Scene::new();
    let source = source(&scene);
    let next = Mutex::new(lies.iter().enumerate());
    let failed = Mutex::new(Vec::new());
    let codes = Mutex::new(BTreeMap::<String, usize>::new());
    let peak = Mutex::new(0);
    let work = || {
        loop {
            let Some((number, told)) = next.lock().unwrap().next() else { return };
            let tried = catch_unwind(AssertUnwindSafe(|| try_one(&scene, &source, number, told)));
            let Ok((run, wrong)) = tried else {
                failed.lock().unwrap().push(format!("{told}: it did not end, or left a process behind"));
                continue;
            };
            let code = run.code().map_or_else(|| run.status.to_string(), |code| code.to_string());
            *codes.lock().unwrap().entry(code).or_default() += 1;
            let mut peak = peak.lock().unwrap();
            *peak = (*peak).max(run.local_peak);
            if !wrong.is_empty() {
                failed.lock().unwrap().push(format!("{told}: {}\n{run}\n", wrong.join("; ")));
            }
        }
    };
    std::thread::scope(|scope| {
        (0..AT_ONCE).for_each(|_| drop(scope.spawn(work)));
    });
    let (failed, codes) = (failed.into_inner().unwrap(), codes.into_inner().unwrap());
    let peak = peak.into_inner().unwrap() / MIB;
    eprintln!("lying sftp: {} lies, exit codes {codes:?}, {peak} MiB at most", lies.len());
    // One that ends at once is gone before it is looked at.
    assert!(peak > 0, "no run's memory was seen");
    assert!(failed.is_empty(), "{} of {} lies:\n{}", failed.len(), lies.len(), failed.join("\n"));
}

/// A tree of which SFTP carries everything.
fn source(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    tree.file("a", 1000);
    tree.file("b", 300_000);
    tree.file("dir/c", 10);
    tree.file("dir/sub/d", 70_000);
    tree.file("huge", (4 << 20) + 5000);
    tree.file("suid", 20);
    tree.dir("void");
    tree.link("link", "a");
    fs::hard_link(tree.join("b"), tree.join("dir/hard")).unwrap();
    fs::set_permissions(tree.join("suid"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::set_permissions(tree.join("dir/c"), fs::Permissions::from_mode(0o600)).unwrap();
    for (number, path) in haul_testkit::tree::list(tree.path()).into_iter().enumerate() {
        tree.time(path, 1_600_000_000 + number as i64, 0);
    }
    tree.time("", 1_500_000_000, 0);
    tree
}

/// The entries that are there already: an older file, a directory, a directory in the place of a file.
fn destination(path: PathBuf) -> TestTree {
    let tree = TestTree::new(path, 5);
    tree.text("a", "older");
    tree.dir("b");
    tree.text("link", "no link");
    tree
}

fn try_one(scene: &Scene, source: &TestTree, number: usize, told: &LieCase) -> (Finished, Vec<String>) {
    let case = scene.join(format!("case-{number}"));
    let (dir, plan) = (case.join("in"), case.join("plan"));
    let outside = TestTree::new(dir.join("outside"), 1);
    outside.text("precious", "untouched");
    outside.text("directory/precious", "untouched, too");
    let copy = destination(dir.join("dst"));
    if told.way == ServerRole::Push {
        copy.text(format!("dir/{STAGED}"), "left by a run that was killed");
    }
    told.lie.save(&plan);
    let before = (fingerprint(outside.path()), fingerprint(source.path()));
    let this = std::env::current_exe().unwrap();
    let shell = format!("{} {LYING_SERVER} {}", this.display(), plan.display());
    let remote = |path: &Path| joined(&[b"sftp://", REMOTE.as_bytes(), slash(path).as_bytes()]);
    let (from, to) = match told.way {
        ServerRole::Pull => (remote(source.path()), slash(copy.path())),
        ServerRole::Push => (slash(source.path()), remote(copy.path())),
    };
    // The processes of this run are ended with it, and with no other.
    let tag = case.display().to_string();
    let run = CommandRun::new(HAUL, &tag).env("HOME", scene.home()).env("XDG_RUNTIME_DIR", &case);
    let run = run.env("XDG_STATE_HOME", &case).env("TMPDIR", &case).arg("copy");
    // A former handle is one of the same connection.
    let streams = if told.lie.field == Field::FormerHandle { "1" } else { "2" };
    let run =
        run.args(["-e", &shell, "--streams", streams, "--strict", "--timeout", "2", "--max-memory", "48MiB"]);
    let run = run.args(told.options).arg(from).arg(to).limit(Duration::from_secs(180));
    let run = run.watch_own_memory().finish();
    let mut wrong = Vec::new();
    let mut check = |right: bool, what: String| {
        if !right {
            wrong.push(what);
        }
    };
    check(ServerLie::was_told(&plan), "the lie was never told".to_owned());
    let is_file = run.code() == Some(2) && run.err().contains("a directory is needed");
    check(is_file || matches!(run.code(), Some(0 | 1 | 3 | 4 | 5)), "no exit code for this".to_owned());
    if run.code() == Some(0)
        && let Some(care) = told.care()
    {
        let mut found = tree_differences(source.path(), copy.path(), &care);
        // A staged file that the server hides stays, and hurts nobody.
        found.retain(|difference| !difference.contains(STAGED));
        check(found.is_empty(), format!("exit code 0, and {found:?}"));
    }
    let after = (fingerprint(outside.path()), fingerprint(source.path()));
    check(after == before, "something outside was touched".to_owned());
    let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    check(names == ["dst", "outside"], format!("outside there is {names:?}"));
    harm(&run, run.local_peak, BUDGET).into_iter().for_each(|what| check(false, what));
    assert_all_gone(&tag, Duration::from_secs(20));
    // They are many.
    let _ = fs::remove_dir_all(&case);
    (run, wrong)
}
