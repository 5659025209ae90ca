//! Rates in rsync's format, except where that is ambiguous.

use super::size::parse_size;

/// The minimum rate in bytes per second, as in rsync: anything below is a typing error.
const LEAST: u64 = 512;

/// Reads a rate in bytes per second; `None` is no limit.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_rate(text: &str) -> Result<Option<u64>, String> {
    if text == "off" || text == "0" {
        return Ok(None);
    }
    let bad = || {
        format!(
            "`{text}` is not a rate; rates are like 500 or 500K (KiB per second), 10M or 1.5MiB (of 1024), \
             10MB (of 1000), 100Mbit, off"
        )
    };
    let number = text.strip_suffix("/s").unwrap_or(text);
    let lower = number.to_ascii_lowercase();
    let rate = if let Some(bits) = lower.strip_suffix("bit") {
        // 1 Mbit is 1,000,000 bits: 100 Mbit are 12.5 MB.
        let bytes = if bits.ends_with(|c: char| c.is_ascii_digit()) {
            parse_size(bits)
        } else {
            parse_size(&format!("{bits}b"))
        };
        bytes.map_err(|_| bad())? / 8
    } else if number.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        parse_size(&format!("{number}K")).map_err(|_| bad())?
    } else if number.ends_with('b') && number.chars().rev().nth(1).is_some_and(|c| c.is_ascii_uppercase()) {
        return Err(format!(
            "`{text}` is ambiguous (bits or bytes): write {0}B or {0}bit",
            &number[..number.len() - 1]
        ));
    } else {
        parse_size(number).map_err(|_| bad())?
    };
    if rate < LEAST {
        return Err(format!("`{text}` is less than {LEAST} bytes per second; `off` is no limit"));
    }
    Ok(Some(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed() {
        for (text, rate) in [
            ("off", None),
            ("0", None),
            ("1", Some(1024)),
            ("500", Some(500 * 1024)),
            ("1.5", Some(1536)),
            ("500K", Some(500 * 1024)),
            ("10M", Some(10 << 20)),
            ("10m", Some(10 << 20)),
            ("1.5m", Some(3 << 19)),
            ("10MiB", Some(10 << 20)),
            ("10MB", Some(10_000_000)),
            ("10mb", Some(10_000_000)),
            ("10MB/s", Some(10_000_000)),
            ("600B", Some(600)),
            ("100Mbit", Some(12_500_000)),
            ("100mbit/s", Some(12_500_000)),
            ("1.5Gbit", Some(187_500_000)),
            ("8000bit", Some(1000)),
        ] {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
    }

    #[test]
    fn invalid_and_ambiguous_rates_are_refused() {
        for text in
            ["", "x", "fast", "-1", "10X", "10Mb", "10Kb/s", "100B", "1bit", "bit", "10 M", "/s", "1e6", "é"]
        {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert!(parse_rate("10Mb").unwrap_err().contains("10MB or 10Mbit"));
    }
}
