//! Sizes as rsync reads them: `100`, `1.5m` (of 1024), `10MiB`, `10MB` (of 1000), `2g-1`.

/// Reads a size in bytes.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || {
        format!(
            "`{text}` is not a size; sizes are like 100, 64K, 1.5GiB (of 1024) or 10MB (of 1000), below 16EiB"
        )
    };
    let (text_value, offset) = match text.as_bytes() {
        [.., b'+', b'1'] => (&text[..text.len() - 2], 1),
        [.., b'-', b'1'] if text.len() > 2 => (&text[..text.len() - 2], -1),
        _ => (text, 0),
    };
    let digits = text_value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text_value.len());
    let (number, unit) = text_value.split_at(digits);
    let (exponent, base) = unit_of(unit).ok_or_else(bad)?;
    let factor = base.checked_pow(exponent).ok_or_else(bad)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 || fraction.contains('.') {
        return Err(bad());
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| bad())? };
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| bad())? };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).map_err(|_| bad())?);
    let bytes = whole.checked_mul(factor).ok_or_else(bad)? + part * factor / scale;
    let bytes = u64::try_from(bytes).map_err(|_| bad())?;
    bytes.checked_add_signed(offset).ok_or_else(bad)
}

/// Reads a size of at least 1 byte.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_part(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err(format!("`{text}` is not a part size; sizes are like 64K, 1.5GiB or 10MB, at least 1 byte")),
        bytes => Ok(bytes),
    }
}

/// The exponent and the base of a unit.
fn unit_of(unit: &str) -> Option<(u32, u128)> {
    let unit = unit.to_ascii_lowercase();
    let (letter, rest) = unit.split_at_checked(1).unwrap_or(("", ""));
    let exponent = match letter {
        "" | "b" => return rest.is_empty().then_some((0, 1)),
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    match rest {
        "" | "ib" => Some((exponent, 1024)),
        "b" => Some((exponent, 1000)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_rsync() {
        for (text, bytes) in [
            ("0", 0),
            ("100", 100),
            ("100b", 100),
            ("1K", 1024),
            ("1k", 1024),
            ("1KB", 1000),
            ("1KiB", 1024),
            ("1.5m", 1_572_864),
            ("1.5mb-1", 1_499_999),
            ("2g+1", 2_147_483_649),
            (".5K", 512),
            ("256MiB", 268_435_456),
            ("8192P", 9_223_372_036_854_775_808),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in ["", "K", "-1", "1X", "1KBB", "1.2.3", ".", "1e9", "99999999P", "0-1", "1 K", "é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
