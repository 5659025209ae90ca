//! Compressed and encrypted streams in object stores: other tools read them, and haul restores them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::process::kill;
use haul_testkit::{CommandRun, Need, content};

use crate::scene::summary;
use crate::small::{StoreOfTest, at};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Program("zstd"), Need::Program("lz4"), Need::Program("age"), Need::Program("age-keygen"),
        Need::Program("b3sum");
        other_tools_unpack_a_packed_stream_and_it_comes_back,
        age_decrypts_an_encrypted_stream_and_it_comes_back,
        ssh_keys_decrypt_too,
        a_copy_of_an_encoded_stream_is_the_same_stream,
        objects_of_other_tools_are_read_where_the_notes_say_so,
        a_packed_stream_goes_on_where_it_was,
        damaged_and_cut_off_streams_are_reported_and_not_handed_over,
        a_plain_stream_is_refused_where_a_key_was_named,
        unreadable_or_invalid_input_is_reported_in_one_line,
        packing_stays_within_the_memory_that_was_declared,
        a_setting_for_objects_leaves_a_stream_that_also_goes_to_a_file_as_it_is,
    ]
}

impl StoreOfTest {
    /// The output of a tool for these bytes.
    fn through(&self, line: &str, bytes: &[u8]) -> Vec<u8> {
        let run =
            CommandRun::new("sh", self.scene.tag()).args(["-c", line]).input(bytes).in_dir(self.scene.path());
        run.finish().expect_success().stdout
    }

    /// A key of age in a file, and its recipient.
    fn key(&self, name: &str) -> (PathBuf, String) {
        let path = self.scene.join(name);
        tool(Command::new("age-keygen").arg("-o").arg(&path));
        let recipient = tool(Command::new("age-keygen").arg("-y").arg(&path));
        (path, recipient.trim().to_owned())
    }

    fn sidecar(&self, key: &str) -> serde_json::Value {
        serde_json::from_slice(&self.stored(&format!("{key}.haul"))).unwrap()
    }

    fn b3sum(&self, bytes: &[u8]) -> String {
        String::from_utf8(self.through("b3sum --no-names", bytes)).unwrap().trim().to_owned()
    }
}

/// Bytes of which some get smaller and some do not.
fn mixed(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (number, block) in bytes.chunks_mut(300_000).enumerate() {
        if number % 3 == 0 {
            content::fill(number as u64, 0, block);
        } else {
            block.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 50 % 97 + number) as u8);
        }
    }
    bytes
}

fn a_setting_for_objects_leaves_a_stream_that_also_goes_to_a_file_as_it_is() {
    let (place, bytes) = (StoreOfTest::new(), mixed(9_000_000));
    let file = place.scene.join("file");
    let run = place.haul("put").env("HAUL_COMPRESS", "zstd:3").args([at("key").into(), file.clone()]);
    let _ = run.input(&bytes[..]).finish().expect_success();
    assert!(fs::read(&file).unwrap() == bytes && place.stored("key") == bytes);
}

fn other_tools_unpack_a_packed_stream_and_it_comes_back() {
    let place = StoreOfTest::new();
    let long = mixed(45_000_000);
    for (how, program) in [("zstd", "zstd"), ("zstd:-5", "zstd"), ("zstd:9", "zstd"), ("lz4", "lz4")] {
        let streams: [(&str, &[u8]); 3] = [("long", &long), ("small", &long[..1000]), ("empty", &[])];
        for (name, plain) in streams {
            let run = place.put(&["--json", "--allow-empty", "--compress", how], name, plain);
            let said = summary(&run);
            assert_eq!(said.of("copied_bytes"), plain.len() as u64, "{how}");
            assert_eq!(said.0["stored"]["encoding"], program);
            let stored = place.stored(name);
            assert_eq!(said.0["stored"]["bytes"], stored.len());
            assert!(name != "long" || stored.len() < plain.len() * 2 / 3, "{how}: {}", stored.len());
            assert!(place.through(&format!("{program} -dc"), &stored) == plain, "{how} {name}");
            let run = place.get(&[], name).expect_success();
            assert!(
                run.stdout == plain && !run.err().contains("no digest is recorded"),
                "{how} {name}: {run}"
            );
            assert!(place.get(&["--raw"], name).expect_success().stdout == stored);
            assert_eq!(
                place.store.note(&format!("/bucket/{name}"), "haul-encoding").as_deref(),
                Some(program)
            );
        }
        let sidecar = place.sidecar("long");
        assert_eq!(sidecar["plain_length"], long.len());
        assert_eq!(sidecar["plain_blake3"], place.b3sum(&long));
        assert_eq!(sidecar["blake3"], place.b3sum(&place.stored("long")), "of what is stored");
        let file = place.scene.join("file");
        let run = place.haul("get").args(["--json", &at("long")]).arg(&file).finish().expect_success();
        assert_eq!(summary(&run).of("copied_bytes"), long.len() as u64);
        assert!(fs::read(&file).unwrap() == long);
    }
}

fn a_copy_of_an_encoded_stream_is_the_same_stream() {
    let place = StoreOfTest::new();
    let (identity, recipient) = place.key("key");
    let identity = identity.to_str().unwrap();
    // Its record is in a sidecar.
    let long = mixed(45_000_000);
    let streams = [("long", &long[..]), ("small", &long[..1000])];
    for (name, plain) in streams {
        let _ = place.put(&["--compress", "zstd"], &format!("first/{name}.zst"), plain);
        let words = ["--compress", "lz4", "--encrypt", &recipient];
        let _ = place.put(&words, &format!("first/{name}.age"), plain);
    }
    let (first, second, third) = (at("first/"), at("second/"), at("third/"));
    let copy =
        |words: &[&str]| summary(&place.haul("copy").arg("--json").args(words).finish().expect_success());
    for more in [&[][..], &["--no-xattrs"]] {
        let words = [more, &[&first[..], &second]].concat();
        copy(&words);
        let again = copy(&words);
        assert_eq!((again.of("copied"), again.of("updated")), (0, 0), "{words:?}");
        for (name, plain) in streams {
            assert!(place.get(&[], &format!("second/{name}.zst")).expect_success().stdout == plain);
            let run = place.get(&["--identity", identity], &format!("second/{name}.age")).expect_success();
            assert!(run.stdout == plain && !run.err().contains("no digest"), "{run}");
            assert!(
                place.stored(&format!("second/{name}.zst")) == place.stored(&format!("first/{name}.zst"))
            );
        }
        let _ = place.haul("rm").args(["-r", &second]).finish().expect_success();
    }
    // A directory gets the stored bytes, which is told, and a copy of that is a plain file.
    let directory = format!("{}/", place.scene.join("directory").display());
    let told = &copy(&[&first, &directory]).0["left_out"][0];
    assert_eq!((told["what"].as_str(), told["count"].as_u64()), (Some("decoding"), Some(4)), "{told}");
    let stored = place.stored("first/long.zst");
    assert!(fs::read(format!("{directory}long.zst")).unwrap() == stored);
    copy(&[&directory, &third]);
    assert!(place.get(&[], "third/long.zst").expect_success().stdout == stored);
    // An object with these bytes gets the times of the file, and stays the stream.
    assert_eq!(copy(&["--size-only", &directory, &first]).of("updated"), 5);
    let digest = |name: &str| place.store.note(&format!("/bucket/first/{name}.zst"), "haul-plain-blake3");
    assert_eq!(digest("long"), Some(place.b3sum(&long)));
    for (name, plain) in streams {
        let run = place.get(&[], &format!("first/{name}.zst")).expect_success();
        assert!(run.stdout == plain && !run.err().contains("no digest"), "{run}");
        let run = place.get(&["--identity", identity], &format!("first/{name}.age")).expect_success();
        assert!(run.stdout == plain && !run.err().contains("no digest"), "{run}");
    }
}

fn age_decrypts_an_encrypted_stream_and_it_comes_back() {
    let place = StoreOfTest::new();
    let ((key, recipient), (other, others)) = (place.key("key"), place.key("other"));
    let list = place.scene.join("list");
    fs::write(&list, format!("# who may read\n\n{others}\n")).unwrap();
    let (key, other, list) = (key.to_str().unwrap(), other.to_str().unwrap(), list.to_str().unwrap());
    let long = mixed(30_000_000);
    for (name, plain) in [("long", &long[..]), ("small", &long[..1000])] {
        for (compress, back) in [("none", "cat"), ("zstd", "zstd -dc"), ("lz4", "lz4 -dc")] {
            let words = ["--compress", compress, "--encrypt", &recipient, "--encrypt-file", list];
            let run = place.put(&words, name, plain);
            assert!(run.err().contains("stored as") && run.err().contains("age"), "{run}");
            let stored = place.stored(name);
            for key in [key, other] {
                assert!(
                    place.through(&format!("age -d -i {key} | {back}"), &stored) == plain,
                    "{name} {compress}"
                );
                assert!(place.get(&["--identity", key], name).expect_success().stdout == plain);
            }
            let sidecar = place.sidecar(name);
            assert!(
                sidecar["plain_blake3"].is_null() && sidecar["plain_length"].is_null(),
                "no secret is told"
            );
            assert_eq!(sidecar["blake3"], place.b3sum(&stored));
        }
    }
    let run = place.haul("get").arg(at("long")).env("AGE_IDENTITY", key).finish().expect_success();
    assert!(run.stdout == long);
    // A key that is not there concerns only those who need one.
    place.put(&[], "plain", b"for all");
    let without = |name: &str| place.haul("get").arg(at(name)).env("AGE_IDENTITY", "/nowhere/key").finish();
    assert!(without("plain").expect_success().stdout == b"for all");
    let refused = without("long").expect_code(1);
    assert!(refused.err().contains("/nowhere/key"), "{refused}");
}

fn ssh_keys_decrypt_too() {
    let place = StoreOfTest::new();
    for kind in ["ed25519", "rsa"] {
        let key = place.scene.join(kind);
        tool(Command::new("ssh-keygen").args(["-q", "-N", "", "-t", kind, "-f"]).arg(&key));
        let public = fs::read_to_string(key.with_extension("pub")).unwrap();
        place.put(&["--encrypt", public.trim()], "x", b"for ssh");
        let name = key.to_str().unwrap();
        assert_eq!(place.get(&["--identity", name], "x").expect_success().stdout, b"for ssh");
        assert_eq!(place.through(&format!("age -d -i {name}"), &place.stored("x")), b"for ssh");
        tool(Command::new("ssh-keygen").args(["-q", "-p", "-N", "secret", "-f"]).arg(&key));
        let run = place.get(&["--identity", name], "x").expect_code(2);
        assert!(run.err().contains("passphrase"), "{run}");
    }
}

fn objects_of_other_tools_are_read_where_the_notes_say_so() {
    let place = StoreOfTest::new();
    let (key, recipient) = place.key("key");
    let key = key.to_str().unwrap();
    let plain = mixed(20_000_000);
    let theirs: [(&str, &str); 7] = [
        ("zstd", "zstd -c"),
        ("zstd", "zstd -c --no-check --zstd=wlog=23"),
        ("zstd", "cat >x; { head -c 7000000 x | zstd -c; tail -c +7000001 x | zstd -c; }"),
        ("lz4", "lz4 -c"),
        ("lz4", "lz4 -c -BD -B4"),
        ("age", &format!("age -r {recipient}")),
        ("zstd, age", &format!("zstd -c | age -r {recipient}")),
    ];
    for (encoding, line) in theirs {
        let theirs = place.through(line, &plain);
        place.store.put("/bucket/theirs", &theirs, &[("haul-encoding", encoding)]);
        let run = place.get(&["--identity", key, "--allow-plain"], "theirs").expect_success();
        assert!(run.stdout == plain, "{encoding} {line}");
        assert!(place.get(&["--raw"], "theirs").expect_success().stdout == theirs);
    }
}

fn a_packed_stream_goes_on_where_it_was() {
    let place = StoreOfTest::new();
    let file = place.scene.join("content");
    let plain = mixed(90_000_000);
    fs::write(&file, &plain).unwrap();
    let stalled = format!("head -c 80000000 {}; sleep 300", file.display());
    let mut run =
        place.haul("put").args(["--compress", "zstd", &at("x"), "--", "sh", "-c", &stalled]).start();
    run.wait_until("parts are sent", || place.store.parts() >= 2);
    kill(run.pid());
    assert!(run.finish().was_killed());
    // Parts of a compressed stream are not taken for those of one that is not compressed.
    let cat = |words: &[&str]| {
        let run = place.haul("put").args(["--json", "--resume"]).args(words).args([&at("x"), "--", "cat"]);
        summary(&run.arg(&file).finish().expect_success()).of("resumed_bytes")
    };
    assert_eq!(cat(&[]), 0);
    assert!(place.get(&[], "x").expect_success().stdout == plain);
    assert!(cat(&["--compress", "zstd"]) >= 2 * (8 << 20));
    assert!(place.get(&[], "x").expect_success().stdout == plain);
    assert_eq!(place.store.incomplete(), 0);
}

fn damaged_and_cut_off_streams_are_reported_and_not_handed_over() {
    let place = StoreOfTest::new();
    let (key, recipient) = place.key("key");
    let key = key.to_str().unwrap();
    let plain = mixed(30_000_000);
    for words in [&["--compress", "zstd"][..], &["--compress", "lz4"], &["--encrypt", &recipient]] {
        place.put(words, "x", &plain);
        let stored = place.stored("x");
        let encoding = place.store.note("/bucket/x", "haul-encoding").unwrap();
        let mut damaged = stored.clone();
        damaged[stored.len() / 2] ^= 1;
        let sidecar = place.sidecar("x");
        let cases: [(&[u8], bool); 4] = [
            // Nothing is recorded of these: the format itself tells.
            (&stored[..stored.len() - 100], false),
            (&stored[..stored.len() / 2], false),
            (&damaged, false),
            // The digest of the stream is that of another one.
            (&stored, true),
        ];
        for (theirs, recorded) in cases {
            let mut notes = vec![("haul-encoding", &encoding[..])];
            let other = "0".repeat(64);
            let len = plain.len().to_string();
            if recorded {
                notes.extend([("haul-plain-blake3", &other[..]), ("haul-plain-length", &len)]);
                notes.push(("haul-blake3", sidecar["blake3"].as_str().unwrap()));
            }
            if recorded && encoding == "age" {
                continue;
            }
            place.store.put("/bucket/y", theirs, &notes);
            let run = place.get(&["--identity", key], "y").expect_code(3);
            assert!(run.stdout.len() < plain.len() && plain.starts_with(&run.stdout), "{encoding}: {run}");
            assert_eq!(run.err().lines().filter(|line| line.contains("failed to")).count(), 1, "{run}");
            let file = place.scene.join("y");
            let _ = place.haul("get").args(["--identity", key, &at("y")]).arg(&file).finish().expect_code(3);
            assert!(!file.exists());
        }
    }
}

fn unreadable_or_invalid_input_is_reported_in_one_line() {
    let place = StoreOfTest::new();
    let ((key, recipient), (other, _)) = (place.key("key"), place.key("other"));
    let secret = fs::read_to_string(&key).unwrap().lines().last().unwrap().to_owned();
    place.put(&["--encrypt", &recipient], "x", b"secret");
    place.store.put("/bucket/unknown", b"x", &[("haul-encoding", "brotli")]);
    let (other, missing) = (other.to_str().unwrap(), place.scene.join("missing"));
    let missing = missing.to_str().unwrap();
    let (x, unknown) = (at("x"), at("unknown"));
    let cases: [(&[&str], i32, &str); 12] = [
        (&["get", &x], 2, "no identity was named"),
        (&["get", "--identity", other, &x], 1, "not encrypted to any of the keys"),
        (&["get", "--identity", missing, &x], 2, "missing"),
        (&["get", "--identity", &secret, &x], 2, "it is a key, not the name of a key file"),
        (&["get", &unknown], 1, "stored as `brotli`"),
        (&["put", "--encrypt", &secret, &x], 2, "it is a secret key"),
        (&["put", "--encrypt", "age1nobody", &x], 2, "neither age1"),
        (&["put", "--encrypt-file", missing, &x], 2, "missing"),
        (&["put", "--resume", "--encrypt", &recipient, &x], 2, "--resume"),
        (&["put", "--compress", "gzip", &x], 2, "zstd:LEVEL"),
        (&["put", "--compress", "auto", &x], 2, "it is for hosts"),
        (&["put", "--compress", "zstd:19", "--max-memory", "64M", &x], 2, "--max-memory"),
    ];
    for (words, code, said) in cases {
        let run = place.haul(words[0]).args(&words[1..]).input("x").finish();
        assert_eq!(run.code(), Some(code), "{run}");
        assert!(run.err().contains(said) && !run.err().contains(&secret) && run.stdout.is_empty(), "{run}");
    }
    assert_eq!(place.get(&["--raw"], "unknown").expect_success().stdout, b"x");
}

fn packing_stays_within_the_memory_that_was_declared() {
    let place = StoreOfTest::new();
    let (key, recipient) = place.key("key");
    let plain = mixed(100_000_000);
    let source = place.scene.join("source");
    fs::write(&source, &plain).unwrap();
    for (compress, memory) in [("zstd", 128), ("zstd:9", 128), ("lz4", 84)] {
        let limit = format!("{memory}MiB");
        let words =
            ["--max-memory", &limit, "--compress", compress, "--encrypt", &recipient, &at("x"), "--", "cat"];
        let run = place.haul("put").args(words).arg(&source).watch_memory().finish().expect_success();
        assert!(run.local_peak <= memory << 20, "{compress}: {} MiB", run.local_peak >> 20);
        let file = place.scene.join("file");
        let run =
            place.haul("get").args(["--max-memory", &limit, "--identity"]).arg(&key).arg(at("x")).arg(&file);
        let run = run.watch_memory().finish().expect_success();
        assert!(run.local_peak <= memory << 20, "get {compress}: {} MiB", run.local_peak >> 20);
        assert!(fs::read(&file).unwrap() == plain);
    }
}

fn a_plain_stream_is_refused_where_a_key_was_named() {
    let place = StoreOfTest::new();
    let (key, recipient) = place.key("key");
    let key = key.display().to_string();
    let _ = place.put(&["--encrypt", &recipient], "backup", b"the backup");
    assert_eq!(place.get(&["--identity", &key], "backup").expect_success().stdout, b"the backup");
    // Whoever may write to the bucket puts something else in its place, packed or not.
    for words in [&["--compress", "none"][..], &["--compress", "zstd"]] {
        let _ = place.put(words, "backup", b"of an attacker");
        let run = place.get(&["--identity", &key], "backup").expect_code(3);
        assert!(run.stdout.is_empty() && run.err().contains("it is not encrypted"), "{run}");
        let file = place.scene.join("restored");
        let run = place.haul("get").args(["--identity", &key, &at("backup")]).arg(&file).finish();
        let _ = run.expect_code(3);
        assert!(!file.exists());
        let run = place.get(&["--identity", &key, "--allow-plain"], "backup").expect_success();
        assert_eq!(run.stdout, b"of an attacker");
        // A key that is always set says nothing of this object.
        let run = place.haul("get").env("AGE_IDENTITY", &key).arg(at("backup")).finish().expect_success();
        assert_eq!(run.stdout, b"of an attacker");
    }
    let _ = place.get(&["--allow-plain"], "backup").expect_code(2);
}
