//! Reading and writing of rates, sizes, times and probabilities.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Splits `"12.5ms"` into the number and the unit in lower case.
fn split(text: &str) -> Result<(f64, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 =
        text[..end].parse().with_context(|| format!("`{text}` does not begin with a number"))?;
    ensure!(number.is_finite(), "`{text}` is out of range");
    Ok((number, text[end..].trim().to_ascii_lowercase()))
}

/// A rate in bits per second: `100m`, `1g`, `5Gbit/s`.
pub(crate) fn parse_rate(text: &str) -> Result<u64> {
    let (number, unit) = split(text)?;
    let unit = unit.trim_end_matches("/s").trim_end_matches("bit");
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => bail!("unknown rate `{text}` (try 100m, 1g, 5Gbit/s)"),
    };
    let rate = (number * factor) as u64;
    ensure!((8_000..=1_000_000_000_000).contains(&rate), "rate `{text}` is out of range");
    Ok(rate)
}

/// A time: `60ms`, `200us`, `1.5s`, `0`.
pub(crate) fn parse_time(text: &str) -> Result<Duration> {
    let (number, unit) = split(text)?;
    let seconds = match unit.as_str() {
        "s" => number,
        "ms" => number / 1e3,
        "us" => number / 1e6,
        "" if number == 0.0 => 0.0,
        _ => bail!("unknown time `{text}` (try 60ms, 200us, 1.5s)"),
    };
    ensure!(seconds <= 10.0, "time `{text}` is out of range");
    Ok(Duration::from_secs_f64(seconds))
}

/// A size in bytes, in powers of ten: `64k`, `8M`, `1g`.
pub(crate) fn parse_size(text: &str) -> Result<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit.trim_end_matches('b') {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => bail!("unknown size `{text}` (try 64k, 8M, 1g)"),
    };
    Ok((number * factor) as u64)
}

/// A probability: `0.001` or `0.1%`.
pub(crate) fn parse_chance(text: &str) -> Result<f64> {
    let (number, unit) = split(text)?;
    let chance = match unit.as_str() {
        "" => number,
        "%" => number / 100.0,
        _ => bail!("unknown probability `{text}` (try 0.001 or 0.1%)"),
    };
    ensure!((0.0..1.0).contains(&chance), "`{text}` is not within 0..1");
    Ok(chance)
}

/// `5 Gbit/s`, `100 Mbit/s`.
pub(crate) fn show_rate(bits: u64) -> String {
    let bits = bits as f64;
    if bits >= 1e9 {
        format!("{} Gbit/s", bits / 1e9)
    } else if bits >= 1e6 {
        format!("{} Mbit/s", bits / 1e6)
    } else {
        format!("{} kbit/s", bits / 1e3)
    }
}

/// `60 ms`, `0`.
pub(crate) fn show_time(time: Duration) -> String {
    if time.is_zero() { "0".to_owned() } else { format!("{} ms", time.as_secs_f64() * 1e3) }
}

/// Seconds with three figures that matter.
pub(crate) fn show_seconds(seconds: f64) -> String {
    if seconds < 10.0 {
        format!("{seconds:.2}")
    } else if seconds < 100.0 {
        format!("{seconds:.1}")
    } else {
        format!("{seconds:.0}")
    }
}

/// Seconds since 1970 as `2025-01-31T12:00:00Z`.
pub(crate) fn show_date(unix: u64) -> String {
    let (days, rest) = (unix / 86_400, unix % 86_400);
    // Days to a civil date, years counted from 1 March.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(parse_rate("5Gbit/s").unwrap(), 5_000_000_000);
        assert_eq!(parse_rate("100m").unwrap(), 100_000_000);
        assert!(parse_rate("fast").is_err());
        assert_eq!(parse_time("60ms").unwrap(), Duration::from_millis(60));
        assert_eq!(parse_time("0").unwrap(), Duration::ZERO);
        assert!(parse_time("60").is_err());
        assert_eq!(parse_size("1.5M").unwrap(), 1_500_000);
        assert!((parse_chance("0.1%").unwrap() - 0.001).abs() < 1e-12);
        assert!(parse_chance("2").is_err());
    }

    #[test]
    fn dates_are_written() {
        assert_eq!(show_date(0), "1970-01-01T00:00:00Z");
        assert_eq!(show_date(1_709_164_800), "2024-02-29T00:00:00Z");
        assert_eq!(show_date(1_735_689_599), "2024-12-31T23:59:59Z");
    }
}
