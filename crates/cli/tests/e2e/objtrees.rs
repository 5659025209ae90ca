//! Trees to and from an object store, checked with other clients of the store.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use haul_testkit::process::{joined, kill};
use haul_testkit::store::{HttpRequest, endpoint};
use haul_testkit::{
    CommandRun, Need, Proxy, ProxyTrouble, Random, TestTree, assert_no_half_files, assert_same_tree,
    differences,
};

use crate::scene::{RunCounts, slash, summary};
use crate::store::{TestBucket, requests};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Program("weed"), Need::Program("rclone");
        killed_at_random_moments_it_goes_on_and_nothing_is_half_there,
        slices_of_a_killed_run_are_not_sent_again,
        trouble_on_the_way_up_and_down_harms_nothing,
        a_byte_flipped_in_the_store_is_not_accepted,
        other_clients_read_the_tree_and_theirs_is_read,
        a_second_run_asks_little_and_sends_nothing,
        many_small_objects_take_hardly_more_than_a_request_each,
        sync_removes_extra_entries_on_both_sides,
        a_file_and_a_directory_change_places,
        a_further_name_takes_the_place_of_a_directory,
        keys_that_are_no_names_are_refused_and_the_rest_arrives,
        a_store_copies_within_itself,
        between_ssh_and_a_store_all_passes_through_here,
    ]
}

/// Copies the content of the directory `from` to a prefix `to`, or the other way round.
pub(crate) fn copy(
    run: CommandRun,
    from: impl AsRef<std::ffi::OsStr>,
    to: impl AsRef<std::ffi::OsStr>,
) -> CommandRun {
    run.args(["--json", "--no-progress", "--devices", "--suid"]).arg(from).arg(to)
}

fn push(bucket: &TestBucket, from: &Path, prefix: &str) -> CommandRun {
    copy(bucket.haul("copy"), slash(from), bucket.at(prefix))
}

fn pull(bucket: &TestBucket, prefix: &str, to: &Path) -> CommandRun {
    copy(bucket.haul("copy"), bucket.at(prefix), slash(to))
}

#[track_caller]
pub(crate) fn ends(run: CommandRun) -> RunCounts {
    let summary = summary(&run.finish().expect_success());
    summary.assert_accounted();
    summary
}

fn proxy(plan: impl Fn(&HttpRequest, usize) -> Option<ProxyTrouble> + Send + Sync + 'static) -> Proxy {
    Proxy::start(endpoint(), plan)
}

/// A store that takes a while for content, so that kills land in the middle.
fn slow() -> Proxy {
    proxy(|request, _| {
        let content = request.method == "PUT" || request.range_start().is_some();
        content.then_some(if request.part().is_some() {
            ProxyTrouble::Slow(30_000_000)
        } else {
            ProxyTrouble::Late(Duration::from_millis(20))
        })
    })
}

fn killed_at_random_moments_it_goes_on_and_nothing_is_half_there() {
    let seed = Random::any_seed();
    eprintln!("kill loop: TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let bucket = TestBucket::new();
    let source = TestTree::mixed(bucket.scene.join("src"), seed, &[33 << 20, (9 << 20) + 5], 1500);
    let (proxy, back) = (slow(), bucket.scene.join("dst"));
    for up in [true, false] {
        let run = || {
            let run = bucket.through(&proxy, "copy");
            if up {
                copy(run, slash(source.path()), bucket.at("t/"))
            } else {
                copy(run, bucket.at("t/"), slash(&back))
            }
        };
        for kills in 1..=8 {
            let mut run = run().start();
            let ends = Duration::from_millis(300 + random.between(0, 900));
            let begun = std::time::Instant::now();
            while begun.elapsed() < ends && run.is_running() {
                std::thread::sleep(Duration::from_millis(5));
            }
            kill(run.pid());
            if run.finish().code() == Some(0) {
                break;
            }
            let seen = if up { bucket.scene.join(format!("seen-{kills}")) } else { back.clone() };
            if up && kills <= 2 {
                bucket.rclone_copy(false, &seen, "t");
            }
            if seen.exists() {
                assert_no_half_files(source.path(), &seen);
            }
        }
        let _ = run().finish().expect_success();
    }
    assert_same_tree(source.path(), &back);
    let last = ends(push(&bucket, source.path(), "t/"));
    assert_eq!((last.of("found"), last.of("sent_bytes")), (last.of("same"), 0));
    let _ = bucket.haul("rm").args(["--incomplete", &bucket.at("")]).finish().expect_success();
    assert!(bucket.incomplete().is_empty(), "what killed runs left is known as haul's own");
}

fn slices_of_a_killed_run_are_not_sent_again() {
    let bucket = TestBucket::new();
    let source = bucket.scene.tree("src");
    source.file("huge", (80 << 20) + 3);
    source.time("huge", 1_600_000_000, 123_456_789);
    // One part stands still, so that the run cannot end.
    let hung = proxy(|request, _| (request.part() == Some(10)).then_some(ProxyTrouble::Slow(1000)));
    let run = copy(bucket.through(&hung, "copy"), slash(source.path()), bucket.at("t/"));
    let mut run = run.start();
    let sent = || hung.done(|request| request.part().is_some());
    run.wait_until("all other parts were sent", || sent() == 10);
    kill(run.pid());
    let _ = run.finish();
    assert!(!bucket.names().contains(&"t/huge".to_owned()));
    let through = proxy(|_, _| None);
    let run = copy(bucket.through(&through, "copy"), slash(source.path()), bucket.at("t/"));
    let again = ends(run);
    assert_eq!(through.count(|request| request.part().is_some()), 1, "only the part that was missing");
    assert_eq!((again.of("resumed_bytes"), again.of("sent_bytes")), ((72 << 20) + 3, 8 << 20), "{again:?}");
    let back = bucket.scene.join("dst");
    let _ = ends(pull(&bucket, "t/", &back));
    assert_same_tree(source.path(), &back);
    // Interrupted by the person, it is the same.
    source.file("other", 80 << 20);
    let hung = proxy(|request, _| (request.part() == Some(10)).then_some(ProxyTrouble::Slow(1000)));
    let run = copy(bucket.through(&hung, "copy"), slash(source.path()), bucket.at("t/"));
    let mut run = run.start();
    run.wait_until("all other parts were sent", || hung.done(|request| request.part().is_some()) == 9);
    run.signal(rustix::process::Signal::INT);
    let _ = run.finish().expect_code(130);
    let _ = bucket.haul("rm").args(["--incomplete", &bucket.at("t/")]).finish().expect_success();
    assert!(bucket.incomplete().is_empty());
}

fn trouble_on_the_way_up_and_down_harms_nothing() {
    let bucket = TestBucket::new();
    let source = TestTree::mixed(bucket.scene.join("src"), 1, &[(21 << 20) + 1], 300);
    let proxy = proxy(|request, before| {
        let number = request.path.bytes().map(u32::from).sum::<u32>() + request.part().unwrap_or(0);
        match (before, number % 5, &request.method[..]) {
            (0, 0, _) => Some(ProxyTrouble::Refuse(503, "", "SlowDown")),
            (0, 1, "PUT") => Some(ProxyTrouble::FlipContent(2)),
            (0, 2, _) => Some(ProxyTrouble::LoseAnswer),
            (0, 3, "GET") => Some(ProxyTrouble::CutAnswer(100)),
            (0, 4, "PUT") => Some(ProxyTrouble::CutContent(50)),
            _ => None,
        }
    });
    let through = |from: OsString, to: OsString| ends(copy(bucket.through(&proxy, "copy"), from, to));
    let up = through(slash(source.path()), bucket.at("t/").into());
    assert!(requests(&up.0, "retried") > 100, "{up:?}");
    let back = bucket.scene.join("dst");
    let down = through(bucket.at("t/").into(), slash(&back));
    assert!(requests(&down.0, "retried") > 50, "{down:?}");
    assert_same_tree(source.path(), &back);
}

fn a_byte_flipped_in_the_store_is_not_accepted() {
    let bucket = TestBucket::new();
    let source = bucket.scene.tree("src");
    source.file("small", 5000);
    source.file("huge", 10 << 20);
    source.file("good", 100);
    let _ = ends(push(&bucket, source.path(), "t/"));
    let flip = proxy(|request, _| {
        let content = request.range_start().is_some() && !request.path.ends_with("good");
        content.then_some(ProxyTrouble::FlipAnswer(7))
    });
    let back = bucket.scene.join("dst");
    let run = copy(bucket.through(&flip, "copy"), bucket.at("t/"), slash(&back)).finish().expect_code(3);
    assert!(run.said().contains("was recorded"), "{run}");
    assert!(back.join("good").exists() && !back.join("small").exists() && !back.join("huge").exists());
}

fn other_clients_read_the_tree_and_theirs_is_read() {
    let bucket = TestBucket::new();
    let source = TestTree::mixed(bucket.scene.join("src"), 3, &[(9 << 20) + 1], 60);
    source.file(std::ffi::OsStr::from_bytes(b"odd/invalid \xff utf8"), 10);
    source.file("odd/a b+c%41&d", 10);
    source.time("odd/a b+c%41&d", 1_500_000_000, 123_456_789);
    let _ = ends(push(&bucket, source.path(), "t/"));
    let seen = bucket.scene.join("seen");
    bucket.rclone_copy(false, &seen, "t");
    // rclone knows nothing of directories, and keeps notes that it does not know as attributes.
    let told = differences(source.path(), &seen);
    let known = |line: &&String| !line.starts_with(".d") && !line.starts_with(".f........x ");
    let told: Vec<_> = told.iter().filter(known).collect();
    assert!(told.is_empty(), "{told:#?}");
    // The other way round.
    bucket.rclone_copy(true, source.path(), "theirs");
    let back = bucket.scene.join("dst");
    let _ = ends(pull(&bucket, "theirs/", &back));
    let told = differences(source.path(), &back);
    assert!(told.iter().all(|line| line.starts_with(".d")), "{told:#?}");
    // Objects that they wrote are not written again: content and times are the same.
    let again = ends(push(&bucket, source.path(), "theirs/"));
    assert_eq!((again.of("copied"), again.of("sent_bytes")), (0, 0), "{again:?}");
}

fn a_second_run_asks_little_and_sends_nothing() {
    let bucket = TestBucket::new();
    let source = bucket.scene.tree("src");
    for directory in 0..6 {
        source.many(format!("d{directory}"), 50, 1..2000);
    }
    source.link("link", "d0");
    let first = ends(push(&bucket, source.path(), "t/"));
    // 300 files, one link, 13 directories, of which this store keeps the notes apart; and a look whether anything is
    // there.
    assert_eq!(requests(&first.0, "put"), 327, "{first:?}");
    assert!(requests(&first.0, "get") + requests(&first.0, "list") <= 17, "{first:?}");
    let again = ends(push(&bucket, source.path(), "t/"));
    assert_eq!((again.of("same"), requests(&again.0, "put")), (314, 0), "{again:?}");
    assert!(requests(&again.0, "get") <= 330 && requests(&again.0, "list") <= 14, "{again:?}");
    // A file that became longer is not asked for; metadata alone is set without content.
    source.file("d1/longer", 5000);
    fs::set_permissions(source.join("link").canonicalize().unwrap(), PermissionsExt::from_mode(0o750))
        .unwrap();
    let plan = ends(push(&bucket, source.path(), "t/").arg("-n"));
    assert_eq!(requests(&plan.0, "put"), 0, "{plan:?}");
    let third = ends(push(&bucket, source.path(), "t/").args(["--exclude", "d5"]));
    assert_eq!((third.of("copied"), third.of("excluded")), (1, 1), "{third:?}");
    let back = bucket.scene.join("dst");
    let some = ends(pull(&bucket, "t/", &back).args(["--exclude", "/d3", "--max-size", "4999"]));
    assert_eq!((some.of("copied"), some.of("excluded")), (250, 2), "{some:?}");
    assert!(!back.join("d3").exists() && !back.join("d1/longer").exists());
    let summed = ends(push(&bucket, source.path(), "t/").arg("-c"));
    assert_eq!((summed.of("copied"), requests(&summed.0, "put")), (0, 0), "{summed:?}");
}

fn many_small_objects_take_hardly_more_than_a_request_each() {
    let bucket = TestBucket::new();
    let source = bucket.scene.tree("src");
    for number in 0..1200 {
        let _ = source.file(format!("{:02}/{number:04}", number / 50), 100 + number);
    }
    let _ = ends(push(&bucket, source.path(), "t/"));
    // Questions take a while, so that some objects have been read before all were asked for.
    let asked = proxy(|request, _| {
        (request.method == "HEAD").then_some(ProxyTrouble::Late(Duration::from_millis(150)))
    });
    let back = bucket.scene.join("dst");
    let pull = || ends(copy(bucket.through(&asked, "copy"), bucket.at("t/"), slash(&back)));
    let first = pull();
    assert_same_tree(source.path(), &back);
    let fetched = |request: &HttpRequest| {
        request.method == "GET" && request.path.contains("/t/") && !request.has("prefix")
    };
    let heads = asked.count(|request| request.method == "HEAD");
    assert_eq!((first.of("copied"), asked.count(fetched)), (1200, 1200), "no content came twice");
    eprintln!("{heads} questions about 1,200 small objects");
    assert!(heads < 1000, "{heads}: hardly fewer than files");
    // Most directories have a few keys: a page after the other is less than one listing for each.
    assert!(requests(&first.0, "list") < 30, "{first:?}");
    let again = pull();
    assert_eq!((again.of("sent_bytes"), asked.count(fetched)), (0, 1200), "{again:?}");
}

fn sync_removes_extra_entries_on_both_sides() {
    let bucket = TestBucket::new();
    let source = TestTree::mixed(bucket.scene.join("src"), 4, &[9 << 20], 40);
    source.many("gone/below", 20, 0..100);
    source.file("gone/huge", 9 << 20);
    let back = bucket.scene.join("dst");
    let sync = |from: OsString, to: OsString| copy(bucket.haul("sync"), from, to);
    let there = OsString::from(bucket.at("t/"));
    let _ = ends(sync(slash(source.path()), there.clone()));
    let _ = ends(sync(there.clone(), slash(&back)));
    assert_same_tree(source.path(), &back);
    fs::remove_dir_all(source.join("gone")).unwrap();
    let plan = ends(sync(slash(source.path()), there.clone()).arg("-n"));
    assert_eq!(plan.of("removed"), 24);
    let up = ends(sync(slash(source.path()), there.clone()));
    assert_eq!(up.of("removed"), 24);
    assert!(requests(&up.0, "delete") <= 2, "{up:?}");
    assert!(bucket.names().iter().all(|name| !name.contains("gone")), "{:?}", bucket.names());
    assert_eq!(ends(sync(there.clone(), slash(&back))).of("removed"), 24);
    assert_same_tree(source.path(), &back);
    let _ = sync(there, slash(&back)).args(["--max-delete", "0"]).finish().expect_success();
}

fn a_file_and_a_directory_change_places() {
    let bucket = TestBucket::new();
    let source = bucket.scene.tree("src");
    source.file("was-file", 10);
    source.dir("was-empty");
    source.file("was-full/inside", 10);
    let _ = ends(push(&bucket, source.path(), "t/"));
    for name in ["was-empty", "was-full"] {
        fs::remove_dir_all(source.join(name)).unwrap();
        source.file(name, 11);
    }
    fs::remove_file(source.join("was-file")).unwrap();
    source.file("was-file/now/deep", 12);
    let run = push(&bucket, source.path(), "t/").finish().expect_code(1);
    assert!(run.said().contains("a directory that is not empty is in its place"), "{run}");
    assert_eq!(summary(&run).of("failed"), 1);
    let mut names = bucket.names();
    names.retain(|name| !name.ends_with("/.haul"));
    names.sort();
    assert_eq!(names, ["t/was-empty", "t/was-file/now/deep", "t/was-full/inside"]);
}

fn a_further_name_takes_the_place_of_a_directory() {
    let bucket = TestBucket::new();
    let source = bucket.scene.tree("src");
    source.file("a", 100);
    source.file("full/inside/deep", 10);
    source.dir("empty");
    source.file("other", 30);
    let there = OsString::from(bucket.at("t/"));
    let sync = || copy(bucket.haul("sync"), slash(source.path()), there.clone());
    let _ = ends(sync());
    let before = bucket.names();
    for name in ["full", "empty"] {
        fs::remove_dir_all(source.join(name)).unwrap();
        fs::hard_link(source.join("a"), source.join(name)).unwrap();
    }
    fs::remove_file(source.join("other")).unwrap();
    fs::hard_link(source.join("a"), source.join("other")).unwrap();
    let _ = ends(copy(bucket.haul("copy"), slash(source.path()), there.clone()).arg("--ignore-existing"));
    assert_eq!(bucket.names(), before, "what is there is left alone");
    let run = push(&bucket, source.path(), "t/").finish().expect_code(1);
    assert!(run.said().contains("a directory that is not empty is in its place"), "{run}");
    let _ = ends(sync().arg("-n"));
    let _ = ends(sync());
    let back = bucket.scene.join("dst");
    let _ = ends(pull(&bucket, "t/", &back));
    assert_same_tree(source.path(), &back);
    let again = ends(sync());
    assert_eq!(again.of("same"), again.of("found"), "{again:?}");
}

fn keys_that_are_no_names_are_refused_and_the_rest_arrives() {
    let bucket = TestBucket::new();
    bucket.put("t/good", b"good");
    let object =
        |key: &str| format!("<Contents><Key>{key}</Key><Size>4</Size><ETag>&quot;e&quot;</ETag></Contents>");
    let keys = [
        "t/",
        "t//double",
        "t/../../outside",
        "t/a",
        "t/a/b/../c",
        "t/both",
        "t/both/x",
        "t/good",
        "t/n%00l",
    ];
    let listed: String = keys.iter().skip(1).map(|&key| object(key)).collect();
    let content = format!("<ListBucketResult><EncodingType>url</EncodingType>{listed}</ListBucketResult>");
    let forged = proxy(move |request, _| {
        (request.method == "GET" && request.has("list-type")).then(|| ProxyTrouble::Answer(content.clone()))
    });
    let back = bucket.scene.join("in/dst");
    let run = copy(bucket.through(&forged, "copy"), bucket.at("t/"), slash(&back)).finish().expect_code(1);
    for key in ["t//double", "t/../../outside", "t/a/b/../c", "t/both"] {
        assert!(run.said().contains(&format!("{key}`")) || run.out().contains(key), "{key} is named: {run}");
    }
    assert_eq!(fs::read(back.join("good")).unwrap(), b"good");
    let all: Vec<_> = haul_testkit::tree::list(&bucket.scene.join("in"));
    assert!(all.iter().all(|path| path.starts_with("dst")), "{all:?}");
    assert!(!bucket.scene.join("outside").exists());
}

fn a_store_copies_within_itself() {
    let bucket = TestBucket::new();
    let source = TestTree::mixed(bucket.scene.join("src"), 5, &[(13 << 20) + 1], 100);
    // A large file of several names, of which the others are elsewhere.
    source.file("named twice", 5 << 20);
    std::fs::hard_link(source.join("named twice"), bucket.scene.join("its other name")).unwrap();
    let _ = ends(push(&bucket, source.path(), "a/"));
    let watched = proxy(|_, _| None);
    let run = copy(bucket.through(&watched, "copy"), bucket.at("a/"), bucket.at("b/deep/"));
    let copied = ends(run);
    assert_eq!(copied.of("copied"), 102);
    let content = |request: &HttpRequest| {
        request.range_start().is_some()
            || request.method == "PUT"
                && request.header("x-amz-copy-source").is_none()
                && !request.path.ends_with('/')
                && !request.path.ends_with("/.haul")
    };
    assert_eq!(watched.count(content), 0, "no content passed through here");
    let back = bucket.scene.join("dst");
    let _ = ends(pull(&bucket, "b/deep/", &back));
    assert_same_tree(source.path(), &back);
    let again = ends(copy(bucket.haul("copy"), bucket.at("a/"), bucket.at("b/deep/")));
    assert_eq!(again.of("same"), again.of("found"), "{again:?}");
    let run = copy(bucket.haul("sync"), bucket.at("a/"), bucket.at("a/b/")).finish().expect_code(2);
    assert!(run.said().contains("the destination is inside the source"), "{run}");
    // Between two buckets it passes through here.
    let other = TestBucket::new();
    let _ = ends(copy(bucket.haul("copy"), bucket.at("a/"), other.at("")));
    let back = bucket.scene.join("other");
    let _ = ends(pull(&other, "", &back));
    let told: Vec<String> = differences(source.path(), &back);
    assert!(told.iter().all(|line| line.starts_with(".d") && line.ends_with(" ./")), "{told:?}");
}

fn between_ssh_and_a_store_all_passes_through_here() {
    let bucket = TestBucket::new();
    let source = TestTree::mixed(bucket.scene.join("src"), 7, &[(9 << 20) + 1], 80);
    let remote = |path: &Path| bucket.scene.remote(joined(&[path.as_os_str().as_bytes(), b"/"]));
    let ssh =
        |run: CommandRun| run.args(["-e", &bucket.scene.sshd().shell(), "--remote-haul", crate::scene::HAUL]);
    let up = copy(ssh(bucket.haul("copy")), remote(source.path()), bucket.at("t/")).finish().expect_success();
    assert!(up.said().contains("passes through this host"), "{up}");
    let back = bucket.scene.join("dst");
    let _ = ends(copy(ssh(bucket.haul("copy")), bucket.at("t/"), remote(&back)));
    assert_same_tree(source.path(), &back);
}
