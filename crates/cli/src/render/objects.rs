//! Lines about objects, as text and JSON.

use haul_core::path::printable;
use haul_object::{ListedBucket, Object};
use serde::Serialize;

use super::wording::{bytes, count};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ObjectLine<'a> {
    Object {
        key: &'a str,
        len: u64,
        modified: &'a str,
        etag: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<&'a str>,
    },
    Prefix {
        prefix: &'a str,
    },
    Bucket {
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        created: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        modified: Option<&'a str>,
    },
    Member {
        #[serde(flatten)]
        name: super::json::JsonName,
        len: u64,
    },
}

fn json(line: &ObjectLine<'_>) -> Vec<u8> {
    // Text and numbers can always be serialized.
    super::json::line(line).unwrap_or_default()
}

/// An object as JSON.
pub(crate) fn object_json(object: &Object) -> Vec<u8> {
    let Object { key, len, modified, etag, class, .. } = object;
    json(&ObjectLine::Object {
        key,
        len: *len,
        modified,
        etag: etag.trim_matches('"'),
        class: class.as_deref(),
    })
}

/// A common prefix as JSON.
pub(crate) fn prefix_json(prefix: &str) -> Vec<u8> {
    json(&ObjectLine::Prefix { prefix })
}

/// A bucket of a store as JSON.
pub(crate) fn listed_bucket_json(bucket: &ListedBucket) -> Vec<u8> {
    let ListedBucket { name, created, modified } = bucket;
    json(&ObjectLine::Bucket { name, created, modified: modified.as_deref() })
}

/// A bucket of a store as text.
pub(crate) fn listed_bucket_line(bucket: &ListedBucket) -> Vec<u8> {
    let time = shown_time(bucket.modified.as_ref().unwrap_or(&bucket.created));
    format!("{time:19}  {}\n", printable(bucket.name.as_bytes())).into_bytes()
}

/// An object as text.
pub(crate) fn object_line(object: &Object) -> Vec<u8> {
    let time = shown_time(&object.modified);
    format!("{:>12}  {time:19}  {}\n", bytes(object.len), printable(object.key.as_bytes())).into_bytes()
}

/// A time of a store, as other times are shown.
fn shown_time(of_store: &str) -> String {
    let time = of_store.split('.').next().unwrap_or_default().replace('T', " ");
    printable(time.trim_end_matches('Z').as_bytes())
}

/// A common prefix as text.
pub(crate) fn prefix_line(prefix: &str) -> Vec<u8> {
    format!("{:>12}  {:19}  {}\n", "", "", printable(prefix.as_bytes())).into_bytes()
}

/// A member of a stream, as text or JSON.
pub(crate) fn member_line(len: u64, path: &[u8], as_json: bool) -> Vec<u8> {
    if as_json {
        let name = super::json::JsonName::new(path);
        return json(&ObjectLine::Member { name, len });
    }
    format!("{:>12}  {}\n", bytes(len), printable(path)).into_bytes()
}

/// The heading of one of several lists as JSON.
pub(crate) fn heading_json(location: &str) -> Vec<u8> {
    let heading = serde_json::json!({ "type": "location", "location": location });
    super::json::line(&heading).unwrap_or_default()
}

/// The heading of one of several lists as text, as ls(1) has it.
pub(crate) fn heading_line(location: &str, is_first: bool) -> Vec<u8> {
    format!("{}{location}:\n", if is_first { "" } else { "\n" }).into_bytes()
}

/// The number and the total size of objects or files as JSON.
pub(crate) fn total_json(noun: &str, count: u64, len: u64) -> Vec<u8> {
    let total = serde_json::json!({ "type": "total", noun: count, "len": len });
    super::json::line(&total).unwrap_or_default()
}

/// The number and the total size of objects or files as text.
pub(crate) fn total_line(noun: &str, number: u64, len: u64) -> Vec<u8> {
    let total = count(number, noun, &format!("{noun}s"));
    format!("{:>12}  total of {total}\n", bytes(len)).into_bytes()
}

/// A bucket that was made, or was there already.
pub(crate) fn bucket_line(verb: &str, name: &str) -> Vec<u8> {
    format!("{verb:<8} {name}\n").into_bytes()
}

/// An object that was removed; in a dry run, would be.
pub(crate) fn removed_line(name: &str, dry_run: bool) -> Vec<u8> {
    let verb = if dry_run { "remove" } else { "removed" };
    format!("{verb:<8} {name}\n").into_bytes()
}

/// An upload that was aborted, would be aborted in a dry run, or was skipped for a reason.
pub(crate) fn upload_line(name: &str, begun: &str, left: Option<&str>, dry_run: bool) -> Vec<u8> {
    let verb = match (left, dry_run) {
        (Some(_), false) => "skipped",
        (Some(_), true) => "skip",
        (None, false) => "aborted",
        (None, true) => "abort",
    };
    let why = left.map(|why| format!(": {why}")).unwrap_or_default();
    format!("{verb:<8} {name}, started {begun}{why}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_distinct_and_have_no_control_characters() {
        let object = Object {
            key: "a\nb".to_owned(),
            len: 1536,
            modified: "2026-01-02T03:04:05.678Z".to_owned(),
            etag: "\"e\"".to_owned(),
            ..Object::default()
        };
        let line = String::from_utf8(object_line(&object)).unwrap();
        assert_eq!(line, "    1.50 KiB  2026-01-02 03:04:05  a\\x0ab\n");
        let total = |number| String::from_utf8(total_line("file", number, 1536)).unwrap();
        assert_eq!(
            (total(1), total(1503)),
            ("    1.50 KiB  total of 1 file\n".to_owned(), "    1.50 KiB  total of 1,503 files\n".to_owned())
        );
        let line = String::from_utf8(object_json(&object)).unwrap();
        let expected =
            r#"{"type":"object","key":"a\nb","len":1536,"modified":"2026-01-02T03:04:05.678Z","etag":"e"}"#;
        assert_eq!(line.trim_end(), expected);
    }
}
