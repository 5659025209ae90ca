//! Remembers the best number of connections to a host between runs. Nothing depends on it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A hint is valid for a link whose round trip is at most this many times longer or shorter.
const LIKE: f64 = 2.0;
/// The longest hint, in bytes.
const MAX_LEN: u64 = 100;

/// The file with the hint of one host. Errors of this file are ignored.
#[derive(Clone, Debug)]
pub(super) struct Hint(PathBuf);

impl Hint {
    /// The hint for this ssh command, in a directory of hints. Its name is a hash, so that it does not reveal the host.
    pub(super) fn of(directory: &Path, words: &[&str]) -> Self {
        let hex = blake3::hash(words.join("\0").as_bytes()).to_hex();
        Self(directory.join(&hex.as_str()[..16]))
    }

    /// The best number of connections of the last run, if the round trip is about the same.
    pub(super) fn load(&self, round_trip: Option<Duration>) -> Option<u32> {
        let there = std::fs::metadata(&self.0).ok()?;
        let text = (there.len() <= MAX_LEN).then(|| std::fs::read_to_string(&self.0).ok())??;
        let (streams, micros) = text.trim_end().strip_prefix("streams ")?.split_once(" round-trip-us ")?;
        let (known, now) = (micros.parse::<f64>().ok()?, round_trip?.as_secs_f64() * 1e6);
        let like = known <= now * LIKE && now <= known * LIKE;
        streams.parse().ok().filter(|_| like)
    }

    /// Saves the best number of connections.
    pub(super) fn save(&self, streams: u32, round_trip: Option<Duration>) {
        let (Some(round_trip), Some(directory)) = (round_trip, self.0.parent()) else { return };
        let line = format!("streams {streams} round-trip-us {}\n", round_trip.as_micros());
        let written = tempfile::NamedTempFile::new_in(directory).and_then(|mut file| {
            file.write_all(line.as_bytes())?;
            Ok(file.persist(&self.0)?)
        });
        drop(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_for_the_same_link_only() {
        let directory = tempfile::tempdir().unwrap();
        let hint = Hint::of(directory.path(), &["ssh", "db1"]);
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(hint.load(ms(60)), None);
        hint.save(9, ms(60));
        assert_eq!(
            (hint.load(ms(70)), hint.load(ms(40)), hint.load(ms(1)), hint.load(None)),
            (Some(9), Some(9), None, None)
        );
        assert_eq!(Hint::of(directory.path(), &["ssh", "db2"]).load(ms(60)), None);
        hint.save(5, ms(1));
        assert_eq!(hint.load(ms(1)), Some(5));
        std::fs::write(&hint.0, "streams many round-trip-us 60000\n").unwrap();
        assert_eq!(hint.load(ms(60)), None);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
