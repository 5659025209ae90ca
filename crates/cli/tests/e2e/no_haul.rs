//! Remote hosts without haul: haul uses SFTP, or uploads itself.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use haul_testkit::process::joined;
use haul_testkit::tree::list;
use haul_testkit::{
    ByteDirection, CommandRun, FaultPlan, FileSystem, LinkFault, Need, SshdOptions, TestMount, Which,
    assert_no_half_files, assert_same_tree, write_program,
};

use crate::scene::{HAUL, REMOTE, Scene, fault_shell, slash, summary};
use crate::sftp::{haul, plain, push};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        without_haul_there_it_goes_on_over_sftp,
        a_haul_that_was_named_and_is_missing_is_told,
        bootstrap_puts_haul_there_once,
        bootstrap_does_not_run_a_program_that_was_changed_there,
        bootstrap_removes_its_own_old_programs_only,
        bootstrap_reads_back_where_nothing_there_hashes,
        bootstrap_replaces_no_haul_that_is_installed,
    ];
    all.extend(
        cases![Need::Tmpfs; a_full_destination_is_exit_5_and_the_same_command_finishes_once_there_is_room],
    );
    all
}

/// The message when a program is sent.
pub(crate) const PUT: &str = concat!("putting haul ", env!("CARGO_PKG_VERSION"), " into ~/.cache/haul there");

fn without_haul_there_it_goes_on_over_sftp() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[9 << 20], 100);
    let copy = scene.join("dst");
    let remote = |path: &Path| joined(&[REMOTE.as_bytes(), b":", slash(path).as_bytes()]);
    let run = haul(&scene, "copy").arg(slash(source.path())).arg(remote(&copy)).finish().expect_success();
    let told: Vec<String> =
        run.err().lines().filter(|line| line.contains("SFTP")).map(str::to_owned).collect();
    assert_eq!(told.len(), 1, "it is said in one line: {run}");
    assert!(told[0].contains(REMOTE) && told[0].contains("--bootstrap"), "{run}");
    assert_same_tree(source.path(), &copy);
    let back = scene.join("back");
    let _ = haul(&scene, "copy").arg(remote(&copy)).arg(slash(&back)).finish().expect_success();
    assert_same_tree(source.path(), &back);
    scene.assert_all_gone();
}

fn a_haul_that_was_named_and_is_missing_is_told() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[], 10);
    let run = haul(&scene, "copy").args(["--remote-haul", "/no/such/haul"]);
    let run = run.arg(slash(source.path())).arg(scene.remote(scene.join("dst"))).finish().expect_code(4);
    assert!(run.err().contains("/no/such/haul"), "{run}");
    assert!(!scene.join("dst").exists());
}

/// A server whose sessions have a home directory in the scene.
fn with_home() -> (Scene, PathBuf) {
    let home = tempfile::tempdir().unwrap().keep();
    let lines = vec![format!("SetEnv HOME={}", home.display())];
    (Scene::with_sshd(SshdOptions { lines, ..SshdOptions::default() }), home)
}

fn bootstrap_puts_haul_there_once() {
    let scene = Scene::new();
    let home = scene.home();
    let cache = home.join(".cache/haul");
    let plan = FaultPlan::new(scene.join("plan"));
    let source = plain(&scene, "src", &[9 << 20], 100);
    let run = |copy: &Path| {
        let run = scene.haul("copy").args(["-e", &fault_shell(&plan), "--bootstrap"]);
        run.arg(slash(source.path())).arg(joined(&[REMOTE.as_bytes(), b":", slash(copy).as_bytes()])).finish()
    };
    let first = run(&scene.join("dst")).expect_success();
    assert!(first.err().contains(PUT), "{first}");
    assert_same_tree(source.path(), &scene.join("dst"));
    let there = list(&cache);
    assert_eq!(there.len(), 1, "one program and nothing else: {there:?}");
    assert!(fs::read(cache.join(&there[0])).unwrap() == fs::read(HAUL).unwrap());
    let inode = fs::metadata(cache.join(&there[0])).unwrap().ino();
    let second = run(&scene.join("again")).expect_success();
    assert!(!second.err().contains(PUT), "{second}");
    assert_same_tree(source.path(), &scene.join("again"));
    assert_eq!(fs::metadata(cache.join(&there[0])).unwrap().ino(), inode, "nothing was copied again");
    // A program on the way there that is damaged does not get its name.
    fs::remove_dir_all(&cache).unwrap();
    let plan =
        FaultPlan::new(scene.join("bad")).with(Which::Only(2), ByteDirection::Up, LinkFault::Flip(3_000_000));
    let run = scene.haul("copy").args(["-e", &fault_shell(&plan), "--bootstrap"]);
    let run = run.arg(slash(source.path())).arg(joined(&[
        REMOTE.as_bytes(),
        b":",
        slash(&scene.join("bad-dst")).as_bytes(),
    ]));
    let run = run.finish().expect_code(4);
    assert!(run.err().contains("put haul onto"), "{run}");
    assert_eq!(list(&cache), [""; 0].map(PathBuf::from), "nothing is left");
    scene.assert_all_gone();
}

/// `haul copy --bootstrap` to a remote end without haul, whose programs are those of `path` if that is given.
fn bootstrapped(scene: &Scene, source: &Path, copy: &Path, path: Option<&Path>) -> CommandRun {
    let plan = FaultPlan::new(scene.join("plan"));
    let mut run = scene.haul("copy").args(["-e", &fault_shell(&plan), "--bootstrap"]);
    if let Some(path) = path {
        run = run.env("PATH", path);
    }
    run.arg(slash(source)).arg(joined(&[REMOTE.as_bytes(), b":", slash(copy).as_bytes()]))
}

/// The cache of the scene, which is made, and the place of the program in it.
fn cache(scene: &Scene) -> (PathBuf, PathBuf) {
    let cache = scene.home().join(".cache/haul");
    fs::create_dir_all(&cache).unwrap();
    let digest = blake3::hash(&fs::read(HAUL).unwrap()).to_hex();
    let name = format!("haul-{}-{}", env!("CARGO_PKG_VERSION"), &digest[..16]);
    let program = cache.join(name);
    (cache, program)
}

/// Puts a program in the place of another, which leaves a file when it is run. It has the same length.
fn tamper(program: &Path, canary: &Path) {
    let mut content = format!("#!/bin/sh\ntouch {}\nexec {HAUL} \"$@\"\n", canary.display()).into_bytes();
    content.resize(fs::read(HAUL).unwrap().len(), 0);
    write_program(program, content);
    fs::set_permissions(program, fs::Permissions::from_mode(0o700)).unwrap();
}

fn bootstrap_does_not_run_a_program_that_was_changed_there() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[], 20);
    let (_, program) = cache(&scene);
    let canary = scene.join("canary");
    tamper(&program, &canary);
    let ran = std::process::Command::new(&program).arg("--version").output().unwrap();
    assert!(ran.status.success() && canary.exists(), "it would be seen");
    fs::remove_file(&canary).unwrap();
    let again = bootstrapped(&scene, source.path(), &scene.join("dst"), None).finish().expect_success();
    assert!(again.err().contains(PUT), "{again}");
    assert!(!canary.exists(), "it was run");
    assert!(fs::read(&program).unwrap() == fs::read(HAUL).unwrap());
    assert_same_tree(source.path(), &scene.join("dst"));
    scene.assert_all_gone();
}

fn bootstrap_removes_its_own_old_programs_only() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[], 20);
    let (cache, program) = cache(&scene);
    let days_ago = SystemTime::now() - Duration::from_secs(3 * 86_400);
    let put = |name: &str, old: bool| {
        fs::write(cache.join(name), "#!/bin/sh\n").unwrap();
        let file = fs::OpenOptions::new().write(true).open(cache.join(name)).unwrap();
        if old {
            file.set_modified(days_ago).unwrap();
        }
    };
    let gone = [
        "haul-0.0.9-0123456789abcdef",
        "haul-0.1.0-rc.1-0123456789abcdef",
        "haul-0.0.9-0123456789abcdef.999999999.part",
    ];
    let foreign = [
        "haul-0.0.9-0123456789abcde",
        "haul-0.0.9-0123456789abcdef0",
        "haul-0.0.9-0123456789abcdef.txt",
        "haul-notes-0123456789abcdef",
        "haul",
        "my haul-0.0.9-0123456789abcdef",
        "haul-0.0.9-0123456789abcdef and more",
    ];
    gone.iter().chain(&foreign).for_each(|name| put(name, true));
    put("haul-0.0.8-0123456789abcdef", false);
    std::os::unix::fs::symlink("haul", cache.join("haul-0.0.7-0123456789abcdef")).unwrap();
    fs::create_dir(cache.join("haul-0.0.6-0123456789abcdef")).unwrap();
    // One that runs.
    let busy = cache.join("haul-0.0.5-0123456789abcdef");
    fs::copy("/bin/sleep", &busy).unwrap();
    fs::OpenOptions::new().write(true).open(&busy).unwrap().set_modified(days_ago).unwrap();
    let mut running = std::process::Command::new(&busy).arg("600").spawn().unwrap();
    let before = list(&cache).len();
    let run = bootstrapped(&scene, source.path(), &scene.join("dst"), None).finish();
    scene.assert_all_gone();
    running.kill().unwrap();
    running.wait().unwrap();
    let run = run.expect_success();
    for name in gone {
        assert!(!cache.join(name).exists(), "{name}: {run}");
    }
    assert!(program.exists());
    assert_eq!(list(&cache).len(), before - gone.len() + 1, "all others stay: {:?}", list(&cache));
}

fn bootstrap_reads_back_where_nothing_there_hashes() {
    let scene = Scene::new();
    let source = plain(&scene, "src", &[], 20);
    // The commands that the script uses, and nothing that hashes.
    let tools = scene.join("tools");
    fs::create_dir(&tools).unwrap();
    for tool in "sh env uname wc cat mkdir chmod head mv rm touch ls expr find".split(' ') {
        let place =
            ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(tool)).find(|path| path.exists());
        std::os::unix::fs::symlink(place.unwrap(), tools.join(tool)).unwrap();
    }
    let run = |to: &str| bootstrapped(&scene, source.path(), &scene.join(to), Some(&tools)).finish();
    // One that was changed is not run, and sent again.
    let ((cache, program), canary) = (cache(&scene), scene.join("canary"));
    tamper(&program, &canary);
    let first = run("dst").expect_success();
    assert_eq!(first.err().matches("reads its program back").count(), 2, "{first}");
    assert!(first.err().contains(PUT) && !canary.exists(), "{first}");
    assert_same_tree(source.path(), &scene.join("dst"));
    assert_eq!(list(&cache).len(), 1);
    assert!(fs::read(&program).unwrap() == fs::read(HAUL).unwrap());
    assert_eq!(fs::metadata(&program).unwrap().mode() & 0o777, 0o700);
    let second = run("again").expect_success();
    assert!(second.err().contains("reads its program back") && !second.err().contains(PUT), "{second}");
    scene.assert_all_gone();
}

fn bootstrap_replaces_no_haul_that_is_installed() {
    let (scene, home) = with_home();
    let source = plain(&scene, "src", &[], 50);
    let run = haul(&scene, "copy").args(["--remote-haul", HAUL, "--bootstrap"]);
    let run =
        run.arg(slash(source.path())).arg(scene.remote(slash(&scene.join("dst")))).finish().expect_success();
    assert!(!run.err().contains("putting"), "{run}");
    assert_eq!(list(&home), [""; 0].map(PathBuf::from), "nothing was copied");
    assert_same_tree(source.path(), &scene.join("dst"));
    fs::remove_dir_all(home).unwrap();
}

fn a_full_destination_is_exit_5_and_the_same_command_finishes_once_there_is_room() {
    let trees: [(&[u64], u32, u64); 2] = [(&[14 << 20, 13 << 20, 12 << 20], 500, 24), (&[], 4000, 8)];
    for (big, small, room) in trees {
        let scene = Scene::new();
        let source = plain(&scene, "src", big, small);
        let disk = TestMount::new(FileSystem::Tmpfs, room << 20);
        let copy = disk.join("dst");
        let run = push(&scene, source.path(), &copy).args(["--on-full", "fail"]).finish().expect_code(5);
        assert_no_half_files(source.path(), &copy);
        assert!(run.err().contains("No space left"), "it is said: {run}");
        disk.resize_tmpfs(120 << 20);
        let again = summary(&push(&scene, source.path(), &copy).finish().expect_success());
        again.assert_accounted();
        assert!(again.of("same_bytes") + again.of("resumed_bytes") > 0, "{again:?}");
        assert_same_tree(source.path(), &copy);
        scene.assert_all_gone();
    }
}
