//! Tests of the test tools, with other programs in place of haul.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::{CommandRun, kill, tagged};
use haul_testkit::tree::set_time;
use haul_testkit::{
    ByteDirection, FaultPlan, LinkFault, Need, Which, assert_no_half_files, assert_same_tree, content,
    differences,
};

use crate::scene::{Scene, fault_shell, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root;
        rsync_copies_the_hard_tree_so_that_it_compares_equal,
        the_comparison_sees_every_kind_of_difference,
    ];
    all.extend(cases![
        a_half_file_under_its_final_name_is_seen,
        the_fault_shell_passes_bytes_unharmed,
        the_fault_shell_flips_one_byte,
        the_fault_shell_cuts,
        the_fault_shell_stalls_until_it_is_killed,
        the_fault_shell_refuses_some_connections,
        the_server_lets_us_in,
    ]);
    all
}

fn rsync_copies_the_hard_tree_so_that_it_compares_equal() {
    let scene = Scene::new();
    let source = haul_testkit::TestTree::hard(scene.join("src"), 1);
    let copy = scene.join("dst");
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHAXS", "--numeric-ids", "--modify-window=-1"]);
    tool(rsync.arg(slash(source.path())).arg(slash(&copy)));
    assert_same_tree(source.path(), &copy);
    assert_no_half_files(source.path(), &copy);
}

fn the_comparison_sees_every_kind_of_difference() {
    let scene = Scene::new();
    let tree = |name: &str| {
        let tree = scene.tree(name);
        for file in ["content", "mode", "owner", "attribute", "acl", "time", "unlinked", "missing"] {
            tree.file(file, 1000);
            tree.time(file, 1_600_000_000, 5);
        }
        tree.sparse("sparse", 4 << 20, &[]);
        tree.time("sparse", 1, 0);
        fs::hard_link(tree.join("unlinked"), tree.join("unlinked-too")).unwrap();
        tree.link("link", "here");
        tree.time("link", 1, 0);
        tree.time("", 1, 0);
        tree
    };
    let (one, other) = (tree("one"), tree("other"));
    assert_same_tree(one.path(), other.path());
    fs::write(other.join("content"), vec![b'x'; 1000]).unwrap();
    fs::set_permissions(other.join("mode"), fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::lchown(other.join("owner"), Some(5), None).unwrap();
    tool(Command::new("setfattr").args(["-n", "user.x", "-v", "y"]).arg(other.join("attribute")));
    tool(Command::new("setfacl").args(["-m", "u:7:r"]).arg(other.join("acl")));
    set_time(&other.join("content"), 1_600_000_000, 5);
    set_time(&other.join("time"), 1_600_000_000, 6);
    set_time(&other.join("link"), 1, 1);
    fs::copy(one.join("unlinked"), other.join("new")).unwrap();
    fs::rename(other.join("new"), other.join("unlinked-too")).unwrap();
    set_time(&other.join("unlinked-too"), 1_600_000_000, 5);
    fs::remove_file(other.join("missing")).unwrap();
    fs::write(other.join("extra"), "").unwrap();
    fs::write(other.join("sparse"), vec![0; 4 << 20]).unwrap();
    set_time(&other.join("sparse"), 1, 0);
    set_time(other.path(), 1, 1);
    let found = differences(one.path(), other.path()).join("\n");
    let names =
        ["content", "mode", "owner", "attribute", "acl", "time", "link", "unlinked", "missing", "extra"];
    for name in names.into_iter().chain(["\"sparse\"", "./"]) {
        assert!(found.contains(name), "{name} is not in\n{found}");
    }
}

fn a_half_file_under_its_final_name_is_seen() {
    let scene = Scene::new();
    let (source, copy) = (scene.tree("src"), scene.tree("dst"));
    source.file("a/file", 5000);
    source.time("a/file", 1, 2);
    copy.text("a/.haul-staged", "anything");
    assert_no_half_files(source.path(), copy.path());
    content::write_file(&copy.join("a/file"), 3, 5000);
    copy.time("a/file", 1, 2);
    let seen = std::panic::catch_unwind(|| assert_no_half_files(source.path(), copy.path()));
    assert!(seen.is_err(), "other content is seen");
}

/// Runs a command at the remote end of the fault shell.
fn through(scene: &Scene, plan: &FaultPlan, command: &str, input: &[u8]) -> CommandRun {
    let shell = fault_shell(plan);
    let mut words = shell.split(' ');
    let run = CommandRun::new(words.next().unwrap(), scene.tag()).args(words);
    run.args(["-p", "22", "far", command]).input(input).limit(Duration::from_secs(30))
}

fn the_fault_shell_passes_bytes_unharmed() {
    let scene = Scene::new();
    let plan = FaultPlan::new(scene.join("plan"));
    let mut bytes = vec![0; 3 << 20];
    content::fill(1, 0, &mut bytes);
    let run = through(&scene, &plan, "cat; exit 7", &bytes).finish().expect_code(7);
    assert!(run.stdout == bytes, "what came back is what was sent");
    assert_eq!(plan.connections(), 1);
}

fn the_fault_shell_flips_one_byte() {
    let scene = Scene::new();
    let plan = FaultPlan::new(scene.join("plan"))
        .with(Which::Only(1), ByteDirection::Up, LinkFault::Flip(100_000))
        .with(Which::All, ByteDirection::Down, LinkFault::Flip(3));
    let bytes = vec![7; 200_000];
    let run = through(&scene, &plan, "cat", &bytes).finish().expect_success();
    let other: Vec<usize> = (0..bytes.len()).filter(|at| run.stdout[*at] != 7).collect();
    assert_eq!((run.stdout.len(), other), (bytes.len(), vec![3, 100_000]));
    let run = through(&scene, &plan, "cat", &bytes).finish().expect_success();
    assert_eq!(
        run.stdout.iter().filter(|byte| **byte != 7).count(),
        1,
        "the second connection has one fault less"
    );
}

fn the_fault_shell_cuts() {
    let scene = Scene::new();
    let plan =
        FaultPlan::new(scene.join("plan")).with(Which::All, ByteDirection::Down, LinkFault::Cut(12_345));
    let run = through(&scene, &plan, "cat /dev/zero", b"").finish().expect_code(255);
    assert_eq!(run.stdout.len(), 12_345);
    scene.assert_all_gone();
}

fn the_fault_shell_stalls_until_it_is_killed() {
    let scene = Scene::new();
    let plan =
        FaultPlan::new(scene.join("plan")).with(Which::All, ByteDirection::Down, LinkFault::Stall(5000));
    let mut run = through(&scene, &plan, "cat /dev/zero", b"").start();
    let mut seen = 0;
    run.wait_until("5000 bytes have passed", || {
        seen = tagged(scene.tag()).len();
        seen >= 2
    });
    run.wait_until("it stalls", || run_len(&plan) > 0);
    assert!(run.is_running());
    kill(run.pid());
    assert!(run.finish().was_killed());
    scene.assert_all_gone();
}

/// Length of the note that the first connection leaves.
fn run_len(plan: &FaultPlan) -> u64 {
    fs::metadata(plan.dir().join("connection-1")).map_or(0, |meta| meta.len())
}

fn the_fault_shell_refuses_some_connections() {
    let scene = Scene::new();
    let plan = FaultPlan::new(scene.join("plan")).with(Which::From(2), ByteDirection::Up, LinkFault::Refuse);
    let _ = through(&scene, &plan, "true", b"").finish().expect_success();
    let _ = through(&scene, &plan, "true", b"").finish().expect_code(255);
}

fn the_server_lets_us_in() {
    let scene = Scene::new();
    let shell = scene.sshd().shell();
    let mut words = shell.split_whitespace();
    let ssh = CommandRun::new(words.next().unwrap(), scene.tag()).args(words);
    let run = ssh.args([scene.sshd().host(), "echo $TESTKIT_TAG"]).finish().expect_success();
    assert_eq!(run.out().trim(), scene.tag());
    assert_eq!(scene.sshd().logins(), 1);
    scene.assert_all_gone();
}
