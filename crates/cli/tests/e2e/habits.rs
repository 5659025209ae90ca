//! Command lines as people type them for other tools: each is run on real directories, and either has the effect that
//! it says or ends with exit code 2, one line, and nothing changed.

mod lines;

use haul_testkit::compare::fingerprint;
use haul_testkit::{Finished, Need, TestTree, assert_same_tree};

use crate::scene::Scene;
use crate::store::TestBucket;
use crate::{TestCase, cases};
use lines::{
    AWS, COPIED, FPSYNC, HabitLine, LOCATIONS, MC, MSCP, PARTLY, RCLONE, ROBOCOPY, RSYNC, S5CMD, SCP, SYNCED,
    XBCLOUD,
};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        lines_of_rsync,
        lines_of_rclone,
        lines_of_scp,
        lines_of_mscp,
        lines_of_fpsync,
        lines_of_aws,
        lines_of_s5cmd,
        lines_of_mc,
        lines_of_robocopy,
        locations_of_other_tools_are_refused_with_the_one_to_write,
        a_file_with_the_name_of_an_option_is_copied,
    ];
    all.extend(cases![Need::Program("weed"), Need::Program("rclone"); lines_of_xbcloud]);
    all
}

/// The words of a line, split as a shell does; quotes are single.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for char in line.chars() {
        match char {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().unwrap().push(other),
        }
    }
    words
}

fn one_line(run: &Finished, said: &str) {
    assert_eq!(run.err().lines().count(), 1, "{run}");
    assert!(run.err().contains(said) && !run.err().contains("similar") && run.out().is_empty(), "{run}");
}

/// Runs each line in a directory of its own with `src` and `dst`. `dst` has a file that `src` lacks.
fn run(lines: &[HabitLine]) {
    assert!(lines.len() >= 20, "{} lines", lines.len());
    let scene = Scene::new();
    for (number, (line, outcome)) in lines.iter().enumerate() {
        let dir = scene.join(format!("{number}"));
        std::fs::create_dir(&dir).unwrap();
        let (source, copy) = (scene.tree(&format!("{number}/src")), scene.tree(&format!("{number}/dst")));
        source.text("a.txt", "content");
        source.file("sub/b.tmp", 3000);
        copy.text("extra", "x");
        let before = fingerprint(&dir);
        let words = words(line);
        let run = scene.haul(&words[0]).args(&words[1..]).in_dir(&dir).finish();
        match *outcome {
            COPIED | PARTLY => {
                let run = match *outcome {
                    PARTLY => run.expect_code(1),
                    _ => run.expect_success(),
                };
                assert!(*outcome == COPIED || run.err().contains("No such file"), "{line}: {run}");
                assert!(copy.join("extra").exists(), "{line}: {run}");
                for name in ["a.txt", "sub/b.tmp"] {
                    let read = |tree: &TestTree| std::fs::read(tree.join(name)).unwrap();
                    assert!(read(&source) == read(&copy), "{line}: {name}");
                }
            }
            SYNCED => {
                let _ = run.expect_success();
                assert_same_tree(source.path(), copy.path());
            }
            "" => {
                let _ = run.expect_success();
            }
            said => {
                one_line(&run.expect_code(2), said);
                assert!(fingerprint(&dir) == before, "{line}");
            }
        }
    }
}

fn lines_of_rsync() {
    run(&RSYNC);
}

fn lines_of_rclone() {
    run(&RCLONE);
}

fn lines_of_scp() {
    run(&SCP);
}

fn lines_of_mscp() {
    run(&MSCP);
}

fn lines_of_fpsync() {
    run(&FPSYNC);
}

fn lines_of_aws() {
    run(&AWS);
}

fn lines_of_s5cmd() {
    run(&S5CMD);
}

fn lines_of_mc() {
    run(&MC);
}

fn lines_of_robocopy() {
    run(&ROBOCOPY);
}

fn lines_of_xbcloud() {
    assert!(XBCLOUD.len() >= 20);
    let bucket = TestBucket::new();
    for (line, outcome) in XBCLOUD {
        let line = line.replace("BUCKET", bucket.name());
        let words = words(&line);
        let run = bucket.haul(&words[0]).args(&words[1..]).input("stream").finish();
        match outcome {
            COPIED => {
                let _ = run.expect_success();
                let key =
                    words.iter().find_map(|word| word.strip_prefix("s3://")?.split_once('/')).unwrap().1;
                assert_eq!(bucket.read(key), b"stream", "{line}");
            }
            "" => {
                let run = run.expect_success();
                assert!(words[0] == "rm" || run.stdout == b"stream", "{line}: {run}");
            }
            said => one_line(&run.expect_code(2), said),
        }
    }
}

fn locations_of_other_tools_are_refused_with_the_one_to_write() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("a.txt", "content");
    let before = fingerprint(scene.path());
    for (location, said) in LOCATIONS {
        for words in [["copy", "src/", location], ["copy", location, "dst"], ["verify", location, "src"]] {
            let run = scene.haul(words[0]).args(&words[1..]).in_dir(scene.path()).finish();
            one_line(&run.expect_code(2), said);
        }
        for word in ["hash", "ls", "get"] {
            let run = scene.haul(word).arg(location).in_dir(scene.path()).finish();
            one_line(&run.expect_code(2), said);
        }
        assert!(fingerprint(scene.path()) == before, "{location}");
    }
}

fn a_file_with_the_name_of_an_option_is_copied() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("2222", "a");
    source.text("s3:x", "b");
    let run = scene.haul("copy").args(["-p", "2222", "./s3:x", "../dst"]).in_dir(source.path()).finish();
    let _ = run.expect_success();
    assert!(scene.join("dst/2222").exists() && scene.join("dst/s3:x").exists());
    // Behind the sources it is the destination.
    let run = scene.haul("copy").args(["src/", "-p", "2024"]).in_dir(scene.path()).finish();
    let _ = run.expect_success();
    assert_same_tree(source.path(), &scene.join("2024"));
}
