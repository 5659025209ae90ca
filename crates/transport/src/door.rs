//! Who may wait at a port to prove who they are, when more come than there are places: see [`Door`].

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Places for strangers, and as many for those who come from where the other end is expected.
pub(crate) const PLACES: usize = 128;
/// Places for the strangers of one source.
const OF_ONE_SOURCE: usize = 32;
/// How long half of the places are kept for who got them: two round trips of 250 ms, which a proof takes.
const GRACE: Duration = Duration::from_millis(500);

/// Where somebody comes from: an IPv4 address, or the 64 bits of an IPv6 address that one network has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source(u128);

impl Source {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(four) => Self(four.to_ipv6_mapped().to_bits()),
            IpAddr::V6(six) => Self(six.to_bits() & (u128::MAX << 64)),
        }
    }
}

struct Waiting<T> {
    number: u64,
    expected: bool,
    source: Source,
    /// How many of its source wait in its room.
    of_source: usize,
    /// Until when nobody may take the place.
    kept_until: Option<Instant>,
    what: T,
}

/// Those who wait.
///
/// There are two rooms: one for the addresses that the other end is expected from, one for strangers. So no number of
/// strangers takes a place from the other end, where its address is known.
///
/// Within a room a newcomer takes the place of somebody of the source that has most there; who comes from the largest
/// source himself takes one of his own. So 62 sources or fewer never push out who is alone at his address. Where all
/// are alone, chance decides, and two rules give it to the slow as well as to the many: half of the places are kept for
/// [`GRACE`] for who gets them, and in the other half somebody is picked at random. Of a flood of `r` connections a
/// second, each from an address of its own, somebody whose proof takes `t` seconds survives with the chance
/// `k + (1 - k)(1 - 1/64)^(rt)`, where `k = min(1, 64 / 0.5r)`, as long as `t` is within the grace. Pushing out who
/// waited longest instead gives 0 once `rt` exceeds the number of places.
pub(crate) struct Door<T> {
    expected: Vec<IpAddr>,
    waiting: Vec<Waiting<T>>,
    entered: u64,
    chance: RandomState,
}

/// What becomes of a newcomer.
pub(crate) enum Entry<T> {
    /// It waits under this number; somebody else may have lost the place.
    In(u64, Option<T>),
    /// There is no place for it.
    Refused,
}

impl<T> Door<T> {
    /// A door at which the other end is expected from these addresses.
    pub(crate) fn new(expected: &[IpAddr]) -> Self {
        let expected = expected.iter().map(IpAddr::to_canonical).collect();
        Self { expected, waiting: Vec::new(), entered: 0, chance: RandomState::new() }
    }

    /// Somebody comes from an address.
    pub(crate) fn enter(&mut self, from: IpAddr, what: T, now: Instant) -> Entry<T> {
        // A socket for both families tells IPv4 addresses as IPv6 ones.
        let from = from.to_canonical();
        let expected = self.expected.contains(&from);
        let source = Source::of(from);
        let Ok(loser) = self.loser(expected, source, now) else { return Entry::Refused };
        let loser = loser.map(|at| self.remove(at));
        let kept = |of: &dyn Fn(&Waiting<T>) -> bool| {
            self.waiting.iter().filter(|one| one.expected == expected && is_kept(one, now) && of(one)).count()
        };
        let keep = kept(&|_| true) < PLACES / 2
            && (expected || kept(&|one| one.source == source) < OF_ONE_SOURCE / 2);
        self.entered += 1;
        let number = self.entered;
        let kept_until = keep.then(|| now + GRACE);
        self.waiting.push(Waiting { number, expected, source, of_source: 0, kept_until, what });
        self.count(expected, source);
        Entry::In(number, loser)
    }

    /// Who has this number has proved something, or has gone.
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

    /// Counts those of a source anew.
    fn count(&mut self, expected: bool, source: Source) {
        let is_one = |one: &Waiting<T>| one.source == source && one.expected == expected;
        let count = self.waiting.iter().filter(|one| is_one(one)).count();
        self.waiting.iter_mut().filter(|one| is_one(one)).for_each(|one| one.of_source = count);
    }

    /// Who has to go for somebody of this source, if anybody. `Err`: the newcomer itself.
    fn loser(&self, expected: bool, source: Source, now: Instant) -> Result<Option<usize>, ()> {
        let room = || self.waiting.iter().enumerate().filter(move |(_, one)| one.expected == expected);
        let own = room().find(|(_, one)| one.source == source).map_or(0, |(_, one)| one.of_source);
        let is_full = room().count() >= PLACES;
        if !is_full && (expected || own < OF_ONE_SOURCE) {
            return Ok(None);
        }
        let replaceable =
            || room().filter(|(_, one)| !is_kept(one, now) && (is_full || one.source == source));
        // The newcomer counts, too.
        let weight = |one: &Waiting<T>| one.of_source + usize::from(one.source == source);
        let most = replaceable().map(|(_, one)| weight(one)).max().unwrap_or(0);
        if most < own + 1 {
            return Err(());
        }
        let losers = || replaceable().filter(|(_, one)| weight(one) == most).map(|(at, _)| at);
        let pick = self.chance.hash_one(self.entered) % (losers().count().max(1) as u64);
        losers().nth(usize::try_from(pick).unwrap_or(0)).map(Some).ok_or(())
    }
}

fn is_kept<T>(one: &Waiting<T>, now: Instant) -> bool {
    one.kept_until.is_some_and(|until| now < until)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody with a number, who comes from one of many addresses.
    struct Scene {
        door: Door<u32>,
        now: Instant,
        /// Who lost the place, or got none.
        lost: Vec<u32>,
    }

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    impl Scene {
        fn new(expected: &[IpAddr]) -> Self {
            Self { door: Door::new(expected), now: Instant::now(), lost: Vec::new() }
        }

        fn come(&mut self, who: u32, from: IpAddr) {
            match self.door.enter(from, who, self.now) {
                Entry::In(_, loser) => self.lost.extend(loser),
                Entry::Refused => self.lost.push(who),
            }
            assert!(self.door.waiting.len() <= 2 * PLACES, "bounded");
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
            let mut scene = Scene::new(&[expected]);
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
                let mut scene = Scene::new(&[]);
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
            for _ in 0..tries {
                let mut scene = Scene::new(&[]);
                scene.flood(rate / 2 + 64, Duration::from_millis(600), u32::MAX);
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
        let mut scene = Scene::new(&[]);
        let six = |at: u128| IpAddr::from(std::net::Ipv6Addr::from_bits((0x2001_0db8 << 96) + at));
        for number in 0..500 {
            scene.come(1000 + number, six(u128::from(number) << 32));
        }
        assert_eq!(scene.door.waiting.len(), OF_ONE_SOURCE, "one network has 64 bits of addresses");
        scene.come(1, six(1 << 64));
        assert_eq!(scene.door.waiting.len(), OF_ONE_SOURCE + 1, "another one has places of its own");
    }

    #[test]
    fn who_leaves_gives_the_place_back() {
        let mut scene = Scene::new(&[PEER]);
        for round in 0..1000 {
            let from = if round % 2 == 0 { PEER } else { stranger(round) };
            let Entry::In(number, None) = scene.door.enter(from, round, scene.now) else {
                panic!("there is room")
            };
            scene.door.leave(number);
        }
        assert!(scene.door.waiting.is_empty());
    }
}
