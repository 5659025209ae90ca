//! The values of `--on-full`, and durations.

use std::time::Duration;

use haul_engine::OnFull;

/// The timeout of plain `pause`.
const HOUR: Duration = Duration::from_secs(3600);
/// The longest duration.
const MOST: u64 = 366 * 86_400;

/// Reads `fail`, `pause` or `pause:TIME`.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_on_full(text: &str) -> Result<OnFull, String> {
    match text.split_once(':') {
        None if text == "fail" => Ok(OnFull::Fail),
        None if text == "pause" => Ok(OnFull::Pause(HOUR)),
        Some(("pause", time)) => parse_time(time).map(OnFull::Pause),
        _ => Err(format!("`{text}` is not one of pause, pause:TIME and fail")),
    }
}

/// A number and a unit: `90s`, `30m`, `12h`, `2d`.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is not a time; times are like 90s, 30m, 12h or 2d, up to a year");
    let unit = match text.as_bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 3600,
        Some(b'd') => 86_400,
        _ => return Err(bad()),
    };
    let digits = &text[..text.len() - 1];
    let number: u64 = digits.parse().map_err(|_| bad())?;
    let seconds = number.checked_mul(unit).filter(|seconds| (1..=MOST).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_on_full_are_parsed() {
        let pause = |seconds| Ok(OnFull::Pause(Duration::from_secs(seconds)));
        assert_eq!(parse_on_full("fail"), Ok(OnFull::Fail));
        assert_eq!(parse_on_full("pause"), pause(3600));
        assert_eq!(parse_on_full("pause:90s"), pause(90));
        assert_eq!(parse_on_full("pause:2d"), pause(172_800));
        for bad in [
            "",
            "wait",
            "pause:",
            "pause:0s",
            "pause:5",
            "pause:-1s",
            "pause:1h30m",
            "pause:9999d",
            "fail:1s",
        ] {
            assert!(parse_on_full(bad).is_err(), "{bad}");
        }
        assert!(parse_on_full("pause:99999999999999999999d").is_err());
    }
}
