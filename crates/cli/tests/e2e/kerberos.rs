//! Logins at SMB shares with Kerberos tickets, from a real KDC at a real Samba server.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use haul_testkit::kdc::{HOST, Kdc, REALM};
use haul_testkit::smbd::{PASSWORD, SHARE, USER};
use haul_testkit::{CommandRun, Need, SmbdOptions, TestTree};

use crate::scene::{HAUL, slash, summary};
use crate::smb::{Shares, assert_same};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Root, Need::Program("smbd"), Need::Program("krb5kdc"), Need::Program("kadmin.local"), Need::Program("kvno");
        a_ticket_takes_the_place_of_a_password,
        who_gets_no_ticket_is_told_why_in_one_line,
        after_a_refused_ticket_no_password_is_tried,
        a_ticket_that_ends_is_replaced_by_a_new_one,
        a_session_that_ends_with_its_ticket_is_replaced,
        a_run_that_outlives_the_login_of_its_user_goes_on_after_the_next_one,
        a_server_of_any_dialect_takes_a_ticket,
    ];
    all.extend(cases![
        Need::Root, Need::Program("smbd"), Need::Program("krb5kdc"), Need::Program("kadmin.local"),
        Need::Program("kvno"), Need::Program("faketime");
        a_clock_that_differs_is_told,
    ]);
    all
}

/// A realm, and a server that belongs to it.
struct Realm {
    kdc: Kdc,
    shares: Shares,
}

impl Realm {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(lines: &[&str]) -> Self {
        let kdc = Kdc::start();
        let options = kdc.smbd_options();
        Self::of(kdc, options, lines)
    }

    /// A server that ends sessions with their tickets, and logs that.
    fn exact() -> Self {
        let kdc = Kdc::start();
        let options = kdc.exact_smbd_options();
        Self::of(kdc, options, &["log level = 1 auth:3 smb2:3"])
    }

    fn of(kdc: Kdc, mut options: SmbdOptions, lines: &[&str]) -> Self {
        options.global.extend(lines.iter().map(|line| (*line).to_owned()));
        let shares = Shares::with(&options);
        Self { kdc, shares }
    }

    fn at(&self, path: &str) -> String {
        self.kdc.at(self.shares.server.port(), path)
    }

    /// The program without a password, and without a terminal to ask for one.
    fn haul(&self, word: &str) -> CommandRun {
        self.kdc.known_to(self.shares.scene.haul(word))
    }

    /// Lists the share, which fails; the messages of the program.
    fn refused(&self, at: &str) -> String {
        let begun = Instant::now();
        let run = self.haul("ls").arg(at).finish().expect_code(4);
        assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
        let said = run.err();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines.len() == 2 && lines[1].starts_with("hint: "), "{said}");
        said
    }

    /// The passwords that the server was sent.
    fn passwords(&self) -> usize {
        self.shares.server.logged("Checking password for unmapped user")
    }
}

fn a_ticket_takes_the_place_of_a_password() {
    let realm = Realm::new();
    let tree = realm.shares.scene.tree("src");
    tree.many("many", 300, 0..3000);
    tree.file("large", 9_000_000);
    realm.kdc.kinit(3600);
    let temporary = realm.shares.scene.join("temporary");
    fs::create_dir(&temporary).unwrap();
    let copy = |from: &std::ffi::OsStr, to: &str, words: &[&str]| {
        let run = realm.haul("copy").arg("--json").args(words).arg(from).arg(to);
        run.env("TMPDIR", &temporary).env("XDG_RUNTIME_DIR", "").finish().expect_success()
    };
    let run = copy(slash(tree.path()).as_os_str(), &realm.at("dst/"), &[]);
    summary(&run).assert_accounted();
    assert_same(tree.path(), &realm.shares.disk("dst"));
    copy(slash(tree.path()).as_os_str(), &realm.at("sealed/"), &["--smb-encrypt"]);
    assert_same(tree.path(), &realm.shares.disk("sealed"));
    assert_eq!(realm.kdc.tickets(), 2, "one for each run");
    assert_eq!(realm.passwords(), 0, "{}", realm.shares.server.log());
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "no ticket stays");

    let user = realm.at("").replace(HOST, &format!("{}@{HOST}", USER.to_uppercase()));
    realm.haul("ls").arg(user).finish().expect_success();
    let domain = realm.at("").replace(HOST, &format!("haul;{USER}@{HOST}"));
    realm.haul("ls").arg(domain).finish().expect_success();

    // A password that is given comes first.
    let file = realm.shares.server.credentials();
    realm.haul("ls").arg("--smb-credentials").arg(file).arg(realm.at("")).finish().expect_success();
    realm.haul("ls").env("USER", USER).env("PASSWD", PASSWORD).arg(realm.at("")).finish().expect_success();
    assert_eq!(realm.passwords(), 2);
}

fn who_gets_no_ticket_is_told_why_in_one_line() {
    let mut realm = Realm::new();
    let needs_password = |said: &str| assert!(said.contains("no user and password are given"), "{said}");
    needs_password(&realm.refused(&realm.at("")));
    realm.kdc.kinit(3600);
    needs_password(&realm.refused(&realm.at("").replace(HOST, &format!("other@{HOST}"))));
    needs_password(&realm.refused(&realm.at("").replace(HOST, &format!("other;{USER}@{HOST}"))));
    needs_password(&realm.refused(&realm.at("").replace(HOST, "127.0.0.1")));
    let off = realm.haul("ls").env("KRB5CCNAME", "").arg(realm.at("")).finish().expect_code(4);
    needs_password(&off.err());

    let unknown = realm.refused(&realm.at("").replace(HOST, "127.0.1"));
    assert!(unknown.contains(&format!("the KDC of {REALM} knows no service cifs/127.0.1")), "{unknown}");
    assert!(unknown.contains("--smb-credentials"), "{unknown}");
    let empty = realm.shares.scene.join("empty");
    fs::create_dir(&empty).unwrap();
    std::os::unix::fs::symlink("/usr/bin/klist", empty.join("klist")).unwrap();
    let missing = realm.haul("ls").env("PATH", &empty).arg(realm.at("")).finish().expect_code(4);
    assert!(
        missing.err().contains("kvno is missing") && missing.err().contains("krb5-user"),
        "{}",
        missing.err()
    );

    realm.kdc.kinit(1);
    sleep(Duration::from_millis(2100));
    let expired = realm.refused(&realm.at(""));
    assert!(expired.contains(&format!("the Kerberos ticket of {USER}@{REALM} has expired")), "{expired}");
    assert!(expired.contains(&format!("run `kinit {USER}@{REALM}`")), "{expired}");
    realm.kdc.kinit(3600);
    realm.kdc.kill();
    let dead = realm.refused(&realm.at(""));
    assert!(dead.contains("KDC"), "{dead}");
    assert_eq!(realm.passwords(), 0);
}

fn after_a_refused_ticket_no_password_is_tried() {
    let realm = Realm::new();
    realm.kdc.kinit(3600);
    realm.haul("ls").arg(realm.at("")).finish().expect_success();
    realm.kdc.change_key();
    let refused = realm.refused(&realm.at(""));
    assert!(refused.contains("does not accept the Kerberos ticket of"), "{refused}");
    assert!(refused.contains("haul tries no password after a ticket that was refused"), "{refused}");
    assert_eq!(realm.passwords(), 0, "{}", realm.shares.server.log());
}

fn a_ticket_that_ends_is_replaced_by_a_new_one() {
    let mut realm = Realm::new();
    let tree = TestTree::new(realm.shares.disk("src"), 1);
    tree.file("huge", 50 << 20);
    tree.many("many", 500, 0..2000);
    realm.kdc.kinit(30);
    let copy = realm.shares.scene.join("dst");
    let run = realm.haul("copy").arg("--json").arg(realm.at("src/")).arg(slash(&copy));
    let mut run = run.args(["--bwlimit", "10M"]).start();
    run.wait_until("it is under way", || haul_testkit::tree::content_len(&copy) > 10 << 20);
    let before = realm.kdc.tickets();
    realm.kdc.kinit(3600);
    realm.shares.server.restart();
    run.finish().expect_success();
    assert!(realm.kdc.tickets() > before, "a ticket that ends within a minute is used no more");
    assert_same(tree.path(), &copy);
}

/// How often the server refused a request because the session had ended with its ticket.
fn expired(realm: &Realm) -> usize {
    realm.shares.server.logged("NT_STATUS_NETWORK_SESSION_EXPIRED")
}

fn a_session_that_ends_with_its_ticket_is_replaced() {
    for up in [true, false] {
        let realm = Realm::exact();
        let shares = &realm.shares;
        let tree = if up { shares.scene.tree("src") } else { TestTree::new(shares.disk("src"), 1) };
        tree.file("huge", 60 << 20);
        tree.many("many", 2000, 0..2000);
        let (from, to, copy) = if up {
            (slash(tree.path()), realm.at("dst/").into(), shares.disk("dst"))
        } else {
            (realm.at("src/").into(), slash(&shares.scene.join("dst")), shares.scene.join("dst"))
        };
        realm.kdc.kinit(3600);
        realm.kdc.shorten_tickets(5);
        let run = realm.haul("copy").arg("--json").args(["--bwlimit", "4M"]).arg(from).arg(to).finish();
        let run = run.expect_success();
        summary(&run).assert_accounted();
        assert_eq!(run.err(), "", "it is nothing that the user could mend");
        assert!(expired(&realm) > 0, "{}", shares.server.log());
        assert!(realm.kdc.tickets() > 2, "{} tickets", realm.kdc.tickets());
        assert_same(tree.path(), &copy);
    }
}

fn a_run_that_outlives_the_login_of_its_user_goes_on_after_the_next_one() {
    let realm = Realm::exact();
    let tree = realm.shares.scene.tree("src");
    tree.file("huge", 100 << 20);
    tree.many("many", 300, 0..2000);
    let (copy, to) = (realm.shares.disk("dst"), realm.at("dst/"));
    let run = |words: &[&str]| realm.haul("copy").args(words).arg(slash(tree.path())).arg(&to).finish();
    realm.kdc.kinit(8);
    let ended = run(&["--bwlimit", "4M"]).expect_code(4);
    assert!(expired(&realm) > 0, "{}", realm.shares.server.log());
    let said = ended.err();
    let told: Vec<&str> = said.lines().filter(|line| line.contains("Kerberos ticket")).collect();
    assert_eq!(told.len(), 1, "{said}");
    assert!(told[0].contains(&format!("the Kerberos ticket of {USER}@{REALM} has expired")), "{said}");
    assert!(said.contains(&format!("run `kinit {USER}@{REALM}` and run haul again")), "{said}");
    assert!(!copy.join("huge").exists(), "the final name is for what is whole");
    realm.kdc.kinit(3600);
    let again = summary(&run(&["--json"]).expect_success());
    assert!(again.of("resumed_bytes") > 8 << 20, "{again:?}");
    assert_same(tree.path(), &copy);
}

fn a_server_of_any_dialect_takes_a_ticket() {
    for line in [
        "server max protocol = SMB2_02",
        "server max protocol = SMB2_10",
        "server max protocol = SMB3_00",
        "ntlm auth = disabled",
    ] {
        let realm = Realm::with(&[line]);
        realm.kdc.kinit(3600);
        let tree = realm.shares.scene.tree("src");
        tree.many("many", 30, 0..3000);
        let run = realm.haul("copy").arg(slash(tree.path())).arg(realm.at("dst/")).finish();
        run.expect_success();
        assert_same(tree.path(), &realm.shares.disk("dst"));
    }
}

fn a_clock_that_differs_is_told() {
    let realm = Realm::new();
    realm.kdc.kinit(3600);
    let run = CommandRun::new("faketime", realm.shares.scene.tag()).args(["+7 minutes", HAUL, "ls"]);
    let run = realm.kdc.known_to(run).env("HOME", realm.shares.scene.home()).arg(realm.at(""));
    let said = run.finish().expect_code(4).err();
    assert!(said.contains("differs from the one of the KDC by more than 5 minutes"), "{said}");
    assert!(said.contains(&format!("/{SHARE}")), "{said}");
}
