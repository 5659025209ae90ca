//! Schedules of rates, in rclone's format: `08:00,10M 19:00,off`.

use std::fmt;
use std::str::FromStr;

use super::rate::parse_rate;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const DAY: u32 = 24 * 60;

/// One rate, or the rate from each of several minutes of the week on. The last of a week holds into the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timetable {
    text: String,
    /// Minutes since Monday 00:00, ascending, each with bytes per second; never empty.
    entries: Vec<(u32, Option<u64>)>,
}

impl Timetable {
    /// The rate in bytes per second at a minute of the week; `None` is no limit.
    pub(crate) fn rate_at(&self, minute: u32) -> Option<u64> {
        let before = self.entries.partition_point(|(from, _)| *from <= minute);
        let at = before.checked_sub(1).unwrap_or(self.entries.len() - 1);
        self.entries[at].1
    }

    /// The current rate, in local time.
    pub(crate) fn rate_now(&self) -> Option<u64> {
        if let [(_, rate)] = self.entries.as_slice() {
            return *rate;
        }
        let now = jiff::Zoned::now();
        let [day, hour, minute] = [now.weekday().to_monday_zero_offset(), now.hour(), now.minute()]
            .map(|n| u32::from(n.unsigned_abs()));
        self.rate_at(day * DAY + hour * 60 + minute)
    }
}

impl fmt::Display for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Timetable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let mut entries = match words.as_slice() {
            [] => return Err("it is empty; `off` is no limit".to_owned()),
            [rate] if !rate.contains(',') => vec![(0, parse_rate(rate)?)],
            words => words.iter().map(|word| entry(word)).collect::<Result<Vec<_>, _>>()?.concat(),
        };
        entries.sort_by_key(|(minute, _)| *minute);
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let (day, minute) = (pair[0].0 / DAY, pair[0].0 % DAY);
            let time = format!("{}-{:02}:{:02}", DAYS[day as usize], minute / 60, minute % 60);
            return Err(format!("more than one rate for {time}"));
        }
        Ok(Self { text: words.join(" "), entries })
    }
}

/// Reads one entry of a schedule; without a weekday it applies to every day.
fn entry(word: &str) -> Result<Vec<(u32, Option<u64>)>, String> {
    let bad = || {
        format!(
            "`{word}` is not an entry of a schedule; entries are like 08:00,10M or Mon-08:00,10M or 19:00,off"
        )
    };
    let (when, rate) = word.split_once(',').ok_or_else(bad)?;
    let rate = parse_rate(rate)?;
    let (day, time) = match when.split_once('-') {
        Some((day, time)) => {
            let day = DAYS.iter().position(|name| name.eq_ignore_ascii_case(day)).ok_or_else(bad)?;
            (u32::try_from(day).ok(), time)
        }
        None => (None, when),
    };
    let (hour, minute) = time.split_once(':').ok_or_else(bad)?;
    let number = |text: &str, below: u32| -> Result<u32, String> {
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|n| digits && *n < below).ok_or_else(bad)
    };
    if minute.len() != 2 {
        return Err(bad());
    }
    let at = number(hour, 24)? * 60 + number(minute, 60)?;
    let days = day.map_or(0..7, |day| day..day + 1);
    Ok(days.map(|day| (day * DAY + at, rate)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn rate(text: &str, day: u32, hour: u32, minute: u32) -> Option<u64> {
        text.parse::<Timetable>().unwrap().rate_at(day * DAY + hour * 60 + minute)
    }

    #[test]
    fn a_single_rate_always_applies() {
        assert_eq!(rate("10M", 3, 4, 5), Some(10 * M));
        assert_eq!(rate("off", 0, 0, 0), None);
        assert_eq!(rate("12:00,10M", 3, 4, 5), Some(10 * M), "the day before it began");
    }

    #[test]
    fn an_entry_applies_past_midnight() {
        let text = "19:00,off  08:00,10M 12:30,2M";
        for (hour, minute, expected) in [
            (0, 0, None),
            (7, 59, None),
            (8, 0, Some(10 * M)),
            (12, 29, Some(10 * M)),
            (12, 30, Some(2 * M)),
            (18, 59, Some(2 * M)),
            (19, 0, None),
        ] {
            assert_eq!(rate(text, 0, hour, minute), expected, "{hour}:{minute}");
            assert_eq!(rate(text, 6, hour, minute), expected, "{hour}:{minute}");
        }
        assert_eq!(text.parse::<Timetable>().unwrap().to_string(), "19:00,off 08:00,10M 12:30,2M");
    }

    #[test]
    fn entries_may_have_a_weekday() {
        let text = "Mon-08:00,1M fri-18:00,off Sun-20:00,5M";
        assert_eq!(rate(text, 0, 7, 0), Some(5 * M), "since Sunday");
        assert_eq!(rate(text, 0, 8, 0), Some(M));
        assert_eq!(rate(text, 4, 17, 59), Some(M));
        assert_eq!(rate(text, 5, 12, 0), None);
        assert_eq!(rate(text, 6, 23, 0), Some(5 * M));
    }

    #[test]
    fn invalid_schedules_are_refused() {
        for text in [
            "",
            " ",
            "10M 20M",
            "08:00",
            "08:00,",
            "8,10M",
            "24:00,1M",
            "08:60,1M",
            "08:0,1M",
            "+8:00,1M",
            "Foo-08:00,1M",
            "08:00,10X",
            "08:00,1M 8:00,2M",
            "Mon-08:00,1M 08:00,2M",
            "08:00,10M,",
        ] {
            assert!(text.parse::<Timetable>().is_err(), "{text}");
        }
    }
}
