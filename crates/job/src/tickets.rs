//! Kerberos tickets for shares, from the user's ticket cache.
//!
//! The programs of MIT Kerberos read every kind of cache, find the KDC of a realm, and follow realms that trust each other:
//! `klist` names the user, and `kvno` writes the ticket for one server into a cache of its own, which haul reads.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haul_core::location::SmbServer;
use haul_core::sync::Mutex;
use haul_core::text::Clean;
use haul_core::{Error, ErrorKind, Result, Side};
use haul_smb::{KerberosTicket, Tickets};

use super::short_run::{RunFailure, short_run};

/// The variable that names the ticket cache; empty, there is none.
const CACHE: &str = "KRB5CCNAME";
/// The most bytes of a cache with one ticket.
const MOST: u64 = 256 * 1024;
/// A ticket that ends earlier is replaced.
const LASTS: Duration = Duration::from_secs(60);
/// How long to wait before `kvno` is asked again. It gives a ticket of the user's cache up to its last second, and the
/// server may call it ended in that second.
const LAST_SECOND: Duration = Duration::from_secs(1);
const MISSING: &str = "install krb5-user (Debian) or krb5-workstation (Fedora), or give a password with \
                       --smb-credentials";
/// The way out if the server has nothing to do with the realm.
const PASSWORD: &str = "or give a password with --smb-credentials; if KRB5CCNAME is empty, haul asks for one";
/// The way out if haul cannot use the ticket.
const MOUNT: &str = "mount the share with `mount -t cifs -o sec=krb5` and copy to the mount, or give a password with \
                     --smb-credentials";

/// The user of a ticket cache.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Principal {
    name: String,
    realm: String,
}

impl Principal {
    /// Reads the messages of `klist`.
    fn of_klist(said: &str) -> Option<Self> {
        let line = said.lines().find_map(|line| line.strip_prefix("Default principal: "))?;
        let (name, realm) = line.trim().rsplit_once('@')?;
        Some(Self { name: name.to_owned(), realm: realm.to_owned() })
    }

    /// Whether this is the user that is asked for. The short name of a domain is mostly the first part of its realm.
    fn is(&self, user: Option<&str>, domain: Option<&str>) -> bool {
        let same = |given: Option<&str>, names: &[&str]| {
            let given = given.filter(|given| !given.is_empty());
            given.is_none_or(|given| names.iter().any(|name| name.eq_ignore_ascii_case(given)))
        };
        let first = self.realm.split('.').next().unwrap_or_default();
        same(user, &[&self.name]) && same(domain, &[&self.realm, first])
    }
}

/// Gets tickets for a server from the ticket cache, and keeps the last one.
#[derive(Debug)]
struct CachedTickets {
    server: SmbServer,
    principal: Principal,
    timeout: Duration,
    last: Mutex<Option<Arc<KerberosTicket>>>,
    /// The last ticket that the server has called ended. Its clock may differ from the one here.
    ended: Mutex<Option<Arc<KerberosTicket>>>,
}

/// Tickets for a server, if there is a ticket cache of this user. A server that is named by its address gets none.
///
/// # Errors
/// `Unreachable` if there is no ticket for the server; `Cancelled`.
pub(crate) fn of_user(
    server: &SmbServer,
    user: Option<&str>,
    domain: Option<&str>,
    timeout: Duration,
    cancel: &AtomicBool,
) -> Result<Option<Arc<dyn Tickets>>> {
    let is_off = std::env::var_os(CACHE).is_some_and(|cache| cache.is_empty());
    let has_no_name = server.host.parse::<IpAddr>().is_ok() || server.host.eq_ignore_ascii_case("localhost");
    if is_off || has_no_name {
        return Ok(None);
    }
    let Ok((true, said)) = short_run(&mut Command::new("klist"), timeout, cancel) else { return Ok(None) };
    let Some(principal) = Principal::of_klist(&said).filter(|found| found.is(user, domain)) else {
        return Ok(None);
    };
    let (last, ended) = (Mutex::default(), Mutex::default());
    let tickets = CachedTickets { server: server.clone(), principal, timeout, last, ended };
    *tickets.last.lock() = Some(tickets.get(cancel)?);
    Ok(Some(Arc::new(tickets)))
}

impl Tickets for CachedTickets {
    fn ticket(&self) -> Result<Arc<KerberosTicket>> {
        let mut last = self.last.lock();
        let is_usable = |ticket: &&Arc<KerberosTicket>| ticket.lasts(LASTS) && self.not_ended(ticket).is_ok();
        if let Some(ticket) = last.as_ref().filter(is_usable) {
            return Ok(Arc::clone(ticket));
        }
        let mut ticket = self.get(&AtomicBool::new(false))?;
        if self.not_ended(&ticket).is_err() {
            std::thread::sleep(LAST_SECOND);
            ticket = self.get(&AtomicBool::new(false))?;
        }
        self.not_ended(&ticket)?;
        *last = Some(Arc::clone(&ticket));
        Ok(ticket)
    }

    fn ended(&self, ticket: &Arc<KerberosTicket>) {
        *self.ended.lock() = Some(Arc::clone(ticket));
    }
}

impl CachedTickets {
    fn get(&self, cancel: &AtomicBool) -> Result<Arc<KerberosTicket>> {
        let failed = |cause: String| self.refused(&cause);
        // In memory where that is possible. Nobody else may enter it, and it is gone at the end of this function.
        let memory = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_dir());
        let made = memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in);
        let dir = made.map_err(|error| failed(format!("no directory for a ticket can be made: {error}")))?;
        let path = dir.path().join("ticket");
        let mut cache = OsString::from("FILE:");
        cache.push(&path);
        let mut kvno = Command::new("kvno");
        kvno.args(["-q", "--out-cache"]).arg(cache).args(["-S", "cifs", "--", &self.server.host]);
        let ran = short_run(&mut kvno, self.timeout, cancel);
        let (succeeded, said) = ran.map_err(|failure| self.not_run(&failure))?;
        if !succeeded {
            return Err(self.meaning(&said));
        }
        let mut cache = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(MOST).read_to_end(&mut cache));
        read.map_err(|error| failed(format!("the ticket of kvno cannot be read: {error}")))?;
        Ok(Arc::new(KerberosTicket::of_cache(&cache).map_err(|cause| failed(cause).with_hint(MOUNT))?))
    }

    /// Refuses the ticket that the server has called ended. The ticket cache of the user may give it again, and the server
    /// would end each session with it at once.
    fn not_ended(&self, ticket: &Arc<KerberosTicket>) -> Result<()> {
        if self.ended.lock().as_ref() != Some(ticket) {
            return Ok(());
        }
        let cause = format!(
            "the server says that the Kerberos ticket of {} has ended, and the ticket cache has no other one",
            self.user()
        );
        Err(self.refused(&cause).with_hint(self.kinit()))
    }

    /// The user of the tickets, to be shown.
    fn user(&self) -> String {
        let Principal { name, realm } = &self.principal;
        format!("{name}@{realm}").clean()
    }

    /// The way out if the user has no valid ticket.
    fn kinit(&self) -> String {
        format!("run `kinit {}` and run haul again, {PASSWORD}", self.user())
    }

    fn refused(&self, cause: &str) -> Error {
        Error::new(ErrorKind::Unreachable, Side::Wire, "log in to", cause).on(self.server.to_string())
    }

    fn not_run(&self, failure: &RunFailure) -> Error {
        match failure {
            RunFailure::NotFound => self
                .refused("kvno is missing, which gets the Kerberos ticket for the server")
                .with_hint(MISSING),
            RunFailure::Late => self
                .refused("kvno gets no Kerberos ticket for the server in time")
                .with_hint(format!("check the network and the KDC in /etc/krb5.conf, {PASSWORD}")),
            RunFailure::Cancelled => {
                Error::new(ErrorKind::Cancelled, Side::Local, "log in", "the run was stopped")
            }
            RunFailure::Refused(error) => self.refused(&format!("kvno cannot be run: {error}")),
        }
    }

    /// The error for a message of `kvno`.
    fn meaning(&self, said: &str) -> Error {
        let (user, realm, kinit) = (self.user(), self.principal.realm.clone().clean(), self.kinit());
        let (cause, hint) = if said.contains("Clock skew too great") {
            let cause = "the clock here differs from the one of the KDC by more than 5 minutes";
            (cause.to_owned(), "set it, such as with chrony, and run haul again".to_owned())
        } else if said.contains("expired") {
            (format!("the Kerberos ticket of {user} has expired"), kinit)
        } else if said.contains("not found in Kerberos database") {
            let cause =
                format!("the KDC of {realm} knows no service cifs/{}", self.server.host.clone().clean());
            (cause, format!("name the server as the KDC does, mostly with its domain, {PASSWORD}"))
        } else {
            let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("kvno says nothing");
            let line = line.trim().strip_prefix("kvno: ").unwrap_or(line.trim());
            (format!("there is no Kerberos ticket for the server ({})", line.to_owned().clean()), kinit)
        };
        self.refused(&cause).with_hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use haul_core::Retry;

    use super::*;

    fn principal() -> Principal {
        let said = "Ticket cache: FILE:/tmp/krb5cc_0\nDefault principal: Me@WORK.EXAMPLE\n\nValid starting\n";
        Principal::of_klist(said).unwrap()
    }

    #[test]
    fn the_user_of_a_cache_is_compared_with_the_one_that_is_asked_for() {
        let me = principal();
        assert_eq!((&me.name[..], &me.realm[..]), ("Me", "WORK.EXAMPLE"));
        assert!(me.is(None, None) && me.is(Some("me"), None) && me.is(Some(""), Some("")));
        assert!(me.is(Some("me"), Some("work")) && me.is(None, Some("work.example")));
        assert!(!me.is(Some("you"), None) && !me.is(Some("me"), Some("home")));
        assert_eq!(Principal::of_klist("klist: No credentials cache found\n"), None);
        assert_eq!(Principal::of_klist("Default principal: nobody\n"), None);
    }

    fn tickets() -> CachedTickets {
        let server = SmbServer {
            domain: None,
            user: None,
            host: "nas.work.example".to_owned(),
            port: None,
            share: "disk".to_owned(),
        };
        let (last, ended) = (Mutex::default(), Mutex::default());
        CachedTickets { server, principal: principal(), timeout: Duration::ZERO, last, ended }
    }

    /// A ticket with this content, as the cache of `kvno` has it.
    fn ticket(content: &[u8]) -> Arc<KerberosTicket> {
        let counted = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
        let name = |parts: &[&[u8]]| {
            let head = [1_u32.to_be_bytes(), (parts.len() as u32).to_be_bytes()].concat();
            let parts: Vec<u8> = parts.iter().flat_map(|part| counted(part)).collect();
            [head, counted(b"WORK.EXAMPLE"), parts].concat()
        };
        let (me, service) = (name(&[b"Me"]), name(&[b"cifs", b"nas.work.example"]));
        let key = [&18_u16.to_be_bytes()[..], &counted(&[1; 32])].concat();
        // Four times; two flags; no addresses and no data for the server.
        let facts = [&[0xff; 16][..], &[0; 5], &[0; 8]].concat();
        let cache =
            [&[5, 4, 0, 0][..], &me, &me, &service, &key, &facts, &counted(content), &counted(b"")].concat();
        Arc::new(KerberosTicket::of_cache(&cache).unwrap())
    }

    #[test]
    fn a_ticket_that_the_server_has_called_ended_is_refused() {
        let (tickets, ended) = (tickets(), ticket(b"one"));
        *tickets.last.lock() = Some(Arc::clone(&ended));
        assert_eq!(tickets.ticket().unwrap(), ended);
        tickets.ended(&ended);
        // The cache gives the same one again.
        let error = tickets.not_ended(&ticket(b"one")).unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Unreachable, Retry::Never));
        assert!(error.cause().contains("the Kerberos ticket of Me@WORK.EXAMPLE has ended"), "{error}");
        assert!(error.hint().unwrap().contains("run `kinit Me@WORK.EXAMPLE` and run haul again"), "{error}");
        assert!(tickets.not_ended(&ticket(b"other")).is_ok());
    }

    #[test]
    fn what_kvno_says_becomes_a_cause_and_a_way_out() {
        let tickets = tickets();
        let for_nas = "while getting credentials for cifs/nas.work.example@";
        for (said, cause, hint) in [
            ("Clock skew too great", "the one of the KDC by more than 5 minutes", "chrony"),
            (
                "Ticket expired",
                "the Kerberos ticket of Me@WORK.EXAMPLE has expired",
                "`kinit Me@WORK.EXAMPLE`",
            ),
            (
                "Server not found in Kerberos database",
                "the KDC of WORK.EXAMPLE knows no service cifs/nas.work.example",
                "--smb-credentials",
            ),
            (
                "Cannot contact any KDC for realm 'WORK'",
                "(Cannot contact any KDC for realm 'WORK' while",
                "kinit",
            ),
        ] {
            let error = tickets.meaning(&format!("kvno: {said} {for_nas}\n"));
            assert_eq!(error.kind(), ErrorKind::Unreachable);
            assert!(error.cause().contains(cause), "{error}");
            assert!(error.hint().unwrap().contains(hint), "{error}");
        }
        assert!(tickets.meaning("").cause().contains("kvno says nothing"));
        assert!(tickets.not_run(&RunFailure::NotFound).hint().unwrap().contains("krb5-user"));
    }
}
