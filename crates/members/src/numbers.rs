//! Numbers in headers of tar.

use haul_core::Timestamp;

/// A field: octal digits, or binary if the first bit is set.
pub(crate) fn field(bytes: &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    if first & 0x80 != 0 {
        // The next bit is the sign.
        let start = u64::from(first & 0x7f);
        return rest
            .iter()
            .try_fold(start, |number, byte| number.checked_mul(256).map(|number| number | u64::from(*byte)));
    }
    let digits = bytes.trim_ascii_start();
    let end = digits.iter().position(|byte| matches!(byte, 0 | b' ')).unwrap_or(digits.len());
    digits[..end].iter().try_fold(0_u64, |number, byte| match byte {
        b'0'..=b'7' => number.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// A time in seconds, which may be before 1970 if it is binary.
pub(crate) fn time_field(bytes: &[u8]) -> Option<Timestamp> {
    let negative = bytes.first().is_some_and(|first| *first == 0xff);
    let sec = if negative {
        let last = bytes.get(bytes.len().checked_sub(8)?..)?;
        i64::from_be_bytes(last.try_into().ok()?)
    } else {
        i64::try_from(field(bytes)?).ok()?
    };
    Some(Timestamp { sec, nsec: 0 })
}

/// A decimal number.
pub(crate) fn decimal(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

/// A time in decimal seconds with a fraction.
pub(crate) fn decimal_time(bytes: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let sec: i64 = whole.parse().ok()?;
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nsec: i128 = digits.parse().ok()?;
    let all = i128::from(sec) * 1_000_000_000;
    Timestamp::from_nanoseconds(if whole.starts_with('-') { all - nsec } else { all + nsec })
}
