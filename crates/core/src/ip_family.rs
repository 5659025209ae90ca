//! The version of IP that connections use (`-4`, `-6`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    /// Whether the address is of this family. An IPv4 address in the notation of IPv6 is one of IPv4.
    #[must_use]
    pub fn has(self, address: IpAddr) -> bool {
        address.to_canonical().is_ipv4() == (self == Self::V4)
    }

    /// The address of a socket that may use any address of this family.
    #[must_use]
    pub fn any(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// The option of ssh for this family.
    #[must_use]
    pub fn option(self) -> &'static str {
        match self {
            Self::V4 => "-4",
            Self::V6 => "-6",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_family() {
        for (address, family) in [
            ("192.0.2.1", IpFamily::V4),
            ("::ffff:192.0.2.1", IpFamily::V4),
            ("::1", IpFamily::V6),
            ("2001:db8::1", IpFamily::V6),
        ] {
            let address = address.parse().unwrap();
            let found: Vec<_> =
                [IpFamily::V4, IpFamily::V6].into_iter().filter(|one| one.has(address)).collect();
            assert_eq!(found, [family], "{address}");
            assert!(family.has(family.any()));
        }
    }
}
