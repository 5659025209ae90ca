//! Durations.

use std::time::Duration;

use super::number::{DAY, number};

/// The longest duration.
const MOST: u64 = 366 * 86_400;
/// The longest time that a signed URL works, in seconds.
const MOST_EXPIRY: i64 = 7 * 86_400;
/// The longest difference of times that counts as none, in seconds.
const MOST_WINDOW: i64 = 1_000_000_000;

/// A number of seconds, or a number and a unit: `90`, `90s`, `30m`, `12h`, `2d`.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let seconds = seconds(text).filter(|seconds| (1..=MOST).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| {
        format!("`{text}` is not a time; times are like 30, 90s, 30m, 12h or 2d, up to a year")
    })
}

/// Reads a timeout in seconds: a number of seconds, or a number and a unit, up to a day.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_timeout(text: &str) -> Result<u32, String> {
    let seconds = with_unit(text).and_then(|seconds| i64::try_from(seconds).ok());
    let text_value = seconds.map_or_else(|| text.to_owned(), |seconds| seconds.to_string());
    number(&text_value, "seconds", 1, DAY)
        .map_err(|_| format!("`{text}` is not a time; times are like 30, 90s, 5m or 1h, up to a day"))
}

/// Reads how long a signed URL works: a number of seconds, or a number and a unit, up to seven days, as all stores have
/// it.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_expiry(text: &str) -> Result<u32, String> {
    let seconds = with_unit(text).and_then(|seconds| i64::try_from(seconds).ok());
    let text_value = seconds.map_or_else(|| text.to_owned(), |seconds| seconds.to_string());
    number(&text_value, "seconds", 1, MOST_EXPIRY).map_err(|_| {
        let is_long = text_value.parse::<i64>().is_ok_and(|seconds| seconds > MOST_EXPIRY);
        let why = if is_long { "is longer than a signature can be valid" } else { "is not a time" };
        format!("`{text}` {why}; times are like 3600, 90s, 30m, 12h or 7d, which is the longest")
    })
}

/// Reads a value of `--modify-window`: seconds, or a number and a unit; -1 stands for no tolerance at all.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_window(text: &str) -> Result<i64, String> {
    let seconds = with_unit(text).and_then(|seconds| i64::try_from(seconds).ok());
    match seconds {
        Some(seconds) if seconds <= MOST_WINDOW => Ok(seconds),
        _ => number(text, "seconds", -1, MOST_WINDOW),
    }
}

/// The seconds of a number with or without a unit.
fn seconds(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { with_unit(text) }
}

/// The seconds of a number with a unit.
fn with_unit(text: &str) -> Option<u64> {
    let unit = match text.as_bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3600,
        b'd' => 86_400,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    // `parse` would accept a sign.
    let number: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("30", 30), ("30s", 30), ("2m", 120), ("1h", 3600), ("1d", 86_400)] {
            assert_eq!(parse_timeout(text), Ok(seconds), "{text}");
        }
        for bad in [
            "",
            "0",
            "0s",
            "s",
            "-1",
            "-1s",
            "+1s",
            "1.5m",
            "2d",
            "86401",
            "30x",
            "1h30m",
            "99999999999999999999d",
        ] {
            let said = parse_timeout(bad).unwrap_err();
            assert!(said.contains(&format!("`{bad}`")) && said.contains("are like"), "{said}");
        }
        assert_eq!(parse_time("2d"), Ok(Duration::from_secs(172_800)));
        assert_eq!(parse_time("5"), Ok(Duration::from_secs(5)));
        assert!(
            parse_time("").unwrap_err().contains("is not a time")
                && parse_time("366d").is_ok()
                && parse_time("367d").is_err()
        );
    }

    #[test]
    fn a_url_works_at_most_seven_days() {
        assert_eq!((parse_expiry("3600"), parse_expiry("7d")), (Ok(3600), Ok(604_800)));
        for (bad, why) in [("8d", "is longer than"), ("604801", "is longer than"), ("1w", "is not a time")] {
            let said = parse_expiry(bad).unwrap_err();
            assert!(said.contains(&format!("`{bad}` {why}")) && said.contains("7d, which is the"), "{said}");
        }
    }

    #[test]
    fn windows_are_seconds_or_have_a_unit() {
        for (text, seconds) in [("-1", -1), ("0", 0), ("2", 2), ("2s", 2), ("1h", 3600)] {
            assert_eq!(parse_window(text), Ok(seconds), "{text}");
        }
        for bad in ["", "-2", "x", "-1s", "1.5", "99999999d"] {
            assert!(parse_window(bad).is_err(), "{bad}");
        }
    }
}
