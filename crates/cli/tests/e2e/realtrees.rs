//! Real trees. After a copy, rsync finds nothing to do.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::{Need, TestTree};

use crate::scene::{Scene, Way, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Root, Need::Program("rsync"), Need::Program("git");
        a_tree_of_this_machine_both_ways,
        the_objects_of_a_git_repository,
        a_maildir_whose_mails_are_read_and_removed,
        names_in_every_encoding,
    ]
}

/// Fails if rsync would change anything in `copy`.
#[track_caller]
fn assert_rsync_finds_nothing(original: &Path, copy: &Path) {
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHAXni", "--delete", "--numeric-ids", "--modify-window=-1"]);
    let found = tool(rsync.arg(slash(original)).arg(slash(copy)));
    assert_eq!(found, "", "rsync would do this");
}

fn a_tree_of_this_machine_both_ways() {
    // Links of both kinds, programs, and files of a package manager; some 5,000 entries.
    let places = ["/usr/share/zoneinfo", "/usr/lib/git-core", "/usr/lib/python3"];
    let scene = Scene::new();
    let there: Vec<&Path> = places.iter().map(Path::new).filter(|place| place.is_dir()).collect();
    assert!(!there.is_empty(), "none of {places:?} is there");
    for (number, place) in there.into_iter().enumerate() {
        let (there, back) = (scene.join(format!("there-{number}")), scene.join(format!("back-{number}")));
        let pushed = scene.copy(Way::Push, place, &there).finish().expect_success();
        summary(&pushed).assert_accounted();
        assert_rsync_finds_nothing(place, &there);
        let _ = scene.copy(Way::Pull, &there, &back).finish().expect_success();
        assert_rsync_finds_nothing(place, &back);
    }
}

fn the_objects_of_a_git_repository() {
    let scene = Scene::new();
    let source = scene.tree("src");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=A", "-c", "user.email=a@b", "-c", "gc.auto=0", "-C"]).arg(source.path());
        tool(git.args(words))
    };
    git(&["init", "-q"]);
    // Some objects in a pack, more of them loose: files that nobody may write to.
    for round in 0..2 {
        source.many(format!("round-{round}"), 150, 10..2000);
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "more"]);
        if round == 0 {
            git(&["repack", "-q", "-d"]);
        }
    }
    let copy = scene.join("dst");
    let _ = scene.copy(Way::Push, source.path(), &copy).finish().expect_success();
    assert_rsync_finds_nothing(source.path(), &copy);
    let mut check = Command::new("git");
    check.args(["-c", "safe.directory=*", "-C"]).arg(&copy).args(["fsck", "--full", "--strict"]);
    tool(&mut check);
}

fn a_maildir_whose_mails_are_read_and_removed() {
    let scene = Scene::new();
    let source = scene.tree("src");
    for directory in ["cur", "new", "tmp", ".Sent/cur", ".Sent/new", ".Sent/tmp", ".&AMQ-mter/cur"] {
        source.dir(directory);
    }
    let name = |number: u32| format!("16000{number:05}.M{number}P77_{number}.mail.example,S={number},W=9");
    for number in 0..200 {
        source.file(format!("new/{}", name(number)), u64::from(number) * 37);
    }
    let copy = scene.join("dst");
    let sync = || {
        let run = scene.by(Way::Push, "sync", slash(source.path()), slash(&copy));
        // More than half of the names are others the second time.
        let run = run.args(["--max-delete", "150"]).finish().expect_success();
        assert_rsync_finds_nothing(source.path(), &copy);
        summary(&run)
    };
    assert_eq!(sync().of("copied"), 200);
    // Mails are read, answered, moved and removed: by renaming, as it is done there.
    for number in 0..120 {
        let mail = source.join(format!("new/{}", name(number)));
        match number % 3 {
            0 => fs::rename(mail, source.join(format!("cur/{}:2,RS", name(number)))).unwrap(),
            1 => fs::rename(mail, source.join(format!(".Sent/cur/{}:2,S", name(number)))).unwrap(),
            _ => fs::remove_file(mail).unwrap(),
        }
    }
    let second = sync();
    assert_eq!((second.of("copied"), second.of("removed")), (80, 120));
}

fn names_in_every_encoding() {
    let scene = Scene::new();
    let source: TestTree = scene.tree("src");
    let long = [b'x'; 255];
    let names: [&[u8]; 20] = [
        "größe".as_bytes(),
        "gro\u{308}ße".as_bytes(),
        b"gr\xf6\xdfe",
        b"\x93\xfa\x96{\x8c\xea",
        b"\xc6\xfc\xcb\xdc\xb8\xec",
        b"\xe6\x97\xa5\xe6\x9c\xac",
        b"\xd0\xf3\xf1\xf1\xea\xe8\xe9",
        "\u{202e}txt.exe".as_bytes(),
        "🗄️ archive".as_bytes(),
        b"\xff\xfe\xfd",
        b"\xed\xa0\x80 lone surrogate",
        b"two\nlines",
        b"\x1b[31mred\x07",
        b"tab\tand space ",
        b"back\\slash and 'quotes' \"too\"",
        b"-rf",
        b"~",
        b"...",
        b"*?[a]{b}$HOME",
        &long,
    ];
    for name in names {
        let dir = source.join(OsStr::from_bytes(name));
        fs::create_dir(&dir).unwrap();
        for name in names {
            fs::write(dir.join(OsStr::from_bytes(name)), name).unwrap();
        }
    }
    for way in [Way::Local, Way::Push, Way::Pull] {
        let copy = scene.join(format!("{way:?}"));
        let run = scene.copy(way, source.path(), &copy).finish().expect_success();
        assert_eq!(summary(&run).of("copied"), 400);
        assert_rsync_finds_nothing(source.path(), &copy);
    }
}
