//! Points in time at which a run stops.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

/// Reads a time of the day, which is the next such time (`05:30`), or a date and a time (`2026-11-24T05:30`, with a blank
/// in place of `T`, or as rsync writes it: `2026/11/4T5:30`), in local time.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_stop_at(text: &str) -> Result<Timestamp, String> {
    stop_at(text, &Zoned::now())
}

fn stop_at(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let bad = || {
        format!(
            "`{text}` is not a time; times are like 05:30 (the next one), 2026-11-24T05:30 or '2026-11-24 05:30', in \
             local time"
        )
    };
    let zone = now.time_zone().clone();
    if let Some(date) = date_and_time(text) {
        let at = in_zone(date, zone).ok_or_else(bad)?;
        return if at > now.timestamp() { Ok(at) } else { Err(format!("`{text}` is in the past")) };
    }
    let time = time_of_day(text).ok_or_else(bad)?;
    let today = in_zone(now.date().to_datetime(time), zone.clone()).ok_or_else(bad)?;
    if today > now.timestamp() {
        return Ok(today);
    }
    let tomorrow = now.date().checked_add(1.day()).map_err(|_| bad())?;
    in_zone(tomorrow.to_datetime(time), zone).ok_or_else(bad)
}

/// `2026-11-24T05:30:10`, or as in rsync: dashes or slashes, numbers with or without leading zeros, a year of two digits.
fn date_and_time(text: &str) -> Option<DateTime> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    if let Ok(all) = text.parse::<DateTime>() {
        return Some(all);
    }
    let numbers: Vec<i16> = date.split(['-', '/']).map(|part| number(part, 4)).collect::<Option<_>>()?;
    let [year, month, day] = numbers[..] else { return None };
    let year = if year < 100 { year + 2000 } else { year };
    let date = Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok()?;
    Some(date.to_datetime(time_of_day(time)?))
}

/// `05:30` or `5:30`.
fn time_of_day(text: &str) -> Option<Time> {
    let (hours, minutes) = text.split_once(':').filter(|(_, minutes)| minutes.len() == 2)?;
    let [hours, minutes] = [number(hours, 2)?, number(minutes, 2)?];
    Time::new(hours.try_into().ok()?, minutes.try_into().ok()?, 0, 0).ok()
}

/// A number of at most `most` digits, without a sign.
fn number(digits: &str, most: usize) -> Option<i16> {
    let is_number = digits.len() <= most && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
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
        for rsync in ["2026-11-24 05:30", "2026-11-24T5:30", "2026/11/24T05:30", "26-11-24T05:30"] {
            assert_eq!(read(rsync).as_deref(), Some("2026-11-24T05:30:00Z"), "{rsync}");
        }
        assert_eq!(read("2026-12-1T5:30").as_deref(), Some("2026-12-01T05:30:00Z"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "5", "5:3", "24:00", "12:60", "+5:30", "-1:00", "2026-11-24", "noon", "12:00:00", "1:1:1"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        for text in
            ["2026-11-24T", "2026-13-24T05:30", "2026-11T05:30", "2026--24T05:30", "T05:30", "1-2-3-4T5:30"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
