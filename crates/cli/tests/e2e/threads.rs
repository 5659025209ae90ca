//! Few threads or little address space: a run takes longer or reports why it cannot continue. It never hangs or
//! crashes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use haul_testkit::{CommandRun, FaultPlan, Finished, Need, TestTree};

use crate::scene::{HAUL, REMOTE, Scene, copy_haul, fault_shell, slash};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root;
        with_few_threads_a_copy_is_complete,
        with_few_threads_a_copy_to_a_remote_end_is_complete,
        without_threads_it_says_so,
    ];
    all.extend(cases![with_little_address_space_a_copy_is_complete]);
    all
}

/// Numbers that nobody has, another one for each test: the limit counts all threads of a user, and does not bind root.
static NEXT_USER: AtomicU32 = AtomicU32::new(47_110_815);

/// A program and a directory for a user without rights, who may have `threads` threads.
struct ConfinedProgram {
    scene: Scene,
    program: PathBuf,
    source: TestTree,
    user: u32,
}

impl ConfinedProgram {
    fn new() -> Self {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.many("many", 400, 0..3000);
        source.file("big", 20 << 20);
        let program = scene.join("haul");
        copy_haul(&program);
        let user = NEXT_USER.fetch_add(1, Ordering::Relaxed);
        for path in [scene.path(), &scene.home(), &scene.join("dst")] {
            fs::create_dir_all(path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
            std::os::unix::fs::chown(path, Some(user), Some(user)).unwrap();
        }
        Self { scene, program, source, user }
    }

    fn limited(&self, threads: u32) -> CommandRun {
        let user = self.user.to_string();
        let run = CommandRun::new("setpriv", self.scene.tag())
            .args(["--reuid", &user, "--regid", &user, "--clear-groups", "prlimit"])
            .arg(format!("--nproc={threads}"))
            .arg(&self.program);
        run.env("HOME", self.scene.home())
            .env("XDG_STATE_HOME", self.scene.home().join("state"))
            .env("XDG_RUNTIME_DIR", self.scene.home())
            .limit(Duration::from_secs(60))
    }

    fn copy(&self) -> PathBuf {
        self.scene.join("dst")
    }
}

/// Every file of the source with its content; the user may not set owners.
fn assert_same_content(source: &Path, copy: &Path) {
    let run = CommandRun::new("diff", "none").arg("-r").arg(source).arg(copy).finish();
    let _ = run.expect_success();
}

fn assert_refused(run: &Finished) {
    assert!(run.said().contains("start a thread"), "{run}");
    assert!(!run.said().contains("panicked"), "{run}");
}

fn with_few_threads_a_copy_is_complete() {
    let confined = ConfinedProgram::new();
    let run =
        confined.limited(16).arg("copy").arg(slash(confined.source.path())).arg(slash(&confined.copy()));
    let _ = run.finish().expect_success();
    assert_same_content(confined.source.path(), &confined.copy());
}

fn with_few_threads_a_copy_to_a_remote_end_is_complete() {
    let confined = ConfinedProgram::new();
    let plan = FaultPlan::new(confined.scene.join("plan"));
    fs::set_permissions(plan.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    // The user may not run the test program where it is.
    let shell = confined.scene.join("shell");
    fs::copy(std::env::current_exe().unwrap(), &shell).unwrap();
    let words = fault_shell(&plan);
    let words = format!("{}{}", shell.display(), &words[words.find(' ').unwrap()..]);
    // Both ends, and the processes between them.
    let run = confined.limited(60).args(["copy", "-e", &words, "--remote-haul"]).arg(&confined.program);
    let remote = format!("{REMOTE}:{}/", confined.copy().display());
    let run = run.arg(slash(confined.source.path())).arg(remote).finish();
    if run.code() != Some(0) {
        // Too few for two processes is an end with words, no hang.
        panic!("{run}");
    }
    assert_same_content(confined.source.path(), &confined.copy());
}

fn without_threads_it_says_so() {
    let confined = ConfinedProgram::new();
    for threads in [3, 4, 5] {
        let run = confined
            .limited(threads)
            .arg("copy")
            .arg(slash(confined.source.path()))
            .arg(slash(&confined.copy()));
        let run = run.finish();
        assert_eq!(run.code(), Some(1), "{threads} threads: {run}");
        assert_refused(&run);
    }
}

fn with_little_address_space_a_copy_is_complete() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 5, &[300 << 20], 2000);
    // The size of the program itself, and 512 MiB.
    let space = fs::metadata(HAUL).unwrap().len() + (512 << 20);
    let run = CommandRun::new("prlimit", scene.tag()).arg(format!("--as={space}")).arg(HAUL).arg("copy");
    let run = run.env("HOME", scene.home()).arg(slash(source.path())).arg(slash(&scene.join("dst")));
    let _ = run.finish().expect_success();
    haul_testkit::assert_same_tree(source.path(), &scene.join("dst"));
}
