//! Bytes that are flipped, cut off or delayed in transit.

use std::time::Duration;

use haul_testkit::{
    ByteDirection, FaultPlan, LinkFault, TestTree, Which, assert_no_half_files, assert_same_tree,
};

use crate::scene::{Scene, Way, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        a_flipped_byte_of_content_is_sent_again,
        the_last_slices_go_in_parts,
        a_byte_flipped_in_a_header_costs_one_stream,
        a_cut_stream_is_made_up_for_by_the_others,
        all_streams_cut_again_and_again_the_next_run_goes_on,
        a_stalled_stream_does_not_hold_up_the_others,
        when_all_streams_stall_it_gives_up_and_the_next_run_goes_on,
        refused_connections_are_not_fatal_while_one_lives,
        a_slow_remote_end_is_no_dead_one,
        a_byte_that_is_flipped_every_time_never_reaches_a_file,
    ]
}

const BOTH: [Way; 2] = [Way::Push, Way::Pull];

/// The direction in which the content goes.
fn content(way: Way) -> ByteDirection {
    if way == Way::Pull { ByteDirection::Down } else { ByteDirection::Up }
}

/// A tree of some sixty megabytes.
fn tree(scene: &Scene) -> TestTree {
    TestTree::mixed(scene.join("src"), 8, &[29 << 20, (13 << 20) + 1, 4 << 20], 900)
}

fn a_flipped_byte_of_content_is_sent_again() {
    for way in BOTH {
        let scene = Scene::new();
        let source = tree(&scene);
        let copy = scene.join("dst");
        // In the middle of content: a header is some hundred bytes in some million.
        let plan = [6_000_000, 11_111_111, 20_202_020]
            .into_iter()
            .fold(FaultPlan::new(scene.join("plan")), |plan, at| {
                plan.with(Which::Only(1), content(way), LinkFault::Flip(at))
            });
        let run = scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "1"]).finish();
        let summary = summary(&run.expect_success());
        summary.assert_accounted();
        assert!(summary.of("resent") >= 1, "{way:?}: {summary:?}");
        assert_same_tree(source.path(), &copy);
        scene.assert_all_gone();
    }
}

fn the_last_slices_go_in_parts() {
    const LEN: u64 = 8 << 20;
    for way in BOTH {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.file("two slices", LEN);
        let copy = scene.join("dst");
        let plan =
            FaultPlan::new(scene.join("plan")).with(Which::Only(1), content(way), LinkFault::Flip(3_333_333));
        let run = scene.fault_copy(way, &plan, source.path(), &copy);
        let summary = summary(&run.args(["--streams", "1", "--compress", "none"]).finish().expect_success());
        summary.assert_accounted();
        // A megabyte did not verify.
        assert_eq!(
            (summary.of("resent"), summary.of("wire_bytes")),
            (1, LEN + (1 << 20)),
            "{way:?}: {summary:?}"
        );
        assert_same_tree(source.path(), &copy);
    }
}

fn a_byte_flipped_in_a_header_costs_one_stream() {
    for way in BOTH {
        for direction in [ByteDirection::Up, ByteDirection::Down] {
            for frame in [1, 2, 4] {
                let scene = Scene::new();
                let source = tree(&scene);
                let copy = scene.join("dst");
                let plan = FaultPlan::new(scene.join("plan")).slow(40_000_000);
                let plan = plan.with(Which::Only(2), direction, LinkFault::FlipHeader(frame));
                let run = scene.fault_copy(way, &plan, source.path(), &copy);
                let run = run.args(["--streams", "4"]).finish().expect_success();
                summary(&run).assert_accounted();
                assert_same_tree(source.path(), &copy);
                scene.assert_all_gone();
            }
        }
    }
}

fn a_cut_stream_is_made_up_for_by_the_others() {
    for way in BOTH {
        // The first stream is no more special than the others.
        for number in [1, 2] {
            let scene = Scene::new();
            let source = tree(&scene);
            let copy = scene.join("dst");
            let plan = FaultPlan::new(scene.join("plan")).slow(10_000_000);
            let plan = plan.with(Which::Only(number), content(way), LinkFault::Cut(2_000_000));
            let run = scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "4"]).finish();
            summary(&run.expect_success()).assert_accounted();
            assert_same_tree(source.path(), &copy);
            scene.assert_all_gone();
        }
    }
}

fn all_streams_cut_again_and_again_the_next_run_goes_on() {
    for way in BOTH {
        let scene = Scene::new();
        let source = tree(&scene);
        let copy = scene.join("dst");
        let plan =
            FaultPlan::new(scene.join("plan")).with(Which::All, content(way), LinkFault::Cut(9_000_000));
        let mut runs = 0;
        loop {
            plan.restart();
            let run = scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "2"]).finish();
            assert_no_half_files(source.path(), &copy);
            scene.assert_all_gone();
            runs += 1;
            if run.code() == Some(0) {
                break;
            }
            let run = run.expect_code(4);
            assert!(runs < 25, "each run brings it further: {run}");
        }
        assert_same_tree(source.path(), &copy);
    }
}

fn a_stalled_stream_does_not_hold_up_the_others() {
    for way in BOTH {
        for direction in [ByteDirection::Up, ByteDirection::Down] {
            let scene = Scene::new();
            let source = tree(&scene);
            let copy = scene.join("dst");
            let at = if direction == content(way) { 2_000_000 } else { 500 };
            let plan = FaultPlan::new(scene.join("plan")).slow(20_000_000);
            let plan = plan.with(Which::Only(2), direction, LinkFault::Stall(at));
            let run = scene.fault_copy(way, &plan, source.path(), &copy);
            let run = run.args(["--streams", "4", "--timeout", "3"]).limit(Duration::from_secs(60)).finish();
            summary(&run.expect_success()).assert_accounted();
            assert_same_tree(source.path(), &copy);
            scene.assert_all_gone();
        }
    }
}

fn when_all_streams_stall_it_gives_up_and_the_next_run_goes_on() {
    for way in BOTH {
        let scene = Scene::new();
        let source = tree(&scene);
        let copy = scene.join("dst");
        // Up to there every connection brings something, a new one too; then none does any more.
        let plan = FaultPlan::new(scene.join("plan"))
            .with(Which::All, content(way), LinkFault::Stall(7_000_000))
            .with(Which::From(5), ByteDirection::Up, LinkFault::Refuse);
        let run =
            scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "2", "--timeout", "3"]);
        let _ = run.limit(Duration::from_secs(100)).finish().expect_code(4);
        scene.assert_all_gone();
        assert_no_half_files(source.path(), &copy);
        let again = summary(&scene.copy(way, source.path(), &copy).finish().expect_success());
        assert!(again.of("same_bytes") + again.of("resumed_bytes") > 0, "{way:?}: {again:?}");
        assert_same_tree(source.path(), &copy);
    }
}

fn refused_connections_are_not_fatal_while_one_lives() {
    for way in BOTH {
        let scene = Scene::new();
        let source = tree(&scene);
        let copy = scene.join("dst");
        let plan =
            FaultPlan::new(scene.join("plan")).with(Which::From(2), ByteDirection::Up, LinkFault::Refuse);
        let run = scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "8"]).finish();
        summary(&run.expect_success()).assert_accounted();
        assert_same_tree(source.path(), &copy);
    }
}

fn a_slow_remote_end_is_no_dead_one() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 9 << 20);
    let copy = scene.join("dst");
    // One batch takes longer than the timeout; signs of life still pass.
    let plan = FaultPlan::new(scene.join("plan")).slow(900_000);
    let run = scene.fault_copy(Way::Push, &plan, source.path(), &copy);
    let _ = run.args(["--streams", "1", "--timeout", "2"]).finish().expect_success();
    assert_same_tree(source.path(), &copy);
}

fn a_byte_that_is_flipped_every_time_never_reaches_a_file() {
    for way in BOTH {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.file("file", 3 << 20);
        let copy = scene.join("dst");
        // Whatever is sent, from some point on every hundredth kilobyte is damaged.
        let plan = (1..400).fold(FaultPlan::new(scene.join("plan")), |plan, n| {
            plan.with(Which::All, content(way), LinkFault::Flip(n * 100_000))
        });
        let run = scene.fault_copy(way, &plan, source.path(), &copy).args(["--streams", "1"]).finish();
        assert!(matches!(run.code(), Some(3 | 4)), "{way:?}: {run}");
        assert!(!copy.join("file").exists(), "{way:?}: what did not verify has no final name");
        scene.assert_all_gone();
        let _ = scene.copy(way, source.path(), &copy).finish().expect_success();
        assert_same_tree(source.path(), &copy);
    }
}
