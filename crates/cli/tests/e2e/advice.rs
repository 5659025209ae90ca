//! Errors that name the way out of a slip, and runs that change nothing before they tell it.

use std::time::Duration;

use haul_testkit::SshdOptions;
use haul_testkit::sshd::sftp_server;

use crate::scene::Scene;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        an_account_for_sftp_alone_gets_the_url,
        a_refused_login_shows_the_command_of_ssh,
        a_scheme_without_the_rest_is_no_host,
        a_timeout_of_hosts_is_told_at_stores,
    ]
}

fn an_account_for_sftp_alone_gets_the_url() {
    let external = sftp_server().display().to_string();
    for command in ["internal-sftp", &external] {
        let options = SshdOptions { force_command: Some(command.to_owned()), ..SshdOptions::default() };
        let scene = Scene::with_sshd(options);
        scene.tree("src").file("file", 10);
        let (from, to) = (scene.join("src"), scene.join("dst"));
        let run = scene.haul_ssh("copy").arg(&from).arg(scene.remote(&to)).finish().expect_code(4);
        assert!(run.err().contains("write sftp://127.0.0.1/PATH"), "{run}");
        assert!(!run.err().contains("bashrc") && run.err().lines().count() == 2, "{run}");
        let over = format!("sftp://127.0.0.1{}", to.display());
        let _ = scene.haul_ssh("copy").arg(&from).arg(over).finish().expect_code(0);
        assert!(to.join("src/file").exists());
    }
}

fn a_refused_login_shows_the_command_of_ssh() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    let shell = scene.sshd().shell().replace("client_key", "no key").replace("-i ", "-i '");
    let shell = shell.replace("no key", "no key'");
    let run = scene.haul("copy").args(["-e", &shell]).arg(scene.join("src")).arg(scene.remote("/x"));
    let run = run.finish().expect_code(4);
    assert!(run.err().contains("Permission denied ("), "{run}");
    let denied = scene.haul("copy").args(["-e", &format!("{shell} -q")]);
    let denied = denied.arg(scene.join("src")).arg(scene.remote("/x")).finish().expect_code(4);
    for run in [run, denied] {
        let is_named = run.err().contains("no key") && !run.err().contains("SSH:");
        assert!(is_named, "{run}");
    }
}

fn a_scheme_without_the_rest_is_no_host() {
    let scene = Scene::new();
    for (at, url) in [("s3:", "s3://"), ("gs:", "gs://"), ("sftp:", "sftp://HOST"), ("smb:", "smb://HOST")] {
        let run = scene.haul("ls").arg(at).finish().expect_code(2);
        assert!(run.err().contains(&format!("write {url}")), "{run}");
        assert_eq!(run.err().lines().count(), 1, "{run}");
    }
}

fn a_timeout_of_hosts_is_told_at_stores() {
    let scene = Scene::new();
    scene.tree("src").file("file", 10);
    let told = "--timeout does not count for stores: --store-timeout sets";
    for (words, is_told) in [
        (&["copy", "--timeout=8", "src/", "s3://bucket/x"][..], true),
        (&["copy", "--timeout=8", "--store-timeout=1", "src/", "s3://bucket/x"], false),
        (&["verify", "--timeout=8", "src/", "s3://bucket/x"], true),
        (&["hash", "--timeout=8", "s3://bucket/x"], true),
        (&["hash", "--timeout=8", "src"], false),
    ] {
        let run = scene.haul(words[0]).in_dir(scene.path()).args(&words[1..]);
        let run = run.env("AWS_EC2_METADATA_DISABLED", "true").limit(Duration::from_secs(60)).finish();
        assert_eq!(run.err().matches(told).count(), usize::from(is_told), "{words:?}: {run}");
    }
}
