//! The values of options for remote hosts.

use std::net::IpAddr;

use haul_remote::Ports;

use super::size::parse_size;

/// The minimum memory: a few buffers per side.
const MIN_MEMORY: u64 = 32 * 1024 * 1024;

/// Reads a range of ports, as in `40000-40100`, or one port.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_ports(text: &str) -> Result<Ports, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| match text.trim().parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("`{text}` is not a port; ports are from 1 to 65535, as in 40000-40100 or 40000")),
    };
    let ports = Ports { first: port(first)?, last: port(last)? };
    if ports.first > ports.last {
        return Err(format!("`{text}` is not a port range; the lower port comes first, as in 40000-40100"));
    }
    Ok(ports)
}

/// Reads an IP address.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_address(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not an IP address; addresses are like 192.0.2.7 or 2001:db8::7"))
}

/// Reads a value of `--max-memory`.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes < MIN_MEMORY { Err(format!("`{text}` is less than 32MiB, the minimum")) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_range_or_a_single_port() {
        assert_eq!(parse_ports("4000-4010"), Ok(Ports { first: 4000, last: 4010 }));
        assert_eq!(parse_ports("4000"), Ok(Ports { first: 4000, last: 4000 }));
        for bad in ["", "0", "70000", "a-b", "5-4", "1-2-3"] {
            assert!(parse_ports(bad).is_err(), "{bad}");
        }
    }
}
