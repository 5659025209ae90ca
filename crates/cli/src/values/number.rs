//! Whole numbers with a unit and bounds.

/// An upper bound of the entries of any tree.
pub(crate) const MOST_ENTRIES: i64 = 1_000_000_000_000;
/// The longest duration of options in seconds.
pub(crate) const DAY: i64 = 86_400;

/// Reads a whole number `of` something, as in "seconds", from `least` to `most`.
///
/// # Errors
/// A message for clap.
pub(crate) fn number<N: TryFrom<i64>>(text: &str, of: &str, least: i64, most: i64) -> Result<N, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| format!("`{text}` is not a whole number of {of} from {least} to {most}"))
}

/// Reads the number of a job.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_job(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a job number; `haul jobs` lists them"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_bounds_are_refused() {
        let read = |text: &str| number::<u16>(text, "pipes", 1, 256);
        assert_eq!((read("1"), read("256")), (Ok(1), Ok(256)));
        for bad in ["", "0", "257", "-1", "x", "1.5", "1e2", " 1", "99999999999999999999"] {
            let said = read(bad).unwrap_err();
            assert_eq!(said, format!("`{bad}` is not a whole number of pipes from 1 to 256"));
        }
        assert_eq!(number::<i64>("-1", "seconds", -1, 5), Ok(-1));
        assert!(number::<u8>("300", "pipes", 0, 400).is_err(), "it does not fit");
        assert_eq!((parse_job("12"), parse_job("-1").is_err()), (Ok(12), true));
    }
}
