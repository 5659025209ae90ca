//! Compression in transit.

use std::path::Path;
use std::time::Duration;

use haul_testkit::{
    ByteDirection, FaultPlan, Finished, LinkFault, TestTree, Which, assert_same_tree, content,
};

use crate::scene::{Scene, Way, events, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        each_mode_pushes_and_pulls_the_same_bytes,
        content_that_does_not_compress_is_sent_as_it_is,
        the_digests_are_those_of_the_plain_bytes,
        a_flipped_byte_of_packed_content_is_sent_again,
        packing_stays_within_the_memory_that_was_declared,
        words_that_make_no_sense_are_refused,
        between_two_local_ends_it_has_no_effect_and_says_so_if_it_was_named,
    ]
}

/// Lines as a log has them; zstd makes a sixth or so of them.
fn log(len: usize, seed: u64) -> Vec<u8> {
    const WORDS: [&str; 8] =
        ["accepted", "rejected", "from 10.0.0.", "in 0.", "seconds by", "worker", "GET /index", "POST /form"];
    let mut random = content::Random::new(seed);
    let mut text = Vec::with_capacity(len + 100);
    while text.len() < len {
        for _ in 0..6 {
            text.extend_from_slice(WORDS[random.between(0, 8) as usize].as_bytes());
            text.extend_from_slice(format!(" {} ", random.between(0, 500)).as_bytes());
        }
        text.push(b'\n');
    }
    text.truncate(len);
    text
}

/// A large file, a hundred small files and something with holes, all of text.
fn texts(scene: &Scene) -> TestTree {
    let tree = scene.tree("src");
    tree.text("huge.log", log((21 << 20) + 77, 1));
    for number in 0..100 {
        tree.text(format!("small/{number}.log"), log(number * 300, number as u64));
    }
    let data = 5 << 20..(5 << 20) + 5000;
    tree.sparse("holes", 9 << 20, &[data]);
    tree
}

fn copy(scene: &Scene, way: Way, how: &str, from: &Path, to: &Path) -> Finished {
    let run = scene.copy(way, from, to).args(["--compress", how]).finish().expect_success();
    assert_same_tree(from, to);
    summary(&run).assert_accounted();
    run
}

fn each_mode_pushes_and_pulls_the_same_bytes() {
    let scene = Scene::new();
    let source = texts(&scene);
    for way in [Way::Push, Way::Pull, Way::Relay] {
        // The two remote ends of a relay do as the ends of a push and a pull.
        let modes: &[&str] = match way {
            Way::Relay => &["none", "zstd", "auto"],
            _ => &["none", "lz4", "zstd", "zstd:-3", "zstd:9", "zstd:19", "auto"],
        };
        for (number, how) in modes.iter().enumerate() {
            let target = scene.join(format!("{way:?}-{number}"));
            let run = copy(&scene, way, how, source.path(), &target);
            let summary = summary(&run);
            // Content that was relayed until the two remote ends had found each other was sent twice.
            let (wire, sent) =
                (summary.of("wire_bytes") - summary.of("relayed_bytes"), summary.of("sent_bytes"));
            match *how {
                // Of a file with holes the data alone travels.
                "none" => assert!(wire > sent / 2 && wire <= sent, "{way:?} {how}: {wire} of {sent}"),
                // It chooses its method itself.
                "auto" => assert!(wire > 0 && wire <= sent, "{way:?} {how}: {wire} of {sent}"),
                _ => assert!(wire > 0 && wire < sent / 2, "{way:?} {how}: {wire} of {sent}"),
            }
            std::fs::remove_dir_all(&target).unwrap();
        }
        scene.assert_all_gone();
    }
}

fn content_that_does_not_compress_is_sent_as_it_is() {
    let scene = Scene::new();
    let source = TestTree::mixed(scene.join("src"), 5, &[20 << 20], 50);
    let len = haul_testkit::tree::content_len(source.path());
    for way in [Way::Push, Way::Pull] {
        for (number, how) in ["lz4", "zstd:-5", "zstd:9", "auto"].iter().enumerate() {
            let target = scene.join(format!("{way:?}-{number}"));
            let run = copy(&scene, way, how, source.path(), &target);
            let wire = summary(&run).of("wire_bytes");
            assert!(wire <= len && wire > len - len / 16, "{way:?} {how}: {wire} of {len}");
            std::fs::remove_dir_all(&target).unwrap();
        }
    }
}

fn the_digests_are_those_of_the_plain_bytes() {
    let scene = Scene::new();
    let source = texts(&scene);
    // Files are hashed in any order.
    let digests = |tree: &Path| {
        let run = scene.haul("hash").arg("-q").arg(slash(tree)).finish().expect_success();
        let mut lines: Vec<String> = run.out().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let hashed = digests(source.path());
    for way in [Way::Push, Way::Pull] {
        let target = scene.join(format!("{way:?}"));
        let _ = copy(&scene, way, "zstd", source.path(), &target);
        assert_eq!(hashed, digests(&target));
        // The copy is the same with each method of compression.
        let run = scene.copy(way, source.path(), &target).args(["-c", "-z"]).finish().expect_success();
        assert_eq!(summary(&run).of("wire_bytes"), 0, "{run}");
    }
}

fn a_flipped_byte_of_packed_content_is_sent_again() {
    for (way, direction) in [(Way::Push, ByteDirection::Up), (Way::Pull, ByteDirection::Down)] {
        for how in ["lz4", "zstd"] {
            let scene = Scene::new();
            let source = scene.tree("src");
            source.text("huge.log", log(33 << 20, 3));
            let target = scene.join("dst");
            // Each packed slice is more than 400,000 bytes.
            let plan =
                [600_000, 1_500_000].into_iter().fold(FaultPlan::new(scene.join("plan")), |plan, at| {
                    plan.with(Which::Only(1), direction, LinkFault::Flip(at))
                });
            let run = scene.fault_copy(way, &plan, source.path(), &target);
            let run = run.args(["--streams", "1", "--compress", how]).finish().expect_success();
            let summary = summary(&run);
            assert!(summary.of("resent") >= 1, "{way:?} {how}: {summary:?}");
            assert_same_tree(source.path(), &target);
            scene.assert_all_gone();
        }
    }
}

fn packing_stays_within_the_memory_that_was_declared() {
    const MIB: u64 = 1 << 20;
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("huge.log", log(32 << 20, 4));
    for (budget, how) in [(32, "zstd:9"), (32, "auto"), (128, "zstd:19")] {
        for way in [Way::Push, Way::Pull] {
            let target = scene.join(format!("{way:?}-{how}-{budget}"));
            let run = scene.copy(way, source.path(), &target).args(["--max-memory", &format!("{budget}MiB")]);
            // zstd 19 packs two megabytes a second on a processor that it has for itself.
            let run = run.limit(Duration::from_secs(300));
            let run =
                run.args(["--compress", how, "--streams", "8"]).watch_memory().finish().expect_success();
            assert_same_tree(source.path(), &target);
            let (local, remote) = (run.local_peak / MIB, run.remote_peak / MIB);
            eprintln!("memory: {way:?} {how} with {budget} MiB: near {local} MiB, far {remote} MiB");
            assert!(
                local > 0 && local <= budget + 64 && remote > 0 && remote <= budget + 64,
                "{way:?} {how}"
            );
            std::fs::remove_dir_all(&target).unwrap();
        }
    }
}

fn words_that_make_no_sense_are_refused() {
    let scene = Scene::new();
    for bad in ["gzip", "zstd:99", "zstd:fast"] {
        let run = scene.haul("copy").args(["--compress", bad, "a", "b"]).finish().expect_code(2);
        assert!(run.err().contains("--compress") && run.err().contains(bad), "{run}");
    }
}

fn between_two_local_ends_it_has_no_effect_and_says_so_if_it_was_named() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.text("file", log(5000, 6));
    let said = |run: &Finished| events(run).iter().any(|event| event["type"] == "note");
    // `-avz` is a habit of rsync, which says nothing about it either.
    for (name, options, is_noted) in
        [("none", vec![], false), ("named", vec!["--compress=zstd"], true), ("habit", vec!["-avz"], false)]
    {
        let run = scene.copy(Way::Local, source.path(), &scene.join(name)).args(options);
        let run = run.finish().expect_success();
        assert_eq!(said(&run), is_noted, "{name}: {run}");
        assert_eq!(summary(&run).of("wire_bytes"), 0, "{name}: {run}");
    }
}
