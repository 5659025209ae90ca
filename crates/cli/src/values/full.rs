//! The values of `--on-full`.

use std::time::Duration;

use haul_engine::OnFull;

use super::time::parse_time;

/// The timeout of plain `pause`.
const HOUR: Duration = Duration::from_secs(3600);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_on_full_are_parsed() {
        let pause = |seconds| Ok(OnFull::Pause(Duration::from_secs(seconds)));
        assert_eq!(parse_on_full("fail"), Ok(OnFull::Fail));
        assert_eq!(parse_on_full("pause"), pause(3600));
        assert_eq!(parse_on_full("pause:90s"), pause(90));
        assert_eq!(parse_on_full("pause:90"), pause(90));
        assert_eq!(parse_on_full("pause:2d"), pause(172_800));
        for bad in [
            "",
            "wait",
            "pause:",
            "pause:0",
            "pause:0s",
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
