//! Settings files and `HAUL_*` variables.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use haul_testkit::store::{ACCESS_KEY, SECRET_KEY, endpoint};
use haul_testkit::{CommandRun, Need, assert_same_tree};

use crate::scene::{HAUL, Scene, slash};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        settings_apply_and_the_command_line_wins,
        the_files_of_the_user_and_of_haul_config_are_found,
        named_locations_are_copied_to,
        errors_end_the_run_before_anything_is_done,
        a_file_that_others_can_change_is_refused,
        the_remote_end_reads_no_settings,
        hosts_are_reached_in_their_own_way,
    ];
    all.extend(
        cases![Need::Program("weed"); named_stores_have_their_own_options, aliases_of_mc_are_named_locations],
    );
    all
}

/// A settings file with this text.
fn file(scene: &Scene, name: &str, text: &str) -> PathBuf {
    let path = scene.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

fn with(run: CommandRun, config: &PathBuf) -> CommandRun {
    run.env("HAUL_CONFIG", config)
}

fn settings_apply_and_the_command_line_wins() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("keep", 10);
    source.file("drop.tmp", 10);
    source.file("drop.bak", 10);
    let config =
        file(&scene, "c.toml", "[defaults]\nexclude = ['*.tmp']\n[copy]\nno-times = true\nmax-size = '1M'\n");
    let copy = scene.join("copy");
    let run = || with(scene.haul("copy"), &config).arg(slash(source.path())).arg(slash(&copy));
    let _ = run().env("HAUL_EXCLUDE", "*.bak").finish().expect_success();
    assert_eq!(fs::read_dir(&copy).unwrap().count(), 1);
    assert!(copy.join("keep").exists());
    let time = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    source.time("keep", 1_000_000_000, 0);
    let _ = run().finish().expect_success();
    assert_ne!(time(copy.join("keep")), time(source.join("keep")));
    let _ = run().args(["--times", "--include", "*.tmp"]).finish().expect_success();
    assert_eq!(time(copy.join("keep")), time(source.join("keep")));
    assert!(copy.join("drop.tmp").exists());
    // A variable takes precedence over the file, the command line over the variable.
    let other = scene.join("other");
    let small = || {
        with(scene.haul("copy"), &config)
            .env("HAUL_MAX_SIZE", "1")
            .arg(slash(source.path()))
            .arg(slash(&other))
    };
    let _ = small().finish().expect_success();
    assert!(!other.join("keep").exists());
    let _ = small().args(["--max-size", "1M"]).finish().expect_success();
    assert!(other.join("keep").exists());
}

fn the_files_of_the_user_and_of_haul_config_are_found() {
    let scene = Scene::new();
    let own = file(&scene, "config/haul/config.toml", "[defaults]\niops = 500\n[copy]\nnice = true\n");
    // The test kit switches settings off; `env` switches them on again.
    let run = |words: &[&str]| {
        let run = CommandRun::new("env", scene.tag()).args(["-u", "HAUL_CONFIG", HAUL, "config"]);
        run.args(words)
            .env("HOME", scene.home())
            .env("XDG_CONFIG_HOME", scene.join("config"))
            .finish()
            .expect_success()
    };
    let paths = String::from_utf8(run(&["path"]).stdout).unwrap();
    assert!(paths.starts_with(&format!("{}\n/etc/haul/config.toml", own.display())), "{paths}");
    let shown = String::from_utf8(run(&["show"]).stdout).unwrap();
    assert!(shown.contains("iops = \"500\"") && shown.contains(&format!("# {}:2", own.display())), "{shown}");
    assert!(shown.contains("copy.nice = true"), "{shown}");
    let shown = String::from_utf8(run(&["show", "sync"]).stdout).unwrap();
    assert!(shown.contains("iops") && !shown.contains("nice"), "{shown}");
    let none = scene.haul("config").arg("show").env("HAUL_CONFIG", "").finish().expect_success();
    let said = "haul: nothing is set: neither by a variable HAUL_* nor by a file: HAUL_CONFIG is empty\n";
    assert_eq!((none.err().as_str(), none.stdout.len()), (said, 0), "{none}");
    let empty = file(&scene, "empty.toml", "");
    let none = with(scene.haul("config"), &empty).args(["show", "copy"]).finish().expect_success();
    let said = format!(
        "haul: nothing is set for `haul copy`: neither by a variable HAUL_* nor in {}\n",
        empty.display()
    );
    assert_eq!(none.err(), said);
    let run = scene.haul("config").args(["show", "cpoy"]).finish().expect_code(2);
    assert!(run.said().contains("cpoy"), "{run}");
}

fn named_locations_are_copied_to() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("dir/f", 1000);
    let nas = scene.join("nas");
    fs::create_dir(&nas).unwrap();
    let config = file(&scene, "c.toml", &format!("[locations.nas]\nlocation = '{}'\n", nas.display()));
    let _ = with(scene.haul("copy"), &config)
        .arg(slash(source.path()))
        .arg("@nas/below/")
        .finish()
        .expect_success();
    assert_same_tree(source.path(), &nas.join("below"));
    let _ = with(scene.haul("verify"), &config)
        .arg(slash(source.path()))
        .arg("@nas/below/")
        .finish()
        .expect_success();
    let run = with(scene.haul("copy"), &config).arg(source.path()).arg("@nsa/").finish().expect_code(2);
    assert!(run.said().contains("no location of this name"), "{run}");
    // A path that begins with @ is still reachable.
    let _ = with(scene.haul("copy"), &config)
        .in_dir(scene.path())
        .arg("src/")
        .arg("./@nas/")
        .finish()
        .expect_success();
    assert!(scene.join("@nas/dir/f").exists());
}

fn errors_end_the_run_before_anything_is_done() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("f", 10);
    let copy = scene.join("copy");
    for (text, line, what) in [
        ("[defaults]\nbwlimt = '1M'\n", 2, "bwlimit"),
        ("[sync]\n\nforce-delete = true\n", 3, "cannot be a setting"),
        ("[defaults]\nsecret-access-key = 'x'\n", 2, "no secrets"),
        ("[defaults]\nnice = true\n\u{1b}[31m = 1\n", 3, ""),
    ] {
        let config = file(&scene, "c.toml", text);
        let run = with(scene.haul("copy"), &config).arg(source.path()).arg(&copy).finish().expect_code(2);
        let said = run.said();
        assert!(said.contains(&format!("c.toml:{line}: ")) && said.contains(what), "{run}");
        assert!(said.trim_end().lines().count() == 1 && !said.contains('\u{1b}') && !copy.exists(), "{run}");
        // Help and other commands still work.
        let _ = with(scene.haul("help"), &config).arg("config").finish().expect_success();
        let _ = with(scene.haul("jobs"), &config).finish().expect_success();
        let _ = with(scene.haul("copy"), &config).arg("--help").finish().expect_success();
    }
    let run = scene.haul("copy").env("HAUL_CONFIG", "/nowhere/x").arg(source.path()).arg(&copy);
    assert!(run.finish().expect_code(2).said().contains("/nowhere/x: No such file"));
    let run =
        scene.haul("copy").env("HAUL_IOPS", "many").arg(source.path()).arg(&copy).finish().expect_code(2);
    assert!(run.said().contains("HAUL_IOPS: "), "{run}");
}

fn a_file_that_others_can_change_is_refused() {
    let scene = Scene::new();
    let config = file(&scene, "c.toml", "[defaults]\nrsh = 'touch /tmp/never'\n");
    fs::set_permissions(&config, Permissions::from_mode(0o666)).unwrap();
    let run = with(scene.haul("hash"), &config).arg(scene.path()).finish().expect_code(2);
    assert!(run.said().contains("chmod go-w"), "{run}");
}

/// A remote end gets its environment from ssh; settings there must not change the request of the local haul.
fn the_remote_end_reads_no_settings() {
    let scene = Scene::new();
    let config = file(&scene, "c.toml", "broken");
    let run = with(scene.haul("agent"), &config).finish();
    assert!(!run.said().contains("c.toml"), "{run}");
}

fn hosts_are_reached_in_their_own_way() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("f", 1000);
    let copy = scene.join("copy");
    let shell = scene.sshd().shell();
    let host = scene.sshd().host();
    let bare = host.rsplit('@').next().unwrap();
    let text = format!(
        "[defaults]\nrsh = '/nowhere/ssh'\n[hosts.\"{bare}\"]\nrsh = '''{shell}'''\nremote-haul = '{HAUL}'\n"
    );
    let config = file(&scene, "c.toml", &text);
    let to = scene.remote(slash(&copy));
    let _ = with(scene.haul("copy"), &config).arg(slash(source.path())).arg(&to).finish().expect_success();
    assert_same_tree(source.path(), &copy);
    // The command line takes precedence over the table of the host.
    let run =
        with(scene.haul("copy"), &config).args(["-e", "/nowhere/other"]).arg(slash(source.path())).arg(&to);
    assert!(run.finish().expect_code(4).said().contains("/nowhere/other"));
}

fn named_stores_have_their_own_options() {
    let bucket = TestBucket::new();
    let text = format!(
        "[defaults]\nendpoint = 'http://127.0.0.1:1'\n[locations.b]\nlocation = '{}'\nendpoint = 'http://{}'\n",
        bucket.at(""),
        endpoint()
    );
    let config = file(&bucket.scene, "c.toml", &text);
    let run = |word: &str| with(bucket.haul(word), &config).env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    let _ = run("put").arg("@b/x").input("content").finish().expect_success();
    let got = run("get").arg("@b/x").finish().expect_success();
    assert_eq!(got.stdout, b"content");
}

fn aliases_of_mc_are_named_locations() {
    let bucket = TestBucket::new();
    let scene = &bucket.scene;
    let alias = format!("http://{ACCESS_KEY}:{SECRET_KEY}@{}", endpoint());
    // Nothing else leads to the store.
    let haul = |word: &str| scene.haul(word).env("MC_HOST_my_minio", &alias);
    let at = |key: &str| format!("@my_minio/{}/{key}", bucket.name());
    let _ = haul("put").args(["-q", &at("a/k")]).input("hello").finish().expect_success();
    assert_eq!(haul("get").args(["-q", &at("a/k")]).finish().expect_success().out(), "hello");
    let copy = scene.join("copy");
    let _ = haul("copy").arg(at("a/")).arg(slash(&copy)).finish().expect_success();
    assert_eq!(fs::read_to_string(copy.join("k")).unwrap(), "hello");
    let shown = haul("config").arg("show").finish().expect_success();
    let line = |name: &str| format!("locations.\"my_minio\".{name} = ");
    for name in ["location", "endpoint", "keys"] {
        assert!(shown.out().contains(&line(name)), "{shown}");
    }
    assert!(!shown.out().contains(SECRET_KEY) && shown.out().contains("# MC_HOST_my_minio"), "{shown}");
    // As mc has it, unless there is a directory of this name.
    let run = haul("ls").in_dir(scene.path()).arg(format!("my_minio/{}/a/", bucket.name())).finish();
    let run = run.expect_code(2);
    assert!(run.err().contains("write @my_minio/") && run.err().lines().count() <= 2, "{run}");
    let bad =
        scene.haul("ls").env("MC_HOST_my_minio", "ftp://x:secret@h").arg(at("a/")).finish().expect_code(2);
    assert!(bad.err().contains("MC_HOST_my_minio: it is not like") && !bad.err().contains("secret"), "{bad}");
    let wrong = haul("ls").env("MC_HOST_my_minio", alias.replace(SECRET_KEY, "wrong-secret")).arg(at("a/"));
    let wrong = wrong.finish().expect_code(4);
    assert!(!wrong.err().contains("wrong-secret"), "{wrong}");
}
