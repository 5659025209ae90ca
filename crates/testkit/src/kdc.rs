//! Starts a real KDC of MIT Kerberos, with a realm of its own that knows one user and one SMB server.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::needs::tool;
use crate::process::{CommandRun, wait_until};
use crate::scratch::Scratch;
use crate::smbd::{PASSWORD, SHARE, SmbdOptions, USER, free_port};

/// The realm.
pub const REALM: &str = "HAUL.TEST";
/// The name of the SMB server in the realm. The system takes it for 127.0.0.1, without a list of hosts.
pub const HOST: &str = "127.1";

/// MIT Kerberos lets a session last longer than its ticket by the time that clocks may differ: 5 minutes, or these
/// seconds.
pub const EXACT_SKEW: u32 = 4;

/// A running KDC on a free port of 127.0.0.1. Killed on drop.
#[derive(Debug)]
pub struct Kdc {
    child: Option<Child>,
    port: u16,
    scratch: Scratch,
}

impl Kdc {
    /// Starts a KDC that knows [`USER`] with [`PASSWORD`], and the service of SMB at [`HOST`].
    #[must_use]
    pub fn start() -> Self {
        let mut kdc = Self { child: None, port: free_port(), scratch: Scratch::new() };
        kdc.configure();
        let mut create = kdc.command("kdb5_util");
        tool(create.args(["-r", REALM, "create", "-s", "-P", "master"]));
        kdc.admin(&format!("addprinc -pw \"{PASSWORD}\" {USER}"));
        kdc.admin(&format!("addprinc -randkey cifs/{HOST}"));
        kdc.renew_keytab();
        kdc.spawn();
        kdc
    }

    fn configure(&self) {
        let at = |name: &str| self.scratch.join(name).display().to_string();
        let port = self.port;
        let client = format!(
            "[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n\
             dns_canonicalize_hostname = false\nrdns = false\n[realms]\n{REALM} = {{\nkdc = 127.0.0.1:{port}\n}}\n"
        );
        // Samba takes the PAC of a KDC for one of Windows.
        let server = format!(
            "[kdcdefaults]\nkdc_listen = 127.0.0.1:{port}\nkdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n\
             {REALM} = {{\ndatabase_name = {}\nkey_stash_file = {}\nacl_file = {}\ndisable_pac = true\n}}\n\
             [logging]\nkdc = FILE:{}\n",
            at("principal"),
            at("stash"),
            at("acl"),
            at("log"),
        );
        fs::write(self.scratch.join("krb5.conf"), &client).unwrap();
        fs::write(self.scratch.join("kdc.conf"), server).unwrap();
        let exact = client.replacen('\n', &format!("\nclockskew = {EXACT_SKEW}\n"), 1);
        fs::write(self.scratch.join("exact.conf"), exact).unwrap();
    }

    fn command(&self, program: &str) -> Command {
        let sbin = PathBuf::from("/usr/sbin").join(program);
        let mut command = if sbin.is_file() { Command::new(sbin) } else { Command::new(program) };
        command.envs(self.environment()).env("KRB5_KDC_PROFILE", self.scratch.join("kdc.conf"));
        command
    }

    fn admin(&self, query: &str) {
        tool(self.command("kadmin.local").args(["-r", REALM, "-q", query]));
    }

    /// Gives the service another key, and the server's key table that key. A running server keeps using the old one
    /// until it reads the table again.
    fn renew_keytab(&self) {
        self.admin(&format!("ktadd -k {} cifs/{HOST}", self.scratch.join("keytab").display()));
    }

    /// Gives the service another key, which the server does not get.
    pub fn change_key(&self) {
        self.admin(&format!("cpw -randkey cifs/{HOST}"));
    }

    /// From now on, tickets for the service end after this many seconds.
    pub fn shorten_tickets(&self, seconds: u32) {
        self.admin(&format!("modprinc -maxlife \"{seconds} seconds\" cifs/{HOST}"));
    }

    fn spawn(&mut self) {
        let mut command = self.command("krb5kdc");
        command.args(["-n", "-r", REALM, "-P"]).arg(self.scratch.join("pid"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap_or_else(|error| panic!("cannot start krb5kdc: {error}")));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        wait_until("the KDC answers", Duration::from_secs(20), || {
            TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
        });
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The variables of those who use the realm.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, String); 2] {
        let at = |name: &str| self.scratch.join(name).display().to_string();
        [("KRB5_CONFIG", at("krb5.conf")), ("KRB5CCNAME", format!("FILE:{}", at("cache")))]
    }

    /// The same command with these variables.
    #[must_use]
    pub fn known_to(&self, run: CommandRun) -> CommandRun {
        self.environment().into_iter().fold(run, |run, (name, value)| run.env(name, value))
    }

    /// Gets a ticket for [`USER`] that ends after this many seconds.
    pub fn kinit(&self, seconds: u32) {
        let mut command = self.command("kinit");
        command.args(["-l", &format!("{seconds}s"), USER]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{PASSWORD}").unwrap();
        assert!(child.wait().unwrap().success(), "kinit");
    }

    /// The options of an smbd that takes the tickets of this realm.
    #[must_use]
    pub fn smbd_options(&self) -> SmbdOptions {
        let keytab = self.scratch.join("keytab").display().to_string();
        let global = vec![
            format!("realm = {REALM}"),
            "kerberos method = dedicated keytab".to_owned(),
            format!("dedicated keytab file = FILE:{keytab}"),
        ];
        SmbdOptions { global, ..SmbdOptions::default() }
    }

    /// The same, of a server whose sessions last as long as their tickets, and [`EXACT_SKEW`] seconds more.
    #[must_use]
    pub fn exact_smbd_options(&self) -> SmbdOptions {
        let environment = vec![("KRB5_CONFIG", self.scratch.join("exact.conf").display().to_string())];
        SmbdOptions { environment, ..self.smbd_options() }
    }

    /// The location of a path on the share of a server on this port.
    #[must_use]
    pub fn at(&self, port: u16, path: &str) -> String {
        format!("smb://{HOST}:{port}/{SHARE}/{path}")
    }

    /// The number of tickets for the SMB server that it has given.
    #[must_use]
    pub fn tickets(&self) -> usize {
        let log = fs::read_to_string(self.scratch.join("log")).unwrap_or_default();
        let is_one =
            |line: &&str| line.contains("TGS_REQ") && line.contains("ISSUE") && line.contains("cifs/");
        log.lines().filter(is_one).count()
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        self.kill();
    }
}
