//! Promises for trees in object stores, tested with each provider; `provider` lists the emulators.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;

use haul_testkit::process::kill;
use haul_testkit::store::HttpRequest;
use haul_testkit::tree::list;
use haul_testkit::{Finished, Need, ProxyTrouble, TestTree, assert_same_tree, differences};

use crate::objtrees::{copy, ends};
use crate::provider::{ALL, Provider, ProviderBucket, rclone_azure, sas};
use crate::scene::{RunCounts, slash};
use crate::store::requests;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root, Need::Program("weed"), Need::Program("rclone"), Need::Program("azurite-blob");
        a_hard_tree_comes_back_whole_from_each_provider,
    ];
    all.extend(cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("azurite-blob");
        parts_of_a_killed_run_are_not_sent_again_at_google_and_azure,
        trees_are_kept_the_same_and_compared_at_each_provider,
        each_provider_copies_within_itself,
        a_tree_goes_from_provider_to_provider_and_comes_back_whole,
        a_dry_run_tells_the_requests_of_the_run_itself,
        names_and_times_are_those_that_others_know_at_azure,
    ]);
    all
}

fn push(at: &ProviderBucket, from: &Path, prefix: &str) -> RunCounts {
    ends(copy(at.haul("copy"), slash(from), at.at(prefix)))
}

fn pull(at: &ProviderBucket, prefix: &str, to: &Path) -> RunCounts {
    ends(copy(at.haul("copy"), at.at(prefix), slash(to)))
}

fn nothing(_: &HttpRequest) -> Option<ProxyTrouble> {
    None
}

fn a_hard_tree_comes_back_whole_from_each_provider() {
    for provider in ALL {
        let at = ProviderBucket::made(provider, nothing);
        let source = TestTree::hard(at.bucket.scene.join("src"), 1);
        // Its paths are longer than the 1,024 bytes of a key.
        fs::remove_dir_all(source.join("deep")).unwrap();
        // One provider is enough for files that are only long.
        for path in ["sizes/big", "holes/all"].iter().filter(|_| provider != Provider::S3) {
            fs::remove_file(source.join(path)).unwrap();
        }
        // SeaweedFS takes a backslash for a slash, as Azure does; at Azure haul writes it in another way.
        for path in list(source.path()) {
            let at = source.join(&path);
            let backslash = path.as_os_str().as_bytes().contains(&b'\\') && provider != Provider::Azure;
            match fs::symlink_metadata(&at) {
                Ok(there) if backslash && there.is_dir() => fs::remove_dir_all(at).unwrap(),
                Ok(_) if backslash => fs::remove_file(at).unwrap(),
                _ => {}
            }
        }
        source.file("ends in a dot./too.", 10);
        source.file("a\r\nb\u{81}", 10);
        let back = at.bucket.scene.join("dst");
        let there = push(&at, source.path(), "t/");
        assert_eq!((there.of("failed"), there.of("same")), (0, 0), "{provider:?}");
        assert_eq!(pull(&at, "t/", &back).of("failed"), 0, "{provider:?}");
        assert_same_tree(source.path(), &back);
        for again in [push(&at, source.path(), "t/"), pull(&at, "t/", &back)] {
            assert_eq!(again.of("found"), again.of("same"), "{provider:?} {again:?}");
        }
        assert!(provider == Provider::Azure || at.bucket.incomplete().is_empty());
    }
}

fn parts_of_a_killed_run_are_not_sent_again_at_google_and_azure() {
    for provider in [Provider::Google, Provider::Azure] {
        // Azurite knows one checksum only: a request that it refuses, and haul sends again with the other one, is no
        // part.
        let is_part = move |request: &HttpRequest| {
            request.writes_part() && (provider != Provider::Azure || request.header("content-md5").is_some())
        };
        // One part stands still, so that the run cannot end.
        let first = OnceLock::new();
        let at = ProviderBucket::made(provider, move |request| {
            let hung = is_part(request) && first.get_or_init(|| request.query.clone()) == &request.query;
            hung.then_some(ProxyTrouble::Slow(1000))
        });
        let source = at.bucket.scene.tree("src");
        source.file("huge", 33 << 20);
        source.time("huge", 1_600_000_000, 123_456_789);
        let mut run = copy(at.haul("copy"), slash(source.path()), at.at("t/")).start();
        run.wait_until("all other parts were sent", || at.proxy.done(is_part) == 4);
        kill(run.pid());
        let _ = run.finish();
        assert!(!at.names().contains(&"t/huge".to_owned()), "{provider:?}");
        let through = ProviderBucket::again(&at);
        let again = push(&through, source.path(), "t/");
        assert_eq!(through.proxy.count(is_part), 1, "only the part that was missing, {provider:?}");
        let (sent, resumed) = (again.of("sent_bytes"), again.of("resumed_bytes"));
        assert!(sent <= 8 << 20 && sent + resumed == 33 << 20, "{provider:?} {again:?}");
        let back = through.bucket.scene.join("dst");
        let _ = pull(&through, "t/", &back);
        assert_same_tree(source.path(), &back);
    }
}

fn trees_are_kept_the_same_and_compared_at_each_provider() {
    for provider in ALL {
        let at = ProviderBucket::made(provider, nothing);
        let source = TestTree::mixed(at.bucket.scene.join("src"), 4, &[(9 << 20) + 1], 30);
        source.many("gone/below", 20, 0..100);
        let sync = || ends(copy(at.haul("sync"), slash(source.path()), at.at("t/")));
        assert_eq!(sync().of("failed"), 0);
        let again = sync();
        assert_eq!((again.of("sent_bytes"), requests(&again.0, "put")), (0, 0), "{provider:?} {again:?}");
        // Azure's listings have the metadata: haul asks only for directories.
        let most = if provider == Provider::Azure { 10 } else { 80 };
        assert!(requests(&again.0, "get") <= most, "{provider:?} {again:?}");
        let run = |word: &str| at.haul(word).args(["--json", "--no-progress"]);
        let verify = || run("verify").arg(slash(source.path())).arg(at.at("t/")).finish();
        let _ = verify().expect_success();
        let run_without_slash = at.haul("verify").arg(source.path()).arg(at.at("t/")).finish().expect_code(3);
        assert!(
            run_without_slash.err().contains("all of SRC is missing: a source without a slash"),
            "{run_without_slash}"
        );
        let lines = |run: Finished| {
            let text = run.expect_success().out();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let hash = |end: &std::ffi::OsStr| lines(at.haul("hash").arg(end).finish());
        assert_eq!(hash(&slash(source.path())), hash(at.at("t/").as_ref()), "{provider:?}");
        fs::remove_dir_all(source.join("gone")).unwrap();
        let up = sync();
        assert_eq!(up.of("removed"), 23, "{provider:?}");
        // Files by one request each where there are no batches; directories have two keys at most.
        let most = if provider == Provider::S3 { 2 } else { 20 + 3 * 2 };
        assert!(requests(&up.0, "delete") <= most, "{provider:?} {up:?}");
        assert!(at.names().iter().all(|name| !name.contains("gone")), "{provider:?} {:?}", at.names());
        // Metadata alone goes without content.
        let name = list(source.path()).into_iter().find(|path| source.join(path).is_file()).unwrap();
        fs::set_permissions(source.join(&name), PermissionsExt::from_mode(0o751)).unwrap();
        let updated = sync();
        assert_eq!((updated.of("updated"), updated.of("sent_bytes")), (1, 0), "{provider:?} {updated:?}");
        let len = fs::metadata(source.join(&name)).unwrap().len() as usize;
        fs::write(source.join(&name), vec![b'?'; len]).unwrap();
        let run = verify().expect_code(3);
        assert!(run.out().contains("\"differs\""), "{provider:?} {run}");
    }
}

fn each_provider_copies_within_itself() {
    for provider in [Provider::Google, Provider::Azure] {
        let at = ProviderBucket::made(provider, nothing);
        let source = TestTree::mixed(at.bucket.scene.join("src"), 5, &[(13 << 20) + 1], 40);
        let _ = push(&at, source.path(), "a/");
        let watched = ProviderBucket::again(&at);
        let mut run = watched.haul("copy");
        if provider == Provider::Azure {
            // A request with a signature needs one for the source of the copy too.
            run = run.env("AZURE_STORAGE_KEY", "").env("AZURE_STORAGE_SAS_TOKEN", sas());
        }
        let copied = ends(copy(run, at.at("a/"), at.at("b/deep/")));
        assert_eq!(copied.of("copied"), 41, "{provider:?}");
        let is_copy = |request: &HttpRequest| {
            let named = ["x-goog-copy-source", "x-ms-copy-source"];
            named.iter().any(|name| request.header(name).is_some())
        };
        let content = |request: &HttpRequest| {
            let directory = request.path.ends_with('/') || request.path.ends_with("/.haul");
            request.range_start().is_some() || request.method == "PUT" && !is_copy(request) && !directory
        };
        assert_eq!(watched.proxy.count(content), 0, "no content passed through here, {provider:?}");
        assert!(watched.proxy.count(is_copy) >= 41);
        let back = at.bucket.scene.join("dst");
        let _ = pull(&watched, "b/deep/", &back);
        assert_same_tree(source.path(), &back);
    }
}

fn a_tree_goes_from_provider_to_provider_and_comes_back_whole() {
    let [s3, google, azure] = ALL.map(|provider| ProviderBucket::made(provider, nothing));
    let source = TestTree::mixed(s3.bucket.scene.join("src"), 6, &[(9 << 20) + 1], 60);
    source.link("link", "../\u{201b}/x");
    let _ = push(&s3, source.path(), "t/");
    let all = || google.reach(azure.reach(s3.haul("copy")));
    for (from, to) in [(&s3, &google), (&google, &azure), (&azure, &s3)] {
        let run = copy(all(), from.at("t/"), to.at(if to.provider == Provider::S3 { "back/" } else { "t/" }));
        let run = run.finish().expect_success();
        assert!(run.said().contains("passes through this host"), "{run}");
    }
    for (at, prefix) in [(&azure, "t/"), (&s3, "back/")] {
        let back = s3.bucket.scene.join(prefix);
        let _ = pull(at, prefix, &back);
        assert_same_tree(source.path(), &back);
    }
    let run = copy(all().args(["--endpoint", "http://127.0.0.1:1"]), s3.at("t/"), google.at("t/"));
    let run = run.finish().expect_code(2);
    assert!(run.said().contains("different providers"), "{run}");
}

fn names_and_times_are_those_that_others_know_at_azure() {
    let at = ProviderBucket::made(Provider::Azure, nothing);
    let source = at.bucket.scene.tree("src");
    source.file("back\\slash.", 10);
    source.file("plain", 20);
    source.time("plain", 1_500_000_000, 123_456_789);
    let _ = push(&at, source.path(), "t/");
    let mut names = at.names();
    names.sort();
    assert_eq!(names, ["t/back\\slash.", "t/plain"]);
    let told = rclone_azure(&["lsl", "--use-server-modtime=false"], at.bucket.name(), "t");
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains(":40:00.123456789 plain") || told.contains(":00.123456789 plain"), "{told}");
    // The objects that they wrote with their own times are the same already.
    let theirs = at.bucket.scene.join("dst");
    let _ = pull(&at, "t/", &theirs);
    assert!(differences(source.path(), &theirs).is_empty());
    let _ = at.haul("rm").args(["-r", &at.at("t/")]).finish().expect_success();
    crate::provider::rclone_azure_up(source.path(), at.bucket.name(), "t");
    let again = push(&at, source.path(), "t/");
    assert_eq!(again.of("sent_bytes"), 10, "but for the name that they write otherwise: {again:?}");
}

fn a_dry_run_tells_the_requests_of_the_run_itself() {
    for provider in [Provider::S3, Provider::Azure] {
        let at = ProviderBucket::made(provider, nothing);
        let source = at.bucket.scene.tree("src");
        (1..30).for_each(|number| drop(source.file(format!("small{number}"), number * 50)));
        source.file("huge", 21 << 20);
        source.file("empty", 0);
        source.link("link", "huge");
        let back = at.bucket.scene.join("dst");
        let same = |from: &std::ffi::OsStr, to: &std::ffi::OsStr| {
            let plan = ends(copy(at.haul("copy"), from, to).arg("-n"));
            assert_eq!(requests(&plan.0, "put"), 0, "{provider:?}");
            let run = ends(copy(at.haul("copy"), from, to));
            for kind in ["put", "get", "list", "delete"] {
                let (told, made) = (plan.0["estimate"][kind].as_u64().unwrap(), requests(&run.0, kind));
                // Azurite refuses the first checksums; repeated requests come on top.
                let fits = told == made || kind == "put" && provider == Provider::Azure && told < made;
                assert!(fits, "{told} {kind} {provider:?} {plan:?} {run:?}");
            }
        };
        let there = std::ffi::OsString::from(at.at("t/"));
        // The root is made first, so that its notes, which SeaweedFS keeps apart, do not count.
        let _ = ends(copy(at.haul("copy"), slash(source.path()), &there).args(["--exclude", "*"]));
        same(&slash(source.path()), &there);
        same(&there, &slash(&back));
        same(&slash(source.path()), &there);
    }
}
