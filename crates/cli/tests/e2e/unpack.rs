//! Streams of xbstream and tar: unpacked in parallel, one member alone, and killed; compared with mbstream and tar.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::{kill, wait_until};
use haul_testkit::store::endpoint;
use haul_testkit::{Need, Proxy, ProxyTrouble, assert_same_tree};

use crate::databases::{MariaDbServer, Tables, checksums, fill};
use crate::hostile::staging_names;
use crate::scene::{Scene, summary};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let with_store = cases![
        Need::Program("mariadbd"), Need::Program("mariadb-install-db"), Need::Program("mariadb-backup"),
        Need::Program("weed"), Need::Program("rclone"), Need::Program("age-keygen");
        a_server_starts_on_a_backup_that_was_unpacked_in_parallel,
        one_table_is_restored_without_reading_the_others,
        a_killed_unpack_goes_on_where_it_was,
        an_index_of_an_earlier_object_is_not_used,
    ];
    let alone = cases![
        Need::Program("mbstream"), Need::Program("tar");
        tar_is_unpacked_as_tar_does,
        streams_that_others_wrote_are_unpacked_with_and_without_an_index,
        a_stream_that_cannot_be_unpacked_is_refused_and_nothing_is_made,
        a_directory_with_something_else_is_refused,
        a_stream_from_standard_input_is_unpacked_as_it_passes,
    ];
    with_store.into_iter().chain(alone).collect()
}

const TABLES: &Tables = &[("middle", 30_000), ("small", 500)];

/// Content that does not compress, of so many bytes.
pub(crate) fn noise(path: &Path, len: u64) {
    tool(Command::new("bash").args(["-c", &format!("head -c {len} /dev/urandom > '{}'", path.display())]));
}

/// The output of a script that runs in a directory.
pub(crate) fn written(directory: &Path, script: &str) -> Vec<u8> {
    let ended = Command::new("bash").args(["-ec", script]).current_dir(directory).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    ended.stdout
}

/// Both directories have the same files with the same content.
pub(crate) fn assert_same_files(one: &Path, other: &Path) {
    tool(Command::new("diff").args(["-r", "--no-dereference"]).arg(one).arg(other));
}

fn a_server_starts_on_a_backup_that_was_unpacked_in_parallel() {
    let bucket = TestBucket::new();
    let data = bucket.scene.join("mysql");
    let before = fill(&data, TABLES);
    let server = MariaDbServer::start(&data);
    server.query("flush privileges");
    let stream = bucket.scene.join("db.xb");
    let backup = format!(
        "mariadb-backup --no-defaults --backup --stream=xbstream --parallel=4 --user=root --socket={} --datadir={} \
         --target-dir={} 2>/dev/null > {}",
        server.socket.display(),
        data.display(),
        bucket.scene.join("target").display(),
        stream.display(),
    );
    tool(Command::new("bash").args(["-ec", &backup]));
    // From the one program to the other, over ssh.
    let piped = bucket.scene.join("piped");
    fs::create_dir(&piped).unwrap();
    let (producer, _) = backup.split_once(" 2>").unwrap();
    let pipe = bucket.scene.haul_ssh("pipe").args([bucket.scene.sshd().host(), "--into"]);
    let pipe = pipe.arg(format!("mbstream -x -C {}", piped.display())).args(["--", "bash", "-c", producer]);
    let _ = pipe.finish().expect_success();
    server.stop();
    let extracted = bucket.scene.join("extracted");
    fs::create_dir(&extracted).unwrap();
    written(&extracted, &format!("mbstream -x < {}", stream.display()));
    let key = bucket.scene.join("key");
    tool(Command::new("age-keygen").arg("-o").arg(&key));
    let recipient = tool(Command::new("age-keygen").arg("-y").arg(&key)).trim().to_owned();
    let ways: [&[&str]; 4] = [
        &[],
        &["--compress", "zstd"],
        &["--encrypt", &recipient],
        &["--compress", "lz4", "--encrypt", &recipient],
    ];
    for (number, words) in ways.into_iter().enumerate() {
        let at = bucket.at(&format!("db{number}.xb"));
        let run = bucket.haul("put").args(["--json", "--pages", "innodb"]).args(words).arg(&at);
        let run = run.args(["--", "cat"]).arg(&stream).finish().expect_success();
        assert!(summary(&run).0["pages"]["innodb"].as_u64().unwrap() > 1000, "{run}");
        let index = bucket.read(&format!("db{number}.xb.haul-index"));
        assert!(index.len() * 1000 < fs::metadata(&stream).unwrap().len() as usize, "{}", index.len());
        let unpacked = bucket.scene.join(format!("unpacked{number}"));
        let run = bucket.haul("get").args([&at, "--unpack"]).arg(&unpacked).env("AGE_IDENTITY", &key);
        let run = run.watch_memory().finish().expect_success();
        assert!(!run.err().contains("had to be read"), "the index is used: {run}");
        assert_same_files(&extracted, &unpacked);
    }
    for restored in [bucket.scene.join("unpacked0"), piped] {
        let directory = format!("--target-dir={}", restored.display());
        tool(Command::new("mariadb-backup").args(["--no-defaults", "--prepare", &directory]));
        for (table, _) in TABLES {
            tool(Command::new("innochecksum").arg(restored.join(format!("shop/{table}.ibd"))));
        }
        let server = MariaDbServer::start(&restored);
        assert_eq!(checksums(&server, TABLES), before);
        server.stop();
    }
}

fn one_table_is_restored_without_reading_the_others() {
    let bucket = TestBucket::new();
    let source = bucket.scene.join("source");
    fs::create_dir_all(source.join("shop")).unwrap();
    noise(&source.join("shop/orders.ibd"), 25_000_000);
    noise(&source.join("huge.ibd"), 90_000_000);
    // Chunks of both alternate, as in a backup by several threads.
    let mixed = "mbstream -c huge.ibd > ../a; mbstream -c shop/orders.ibd > ../b; cat ../b ../a";
    let stream = written(&source, mixed);
    let len = stream.len() as u64;
    let at = bucket.at("db.xb");
    let _ = bucket.haul("put").arg(&at).input(stream).finish().expect_success();
    let proxy = Proxy::start(endpoint(), |_, _| None);
    let out = bucket.scene.join("out");
    let run = bucket.through(&proxy, "get").args([&at, "--json", "--member", "shop/ord*", "--unpack"]);
    let run = run.arg(&out).finish().expect_success();
    let got = summary(&run).of("wire_bytes");
    assert!((25_000_000..27_500_000).contains(&got), "{got} of {len}: {run}");
    assert_same_files(&source.join("shop"), &out.join("shop"));
    assert!(!out.join("huge.ibd").exists() && !out.join(".haul-unpack").exists());
    let run = bucket.haul("get").args([&at, "--member", "shop/orders.ibd"]).finish().expect_success();
    assert!(run.stdout == fs::read(source.join("shop/orders.ibd")).unwrap());
    let run = bucket.haul("ls").args([&at, "--members"]).finish().expect_success();
    assert!(run.out().contains("  shop/orders.ibd\n") && run.out().contains("  huge.ibd\n"), "{run}");
    let run = bucket.haul("get").args([&at, "--member", "shop/none", "--unpack"]).arg(&out).finish();
    assert!(run.expect_code(1).err().contains("no member matches"));
    // The index goes with its stream.
    let _ = bucket.haul("rm").arg(&at).finish().expect_success();
    assert!(bucket.names().is_empty());
}

fn a_killed_unpack_goes_on_where_it_was() {
    let bucket = TestBucket::new();
    let source = bucket.scene.join("source");
    fs::create_dir(&source).unwrap();
    for name in ["a", "b", "c"] {
        noise(&source.join(name), 30_000_000);
    }
    let stream = written(&source, "mbstream -c a b c");
    let at = bucket.at("db.xb");
    let _ = bucket.haul("put").arg(&at).input(stream).finish().expect_success();
    // Ranges near the end are never answered.
    let proxy = Proxy::start(endpoint(), |request, _| {
        let range = request.header("range").unwrap_or_default().to_owned();
        let from: u64 = range.trim_start_matches("bytes=").split('-').next().unwrap().parse().unwrap_or(0);
        (from > 70_000_000).then_some(ProxyTrouble::Late(Duration::from_secs(600)))
    });
    let out = bucket.scene.join("out");
    let mut run = bucket.through(&proxy, "get").args([&at, "--unpack"]).arg(&out).start();
    run.wait_until("two files are complete", || out.join("a").exists() && out.join("b").exists());
    // The journals of the others can outlive their renames by a moment.
    let [_, journal] = staging_names("c").map(|name| out.join(name));
    run.wait_until("slices of the third are durable", || journal.metadata().is_ok_and(|now| now.len() > 100));
    kill(run.pid());
    drop(run);
    assert!(!out.join("c").exists(), "what is not complete has no name");
    // Another stream does not get into its way.
    let other = bucket.at("other.xb");
    let _ = bucket.haul("put").arg(&other).input(written(&source, "mbstream -c a")).finish().expect_success();
    let run = bucket.haul("get").args([&other, "--unpack"]).arg(&out).finish().expect_code(2);
    assert!(run.err().contains("another stream"), "{run}");
    let run = bucket.haul("get").args([&at, "--json", "--unpack"]).arg(&out).finish().expect_success();
    let summary = summary(&run);
    assert!(summary.of("copied") == 1 && summary.of("wire_bytes") <= 30_000_000, "{run}");
    assert_same_files(&source, &out);
    assert!(!out.join(".haul-unpack").exists());
}

fn an_index_of_an_earlier_object_is_not_used() {
    let bucket = TestBucket::new();
    let source = bucket.scene.join("source");
    fs::create_dir(&source).unwrap();
    noise(&source.join("a"), 20_000_000);
    let at = bucket.at("db.xb");
    let _ = bucket.haul("put").arg(&at).input(written(&source, "mbstream -c a")).finish().expect_success();
    noise(&source.join("a"), 20_000_000);
    let file = bucket.scene.join("theirs");
    fs::write(&file, written(&source, "mbstream -c a")).unwrap();
    bucket.upload(&file, "db.xb");
    let out = bucket.scene.join("out");
    let run = bucket.haul("get").args([&at, "--unpack"]).arg(&out).finish().expect_success();
    assert!(run.err().contains("it belongs to another stream"), "{run}");
    assert_same_files(&source, &out);
    let run = bucket.haul("index").arg(&at).finish().expect_success();
    assert!(run.err().contains("1 member of xbstream"), "{run}");
    let out = bucket.scene.join("again");
    let run = bucket.haul("get").args([&at, "--unpack"]).arg(&out).finish().expect_success();
    assert!(!run.err().contains("index"), "{run}");
    assert_same_files(&source, &out);
}

fn tar_is_unpacked_as_tar_does() {
    let scene = Scene::new();
    let source = scene.join("source");
    fs::create_dir(&source).unwrap();
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
    let script = format!(
        "mkdir -p t/{d} t/empty; cd t; echo hi > {long}; printf x > small; : > nothing; ln -s small link
         ln -s /etc/passwd out; ln small hard; mkfifo pipe; head -c 30000000 /dev/urandom > large; chmod 4711 small
         truncate -s 90M sparse; printf data | dd of=sparse bs=1 seek=50000000 conv=notrunc status=none
         chown 123:456 large; chmod 700 empty; touch -d 2001-02-03T04:05:06.789 large {d}",
        d = "d".repeat(120)
    );
    written(&source, &script);
    for (number, format) in ["--format=gnu", "--format=pax"].into_iter().enumerate() {
        let file = scene.join(format!("{number}.tar"));
        let make = format!("tar {format} -S -cf - t | '{}' put -q {}", crate::scene::HAUL, file.display());
        written(&source, &make);
        assert!(scene.join(format!("{number}.tar.haul-index")).exists());
        let (theirs, ours) = (scene.join(format!("theirs{number}")), scene.join(format!("ours{number}")));
        fs::create_dir(&theirs).unwrap();
        written(&theirs, &format!("tar -xpf {}", file.display()));
        let _ = scene.haul("get").arg(&file).arg("--unpack").arg(&ours).finish().expect_success();
        assert_same_tree(&theirs.join("t"), &ours.join("t"));
        let sparse = haul_testkit::tree::allocated(&ours.join("t/sparse"));
        assert!(sparse < 1 << 20, "holes stay: {sparse}");
    }
}

fn streams_that_others_wrote_are_unpacked_with_and_without_an_index() {
    let scene = Scene::new();
    let source = scene.join("source");
    fs::create_dir_all(source.join("db")).unwrap();
    noise(&source.join("db/a.ibd"), 15_000_000);
    fs::write(source.join("b.qp"), "left as it is").unwrap();
    let file = scene.join("x.xb");
    fs::write(&file, written(&source, "mbstream -c db/a.ibd b.qp")).unwrap();
    let out = scene.join("out");
    let run = scene.haul("get").arg(&file).arg("--unpack").arg(&out).finish().expect_success();
    assert!(run.err().contains("had to be read to find its members"), "{run}");
    assert_same_files(&source, &out);
    let _ = scene.haul("index").arg(&file).finish().expect_success();
    for (name, from) in [("here", file.as_os_str().to_owned()), ("there", scene.remote(&file))] {
        let out = scene.join(name);
        let run = scene.haul_ssh("get").arg(from).arg("--unpack").arg(&out).finish().expect_success();
        assert!(!run.err().contains("had to be read"), "{run}");
        assert_same_files(&source, &out);
    }
    // An index that lies about the content is found out.
    let mut bytes = fs::read(&file).unwrap();
    bytes[9_000_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let out = scene.join("flipped");
    let run = scene.haul("get").arg(&file).arg("--unpack").arg(&out).finish().expect_code(3);
    assert!(run.err().contains("CRC-32") && !out.join("db/a.ibd").exists(), "{run}");
}

fn a_stream_that_cannot_be_unpacked_is_refused_and_nothing_is_made() {
    let scene = Scene::new();
    let source = scene.join("source");
    fs::create_dir(&source).unwrap();
    noise(&source.join("a"), 12_000_000);
    let good = written(&source, "mbstream -c a");
    let second = 1 + good[1..].windows(8).position(|part| part == b"XBSTCK01").unwrap();
    let renamed = |name: &[u8]| {
        let mut bytes = good.clone();
        let places: Vec<usize> = bytes
            .windows(15)
            .enumerate()
            .filter(|(_, part)| part.starts_with(b"XBSTCK01"))
            .map(|(at, _)| at)
            .collect();
        for at in places.into_iter().rev() {
            bytes.splice(at + 10..at + 15, [&(name.len() as u32).to_le_bytes(), name].concat());
        }
        bytes
    };
    let mut lying = good.clone();
    lying[16] ^= 1;
    let tar = written(
        &source,
        "ln -s /etc b; tar -cf ../1 b; rm b; mkdir b; touch b/x; tar -rf ../1 b/x; cat ../1",
    );
    let cases: [(&str, Vec<u8>, i32, &str); 7] = [
        ("cut", good[..11_000_000].to_vec(), 3, "it ends inside a chunk"),
        ("lying", lying, 3, "lies about its length"),
        ("above", renamed(b"../x"), 3, "not below the directory"),
        ("absolute", renamed(b"/etc/x"), 3, "not below the directory"),
        ("twice", [&good[..second], &good[..]].concat(), 3, "two chunks are for one offset"),
        ("through", tar, 3, "which is not a directory"),
        ("other", vec![7; 9_000_000], 2, "neither xbstream nor tar"),
    ];
    for (name, bytes, code, said) in cases {
        let (file, out) = (scene.join(name), scene.join(format!("{name}.out")));
        fs::write(&file, &bytes).unwrap();
        let run = scene.haul("get").arg(&file).arg("--unpack").arg(&out).finish().expect_code(code);
        assert!(run.err().contains(said) && !out.exists(), "{name}: {run}");
        // From a pipe, files are unpacked before the place where it breaks.
        let (piped, from) = (scene.join(format!("{name}.piped")), bytes.clone());
        let run = scene.haul("get").args(["-q", "-", "--unpack"]).arg(&piped).input(from).finish();
        let run = run.expect_code(code);
        assert!(run.err().contains(said), "{name}: {run}");
        let left = || fs::read_dir(&piped).into_iter().flatten().map(|entry| entry.unwrap().file_name());
        assert!(left().all(|left| left == ".haul-unpack" || left == "b"), "{:?}", left().collect::<Vec<_>>());
        // A stream that cannot be unpacked can be stored.
        let stored = scene.join(format!("{name}.stored"));
        let run = scene.haul("put").arg(&stored).input(bytes.clone()).finish().expect_success();
        assert_eq!(run.err().contains("without an index"), !["other", "through"].contains(&name), "{run}");
        assert!(fs::read(&stored).unwrap() == bytes);
        assert!(!scene.join(format!("{name}.stored.haul-index")).exists());
    }
    assert!(!scene.join("x").exists());
}

fn a_stream_from_standard_input_is_unpacked_as_it_passes() {
    let scene = Scene::new();
    let source = scene.join("source");
    fs::create_dir_all(source.join("db/deep")).unwrap();
    noise(&source.join("db/a.ibd"), 15_000_000);
    noise(&source.join("db/deep/b.ibd"), 8 << 20);
    noise(&source.join("db/c"), 4096);
    fs::write(source.join("empty"), "").unwrap();
    let stream = written(&source, "mbstream -c db/a.ibd db/deep/b.ibd db/c empty");
    for (number, name) in ["-", "/dev/stdin"].into_iter().enumerate() {
        let out = scene.join(format!("out{number}"));
        let run = scene.haul("get").args([name, "--unpack"]).arg(&out).input(stream.clone());
        let run = run.finish().expect_success();
        assert!(run.err().contains("passes once"), "{run}");
        assert_same_files(&source, &out);
        // A directory with something in it is none for another run.
        let run = scene.haul("get").args([name, "--unpack"]).arg(&out).input(stream.clone());
        assert!(run.finish().expect_code(2).err().contains("the directory is not empty"));
    }
    let out = scene.join("some");
    let run = scene.haul("get").args(["--json", "-", "--member", "db/deep", "--unpack"]).arg(&out);
    let run = run.input(stream).finish().expect_success();
    assert_eq!((summary(&run).of("found"), summary(&run).of("copied")), (1, 1));
    assert_same_files(&source.join("db/deep"), &out.join("db/deep"));
    // tar has directories, links, modes and times.
    let make = "ln -s c db/link; ln db/c db/hard; chmod 640 db/c; mkfifo db/pipe; truncate -s 9M db/sparse
                printf end | dd of=db/sparse bs=1 seek=5000000 conv=notrunc status=none; touch -d 2001-01-01 db/deep db/a.ibd";
    written(&source, make);
    let stream = written(&source, "tar --format=pax -S --sort=name -cf - db");
    let theirs = scene.join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(scene.join("x.tar"), &stream).unwrap();
    written(&theirs, &format!("tar -xpf {}", scene.join("x.tar").display()));
    let out = scene.join("tar");
    let run = scene.haul("get").args(["--json", "-", "--unpack"]).arg(&out).input(stream).finish();
    let told = summary(&run.expect_success());
    assert_eq!((told.of("linked"), told.of("failed")), (1, 0));
    assert_same_tree(&theirs.join("db"), &out.join("db"));
    assert!(haul_testkit::tree::allocated(&out.join("db/sparse")) < 1 << 20, "holes stay");
    let out = scene.join("none");
    let run = scene.haul("get").args(["-q", "-", "--unpack"]).arg(&out).input("").finish().expect_code(1);
    assert!(run.err().contains("it is empty") && run.err().lines().count() == 1 && !out.exists(), "{run}");
    let run = scene.haul("get").args(["-", "--pages", "auto", "--unpack"]).arg(&out).input("").finish();
    assert!(run.expect_code(2).err().contains("passes only once"));
}

fn a_directory_with_something_else_is_refused() {
    let scene = Scene::new();
    let source = scene.join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("a"), "new").unwrap();
    let file = scene.join("x.tar");
    fs::write(&file, written(&source, "tar -cf - a")).unwrap();
    let out = scene.join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("a"), "old").unwrap();
    fs::write(out.join("b"), "stays").unwrap();
    let run = scene.haul("get").arg(&file).arg("--unpack").arg(&out).finish().expect_code(2);
    assert!(run.err().contains("the directory is not empty") && run.err().contains("--merge"), "{run}");
    assert_eq!(fs::read(out.join("a")).unwrap(), b"old");
    let _ = scene.haul("get").arg(&file).arg("--merge").arg("--unpack").arg(&out).finish().expect_success();
    assert_eq!(
        (fs::read(out.join("a")).unwrap(), fs::read(out.join("b")).unwrap()),
        (b"new".to_vec(), b"stays".to_vec())
    );
    wait_until("no mark is left", Duration::from_secs(1), || !out.join(".haul-unpack").exists());
    for words in [&["--merge"][..], &["--unpack", "x", "--raw"], &["--unpack", "x", "--manifest", "m"]] {
        let _ = scene.haul("get").arg(&file).args(words).finish().expect_code(2);
    }
}
