//! What a source is trusted with, from the words about it and from whose it is.

use haul_core::Location;
use haul_engine::Trust;

use crate::args::TrustArgs;

/// The words about it; `None` where there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrustSettings {
    devices: Option<bool>,
    set_ids: Option<bool>,
    safe_links: bool,
}

impl TrustSettings {
    /// Resolves the words. Of two that contradict each other the later one has removed the earlier one.
    pub(crate) fn resolve(args: &TrustArgs) -> Self {
        let word = |yes: bool, no: bool| (yes || no).then_some(yes);
        Self {
            devices: word(args.devices, args.no_devices),
            set_ids: word(args.suid, args.no_suid),
            safe_links: args.safe_links,
        }
    }

    /// What `source` is trusted with by a copy to `destination`, made by the user of this name.
    pub(crate) fn of(self, source: &Location, destination: &Location, me: Option<&[u8]>) -> Trust {
        // In a store a device is a note like others: it gives no rights before it comes out again.
        let trusted = is_own(source, me) || matches!(destination, Location::Object(_));
        Trust {
            devices: self.devices.unwrap_or(trusted),
            set_ids: self.set_ids.unwrap_or(trusted),
            outside_links: !self.safe_links,
        }
    }
}

/// Whether what is there was written by who runs this, or with his leave. A bucket has more writers than an account, and
/// another user's account has another user.
fn is_own(source: &Location, me: Option<&[u8]>) -> bool {
    match source {
        Location::Local(_) => true,
        Location::Object(_) => false,
        Location::Ssh { host, .. } | Location::Sftp { host, .. } => {
            host.destination.rsplit_once('@').is_none_or(|(user, _)| Some(user.as_bytes()) == me)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trust(words: &TrustArgs, source: &str, destination: &str) -> Trust {
        let at = |text: &str| Location::parse(text.as_bytes()).unwrap();
        TrustSettings::resolve(words).of(&at(source), &at(destination), Some(b"me"))
    }

    fn none() -> TrustArgs {
        TrustArgs { devices: false, no_devices: false, suid: false, no_suid: false, safe_links: false }
    }

    #[test]
    fn only_what_is_the_users_own_gives_rights_by_default() {
        for source in ["/src", "host:/src", "me@host:/src", "sftp://me@host/src"] {
            assert_eq!(trust(&none(), source, "/dst"), Trust::default(), "{source}");
        }
        for source in ["s3://bucket/src", "gs://bucket/src", "you@host:/src", "sftp://you@host/src"] {
            let trust = trust(&none(), source, "/dst");
            assert!(!trust.devices && !trust.set_ids && trust.outside_links, "{source}");
        }
        assert_eq!(trust(&none(), "you@host:/src", "s3://bucket/dst"), Trust::default());
    }

    #[test]
    fn words_outweigh_whose_it_is() {
        let asked = trust(&TrustArgs { devices: true, suid: true, ..none() }, "s3://bucket/src", "/dst");
        assert_eq!(asked, Trust::default());
        let words = TrustArgs { no_devices: true, no_suid: true, safe_links: true, ..none() };
        let refused = Trust { devices: false, set_ids: false, outside_links: false };
        assert_eq!(trust(&words, "/src", "/dst"), refused);
    }
}
