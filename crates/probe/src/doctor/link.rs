//! Diagnoses the link between two ends: buffers, congestion control, packet sizes, clocks.

use haul_core::probe::{Facts, Route};

use super::finding::{Finding, size};
use crate::facts::number;

/// Below this round trip time buffers are always large enough.
const LOCAL: f64 = 0.001;
/// From this round trip time on the congestion control matters.
const REMOTE: f64 = 0.020;
/// The allowed difference of the clocks in seconds.
const SKEW: f64 = 1.0;
/// How much more than the measured rate the buffers must allow, where the speed of the interfaces is unknown.
const SPARE: f64 = 1.25;

/// The share of the rate that the buffers allow which a link must reach for the buffers to be its limit.
const LOCAL_CAP: f64 = 0.5;

/// The facts about a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkFacts<'a> {
    /// The sending end.
    pub sender: &'a Facts,
    /// The receiving end.
    pub receiver: &'a Facts,
    /// Round trip time in seconds.
    pub round_trip: f64,
    /// Bytes per second on all streams together.
    pub rate: f64,
    /// The most streams that haul opens.
    pub streams: u32,
    /// How far the remote clock is ahead in seconds, plus or minus half a round trip.
    pub clock_ahead: f64,
    /// Whether messages of many packets arrived, in the direction of the copy and back.
    pub large_messages: [bool; 2],
}

/// Diagnoses a link.
#[must_use]
pub fn examine_link(link: &LinkFacts<'_>) -> Vec<Finding> {
    let mut findings = vec![large_messages(link)];
    if link.large_messages == [true, true] {
        findings.push(buffers(link));
    }
    findings.extend(switches(link));
    findings.extend(congestion(link));
    findings.extend(packets(link));
    findings.push(clock(link));
    findings
}

fn large_messages(link: &LinkFacts<'_>) -> Finding {
    let what = "packet size";
    let direction = match link.large_messages {
        [true, true] => return Finding::ok(what, "large messages arrive both ways"),
        [false, true] => "from the source to the destination",
        [true, false] => "from the destination to the source",
        [false, false] => "either way",
    };
    let found =
        format!("small messages arrive, large ones do not, {direction}: packets that are too large get lost");
    let fix = "at both ends: `sysctl -w net.ipv4.tcp_mtu_probing=1`, or a smaller packet size: `ip link set dev IF mtu \
               1400`; let ICMP `fragmentation needed` through the firewalls on the way";
    Finding::bad(what, found, fix)
}

/// Judges the buffers. The kernel grows a window up to about half of the largest buffer (`tcp_adv_win_scale`, tcp(7)).
fn buffers(link: &LinkFacts<'_>) -> Finding {
    let what = "socket buffers";
    let receiving = number(&link.receiver.network, "ipv4.tcp_rmem", 2);
    let sending = number(&link.sender.network, "ipv4.tcp_wmem", 2);
    let (Some(receiving), Some(sending)) = (receiving, sending) else {
        return Finding::ok(what, "not known here");
    };
    let limits =
        format!("tcp_rmem {} at the receiver, tcp_wmem {} at the sender", size(receiving), size(sending));
    if link.round_trip < LOCAL {
        return Finding::ok(what, format!("{limits}: enough for so short a way"));
    }
    let one = receiving.min(sending) as f64 / 2.0 / link.round_trip;
    let speed = |facts: &Facts| facts.route.as_ref().and_then(|route| route.megabits);
    let known = speed(link.sender).into_iter().chain(speed(link.receiver)).min();
    let wanted = known.map_or(link.rate * SPARE, |megabits| megabits as f64 * 1e6 / 8.0);
    let streams = f64::from(link.streams.max(1));
    let found = format!(
        "{limits}: at most {}/s on a stream, {}/s on {streams} of them",
        size(one as u64),
        size((one * streams) as u64)
    );
    if one * streams >= wanted {
        return Finding::ok(what, found);
    }
    // Twice the bytes in flight, as the window is half of a buffer; for a quarter of the streams.
    let buffer = (wanted * link.round_trip * 2.0 * 4.0 / streams).max(16e6) as u64;
    let buffer = buffer.next_power_of_two();
    let fix = format!(
        "at the receiver `sysctl -w net.ipv4.tcp_rmem=\"4096 131072 {buffer}\"`, at the sender `sysctl -w \
         net.ipv4.tcp_wmem=\"4096 65536 {buffer}\"`"
    );
    if link.rate < one * streams * LOCAL_CAP {
        return Finding::ok(
            what,
            format!("{found}; the link carried {}/s, so they are not the limit", size(link.rate as u64)),
        );
    }
    let found = format!("{found}, of {}/s that the link would carry", size(wanted as u64));
    if known.is_some() { Finding::bad(what, found, fix) } else { Finding::warn(what, found, fix) }
}

/// Settings that are on by default.
fn switches(link: &LinkFacts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, facts) in [("sender", link.sender), ("receiver", link.receiver)] {
        for (setting, harm) in [
            ("ipv4.tcp_window_scaling", "no more than 64 KiB are on their way at a time"),
            ("ipv4.tcp_sack", "one lost packet makes many be sent again"),
            ("ipv4.tcp_moderate_rcvbuf", "buffers do not grow"),
        ] {
            if number(&facts.network, setting, 0) == Some(0) {
                let found = format!("net.{setting} is 0 at the {name}: {harm}");
                let fix = format!("there: `sysctl -w net.{setting}=1`");
                findings.push(Finding::bad("TCP settings", found, fix));
            }
        }
    }
    findings
}

fn congestion(link: &LinkFacts<'_>) -> Option<Finding> {
    let what = "congestion control";
    let used = link.sender.network.get("ipv4.tcp_congestion_control")?;
    let has_bbr = link.sender.network.get("ipv4.tcp_available_congestion_control")?.contains("bbr");
    if link.round_trip >= REMOTE && matches!(used.as_str(), "reno" | "vegas" | "westwood") {
        let better = if has_bbr { "bbr" } else { "cubic" };
        let fix = format!("at the sender: `sysctl -w net.ipv4.tcp_congestion_control={better}`");
        return Some(Finding::warn(what, format!("{used} at the sender: slow to grow over a distance"), fix));
    }
    Some(Finding::ok(what, format!("{used} at the sender")))
}

fn packets(link: &LinkFacts<'_>) -> Option<Finding> {
    let what = "MTU";
    let routes = [link.sender.route.as_ref()?, link.receiver.route.as_ref()?];
    let show = |route: &Route| format!("{} on {}", route.path_mtu, route.interface);
    let found = format!("{} at the sender, {} at the receiver", show(routes[0]), show(routes[1]));
    let [one, other] = routes.map(|route| route.path_mtu);
    let probing = number(&link.sender.network, "ipv4.tcp_mtu_probing", 0).unwrap_or(0) > 0;
    let loopback = routes.iter().any(|route| route.interface == "lo");
    if one != other && !probing && !loopback {
        let fix = "if copies stall: the same MTU at both ends, or `sysctl -w net.ipv4.tcp_mtu_probing=1` at the sender";
        return Some(Finding::warn(what, format!("{found}: they differ"), fix));
    }
    let tunnel = routes.iter().find(|route| route.path_mtu < route.interface_mtu);
    let learned =
        tunnel.map_or(String::new(), |_| ": something on the way takes smaller packets, and says so".into());
    Some(Finding::ok(what, found + &learned))
}

fn clock(link: &LinkFacts<'_>) -> Finding {
    let what = "clocks";
    let apart = link.clock_ahead.abs();
    if apart - link.round_trip / 2.0 <= SKEW {
        return Finding::ok(what, format!("{apart:.3} s apart, give or take {:.3} s", link.round_trip / 2.0));
    }
    let found = format!("{apart:.1} s apart: `--update` and whoever compares times will be misled");
    Finding::warn(what, found, "set them by NTP at both ends: `timedatectl set-ntp true`, or chrony")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::doctor::Level;

    fn facts(buffer: u64, megabits: Option<u64>) -> Facts {
        let route = Route {
            to: "192.0.2.1".to_owned(),
            interface: "eth0".to_owned(),
            interface_mtu: 1500,
            path_mtu: 1500,
            megabits,
        };
        let network = [
            ("ipv4.tcp_rmem", format!("4096 131072 {buffer}")),
            ("ipv4.tcp_wmem", format!("4096 16384 {buffer}")),
            ("ipv4.tcp_window_scaling", "1".to_owned()),
            ("ipv4.tcp_sack", "1".to_owned()),
            ("ipv4.tcp_congestion_control", "cubic".to_owned()),
            ("ipv4.tcp_available_congestion_control", "reno cubic bbr".to_owned()),
        ];
        let network = network.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Facts { network, route: Some(route), ..Facts::default() }
    }

    fn link<'a>(sender: &'a Facts, receiver: &'a Facts) -> LinkFacts<'a> {
        LinkFacts {
            sender,
            receiver,
            round_trip: 0.060,
            rate: 600e6,
            streams: 16,
            clock_ahead: 0.2,
            large_messages: [true, true],
        }
    }

    fn worst(link: &LinkFacts<'_>) -> (Level, &'static str) {
        let worst = examine_link(link).into_iter().max_by_key(|finding| finding.level).unwrap();
        assert_eq!(worst.level == Level::Ok, worst.fix.is_none());
        (worst.level, if worst.level == Level::Ok { "" } else { worst.what })
    }

    #[test]
    fn buffers_are_compared_with_rate_and_round_trip_time() {
        let large = facts(64 << 20, Some(10_000));
        assert_eq!(worst(&link(&large, &large)), (Level::Ok, ""));
        // 3 MiB in 60 ms are 52 MB/s, on 16 streams 840 MB/s: less than 10 Gbit/s.
        let default = facts(6 << 20, Some(10_000));
        assert_eq!(worst(&link(&large, &default)), (Level::Bad, "socket buffers"));
        assert_eq!(worst(&link(&default, &large)), (Level::Bad, "socket buffers"));
        let another = LinkFacts { rate: 100e6, ..link(&default, &default) };
        assert_eq!(worst(&another), (Level::Ok, ""), "something else is slower");
        let slow = facts(6 << 20, Some(1000));
        assert_eq!(worst(&link(&slow, &slow)), (Level::Ok, ""));
        let local = LinkFacts { round_trip: 0.000_2, ..link(&default, &default) };
        assert_eq!(worst(&local), (Level::Ok, ""));
        let tiny = facts(212_992, None);
        assert_eq!(worst(&link(&tiny, &tiny)), (Level::Warn, "socket buffers"));
    }

    #[test]
    fn planted_problems_are_found() {
        let sound = facts(64 << 20, Some(10_000));
        let with = |name: &str, value: &str| {
            let mut facts = sound.clone();
            facts.network.insert(name.to_owned(), value.to_owned());
            facts
        };
        let no_scaling = with("ipv4.tcp_window_scaling", "0");
        assert_eq!(worst(&link(&sound, &no_scaling)), (Level::Bad, "TCP settings"));
        let reno = with("ipv4.tcp_congestion_control", "reno");
        assert_eq!(worst(&link(&reno, &sound)), (Level::Warn, "congestion control"));
        assert_eq!(worst(&link(&sound, &reno)), (Level::Ok, ""));
        for large_messages in [[false, true], [true, false], [false, false]] {
            let hung = LinkFacts { large_messages, ..link(&sound, &sound) };
            assert_eq!(worst(&hung), (Level::Bad, "packet size"));
        }
        let mut jumbo = sound.clone();
        if let Some(route) = &mut jumbo.route {
            (route.interface_mtu, route.path_mtu) = (9000, 9000);
        }
        assert_eq!(worst(&link(&jumbo, &sound)), (Level::Warn, "MTU"));
        for (clock_ahead, level) in [(-1.02, Level::Ok), (2.0, Level::Warn), (-90_000.0, Level::Warn)] {
            assert_eq!(worst(&LinkFacts { clock_ahead, ..link(&sound, &sound) }).0, level, "{clock_ahead}");
        }
    }

    #[test]
    fn missing_facts_are_not_problems() {
        let nothing = Facts { network: BTreeMap::new(), ..Facts::default() };
        assert_eq!(worst(&link(&nothing, &nothing)), (Level::Ok, ""));
    }
}
