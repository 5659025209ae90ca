//! Security descriptors of SMB shares. smbcacls judges.

use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::smbd::SHARE;
use haul_testkit::{Need, SmbRelay, SmbdOptions, TestTree};

use crate::scene::{slash, summary};
use crate::smb::Shares;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    cases![
        Need::Root, Need::Program("smbd"), Need::Program("smbcacls"), Need::Program("getfattr");
        security_descriptors_go_from_share_to_share_and_by_way_of_a_disk,
    ]
}

/// The security descriptor of a path on the share, as smbcacls shows it after these words. `relay` has the only port that
/// it knows.
fn smbcacls(shares: &Shares, relay: &SmbRelay, path: &str, words: &[&str]) -> String {
    let mut command = Command::new("smbcacls");
    command.args([&format!("//{}/{SHARE}", relay.host()), path, "--numeric"]);
    command.arg("-s").arg(shares.server.config());
    tool(command.arg("-A").arg(shares.server.credentials()).args(words))
}

fn security_descriptors_go_from_share_to_share_and_by_way_of_a_disk() {
    let shares = Shares::with(&SmbdOptions {
        share: vec!["vfs objects = acl_xattr".to_owned()],
        ..SmbdOptions::default()
    });
    let relay = &SmbRelay::at_usual_port(shares.server.port());
    let tree = TestTree::new(shares.disk("src"), 1);
    tree.text("small", "x");
    tree.text("plain", "x");
    tree.file("dir/large", 9_000_000);
    let lists = [
        ("small", "ACL:S-1-1-0:ALLOWED/0x0/READ,ACL:S-1-5-18:ALLOWED/0x0/FULL"),
        ("dir", "ACL:S-1-1-0:ALLOWED/OI|CI/FULL,ACL:S-1-5-32-546:DENIED/OI|CI/READ"),
        ("dir/large", "ACL:S-1-5-18:ALLOWED/0x0/FULL,ACL:S-1-1-0:ALLOWED/0x0/CHANGE"),
    ];
    for (name, list) in lists {
        let _told = smbcacls(&shares, relay, &format!("src/{name}"), &["--set", list]);
    }
    let _told = smbcacls(&shares, relay, "src/small", &["-C", "S-1-5-32-544"]);
    let assert_same = |copy: &str| {
        for name in ["small", "plain", "dir", "dir/large"] {
            let [original, copied] =
                ["src", copy].map(|at| smbcacls(&shares, relay, &format!("{at}/{name}"), &[]));
            assert_eq!(copied, original, "{copy}/{name}");
            assert!(original.contains("ACL:"), "{original}");
        }
    };
    let (at, acls) = (|path: &str| shares.server.at(path), "--smb-acls");
    let copy = |from: &str, to: &str| summary(&shares.copy(from, to).arg(acls).finish().expect_success());
    let _first = copy(&at("src/"), &at("dst/"));
    assert_same("dst");
    let verify = || shares.haul("verify").arg(acls).arg(at("src/")).arg(at("dst/")).finish();
    verify().expect_success();
    let second = copy(&at("src/"), &at("dst/"));
    assert_eq!((second.of("updated"), second.of("copied")), (0, 0), "{second:?}");
    for name in ["dst/small", "dst/dir"] {
        let _told = smbcacls(&shares, relay, name, &["--set", "ACL:S-1-1-0:ALLOWED/0x0/FULL"]);
    }
    verify().expect_code(1);
    assert_eq!(copy(&at("src/"), &at("dst/")).of("updated"), 2);
    assert_same("dst");
    let back = shares.scene.join("back");
    let _there = copy(&at("src/"), slash(&back).to_str().unwrap());
    let mut getfattr = Command::new("getfattr");
    let kept = tool(getfattr.args(["-e", "hex", "-n", "user.smb.security"]).arg(back.join("small")));
    assert!(kept.contains("0x0100"), "{kept}");
    let _again = copy(slash(&back).to_str().unwrap(), &at("again/"));
    assert_same("again");
}
