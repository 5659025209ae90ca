//! Selects objects by size and age.

use haul_core::{Error, ErrorKind, Result, ScanOptions, Side, Timestamp};
use haul_object::Object;

use super::errors::usage;
use crate::args::SelectArgs;

/// Checks that something can be as old as `--max-age` and `--min-age` say.
///
/// # Errors
/// [`ErrorKind::Usage`] if nothing can.
pub(super) fn check_ages(from: Option<Timestamp>, until: Option<Timestamp>) -> Result<()> {
    if from.zip(until).is_some_and(|(from, until)| from > until) {
        return Err(usage("select by age", "--min-age is more than --max-age: nothing has such an age"));
    }
    Ok(())
}

/// The objects that `ls` and `rm` are for.
pub(crate) struct ObjectSelection<'a>(&'a SelectArgs);

impl<'a> ObjectSelection<'a> {
    /// The selection of the options.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if nothing can match them.
    pub(crate) fn new(args: &'a SelectArgs) -> Result<Self> {
        check_ages(args.max_age, args.min_age)?;
        if args.min_size.zip(args.max_size).is_some_and(|(least, most)| least > most) {
            let cause = "--min-size is more than --max-size: nothing has such a size";
            return Err(usage("select by size", cause));
        }
        Ok(Self(args))
    }

    /// The scan of the entries of a file system that it takes.
    pub(crate) fn scan(&self) -> ScanOptions {
        let SelectArgs { min_size, max_size, max_age, min_age } = *self.0;
        let (modified_from, modified_until) = (max_age, min_age);
        ScanOptions { min_size, max_size, modified_from, modified_until, ..ScanOptions::default() }
    }

    /// Whether it takes every object.
    pub(crate) fn takes_all(&self) -> bool {
        let SelectArgs { min_size, max_size, max_age, min_age } = self.0;
        min_size.is_none() && max_size.is_none() && max_age.is_none() && min_age.is_none()
    }

    /// Whether it takes an object of a listing.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if the age counts, and the store reports no valid time.
    pub(crate) fn takes(&self, object: &Object) -> Result<bool> {
        let SelectArgs { min_size, max_size, max_age, min_age } = self.0;
        let has_size = min_size.is_none_or(|least| object.len >= least)
            && max_size.is_none_or(|most| object.len <= most);
        if !has_size || max_age.is_none() && min_age.is_none() {
            return Ok(has_size);
        }
        let stored = modified(object)?;
        Ok(max_age.is_none_or(|from| stored >= from) && min_age.is_none_or(|until| stored <= until))
    }
}

fn modified(object: &Object) -> Result<Timestamp> {
    let time = object.modified.parse::<jiff::Timestamp>().ok();
    time.and_then(|time| Timestamp::from_nanoseconds(time.as_nanosecond())).ok_or_else(|| {
        let cause = format!("the store reports no valid time for it: `{}`", object.modified);
        Error::new(ErrorKind::Protocol, Side::Source, "select by age", &cause).on(object.key.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(len: u64, modified: &str) -> Object {
        Object { key: "k".to_owned(), len, modified: modified.to_owned(), ..Object::default() }
    }

    #[test]
    fn both_ends_of_a_range_count() {
        let args = SelectArgs { min_size: Some(2), max_size: Some(4), ..SelectArgs::default() };
        let selection = ObjectSelection::new(&args).unwrap();
        let taken: Vec<u64> = (0..7).filter(|len| selection.takes(&object(*len, "?")).unwrap()).collect();
        assert!(taken == [2, 3, 4] && !selection.takes_all());
        assert!(ObjectSelection::new(&SelectArgs::default()).unwrap().takes_all());
    }

    #[test]
    fn an_age_needs_a_time() {
        let at = |sec| Some(Timestamp { sec, nsec: 0 });
        // 2026-01-02T00:00:00Z and the day before.
        let args =
            SelectArgs { max_age: at(1_767_225_600), min_age: at(1_767_312_000), ..SelectArgs::default() };
        let selection = ObjectSelection::new(&args).unwrap();
        let takes = |time: &str| selection.takes(&object(1, time));
        assert!(takes("2026-01-01T00:00:00.000Z").unwrap() && takes("2026-01-02T00:00:00Z").unwrap());
        assert!(!takes("2025-12-31T23:59:59.999Z").unwrap() && !takes("2026-01-02T00:00:00.001Z").unwrap());
        for bad in ["", "yesterday", "2026-13-01T00:00:00Z"] {
            assert_eq!(takes(bad).unwrap_err().kind(), ErrorKind::Protocol, "{bad}");
        }
    }

    #[test]
    fn a_pattern_without_possible_matches_is_refused() {
        let sizes = SelectArgs { min_size: Some(2), max_size: Some(1), ..SelectArgs::default() };
        assert!(ObjectSelection::new(&sizes).is_err());
        let at = |sec| Some(Timestamp { sec, nsec: 0 });
        assert!(
            ObjectSelection::new(&SelectArgs { max_age: at(2), min_age: at(1), ..SelectArgs::default() })
                .is_err()
        );
    }
}
