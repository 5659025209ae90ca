//! Directories at the destination that this user may not write to, in a tree with others: the others are copied, and each
//! directory is one line.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::process::joined;
use haul_testkit::sshd::{SshdOptions, sftp_server};
use haul_testkit::{CommandRun, Finished, Need};

use crate::scene::{Scene, slash};
use crate::{TestCase, cases};

/// A user without rights.
const NOBODY: u32 = 65534;

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Root, Need::Program("setpriv");
        a_directory_that_refuses_its_entries_is_one_line,
        a_file_that_is_refused_has_its_host_and_a_way_out,
        a_source_that_may_not_be_read_has_its_host_and_a_way_out,
    ]
}

/// Where the end is that this user has no right to.
#[derive(Clone, Copy, Debug)]
enum End {
    Local,
    Ssh,
    Sftp,
}

const ENDS: [End; 3] = [End::Local, End::Ssh, End::Sftp];

impl End {
    /// A scene whose server runs everything as a user without rights.
    fn scene(self) -> Scene {
        let command = match self {
            Self::Local | Self::Ssh => "sh -c \"$SSH_ORIGINAL_COMMAND\"".to_owned(),
            Self::Sftp => sftp_server().display().to_string(),
        };
        // haul takes who starts in /root for root.
        let command = format!("cd /; exec setpriv --reuid=65534 --regid=65534 --clear-groups {command}");
        let scene = Scene::with_sshd(SshdOptions { force_command: Some(command), ..SshdOptions::default() });
        let _ = scene.as_nobody();
        scene
    }

    /// The program as that user, or with the server that acts as that user.
    fn run(self, scene: &Scene, word: &str) -> CommandRun {
        match self {
            Self::Local => scene.as_nobody().arg(word),
            Self::Ssh => {
                let shell = scene.sshd().shell();
                scene.haul(word).args(["-e", &shell, "--remote-haul"]).arg(scene.join("haul"))
            }
            Self::Sftp => crate::sftp::haul(scene, word),
        }
    }

    /// The location of a path below the scene.
    fn at(self, scene: &Scene, path: &str) -> OsString {
        let path = scene.join(path);
        match self {
            Self::Local => path.into_os_string(),
            Self::Ssh => scene.remote(path),
            Self::Sftp => joined(&[b"sftp://127.0.0.1", path.as_os_str().as_encoded_bytes()]),
        }
    }

    fn way_out(self) -> &'static str {
        match self {
            Self::Local => "hint: run haul as a user who may",
            Self::Ssh => "hint: log in as a user who may",
            Self::Sftp => "hint: log in as a user who may",
        }
    }
}

/// The lines on standard error that are about this run.
fn said(run: &Finished) -> Vec<String> {
    let is_other = |line: &&str| line.contains("goes ") || line.contains("no haul checks");
    run.err().lines().filter(|line| !is_other(line)).map(str::to_owned).collect()
}

fn open_to_all(scene: &Scene) {
    tool(Command::new("chmod").arg("-R").arg("a+rX").arg(scene.path()));
}

fn a_directory_that_refuses_its_entries_is_one_line() {
    for end in ENDS {
        let scene = end.scene();
        let (source, there) = (scene.tree("src"), scene.tree("dst"));
        for name in ["a", "b", "dir/c", "dir/in/d", "dir/in/e", "new/deep/f", "new/g", "open/h"] {
            source.file(name, 10);
        }
        // Times and modes of the directories differ, and cannot be set.
        for dir in ["dir/in", "open"] {
            fs::create_dir_all(there.join(dir)).unwrap();
        }
        open_to_all(&scene);
        tool(Command::new("chmod").arg("-R").arg("g+w").arg(source.path()));
        chown(there.join("open"), Some(NOBODY), None).unwrap();
        let run = end.run(&scene, "copy").arg(slash(source.path())).arg(slash_of(end.at(&scene, "dst")));
        let run = run.finish().expect_code(1);
        assert!(there.join("open/h").exists(), "{run}");
        let said = said(&run);
        let at = |path: &str| end.at(&scene, path).into_string().unwrap();
        let refused = |path: &str, count: u32| {
            format!("  {} (destination): Permission denied: {count} entries were not copied", at(path))
        };
        let from =
            said.iter().position(|line| line == "9 entries failed:").unwrap_or_else(|| panic!("{run}"));
        let one = format!("  failed to write `{}` (destination): Permission denied", at("dst/dir/c"));
        let expected = [refused("dst", 6), refused("dst/dir/in", 2), one];
        assert_eq!(said[from + 1..from + 4], expected, "{end:?} {run}");
        assert!(said[from + 4].starts_with(end.way_out()), "{end:?} {run}");
        assert_eq!(said[from + 5..], ["for the full list use --failed FILE or --json"], "{end:?} {run}");
        assert_eq!(run.err().matches("Permission denied").count() - metadata(&said), 3, "{end:?} {run}");
        assert!(!run.err().contains("stage"), "{end:?} {run}");
        // Of the directories only `open` can change.
        let updated = said.iter().find(|line| line.contains("updated"));
        assert_eq!(updated.map(String::as_str), Some("  updated (metadata only): 1 entry"), "{end:?} {run}");
    }
}

/// The lines about metadata that the server of SFTP refused with the same words.
fn metadata(said: &[String]) -> usize {
    said.iter().filter(|line| line.contains("could not be set") && line.contains("Permission denied")).count()
}

fn slash_of(mut location: OsString) -> OsString {
    location.push("/");
    location
}

fn a_file_that_is_refused_has_its_host_and_a_way_out() {
    for end in ENDS {
        let scene = end.scene();
        scene.tree("src").file("f", 10);
        scene.tree("dst/dir").file("there", 10);
        open_to_all(&scene);
        let file = end.at(&scene, "dst/f").into_string().unwrap();
        let refused = format!("`{file}` (destination): Permission denied");
        let put = end.run(&scene, "put").arg(&file).input("x");
        let copy = end.run(&scene, "copy").arg(scene.join("src/f")).arg(slash_of(end.at(&scene, "dst")));
        for run in [put, copy] {
            let run = run.finish().expect_code(1);
            let said = said(&run);
            assert_eq!(run.err().matches(&refused).count(), 1, "{end:?} {run}");
            assert!(said.last().unwrap().starts_with(end.way_out()), "{end:?} {run}");
        }
    }
}

fn a_source_that_may_not_be_read_has_its_host_and_a_way_out() {
    for end in ENDS {
        let scene = end.scene();
        scene.tree("src").file("f", 10);
        scene.tree("closed").file("f", 10);
        open_to_all(&scene);
        tool(Command::new("chmod").arg("000").arg(scene.join("src/f")).arg(scene.join("closed")));
        let file = end.at(&scene, "src/f");
        let refused = format!("`{}` (source): Permission denied", file.display());
        let get = end.run(&scene, "get").arg(&file);
        let tree = end.at(&scene, "closed");
        let closed = format!("`{}` (source): Permission denied", tree.display());
        let copy = end.run(&scene, "copy").arg(slash_of(tree)).arg(scene.join("copy"));
        for (run, refused) in [(get, refused), (copy, closed)] {
            let run = run.finish().expect_code(1);
            assert!(said(&run)[0].ends_with(&refused), "{end:?} {run}");
            assert!(said(&run).last().unwrap().starts_with(end.way_out()), "{end:?} {run}");
        }
    }
}
