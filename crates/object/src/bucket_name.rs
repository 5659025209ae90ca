//! The rules for names of new buckets.

use haul_core::location::{ObjectKind, ObjectPlace};

/// Checks the name of a bucket to be made. A bucket that is there may have another name: rules were looser once.
///
/// # Errors
/// The rule, as a sentence.
pub fn check_bucket_name(place: &ObjectPlace) -> Result<(), &'static str> {
    let name = place.bucket.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let has_plain_ends = name.first().is_some_and(is_plain) && name.last().is_some_and(is_plain);
    let (most, others, rule): (usize, &[u8], &str) = match place.kind {
        ObjectKind::S3 => (
            63,
            b"-.",
            "the name of a bucket has 3 to 63 lower-case letters, digits, `-` and `.`, and begins and ends with a \
             letter or a digit",
        ),
        ObjectKind::Gs => (
            if name.contains(&b'.') { 222 } else { 63 },
            b"-._",
            "the name of a bucket has 3 to 63 lower-case letters, digits, `-`, `_` and `.` (222 if there is a `.`), \
             and begins and ends with a letter or a digit",
        ),
        // Containers of the system: `$web`, `$root`, `$logs`.
        ObjectKind::Az if name.first() == Some(&b'$') => return Ok(()),
        ObjectKind::Az => (
            63,
            b"-",
            "the name of a container has 3 to 63 lower-case letters, digits and `-`, and begins and ends with a \
             letter or a digit",
        ),
    };
    let fits = (3..=most).contains(&name.len())
        && has_plain_ends
        && name.iter().all(|byte| is_plain(byte) || others.contains(byte));
    if fits { Ok(()) } else { Err(rule) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_the_provider() {
        let fits = |kind, bucket: &str| {
            let place = ObjectPlace {
                kind,
                bucket: bucket.to_owned(),
                key: String::new(),
                store: Default::default(),
            };
            check_bucket_name(&place).is_ok()
        };
        let long = "a".repeat(64);
        for good in ["abc", "a-b.c", "0a9", &long[1..]] {
            assert!(fits(ObjectKind::S3, good), "{good}");
        }
        for bad in ["", "b", "ab", "Abc", "a_b", "-ab", "ab-", "ab.", ".ab", "ab\u{e4}c", &long] {
            assert!(!fits(ObjectKind::S3, bad), "{bad}");
        }
        assert!(fits(ObjectKind::Gs, "a_b") && fits(ObjectKind::Gs, &format!("{long}.{long}")));
        assert!(!fits(ObjectKind::Gs, &long) && !fits(ObjectKind::Gs, "Abc"));
        assert!(fits(ObjectKind::Az, "a-b") && fits(ObjectKind::Az, "$web"));
        assert!(!fits(ObjectKind::Az, "a.b") && !fits(ObjectKind::Az, "ab"));
    }
}
