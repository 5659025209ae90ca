//! Admission of unauthenticated connections at a port, when more arrive than there are slots: see [`Admission`].

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Slots for connections from unknown addresses, and as many for connections from expected addresses.
pub(crate) const PLACES: usize = 128;
/// Slots for the unknown connections of one network.
const OF_ONE_SOURCE: usize = 32;
/// How long half of the slots are reserved for their connections: a handshake takes two round trips, of 250 ms here.
const GRACE: Duration = Duration::from_millis(500);

/// The network of a connection: an IPv4 address, or the first 64 bits of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SourceNetwork(u128);

impl SourceNetwork {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(four) => Self(four.to_ipv6_mapped().to_bits()),
            IpAddr::V6(six) => Self(six.to_bits() & (u128::MAX << 64)),
        }
    }
}

struct WaitingConnection<T> {
    number: u64,
    expected: bool,
    source: SourceNetwork,
    /// How many connections of its network wait in the same pool of slots.
    of_source: usize,
    /// Until when no other connection may take the slot.
    kept_until: Option<Instant>,
    what: T,
}

/// The connections that wait for their handshake.
///
/// There are two pools of slots: one for the addresses that the other end is expected from, one for all others. So no
/// number of other connections takes a slot from the other end, if its address is known.
///
/// If a pool is full, a new connection takes the slot of a connection of the network that has the most slots there,
/// which may be its own network. So up to 62 networks never evict the only connection of another one. If each network
/// has one connection, chance decides, in two ways: half of the slots are reserved for [`GRACE`] for the connections
/// that got them, and in the other half a random connection is evicted. In a flood of `r` connections per second, each
/// from its own address, a connection whose handshake takes `t` seconds survives with the probability `k + (1 - k)(1 -
/// 1/64)^(rt)`, where `k = min(1, 64 / 0.5r)`, as long as `t` is within the grace. Evicting the oldest connection
/// instead gives 0 once `rt` exceeds the number of slots.
pub(crate) struct Admission<T> {
    expected: Vec<IpAddr>,
    waiting: Vec<WaitingConnection<T>>,
    entered: u64,
    chance: RandomState,
}

/// The result for a new connection.
pub(crate) enum Admitted<T> {
    /// It waits under this number. The other value was evicted for it.
    In(u64, Option<T>),
    /// There is no slot for it.
    Refused,
}

impl<T> Admission<T> {
    /// A admission at which the other end is expected from these addresses.
    pub(crate) fn new(expected: &[IpAddr]) -> Self {
        let expected = expected.iter().map(IpAddr::to_canonical).collect();
        Self { expected, waiting: Vec::new(), entered: 0, chance: RandomState::new() }
    }

    /// A connection arrives from an address.
    pub(crate) fn enter(&mut self, from: IpAddr, what: T, now: Instant) -> Admitted<T> {
        // A dual-stack socket reports IPv4 addresses as IPv6 addresses.
        let from = from.to_canonical();
        let expected = self.expected.contains(&from);
        let source = SourceNetwork::of(from);
        let Ok(loser) = self.loser(expected, source, now) else { return Admitted::Refused };
        let loser = loser.map(|at| self.remove(at));
        let kept = |of: &dyn Fn(&WaitingConnection<T>) -> bool| {
            self.waiting.iter().filter(|one| one.expected == expected && is_kept(one, now) && of(one)).count()
        };
        let keep = kept(&|_| true) < PLACES / 2
            && (expected || kept(&|one| one.source == source) < OF_ONE_SOURCE / 2);
        self.entered += 1;
        let number = self.entered;
        let kept_until = keep.then(|| now + GRACE);
        self.waiting.push(WaitingConnection { number, expected, source, of_source: 0, kept_until, what });
        self.count(expected, source);
        Admitted::In(number, loser)
    }

    /// The connection with this number has finished its handshake, or has ended.
    pub(crate) fn leave(&mut self, number: u64) {
        if let Some(at) = self.waiting.iter().position(|one| one.number == number) {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) -> T {
        let gone = self.waiting.swap_remove(at);
        self.count(gone.expected, gone.source);
        gone.what
    }

    /// Counts the connections of a network again.
    fn count(&mut self, expected: bool, source: SourceNetwork) {
        let is_one = |one: &WaitingConnection<T>| one.source == source && one.expected == expected;
        let count = self.waiting.iter().filter(|one| is_one(one)).count();
        self.waiting.iter_mut().filter(|one| is_one(one)).for_each(|one| one.of_source = count);
    }

    /// The connection that a new one of this network evicts, if any. `Err`: the new one is refused.
    fn loser(&self, expected: bool, source: SourceNetwork, now: Instant) -> Result<Option<usize>, ()> {
        let room = || self.waiting.iter().enumerate().filter(move |(_, one)| one.expected == expected);
        let own = room().find(|(_, one)| one.source == source).map_or(0, |(_, one)| one.of_source);
        let is_full = room().count() >= PLACES;
        if !is_full && (expected || own < OF_ONE_SOURCE) {
            return Ok(None);
        }
        let replaceable =
            || room().filter(|(_, one)| !is_kept(one, now) && (is_full || one.source == source));
        // The new connection counts as well.
        let weight = |one: &WaitingConnection<T>| one.of_source + usize::from(one.source == source);
        let most = replaceable().map(|(_, one)| weight(one)).max().unwrap_or(0);
        if most < own + 1 {
            return Err(());
        }
        let losers = || replaceable().filter(|(_, one)| weight(one) == most).map(|(at, _)| at);
        let pick = self.chance.hash_one(self.entered) % (losers().count().max(1) as u64);
        losers().nth(usize::try_from(pick).unwrap_or(0)).map(Some).ok_or(())
    }
}

fn is_kept<T>(one: &WaitingConnection<T>, now: Instant) -> bool {
    one.kept_until.is_some_and(|until| now < until)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody with a number, who comes from one of many addresses.
    struct NumberedGuest {
        admission: Admission<u32>,
        now: Instant,
        /// Who lost the place, or got none.
        lost: Vec<u32>,
    }

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    impl NumberedGuest {
        fn new(expected: &[IpAddr]) -> Self {
            Self { admission: Admission::new(expected), now: Instant::now(), lost: Vec::new() }
        }

        fn come(&mut self, who: u32, from: IpAddr) {
            match self.admission.enter(from, who, self.now) {
                Admitted::In(_, loser) => self.lost.extend(loser),
                Admitted::Refused => self.lost.push(who),
            }
            assert!(self.admission.waiting.len() <= 2 * PLACES, "bounded");
        }

        /// Strangers come, one after the other in so much time, from so many addresses in turn.
        fn flood(&mut self, count: u32, within: Duration, sources: u32) {
            for number in 0..count {
                self.now += within / count;
                self.come(1000 + number, stranger(number % sources));
            }
        }
    }

    fn stranger(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn no_flood_drops_who_is_expected() {
        for sources in [1, 30, 64, 100_000] {
            let expected = if sources == 64 { "::ffff:192.0.2.7".parse().unwrap() } else { PEER };
            let mut scene = NumberedGuest::new(&[expected]);
            scene.flood(400, Duration::from_secs(1), sources);
            for connection in 0..16 {
                scene.come(connection, PEER);
                scene.flood(50, Duration::from_secs(2), sources);
            }
            scene.flood(4000, Duration::from_secs(9), sources);
            assert!(scene.lost.iter().all(|who| *who >= 1000), "{sources} sources");
            assert!(scene.lost.len() >= 5000, "strangers were dropped");
        }
    }

    #[test]
    fn a_few_sources_never_drop_who_is_alone_at_another() {
        for sources in [1, 3, 30, 62] {
            for before in [0, 2000] {
                let mut scene = NumberedGuest::new(&[]);
                scene.flood(before, Duration::from_secs(5), sources);
                scene.come(1, PEER);
                scene.flood(4000, Duration::from_secs(9), sources);
                assert!(!scene.lost.contains(&1), "{sources} sources");
            }
        }
    }

    #[test]
    fn among_many_alone_chance_decides_as_it_was_told() {
        let proof = Duration::from_millis(120);
        // Connections in a second, and the chance that is told. The oldest first gives 0 from 1067 on.
        for (rate, tries, told) in [(100, 50, 1.0), (550, 200, 0.5), (2000, 200, 0.09)] {
            let mut survived = 0;
            for number in 0..tries {
                let mut scene = NumberedGuest::new(&[]);
                // The reserved slots of a steady flood are free in turns: the attempts are spread over one turn.
                let before = Duration::from_millis(600) + GRACE * number / tries;
                let strangers = (f64::from(rate) * before.as_secs_f64()) as u32;
                scene.flood(strangers, before, u32::MAX);
                // It comes as one of them: at the very moment of the last one no reserved slot is ever free.
                scene.now += before / strangers;
                scene.come(1, PEER);
                scene.flood(rate * 12 / 100, proof, u32::MAX);
                survived += u32::from(!scene.lost.contains(&1));
            }
            let chance = f64::from(survived) / f64::from(tries);
            assert!(chance > told / 8.0, "{chance} at {rate}/s, {told} was told");
        }
    }

    #[test]
    fn one_source_takes_a_quarter_of_the_places() {
        let mut scene = NumberedGuest::new(&[]);
        let six = |at: u128| IpAddr::from(std::net::Ipv6Addr::from_bits((0x2001_0db8 << 96) + at));
        for number in 0..500 {
            scene.come(1000 + number, six(u128::from(number) << 32));
        }
        assert_eq!(scene.admission.waiting.len(), OF_ONE_SOURCE, "one network has 64 bits of addresses");
        scene.come(1, six(1 << 64));
        assert_eq!(scene.admission.waiting.len(), OF_ONE_SOURCE + 1, "another one has places of its own");
    }

    #[test]
    fn who_leaves_gives_the_place_back() {
        let mut scene = NumberedGuest::new(&[PEER]);
        for round in 0..1000 {
            let from = if round % 2 == 0 { PEER } else { stranger(round) };
            let Admitted::In(number, None) = scene.admission.enter(from, round, scene.now) else {
                panic!("there is room")
            };
            scene.admission.leave(number);
        }
        assert!(scene.admission.waiting.is_empty());
    }
}
