//! How the metadata of two entries differs, in words.

use haul_core::{Changes, Entry, Timestamp};

/// Each attribute that differs, with both values where they are short.
pub(crate) fn metadata_difference(changes: Changes, source: &Entry, destination: &Entry) -> String {
    let values = |name, here: String, there: String| format!("{name} {here} at the source, {there} there");
    let mode = |entry: &Entry| format!("{:03o}", entry.mode);
    let named = |word| match word {
        "time" => values("time", time(source.mtime), time(destination.mtime)),
        "mode" => values("mode", mode(source), mode(destination)),
        "owner" => values("owner", source.uid.to_string(), destination.uid.to_string()),
        "group" => values("group", source.gid.to_string(), destination.gid.to_string()),
        "acl" => "ACL".to_owned(),
        "xattr" => "extended attributes".to_owned(),
        "links" => "hard links to other names".to_owned(),
        other => other.to_owned(),
    };
    changes.words().map(named).collect::<Vec<_>>().join("; ")
}

/// A time in UTC, to the nanosecond.
fn time(at: Timestamp) -> String {
    let known = i32::try_from(at.nsec).ok().and_then(|nsec| jiff::Timestamp::new(at.sec, nsec).ok());
    known.map_or_else(|| format!("{}.{:09}", at.sec, at.nsec), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{EntryKind, RelPath};

    #[test]
    fn values_are_those_of_both_ends() {
        let entry = |mode, sec| Entry {
            mode,
            mtime: Timestamp { sec, nsec: 0 },
            ..Entry::new(RelPath::root(), EntryKind::File, 0)
        };
        let told = |changes| metadata_difference(changes, &entry(0o4755, 0), &entry(0o20, i64::MAX));
        assert_eq!(
            told(Changes::MODE | Changes::XATTR),
            "mode 4755 at the source, 020 there; extended attributes"
        );
        assert_eq!(
            told(Changes::TIME),
            "time 1970-01-01T00:00:00Z at the source, 9223372036854775807.000000000 there"
        );
        assert_eq!(
            told(Changes::LINKS | Changes::OWNER),
            "owner 0 at the source, 0 there; hard links to other names"
        );
    }
}
