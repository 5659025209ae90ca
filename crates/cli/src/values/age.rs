//! Ages: a time before now, or a date.

use haul_core::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Seconds of the units of rclone, those of more than one letter first.
const UNITS: [(&str, f64); 8] = [
    ("ms", 0.001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
    ("w", 7.0 * 86_400.0),
    ("M", 30.0 * 86_400.0),
    ("y", 365.0 * 86_400.0),
];
/// The longest age in seconds: a thousand years.
const MOST: f64 = 1000.0 * 365.0 * 86_400.0;

/// Reads an age, and gives the time at which something of this age was modified: seconds, numbers with units, or a date
/// with or without time, in local time unless it names a zone.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_age(text: &str) -> Result<Timestamp, String> {
    let now = jiff::Timestamp::now();
    let time = match seconds(text) {
        Some(seconds) => now.checked_sub(jiff::SignedDuration::from_secs_f64(seconds)).ok(),
        None => date(text),
    };
    let time = time.and_then(|time| Timestamp::from_nanoseconds(time.as_nanosecond()));
    time.ok_or_else(|| {
        format!("`{text}` is not an age; ages are like 90s, 36h, 7d, 2w, 6M, 1y, 2024-05-01 or 2024-05-01T12:00:00Z")
    })
}

/// The seconds of numbers with units, as in `1h30m`; a number without a unit counts seconds.
fn seconds(text: &str) -> Option<f64> {
    let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
    if text.starts_with(is_digit) && text.chars().all(is_digit) {
        return within(text.parse().ok()?);
    }
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(is_digit).len();
        let (digits, behind) = rest.split_at_checked(number)?;
        let letters = behind.find(is_digit).unwrap_or(behind.len());
        let (unit, left) = behind.split_at_checked(letters)?;
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += digits.parse::<f64>().ok()? * unit;
        rest = left;
    }
    if text.is_empty() { None } else { within(sum) }
}

fn within(seconds: f64) -> Option<f64> {
    (0.0..=MOST).contains(&seconds).then_some(seconds)
}

fn date(text: &str) -> Option<jiff::Timestamp> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time);
    }
    let local: DateTime = text.parse().ok()?;
    local.to_zoned(TimeZone::system()).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_numbers_with_units_before_now() {
        let now = jiff::Timestamp::now().as_second();
        for (text, seconds) in [
            ("90", 90),
            ("90s", 90),
            ("1.5h", 5400),
            ("1h30m", 5400),
            ("2d", 172_800),
            ("1w", 604_800),
            ("1M", 2_592_000),
            ("1y", 31_536_000),
            ("0", 0),
        ] {
            let time = parse_age(text).unwrap();
            assert!((now - seconds..=now - seconds + 5).contains(&(time.sec + 1)), "{text}: {time:?}");
        }
    }

    #[test]
    fn dates_are_local_unless_they_name_a_zone() {
        assert_eq!(parse_age("2024-05-01T12:00:00Z"), Ok(Timestamp { sec: 1_714_564_800, nsec: 0 }));
        assert_eq!(parse_age("2024-05-01T12:00:00+02:00"), Ok(Timestamp { sec: 1_714_557_600, nsec: 0 }));
        let noon = jiff::civil::date(2024, 5, 1).at(12, 0, 0, 0).to_zoned(TimeZone::system()).unwrap();
        for text in ["2024-05-01T12:00:00", "2024-05-01 12:00:00"] {
            assert_eq!(parse_age(text).unwrap().sec, noon.timestamp().as_second(), "{text}");
        }
        assert!(parse_age("2024-05-01").is_ok());
        for bad in ["", "x", "-1", "5K", "1.2.3", "1h30", "s", "2024-13-01", "99999999999999999999d", "1 d"] {
            assert!(parse_age(bad).unwrap_err().contains(" are like "), "{bad}");
        }
    }
}
