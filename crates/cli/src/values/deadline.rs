//! Points in time at which a run stops.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

/// Reads a time of the day, which is the next such time (`05:30`), or a date and a time (`2026-11-24T05:30`), in local
/// time.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_stop_at(text: &str) -> Result<Timestamp, String> {
    stop_at(text, &Zoned::now())
}

fn stop_at(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let bad = || {
        format!(
            "`{text}` is not a time; times are like 05:30 (the next one) or 2026-11-24T05:30, in local time"
        )
    };
    let zone = now.time_zone().clone();
    if let Ok(date) = text.parse::<DateTime>()
        && text.contains(['T', 't', ' '])
    {
        let at = in_zone(date, zone).ok_or_else(bad)?;
        return if at > now.timestamp() { Ok(at) } else { Err(format!("`{text}` is in the past")) };
    }
    let (hours, minutes) = text.split_once(':').ok_or_else(bad)?;
    if hours.len() > 2 || minutes.len() != 2 {
        return Err(bad());
    }
    let number = |digits: &str| {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<i8>().ok()).flatten().ok_or_else(bad)
    };
    let time = Time::new(number(hours)?, number(minutes)?, 0, 0).map_err(|_| bad())?;
    let today = in_zone(now.date().to_datetime(time), zone.clone()).ok_or_else(bad)?;
    if today > now.timestamp() {
        return Ok(today);
    }
    let tomorrow = now.date().checked_add(1.day()).map_err(|_| bad())?;
    in_zone(tomorrow.to_datetime(time), zone).ok_or_else(bad)
}

fn in_zone(date: DateTime, zone: TimeZone) -> Option<Timestamp> {
    date.to_zoned(zone).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let now: Timestamp = "2026-11-23T22:00:00Z".parse().unwrap();
        let now = now.to_zoned(TimeZone::UTC);
        stop_at(text, &now).ok().map(|at| at.to_string())
    }

    #[test]
    fn a_time_of_the_day_is_the_next_one() {
        assert_eq!(read("23:15").as_deref(), Some("2026-11-23T23:15:00Z"));
        assert_eq!(read("5:30").as_deref(), Some("2026-11-24T05:30:00Z"));
        assert_eq!(read("22:00").as_deref(), Some("2026-11-24T22:00:00Z"));
    }

    #[test]
    fn a_date_is_in_the_future() {
        assert_eq!(read("2026-11-24T05:30").as_deref(), Some("2026-11-24T05:30:00Z"));
        assert_eq!(read("2026-11-24 05:30:10").as_deref(), Some("2026-11-24T05:30:10Z"));
        assert_eq!(read("2026-11-23T21:59"), None);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "5", "5:3", "24:00", "12:60", "+5:30", "-1:00", "2026-11-24", "noon", "12:00:00", "1:1:1"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
