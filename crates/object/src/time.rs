//! Converts times to RFC 3339.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Month names in HTTP dates.
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Converts an HTTP date (`Wed, 09 Sep 2009 09:20:02 GMT`) to `2009-09-09T09:20:02Z`; other text stays unchanged.
pub(crate) fn of_http(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    if let [_, day, month, year, clock, "GMT"] = words[..]
        && let Some(month) = MONTHS.iter().position(|name| *name == month)
    {
        return format!("{year}-{:02}-{day:0>2}T{clock}Z", month + 1);
    }
    text.to_owned()
}

/// Converts seconds since 1970.
pub(crate) fn of_unix(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March end with their leap day; 400 years have 146,097 days.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// The time after a duration from now.
pub(crate) fn after(and: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    of_unix((now + and).as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_format() {
        assert_eq!(of_http("Wed, 09 Sep 2009 09:20:02 GMT"), "2009-09-09T09:20:02Z");
        assert_eq!(of_http("2009-09-09"), "2009-09-09");
        assert_eq!(of_unix(0), "1970-01-01T00:00:00Z");
        // As printed by `date -u -d @N`.
        assert_eq!(of_unix(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(of_unix(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(of_unix(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
