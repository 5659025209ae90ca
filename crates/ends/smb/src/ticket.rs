//! Kerberos tickets for the server of a share.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_core::Result;
use smb2::auth::kerberos::ccache::{CCache, CcacheCredential, CcachePrincipal};

use super::cache_entry;

/// The ticket is for this service.
const SERVICE: &str = "cifs";

/// Gives tickets for one server.
pub trait Tickets: fmt::Debug + Send + Sync {
    /// A ticket that is valid now. It may block.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Unreachable`], with a hint.
    fn ticket(&self) -> Result<Arc<KerberosTicket>>;

    /// The server says that this ticket has ended: it is not given again. Does not block.
    fn ended(&self, ticket: &Arc<KerberosTicket>);
}

/// A ticket with its session key.
#[derive(Clone, PartialEq, Eq)]
pub struct KerberosTicket {
    user: String,
    realm: String,
    /// The type and the bytes of the session key: AES with 16 or 32 bytes.
    key: (u16, Vec<u8>),
    /// The seconds from 1970 to its end.
    ends: u32,
    /// The ticket as the KDC has written it.
    content: Vec<u8>,
}

impl fmt::Debug for KerberosTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KerberosTicket")
            .field("user", &self.user)
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}

impl KerberosTicket {
    /// Reads the last ticket for an SMB server in a ticket cache.
    ///
    /// # Errors
    /// Why there is none that haul can use.
    pub fn of_cache(cache: &[u8]) -> Result<Self, String> {
        let last = cache_entry::last_for(SERVICE.as_bytes(), cache).ok_or("the ticket cache is damaged")?;
        let last = last.ok_or("the ticket cache has no ticket for an SMB server")?;
        // The library panics at a key of another length.
        if !matches!((last.key_type, last.key.len()), (17, 16) | (18, 32)) {
            return Err(format!(
                "the session key has the type {}, and haul uses aes256-cts-hmac-sha1-96 (18) and \
                 aes128-cts-hmac-sha1-96 (17)",
                last.key_type
            ));
        }
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).ok();
        let user = if let [user] = last.client.components[..] { text(user) } else { None };
        let (Some(user), Some(realm)) = (user, text(last.client.realm)) else {
            return Err("the user of the ticket has more parts than a name and a realm".to_owned());
        };
        let (key, content) = ((last.key_type, last.key.to_vec()), last.ticket.to_vec());
        Ok(Self { user, realm, key, ends: last.ends, content })
    }

    /// Whether it is valid for at least this time.
    #[must_use]
    pub fn lasts(&self, time: Duration) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_add(time) < Duration::from_secs(self.ends.into())
    }

    /// The name of its user, and its realm.
    #[must_use]
    pub fn principal(&self) -> (&str, &str) {
        (&self.user, &self.realm)
    }

    /// A cache of the library with this ticket only, so that the library asks no KDC.
    pub(super) fn cache(&self, host: &str) -> CCache {
        let name =
            |components: Vec<String>| CcachePrincipal { name_type: 1, realm: self.realm.clone(), components };
        let client = name(vec![self.user.clone()]);
        let credential = CcacheCredential {
            client: client.clone(),
            server: name(vec![SERVICE.to_owned(), host.to_owned()]),
            key_etype: self.key.0,
            key_data: self.key.1.clone(),
            authtime: 0,
            starttime: 0,
            endtime: self.ends,
            renew_till: 0,
            ticket: self.content.clone(),
        };
        CCache { version: cache_entry::VERSION, default_principal: client, credentials: vec![credential] }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cache_entry::tests::{CacheWriter, TICKET};
    use super::*;

    #[test]
    fn the_last_ticket_for_an_smb_server_is_read() {
        let mut cache = CacheWriter::new(&["me"]);
        cache.entry(&["krbtgt", "HERE"], 18, &[1; 32], 10);
        cache.entry(&["cifs", "old"], 18, &[2; 32], 20);
        cache.entry(&["cifs", "nas"], 17, &[3; 16], u32::MAX);
        cache.entry(&["host", "nas"], 18, &[4; 32], 40);
        let ticket = KerberosTicket::of_cache(&cache.bytes).unwrap();
        assert_eq!(ticket.principal(), ("me", "HERE"));
        assert_eq!((ticket.key.0, &ticket.key.1[..]), (17, &[3; 16][..]));
        assert!(ticket.lasts(Duration::from_secs(60)));
        assert!(!format!("{ticket:?}").contains('3'));
        let made = ticket.cache("nas");
        let found = made.find_service_ticket("cifs", "nas", "HERE").unwrap();
        assert_eq!((&found.ticket[..], found.key_etype), (TICKET, 17));
    }

    #[test]
    fn a_ticket_that_haul_cannot_use_is_refused() {
        let of = |client: &[&str], server: &[&str], kind: u16, len: usize| {
            let mut cache = CacheWriter::new(client);
            cache.entry(server, kind, &vec![1; len], 10);
            KerberosTicket::of_cache(&cache.bytes)
        };
        for (kind, len) in [(17, 32), (18, 16), (18, 0), (23, 16), (20, 32)] {
            assert!(
                of(&["me"], &["cifs", "nas"], kind, len).unwrap_err().contains("session key"),
                "{kind} {len}"
            );
        }
        assert!(of(&["me", "admin"], &["cifs", "nas"], 18, 32).unwrap_err().contains("more parts"));
        assert!(of(&["me"], &["host", "nas"], 18, 32).unwrap_err().contains("no ticket"));
        assert!(!of(&["me"], &["cifs", "nas"], 18, 32).unwrap().lasts(Duration::ZERO));
    }
}
