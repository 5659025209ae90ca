//! `--pages`: the pages of real databases are checked as they are read. innochecksum and `pg_checksums` judge.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::needs::{postgres_bin, tool};
use haul_testkit::tree::set_time;
use haul_testkit::{Finished, Need, assert_same_tree};

use crate::databases::{MariaDbServer, install};
use crate::postgres::{hand_over, program};
use crate::scene::{Scene, WAYS, Way, events, slash, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mariadb = cases![
        Need::Program("mariadbd"), Need::Program("mariadb-install-db"), Need::Program("innochecksum"),
        Need::Program("mbstream");
        each_flipped_page_of_innodb_is_named_on_every_way,
        tablespaces_of_each_format_are_checked_without_a_false_alarm,
        a_live_server_under_load_gives_no_false_alarm,
        a_bad_page_in_a_stream_that_is_put_is_named_and_nothing_is_stored,
    ];
    let postgres = cases![
        Need::Postgres;
        each_flipped_page_of_postgres_is_named,
        a_cluster_that_is_put_as_tar_is_checked,
    ];
    mariadb
        .into_iter()
        .chain(postgres)
        .chain(cases![a_file_that_only_looks_like_a_database_is_copied])
        .collect()
}

/// A table with some 400 bytes in each row.
fn table(server: &MariaDbServer, name: &str, options: &str, rows: u32) {
    server.query(&format!(
        "use shop; create table {name} (id int primary key, digest char(64), filler varchar(800), key (digest)) \
         engine=InnoDB {options}; \
         insert into {name} select seq, sha2(seq, 256), repeat(md5(seq * 7), 10) from seq_1_to_{rows}"
    ));
}

/// Flips a byte in each of `count` pages of a file, somewhere. Returns their numbers.
fn flip(path: &Path, size: u64, count: u64, from: u64) -> BTreeSet<u64> {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let pages = file.metadata().unwrap().len() / size;
    assert!(pages >= from + count, "{pages} pages in {}", path.display());
    let flipped: BTreeSet<u64> = (from..from + count).collect();
    for page in &flipped {
        // Pseudo-random, and another place in each page.
        let at = page * size + (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17) % size;
        let mut byte = [0; 1];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << (page % 8)], at).unwrap();
    }
    flipped
}

/// The bad pages that a run has named, of one file.
fn named(run: &Finished, path: &str) -> BTreeSet<u64> {
    let events = events(run);
    let named = events.iter().filter(|event| event["type"] == "bad_page");
    named
        .map(|event| {
            assert_eq!(event["path"], path, "{run}");
            event["page"].as_u64().unwrap()
        })
        .collect()
}

fn innochecksum(path: &Path) -> bool {
    Command::new("innochecksum").arg(path).output().unwrap().status.success()
}

fn each_flipped_page_of_innodb_is_named_on_every_way() {
    let scene = Scene::new();
    let data = scene.join("mysql");
    install(&data);
    let server = MariaDbServer::start(&data);
    server.query("create database shop");
    table(&server, "orders", "", 18_000);
    server.stop();
    let orders = data.join("shop/orders.ibd");
    assert!(innochecksum(&orders));
    // All but the first: without it, its size and format are guessed.
    let good = scene.join("good.ibd");
    fs::copy(&orders, &good).unwrap();
    let flipped = flip(&orders, 16 << 10, 1000, 1);
    assert!(!innochecksum(&orders));
    // Nobody writes it, so there are no pauses before a page is read again.
    set_time(&orders, 1_600_000_000, 0);

    for way in WAYS {
        let copy = scene.join(format!("{way:?}"));
        let run = scene.copy(way, &data, &copy).args(["--pages", "auto"]).finish().expect_code(3);
        assert_eq!(named(&run, "shop/orders.ibd"), flipped, "{way:?}");
        let told = summary(&run);
        told.assert_accounted();
        assert_eq!((told.of("failed"), &told.0["pages"]["bad"]), (1, &1000.into()), "{way:?}");
        assert!(!copy.join("shop/orders.ibd").exists() && copy.join("ibdata1").exists(), "{way:?}");
        // Good files are not sent again, and the bad one is still bad.
        let again = scene.copy(way, &data, &copy).args(["--pages", "auto"]).finish().expect_code(3);
        assert_eq!(summary(&again).of("failed"), 1, "{way:?}");
        let run = scene.copy(way, &data, &copy).args(["--pages", "auto", "--bad-pages", "warn"]).finish();
        assert_eq!(summary(&run.expect_success()).of("copied"), 1, "{way:?}");
        assert_same_tree(&data, &copy);
    }
    for way in [Way::Local, Way::Pull] {
        let verify = |more: &[&str]| {
            let copy = scene.join("Local");
            scene
                .by(way, "verify", slash(&data), slash(&copy))
                .args(["--pages", "innodb"])
                .args(more)
                .finish()
        };
        assert_eq!(named(&verify(&[]).expect_code(3), "shop/orders.ibd"), flipped, "{way:?}");
        let _ = verify(&["--bad-pages", "warn"]).expect_success();
    }
    // A delta transfer reads all of the file, too.
    let old = scene.join("old");
    fs::create_dir_all(old.join("shop")).unwrap();
    fs::copy(&good, old.join("shop/orders.ibd")).unwrap();
    let run = scene.copy(Way::Pull, &data, &old).args(["--pages", "auto", "--delta", "on"]).finish();
    assert_eq!(named(&run.expect_code(3), "shop/orders.ibd"), flipped);

    // The first page too, in text, and members of a stream.
    fs::copy(&good, &orders).unwrap();
    assert_eq!(flip(&orders, 16 << 10, 1, 0).len(), 1);
    let run = scene.haul("hash").args(["--pages", "innodb"]).arg(slash(&data)).finish().expect_code(3);
    assert!(
        run.err().contains("bad page: shop/orders.ibd page 0\n") && !run.out().contains("orders.ibd"),
        "{run}"
    );
    for (name, pack) in [("data.tar", "tar -c *"), ("data.xb", "mbstream -c ibdata1 shop/*.ibd")] {
        let stream = scene.join(name);
        let script = format!("cd {} && {pack} >{}", data.display(), stream.display());
        tool(Command::new("bash").args(["-ec", &script]));
        let unpacked = scene.join(format!("{name}.d"));
        let run =
            scene.haul("get").args(["--json", "--pages", "auto"]).arg(&stream).arg("--unpack").arg(&unpacked);
        let run = run.finish().expect_code(3);
        assert_eq!(named(&run, "shop/orders.ibd"), BTreeSet::from([0]), "{name}");
        assert!(!unpacked.join("shop/orders.ibd").exists());
        let run = scene.haul("get").args(["--json", "--pages", "auto", "--bad-pages", "warn"]);
        let _ = run.arg(&stream).arg("--unpack").arg(&unpacked).finish().expect_success();
        tool(Command::new("cmp").arg(&orders).arg(unpacked.join("shop/orders.ibd")));
    }

    // Where haul does not read the files itself, pages are not ignored.
    let sftp = format!("sftp://{}{}", scene.sshd().host(), slash(&data).display());
    let run = scene.haul("copy").args(["-e", &scene.sshd().shell(), "--pages", "auto", &sftp]);
    let run = run.arg(scene.join("none")).finish().expect_code(2);
    assert!(run.err().contains("haul checks pages only where it reads the files itself"), "{run}");
    let _ = scene.haul("get").args(["--pages", "auto"]).arg(&orders).finish().expect_code(2);
}

fn tablespaces_of_each_format_are_checked_without_a_false_alarm() {
    let scene = Scene::new();
    let data = scene.join("mysql");
    install(&data);
    let keys = scene.join("keys");
    fs::write(&keys, "1;770A8A65DA156D24EE2A093277530142\n").unwrap();
    let keys = format!("--file-key-management-filename={}", keys.display());
    let kinds = [
        ("plain", ""),
        ("zipped", "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8"),
        ("tiny", "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=1"),
        ("packed", "PAGE_COMPRESSED=1"),
        ("secret", "ENCRYPTED=YES"),
        ("both", "ENCRYPTED=YES PAGE_COMPRESSED=1"),
        ("all", "ENCRYPTED=YES ROW_FORMAT=COMPRESSED"),
    ];
    for (number, format) in ["full_crc32", "crc32"].into_iter().enumerate() {
        let format = format!("--innodb-checksum-algorithm={format}");
        let options = ["--plugin-load-add=file_key_management", &keys, &format];
        let server = MariaDbServer::start_with(&data, &options);
        server.query("create database if not exists shop");
        for (name, options) in kinds {
            table(&server, &format!("{name}{number}"), options, 3000);
        }
        server.stop();
    }
    let copy = scene.join("copy");
    let run = scene.copy(Way::Local, &data, &copy).args(["--pages", "innodb"]).finish().expect_success();
    let pages = &summary(&run).0["pages"];
    let of = |name: &str| pages[name].as_u64().unwrap();
    assert!(of("innodb") > 1000 && of("bad") == 0, "{pages}");
    assert_same_tree(&data, &copy);
    // Each of them is checked, if it has checksums: those that the older format compresses have none.
    for (name, _) in kinds {
        for number in 0..2 {
            let path = format!("shop/{name}{number}.ibd");
            let size = match name {
                "tiny" => 1 << 10,
                "zipped" | "all" => 8 << 10,
                _ => 16 << 10,
            };
            if !matches!((name, number), ("packed" | "both", 1)) {
                // In the first page no byte is without a checksum, nor is there a hole.
                let file = fs::File::options().read(true).write(true).open(data.join(&path)).unwrap();
                let (mut byte, at) = ([0; 1], 3 * size + 60);
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 4], at).unwrap();
                let run = scene.by(Way::Local, "verify", data.join(&path), copy.join(&path));
                let run = run.args(["--pages", "auto", "--content-only"]).finish().expect_code(3);
                let bad = named(&run, &format!("{name}{number}.ibd"));
                assert_eq!(bad, BTreeSet::from([3]), "{path}");
            }
        }
    }
}

fn a_live_server_under_load_gives_no_false_alarm() {
    let scene = Scene::new();
    let data = scene.join("mysql");
    install(&data);
    let server = MariaDbServer::start(&data);
    server.query("create database shop");
    table(&server, "orders", "", 6000);
    let stop = scene.join("stop");
    let load = |seed: u32| {
        let mut text = String::from("use shop;");
        for _ in 0..40 {
            text += &format!(
                "update orders set filler = repeat(md5(rand()), 1 + rand() * 20), digest = sha2(rand(), 256) \
                 where id % 97 = {seed} + floor(rand() * 60); flush tables orders for export; unlock tables;"
            );
        }
        while !stop.exists() {
            server.query(&text);
        }
    };
    std::thread::scope(|scope| {
        let load = &load;
        (0..2).for_each(|seed| drop(scope.spawn(move || load(seed))));
        for number in 0..5 {
            let copy = scene.join(format!("copy{number}"));
            let run = scene.copy(Way::Local, &data, &copy).args(["--pages", "auto"]).finish();
            // Files that changed twice are named; exit code 3 would be a false alarm.
            assert!([Some(0), Some(1)].contains(&run.code()), "{run}");
            assert!(events(&run).iter().all(|event| event["type"] != "bad_page"), "{run}");
        }
        fs::write(&stop, "").unwrap();
    });
    server.stop();
}

/// The directory of a new cluster with data checksums.
fn cluster(scene: &Scene) -> PathBuf {
    let data = scene.join("pg");
    fs::create_dir(&data).unwrap();
    hand_over(&data);
    let initdb = ["--no-sync", "--data-checksums", "-A", "trust", "-U", "postgres", "-D"];
    tool(program("initdb").args(initdb).arg(&data));
    data
}

fn each_flipped_page_of_postgres_is_named() {
    let scene = Scene::new();
    let data = cluster(&scene);
    let copy = scene.join("copy");
    let run = scene.copy(Way::Local, &data, &copy).args(["--pages", "postgres"]).finish().expect_success();
    let pages = summary(&run).0["pages"].clone();
    assert!(pages["postgres"].as_u64().unwrap() > 1000 && pages["bad"] == 0, "{pages}");
    // The largest relation of the first database.
    let dir = data.join("base/1");
    let files = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap());
    let largest = files.max_by_key(|entry| entry.metadata().unwrap().len()).unwrap();
    let name = format!("base/1/{}", largest.file_name().display());
    let flipped = flip(&largest.path(), 8 << 10, 60, 0);
    let judged =
        Command::new(postgres_bin().unwrap().join("pg_checksums")).arg("--check").arg(&data).output();
    let judged = String::from_utf8_lossy(&judged.unwrap().stderr).into_owned();
    let judged: BTreeSet<u64> = judged
        .lines()
        .filter_map(|line| line.split_once("block ")?.1.split(':').next()?.parse().ok())
        .collect();
    assert_eq!(judged, flipped, "the judge");
    let run = scene.by(Way::Pull, "verify", slash(&data), slash(&copy)).args(["--pages", "auto"]).finish();
    assert_eq!(named(&run.expect_code(3), &name), flipped);
    // Without the directory above, nothing says whether there are checksums.
    let base = scene.by(Way::Local, "copy", data.join("base"), scene.join("base"));
    let run = base.args(["--pages", "auto"]).finish().expect_success();
    assert!(run.out().contains("SRC has no global/pg_control of their cluster"), "{run}");
    let base = scene.by(Way::Local, "copy", data.join("base"), scene.join("again"));
    let _ = base.args(["--pages", "postgres"]).finish().expect_code(3);
}

fn a_bad_page_in_a_stream_that_is_put_is_named_and_nothing_is_stored() {
    let scene = Scene::new();
    let data = scene.join("mysql");
    install(&data);
    let server = MariaDbServer::start(&data);
    server.query("create database shop");
    table(&server, "orders", "", 18_000);
    table(&server, "zipped", "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8", 3000);
    server.stop();
    let orders = data.join("shop/orders.ibd");
    let stored = scene.join("stored");
    let put = |pack: &str, words: &[&str]| {
        let script = format!("cd {} && {pack}", data.display());
        let run = scene.haul("put").arg("--json").args(words).arg(&stored);
        run.args(["--", "bash", "-ec", &script]).finish()
    };
    let forget = || {
        fs::remove_file(&stored).unwrap();
        let _ = fs::remove_file(scene.join("stored.haul-index"));
    };
    let ways = [
        ("tar -c --sort=name *", "shop/orders.ibd"),
        ("mbstream -c ibdata1 shop/*.ibd", "shop/orders.ibd"),
        ("cat shop/orders.ibd", "stored"),
    ];
    for (pack, _) in ways {
        let run = put(pack, &["--pages", "innodb"]).expect_success();
        let pages = &summary(&run).0["pages"];
        assert!(pages["innodb"].as_u64().unwrap() > 1000 && pages["bad"] == 0, "{run}");
        forget();
    }
    let flipped = flip(&orders, 16 << 10, 100, 700);
    for (pack, name) in ways {
        let run = put(pack, &["--pages", "auto"]).expect_code(3);
        // It does not read on.
        let found = named(&run, name);
        assert!(found.contains(&700) && found.len() < 50 && !stored.exists(), "{pack}: {run}");
        assert!(
            fs::read_dir(scene.path())
                .unwrap()
                .all(|entry| { !entry.unwrap().file_name().to_string_lossy().contains("stored") })
        );
        let run = put(pack, &["--pages", "auto", "--bad-pages", "warn"]).expect_success();
        assert_eq!(named(&run, name), flipped, "{pack}");
        forget();
        let run = put(pack, &["--pages", "off"]).expect_success();
        assert!(events(&run).iter().all(|event| event["type"] != "bad_page"), "{run}");
        forget();
    }
    // For people, from standard input, and of a stream that holds no pages.
    let run = scene.haul("put").args(["-q", "--pages", "auto"]).arg(scene.join("x.ibd"));
    let run = run.input(fs::read(&orders).unwrap()).finish().expect_code(3);
    assert!(run.err().contains("bad page: x.ibd page 700\n"), "{run}");
    assert!(run.err().contains("--bad-pages warn stores the stream all the same"), "{run}");
    for (which, code) in [("auto", 0), ("innodb", 3)] {
        let run = scene.haul("put").args(["--pages", which]).arg(scene.join("dump")).input("create table");
        let run = run.finish().expect_code(code);
        assert!(run.err().contains("neither xbstream nor tar"), "{run}");
        assert_eq!(scene.join("dump").exists(), code == 0, "{run}");
        let _ = fs::remove_file(scene.join("dump"));
    }
}

fn a_cluster_that_is_put_as_tar_is_checked() {
    let scene = Scene::new();
    let data = cluster(&scene);
    let stored = scene.join("base.tar");
    let put = || {
        let run = scene.haul("put").args(["--json", "--pages", "postgres"]).arg(&stored);
        run.args(["--", "tar", "-c", "-C"]).arg(&data).arg(".").finish()
    };
    // The control file may come behind the relations.
    let pages = summary(&put().expect_success()).0["pages"].clone();
    assert!(pages["postgres"].as_u64().unwrap() > 1000 && pages["bad"] == 0, "{pages}");
    fs::remove_file(&stored).unwrap();
    let relation = data.join("base/1/1259");
    let flipped = flip(&relation, 8 << 10, 1, 3);
    let run = put().expect_code(3);
    assert!(named(&run, "base/1/1259") == flipped && !stored.exists(), "{run}");
}

fn a_file_that_only_looks_like_a_database_is_copied() {
    let scene = Scene::new();
    let tree = scene.tree("src");
    for name in ["a.ibd", "ibdata1", "base/5/16384", "global/1262", "global/pg_control"] {
        tree.file(name, 300_000);
    }
    tree.file("empty.ibd", 0);
    fs::write(tree.join("zeros.ibd"), vec![0; 200_000]).unwrap();
    let copy = scene.join("dst");
    let run = scene.copy(Way::Local, tree.path(), &copy).args(["--pages", "auto"]).finish().expect_success();
    assert!(run.out().contains("names of tablespaces, but not their first pages"), "{run}");
    assert_same_tree(tree.path(), &copy);
    let run = scene.copy(Way::Local, tree.path(), &scene.join("strict")).args(["--pages", "innodb"]).finish();
    assert_eq!(summary(&run.expect_code(3)).of("failed"), 2);
}
