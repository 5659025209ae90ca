//! The kernel's network settings, and the route to another host.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use haul_core::probe::Route;
use rustix::net::sockopt;

/// The relevant settings, below `/proc/sys/net`.
const SETTINGS: [&str; 12] = [
    "core/rmem_max",
    "core/wmem_max",
    "core/default_qdisc",
    "ipv4/tcp_rmem",
    "ipv4/tcp_wmem",
    "ipv4/tcp_window_scaling",
    "ipv4/tcp_sack",
    "ipv4/tcp_moderate_rcvbuf",
    "ipv4/tcp_congestion_control",
    "ipv4/tcp_available_congestion_control",
    "ipv4/tcp_slow_start_after_idle",
    "ipv4/tcp_mtu_probing",
];

/// The readable settings, by their dotted names.
pub(super) fn settings() -> BTreeMap<String, String> {
    let read = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?;
        Some((name.replace('/', "."), text.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    SETTINGS.iter().filter_map(|name| read(name)).collect()
}

/// The number at position `at` of a setting.
pub(crate) fn number(settings: &BTreeMap<String, String>, name: &str, at: usize) -> Option<u64> {
    settings.get(name)?.split(' ').nth(at)?.parse().ok()
}

/// The addresses of the ssh login, from the environment that sshd sets.
pub(super) fn ssh_login() -> Option<(String, String)> {
    parse_login(&std::env::var("SSH_CONNECTION").ok()?)
}

/// `192.0.2.1 50022 192.0.2.2 22`
fn parse_login(text: &str) -> Option<(String, String)> {
    let words: Vec<&str> = text.split(' ').collect();
    let [from, _, to, _] = words[..] else { return None };
    from.parse::<IpAddr>().ok()?;
    to.parse::<IpAddr>().ok()?;
    Some((from.to_owned(), to.to_owned()))
}

/// The route to an address. Sends nothing.
pub(super) fn route(to: &str) -> Option<Route> {
    let to: IpAddr = to.parse().ok()?;
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { "::".parse().ok()? };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    // Connecting a datagram socket looks up the route; 9 is the port of the discard service.
    socket.connect(SocketAddr::new(to, 9)).ok()?;
    let from = socket.local_addr().ok()?.ip();
    let path_mtu = if to.is_ipv4() { sockopt::ip_mtu(&socket) } else { sockopt::ipv6_mtu(&socket) };
    let interface = interface(from, to)?;
    let of = |name: &str| fs::read_to_string(format!("/sys/class/net/{interface}/{name}")).ok();
    let interface_mtu = of("mtu")?.trim().parse().ok()?;
    // Virtual interfaces report 10 Gbit/s, -1 or nothing.
    let is_device = fs::exists(format!("/sys/class/net/{interface}/device")).unwrap_or(false);
    Some(Route {
        to: to.to_string(),
        interface_mtu,
        path_mtu: path_mtu.unwrap_or(interface_mtu),
        megabits: of("speed")
            .and_then(|text| text.trim().parse().ok())
            .filter(|speed| *speed > 0 && is_device),
        interface,
    })
}

/// The interface that sends packets from `from` to `to`.
fn interface(from: IpAddr, to: IpAddr) -> Option<String> {
    if from == to || from.is_loopback() {
        return Some("lo".to_owned());
    }
    match to {
        IpAddr::V4(to) => by_route(&fs::read_to_string("/proc/net/route").ok()?, to),
        IpAddr::V6(_) => by_address(&fs::read_to_string("/proc/net/if_inet6").ok()?, from),
    }
}

/// The interface of the route to `to` with the longest mask. The table's numbers are in native byte order.
fn by_route(table: &str, to: Ipv4Addr) -> Option<String> {
    let to = u32::from_ne_bytes(to.octets());
    let routes = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let (destination, mask) = (hex(1)?, hex(7)?);
        let interface = (*words.first()?).to_owned();
        (to & mask == destination).then(|| (mask.count_ones(), interface))
    });
    routes.max_by_key(|(bits, _): &(u32, String)| *bits).map(|(_, interface)| interface)
}

/// The interface with the address.
fn by_address(table: &str, from: IpAddr) -> Option<String> {
    let IpAddr::V6(from) = from else { return None };
    let wanted: String = from.octets().iter().map(|byte| format!("{byte:02x}")).collect();
    let line = table.lines().find(|line| line.starts_with(&wanted))?;
    line.split_whitespace().nth(5).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_longest_route_counts() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let by = |to: &str| by_route(table, to.parse().unwrap()).unwrap();
        assert_eq!(by("192.168.3.4"), "eth1");
        assert_eq!(by("8.8.8.8"), "eth0");
        assert_eq!(by_route("", Ipv4Addr::LOCALHOST), None);
    }

    #[test]
    fn an_ipv6_address_identifies_its_interface() {
        let table = "fe80000000000000021122fffe334455 02 40 20 80     eth0\n\
            00000000000000000000000000000001 01 80 10 80       lo\n";
        assert_eq!(by_address(table, "fe80::211:22ff:fe33:4455".parse().unwrap()).unwrap(), "eth0");
        assert_eq!(by_address(table, "fe80::1".parse().unwrap()), None);
    }

    #[test]
    fn ssh_logins_are_parsed() {
        assert_eq!(parse_login("::1 50022 127.0.0.1 22"), Some(("::1".into(), "127.0.0.1".into())));
        for bad in ["", "a b c d", "::1 1 ::1", "UNKNOWN 65535 UNKNOWN 65535"] {
            assert_eq!(parse_login(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_are_found_in_settings() {
        let settings = BTreeMap::from([("ipv4.tcp_rmem".to_owned(), "4096 131072 6291456".to_owned())]);
        assert_eq!(number(&settings, "ipv4.tcp_rmem", 2), Some(6_291_456));
        assert_eq!(number(&settings, "ipv4.tcp_rmem", 3), None);
        assert_eq!(number(&settings, "other", 0), None);
    }
}
