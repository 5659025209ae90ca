//! Remembers facts about the link to a host between runs. Nothing depends on them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A hint is valid for a link whose round trip is at most this many times longer or shorter.
const LIKE: f64 = 2.0;
/// Shorter round trips are alike: those of a local network vary by more than [`LIKE`].
const NEAR: Duration = Duration::from_millis(2);
/// The longest hint, in bytes.
const MAX_LEN: u64 = 200;

/// The names of the two rates.
const SENT: &str = "bytes-per-second";
const RECEIVED: &str = "bytes-per-second-received";

/// The facts about the link to a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownLink {
    /// The best number of connections.
    pub(super) streams: Option<u32>,
    /// The bytes per second that the connections carried to the host.
    pub(super) sent: Option<u64>,
    /// The same from the host.
    pub(super) received: Option<u64>,
}

/// The file with the facts about one host. Errors of this file are ignored.
#[derive(Clone, Debug)]
pub(super) struct Hint(PathBuf);

impl Hint {
    /// The hint for this ssh command, in a directory of hints. Its name is a hash, so that it does not reveal the host.
    pub(super) fn of(directory: &Path, words: &[&str]) -> Self {
        let hex = blake3::hash(words.join("\0").as_bytes()).to_hex();
        Self(directory.join(&hex.as_str()[..16]))
    }

    /// The facts of earlier runs, if the round trip is about the same.
    pub(super) fn load(&self, round_trip: Duration) -> KnownLink {
        self.read()
            .filter(|(known, _)| is_like(*known, round_trip))
            .map_or_else(KnownLink::default, |(_, link)| link)
    }

    fn read(&self) -> Option<(Duration, KnownLink)> {
        let there = std::fs::metadata(&self.0).ok()?;
        let text = (there.len() <= MAX_LEN).then(|| std::fs::read_to_string(&self.0).ok())??;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let value =
            |name| words.chunks_exact(2).find(|pair| pair[0] == name).and_then(|pair| pair[1].parse().ok());
        let link = KnownLink {
            streams: value("streams").and_then(|streams| u32::try_from(streams).ok()),
            sent: value(SENT).filter(|rate| *rate > 0),
            received: value(RECEIVED).filter(|rate| *rate > 0),
        };
        Some((Duration::from_micros(value("round-trip-us")?), link))
    }

    /// Saves the facts.
    pub(super) fn save(&self, link: &KnownLink, round_trip: Duration) {
        let Some(directory) = self.0.parent() else { return };
        let streams = link.streams.map(|streams| format!("streams {streams} ")).unwrap_or_default();
        let rate = |name, rate: Option<u64>| rate.map(|rate| format!(" {name} {rate}")).unwrap_or_default();
        let rates = rate(SENT, link.sent) + &rate(RECEIVED, link.received);
        let line = format!("{streams}round-trip-us {}{rates}\n", round_trip.as_micros());
        let written = tempfile::NamedTempFile::new_in(directory).and_then(|mut file| {
            file.write_all(line.as_bytes())?;
            Ok(file.persist(&self.0)?)
        });
        drop(written);
    }
}

fn is_like(a: Duration, b: Duration) -> bool {
    let [a, b] = [a, b].map(|round_trip| round_trip.max(NEAR).as_secs_f64());
    a <= b * LIKE && b <= a * LIKE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_for_the_same_link_only() {
        let directory = tempfile::tempdir().unwrap();
        let hint = Hint::of(directory.path(), &["ssh", "db1"]);
        let ms = Duration::from_millis;
        let none = KnownLink::default();
        assert_eq!(hint.load(ms(60)), none);
        let link = KnownLink { streams: Some(9), sent: Some(119_000_000), received: Some(62_000_000) };
        hint.save(&link, ms(60));
        let loaded = [70, 40, 1, 0].map(|round_trip| hint.load(ms(round_trip)));
        assert_eq!(loaded, [link, link, none, none]);
        assert_eq!(Hint::of(directory.path(), &["ssh", "db2"]).load(ms(60)), none);
        for link in [KnownLink { streams: Some(5), ..none }, KnownLink { sent: Some(7), ..none }] {
            hint.save(&link, ms(1));
            assert_eq!([0, 1, 4, 5].map(|near| hint.load(ms(near))), [link, link, link, none]);
        }
        std::fs::write(&hint.0, "streams 5 round-trip-us 60000\n").unwrap();
        assert_eq!(hint.load(ms(60)), KnownLink { streams: Some(5), ..none });
        for wrong in
            ["streams many round-trip-us 60000 bytes-per-second 0\n", "streams 5\n", "round-trip-us\n", ""]
        {
            std::fs::write(&hint.0, wrong).unwrap();
            assert_eq!(hint.load(ms(60)), none, "{wrong}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
