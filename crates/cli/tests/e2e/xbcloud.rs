//! Backups that xbcloud stored, chunk by chunk, and backups of several streams: unpacked and read as one stream, and
//! compared with mbstream.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_testkit::process::kill;
use haul_testkit::store::endpoint;
use haul_testkit::{Need, Proxy, ProxyTrouble};

use crate::databases::{MariaDbServer, Tables, fill};
use crate::scene::summary;
use crate::store::TestBucket;
use crate::unpack::{assert_same_files, noise, written};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Program("mariadbd"), Need::Program("mariadb-install-db"), Need::Program("mariadb-backup"),
        Need::Program("weed"), Need::Program("rclone");
        a_backup_of_xbcloud_is_unpacked_listed_and_read,
    ];
    all.extend(cases![
        Need::Program("mbstream"), Need::Program("weed"), Need::Program("rclone");
        a_damaged_backup_of_xbcloud_is_refused,
        a_killed_unpack_of_chunks_goes_on_where_it_was,
        several_streams_are_unpacked_into_one_directory,
    ]);
    all
}

const TABLES: &Tables = &[("middle", 30_000), ("small", 500)];

/// The length of the first chunk of xbstream and its path, as `xb_stream_read_chunk` of Percona XtraBackup reads it.
fn chunk(stream: &[u8]) -> (usize, String) {
    let number = |at: usize| u32::from_le_bytes(stream[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!(&stream[..8], b"XBSTCK01");
    let (kind, len) = (stream[9], number(10));
    let path = String::from_utf8(stream[14..14 + len].to_vec()).unwrap();
    let fixed = 14 + len;
    let end = match kind {
        b'E' => fixed,
        b'P' => fixed + 20 + number(fixed),
        b'S' => fixed + 24 + number(fixed) * 8 + number(fixed + 4),
        other => panic!("chunk of type {other}"),
    };
    (end, path)
}

/// Cuts a stream into files as `xbcloud put NAME` does into objects: each chunk of a file has the next number.
fn chunks(bucket: &TestBucket, name: &str, mut stream: &[u8]) -> PathBuf {
    let dir = bucket.scene.join("chunks").join(name);
    let mut numbers: HashMap<String, u64> = HashMap::new();
    while !stream.is_empty() {
        let (len, path) = chunk(stream);
        let number = numbers.entry(path.clone()).or_default();
        let file = dir.join(format!("{path}.{number:020}"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, &stream[..len]).unwrap();
        *number += 1;
        stream = &stream[len..];
    }
    dir
}

fn extracted(bucket: &TestBucket, name: &str, stream: &[u8]) -> PathBuf {
    let dir = bucket.scene.join(name);
    fs::create_dir(&dir).unwrap();
    let file = bucket.scene.join(format!("{name}.xb"));
    fs::write(&file, stream).unwrap();
    written(&dir, &format!("mbstream -x < {}", file.display()));
    dir
}

/// Checks that each byte of the chunks was asked for, and once. On a busy machine haul may ask for a slow range again,
/// but not for half of all.
fn assert_fetched_once(proxy: &Proxy, len: u64) {
    let mut ranges: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
    for request in proxy.seen() {
        let is_chunk = request.path.rsplit('.').next().is_some_and(|number| number.len() == 20);
        let of_chunk = request.method == "GET" && is_chunk;
        let Some(range) = request.header("range").filter(|_| of_chunk) else { continue };
        let (from, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let range = (from.parse().unwrap(), last.parse::<u64>().unwrap() + 1);
        ranges.entry(request.path).or_default().push(range);
    }
    let asked: u64 = ranges.values().flatten().map(|(from, until)| until - from).sum();
    let mut covered = 0;
    for of_object in ranges.values_mut() {
        of_object.sort_unstable();
        let mut end = 0;
        for (from, until) in of_object {
            covered += until.saturating_sub(end.max(*from));
            end = end.max(*until);
        }
    }
    assert_eq!(covered, len, "each byte was asked for");
    assert!(asked < len + len / 2, "{asked} bytes of {len} were asked for");
}

/// The files below a directory.
fn expected_files(dir: &Path) -> u64 {
    let found = written(dir, "find . -type f -printf x");
    found.len() as u64
}

fn a_backup_of_xbcloud_is_unpacked_listed_and_read() {
    let bucket = TestBucket::new();
    let data = bucket.scene.join("mysql");
    fill(&data, TABLES);
    let server = MariaDbServer::start(&data);
    server.query("flush privileges");
    let backup = format!(
        "mariadb-backup --no-defaults --backup --stream=xbstream --parallel=4 --user=root --socket={} --datadir={} \
         --target-dir={} 2>/dev/null",
        server.socket.display(),
        data.display(),
        bucket.scene.join("target").display(),
    );
    let stream = written(bucket.scene.path(), &backup);
    server.stop();
    let expected = extracted(&bucket, "expected", &stream);
    bucket.rclone_copy(true, &chunks(&bucket, "db1", &stream), "db1/full");
    bucket.put("db1/full/notes", b"xbcloud skips other objects");

    let at = bucket.at("db1/full");
    let out = bucket.scene.join("out");
    let get = |to: &Path| bucket.haul("get").args([&at, "--unpack"]).arg(to).watch_memory().finish();
    let proxy = Proxy::start(endpoint(), |_, _| None);
    let run =
        bucket.through(&proxy, "get").args(["--json", &at, "--unpack"]).arg(&out).watch_memory().finish();
    let run = run.expect_success();
    assert!(!run.out().contains("had to be read"), "{run}");
    assert_same_files(&expected, &out);
    assert_fetched_once(&proxy, stream.len() as u64);
    assert!(!out.join(".haul-unpack").exists());
    let files = expected_files(&expected);
    assert_eq!((summary(&run).of("copied"), summary(&run).of("wire_bytes")), (files, stream.len() as u64));
    let run = bucket.haul("index").arg(bucket.at("db1/full/")).finish().expect_success();
    assert!(run.err().contains("members of xbstream in"), "{run}");
    assert!(bucket.names().contains(&"db1/full.haul-index".to_owned()));
    let out = bucket.scene.join("with-index");
    let run = get(&out).expect_success();
    assert!(!run.err().contains("had to be read"), "{run}");
    assert_same_files(&expected, &out);

    let table = expected.join("shop/small.ibd");
    let len = fs::metadata(&table).unwrap().len();
    let out = bucket.scene.join("one");
    let run =
        bucket.haul("get").args([&at, "--json", "--member", "*/small.ibd", "--unpack"]).arg(&out).finish();
    let run = run.expect_success();
    assert!(fs::read(out.join("shop/small.ibd")).unwrap() == fs::read(&table).unwrap());
    assert!(summary(&run).of("wire_bytes") <= len + len / 10, "{run}");
    let run = bucket.haul("ls").args([&at, "--members"]).finish().expect_success();
    assert!(run.out().contains("  shop/small.ibd\n"), "{run}");

    let run = bucket.haul("get").arg(&at).finish().expect_success();
    assert_eq!(run.stdout.len(), stream.len());
    assert_same_files(&expected, &extracted(&bucket, "read", &run.stdout));
    let file = bucket.scene.join("db1.xb");
    let run = bucket.haul("get").args([&bucket.at("db1/full/")]).arg(&file).finish().expect_success();
    assert!(!run.err().contains("only its length"), "{run}");
    assert_same_files(&expected, &extracted(&bucket, "of-a-file", &fs::read(&file).unwrap()));
}

fn a_damaged_backup_of_xbcloud_is_refused() {
    let bucket = TestBucket::new();
    let source = bucket.scene.join("source");
    fs::create_dir_all(source.join("shop")).unwrap();
    for (name, len) in [("shop/orders.ibd", 25_000_000), ("ibdata1", 11_000_000), ("xtrabackup_info", 500)] {
        noise(&source.join(name), len);
    }
    let stream = written(&source, "mbstream -c shop/orders.ibd ibdata1 xtrabackup_info");
    type Damage = fn(&Path);
    let damages: [(&str, Damage, Option<&str>, &str); 4] = [
        (
            "missing",
            |dir| fs::remove_file(dir.join("shop/orders.ibd.00000000000000000001")).unwrap(),
            None,
            "shop/orders.ibd.00000000000000000001` (source): this chunk of the backup is missing",
        ),
        (
            "cut",
            |dir| {
                let last =
                    (0..).map(|n| dir.join(format!("ibdata1.{n:020}"))).take_while(|file| file.exists());
                fs::remove_file(last.last().unwrap()).unwrap();
            },
            Some("ibdata1"),
            "it ends before the end of its file ibdata1",
        ),
        (
            "flipped",
            |dir| {
                let file = dir.join("shop/orders.ibd.00000000000000000000");
                let mut bytes = fs::read(&file).unwrap();
                bytes[5000] ^= 1;
                fs::write(file, bytes).unwrap();
            },
            Some("shop/orders.ibd"),
            "its CRC-32 is",
        ),
        (
            "interrupted",
            |dir| {
                for number in 0..2 {
                    fs::remove_file(dir.join(format!("xtrabackup_info.{number:020}"))).unwrap();
                }
            },
            None,
            "the backup is incomplete",
        ),
    ];
    for (name, damage, broken, why) in damages {
        let dir = chunks(&bucket, name, &stream);
        damage(&dir);
        bucket.rclone_copy(true, &dir, name);
        let at = bucket.at(name);
        let out = bucket.scene.join(format!("out-{name}"));
        let run = bucket.haul("get").args([&at, "--unpack"]).arg(&out).finish().expect_code(3);
        assert!(run.err().contains(why), "{name}: {run}");
        match broken {
            None => assert!(!out.exists(), "{name}: nothing is made"),
            // A listing does not show it, so it is found when it comes.
            Some(broken) => assert_complete_without(&source, &out, broken),
        }
        let file = bucket.scene.join(format!("file-{name}"));
        let run = bucket.haul("get").arg(&at).arg(&file).finish().expect_code(3);
        assert!(run.err().contains(why), "{name}: {run}");
        assert!(!file.exists(), "{name}: no file");
    }
    // A table that is complete can be had from an incomplete backup.
    let at = bucket.at("interrupted");
    let run = bucket.haul("get").args([&at, "--member", "shop/orders.ibd"]).finish().expect_success();
    assert!(run.stdout == fs::read(source.join("shop/orders.ibd")).unwrap());
    // Other objects are no backup.
    bucket.put("plain/a", b"a");
    let run = bucket.haul("get").args([&bucket.at("plain"), "--unpack"]).arg(bucket.scene.join("x")).finish();
    assert!(run.expect_code(1).err().contains("plain"));
}

/// Checks that all files of an ended run are complete, without this one.
fn assert_complete_without(source: &Path, out: &Path, broken: &str) {
    assert!(out.join(".haul-unpack").exists(), "the same command may run again");
    let found = written(out, "find . -type f ! -name .haul-unpack -printf '%P\n'");
    for name in String::from_utf8(found).unwrap().lines() {
        assert_ne!(name, broken);
        assert!(fs::read(out.join(name)).unwrap() == fs::read(source.join(name)).unwrap(), "{name}");
    }
}

fn a_killed_unpack_of_chunks_goes_on_where_it_was() {
    let bucket = TestBucket::new();
    let source = bucket.scene.join("source");
    fs::create_dir(&source).unwrap();
    for name in ["a", "b", "c", "xtrabackup_info"] {
        noise(&source.join(name), 20_000_000);
    }
    let stream = written(&source, "mbstream -c a b c xtrabackup_info");
    bucket.rclone_copy(true, &chunks(&bucket, "db", &stream), "db");
    let at = bucket.at("db");
    // The third file is never answered.
    let proxy = Proxy::start(endpoint(), |request, _| {
        let is_third = request.method == "GET" && request.path.contains("/db/c.");
        is_third.then_some(ProxyTrouble::Late(Duration::from_secs(600)))
    });
    let out = bucket.scene.join("out");
    let mut run = bucket.through(&proxy, "get").args([&at, "--unpack"]).arg(&out).start();
    // The end of the second one comes in one range with the third.
    run.wait_until("a file is complete", || out.join("a").exists());
    kill(run.pid());
    drop(run);
    assert!(!out.join("b").exists() && out.join(".haul-unpack").exists());
    let run = bucket.haul("get").args([&at, "--json", "--unpack"]).arg(&out).finish().expect_success();
    assert!(run.out().contains("had to be read to find its members"), "{run}");
    assert_eq!((summary(&run).of("copied"), summary(&run).of("same")), (3, 1), "{run}");
    assert_same_files(&source, &out);
    assert!(!out.join(".haul-unpack").exists());
}

fn several_streams_are_unpacked_into_one_directory() {
    let bucket = TestBucket::new();
    let source = bucket.scene.join("source");
    fs::create_dir(&source).unwrap();
    for name in ["a", "b", "c"] {
        noise(&source.join(name), 12_000_000);
    }
    let streams = [written(&source, "mbstream -c a"), written(&source, "mbstream -c b c")];
    for (number, stream) in streams.iter().enumerate() {
        let at = bucket.at(&format!("db1/thread_{number}"));
        let _ = bucket.haul("put").arg(at).input(stream.clone()).finish().expect_success();
    }
    let out = bucket.scene.join("out");
    let run = bucket.haul("get").args([&bucket.at("db1"), "--unpack"]).arg(&out).watch_memory().finish();
    let run = run.expect_success();
    assert!(!run.err().contains("had to be read"), "each has its index: {run}");
    assert_same_files(&source, &out);
    let run = bucket.haul("get").arg(bucket.at("db1/")).finish().expect_code(2);
    assert!(run.err().contains("use --unpack DIR, or --fifo-dir DIR"), "{run}");
    // The indexes are no streams of the backup.
    let pipes = bucket.scene.join("pipes");
    fs::create_dir(&pipes).unwrap();
    let mut get = bucket.haul("get").arg(bucket.at("db1")).arg("--fifo-dir").arg(&pipes).start();
    get.wait_until("there are pipes", || pipes.join("thread_1").exists());
    for (number, stream) in streams.iter().enumerate() {
        assert!(fs::read(pipes.join(format!("thread_{number}"))).unwrap() == *stream);
    }
    let _ = get.finish().expect_success();

    let _ = bucket.haul("rm").arg(bucket.at("db1/thread_0")).finish().expect_success();
    let out = bucket.scene.join("part");
    let run = bucket.haul("get").args([&bucket.at("db1"), "--unpack"]).arg(&out).finish().expect_code(3);
    assert!(run.err().contains("of its streams, thread_0 to thread_1, 1 are there"), "{run}");
    // A file of two streams.
    for number in [0, 1] {
        let at = bucket.at(&format!("db2/thread_{number}"));
        let _ = bucket.haul("put").arg(at).input(streams[0].clone()).finish().expect_success();
    }
    let run = bucket.haul("get").args([&bucket.at("db2"), "--unpack"]).arg(&out).finish().expect_code(3);
    assert!(run.err().contains("two streams have this file"), "{run}");
    assert!(!out.exists());
}
