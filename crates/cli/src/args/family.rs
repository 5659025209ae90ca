//! The version of IP.

use clap::Args;
use haul_core::IpFamily;

/// The version of IP.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct FamilyArgs {
    /// Use IPv4 only, for ssh, direct connections and object stores
    ///
    /// If -e names another program than ssh, add the option to that command.
    #[arg(short = '4', long, overrides_with = "ipv6", help_heading = "Remote hosts")]
    pub(crate) ipv4: bool,
    /// Use IPv6 only, like -4
    #[arg(short = '6', long, overrides_with = "ipv4", help_heading = "Remote hosts")]
    pub(crate) ipv6: bool,
}

impl FamilyArgs {
    /// The version of IP. Of the two options clap has already dropped the first one.
    pub(crate) fn chosen(self) -> Option<IpFamily> {
        self.ipv4.then_some(IpFamily::V4).or(self.ipv6.then_some(IpFamily::V6))
    }
}
