//! Which metadata that gives rights is taken over from a source, by the options and by the owner of the source.

use haul_core::Location;
use haul_engine::Trust;

/// The user's choices; `None`: it depends on the owner of the source.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrustRequest {
    /// Create devices.
    pub devices: Option<bool>,
    /// Keep set-ID bits, file capabilities and trusted.* attributes.
    pub set_ids: Option<bool>,
    /// Skip symbolic links that lead out of the tree.
    pub safe_links: bool,
}

impl TrustRequest {
    /// The trust in `source` for a copy to `destination` by the user who runs haul.
    pub fn between(self, source: &Location, destination: &Location) -> Trust {
        self.of(source, destination, user_name().as_deref())
    }

    /// The same by the user with this name.
    fn of(self, source: &Location, destination: &Location, user: Option<&[u8]>) -> Trust {
        // In a store a device is metadata like any other: it gives no rights before it is copied out again.
        let trusted = is_own(source, user) || matches!(destination, Location::Object(_));
        Trust {
            devices: self.devices.unwrap_or(trusted),
            set_ids: self.set_ids.unwrap_or(trusted),
            outside_links: !self.safe_links,
            encodings: !matches!(source, Location::Object(_)) || matches!(destination, Location::Object(_)),
        }
    }
}

/// The name of the user who runs haul.
fn user_name() -> Option<Vec<u8>> {
    uzers::get_current_username().map(std::os::unix::ffi::OsStringExt::into_vec)
}

/// Whether the user controls who writes to the source. A bucket and a share have other writers, and another account another user.
fn is_own(source: &Location, user: Option<&[u8]>) -> bool {
    match source {
        Location::Local(_) => true,
        Location::Smb { .. } | Location::Object(_) => false,
        Location::Ssh { host, .. } | Location::Sftp { host, .. } => {
            host.destination.rsplit_once('@').is_none_or(|(other, _)| Some(other.as_bytes()) == user)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: TrustRequest = TrustRequest { devices: None, set_ids: None, safe_links: false };

    fn trust(request: TrustRequest, source: &str, destination: &str) -> Trust {
        let at = |text: &str| Location::parse(text.as_bytes()).unwrap();
        request.of(&at(source), &at(destination), Some(b"me"))
    }

    #[test]
    fn by_default_only_the_users_own_sources_give_rights() {
        for source in ["/src", "host:/src", "me@host:/src", "sftp://me@host/src"] {
            assert_eq!(trust(DEFAULT, source, "/dst"), Trust::default(), "{source}");
        }
        for source in ["s3://bucket/src", "gs://bucket/src", "you@host:/src", "sftp://you@host/src"] {
            let trust = trust(DEFAULT, source, "/dst");
            assert!(!trust.devices && !trust.set_ids && trust.outside_links, "{source}");
        }
        for source in ["you@host:/src", "s3://bucket/src"] {
            assert_eq!(trust(DEFAULT, source, "s3://bucket/dst"), Trust::default(), "{source}");
        }
    }

    #[test]
    fn options_override_the_owner_of_the_source() {
        let all = TrustRequest { devices: Some(true), set_ids: Some(true), safe_links: false };
        assert_eq!(trust(all, "s3://bucket/src", "/dst"), Trust { encodings: false, ..Trust::default() });
        let none = TrustRequest { devices: Some(false), set_ids: Some(false), safe_links: true };
        let refused = Trust { devices: false, set_ids: false, outside_links: false, encodings: true };
        assert_eq!(trust(none, "/src", "/dst"), refused);
    }
}
