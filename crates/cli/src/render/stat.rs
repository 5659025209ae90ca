//! The output of `haul stat`, as text and JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use haul_core::Entry;
use haul_core::path::printable;
use haul_object::{Details, Object};
use serde::Serialize;

use super::json::line;
use super::listed::{kind_and_target, time};
use super::wording::{bytes, count};

/// The metadata of one entry or object.
#[derive(Default, Serialize)]
#[serde(tag = "type", rename = "stat")]
pub(crate) struct EntryStat {
    location: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    len: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accessed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encryption_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    md5: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crc64nvme: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crc32c: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

impl EntryStat {
    /// An entry of a file system.
    pub(crate) fn of_entry(location: &str, entry: &Entry) -> Self {
        let (kind, target) = kind_and_target(entry);
        let time = |at| time(at).map(|time| time.to_string());
        let name = |name: &[u8]| (!name.is_empty()).then(|| printable(name));
        let names = entry.names.as_deref();
        Self {
            location: location.to_owned(),
            kind,
            len: entry.is_file().then_some(entry.len),
            allocated: entry.is_sparse().then_some(entry.allocated),
            modified: time(entry.mtime),
            accessed: time(entry.atime),
            changed: entry.ctime.and_then(time),
            mode: Some(format!("{:04o}", entry.mode)),
            uid: Some(entry.uid),
            gid: Some(entry.gid),
            user: names.and_then(|names| name(&names.user)),
            group: names.and_then(|names| name(&names.group)),
            links: Some(entry.nlink),
            target,
            attributes: entry.xattrs.iter().map(|(name, _)| printable(name)).collect(),
            ..Self::default()
        }
    }

    /// An object.
    pub(crate) fn of_object(location: &str, object: &Object, details: &Details) -> Self {
        let pairs = |pairs: &[(String, String)]| pairs.iter().cloned().collect();
        Self {
            location: location.to_owned(),
            kind: "object",
            len: Some(object.len),
            modified: Some(details.modified.clone()),
            etag: Some(object.etag.trim_matches('"').to_owned()),
            version: details.version.clone(),
            class: object.class.clone(),
            encryption: details.encryption.clone(),
            encryption_key: details.encryption_key.clone(),
            md5: object.md5(),
            crc64nvme: object.crc64.map(|crc| format!("{crc:016x}")),
            crc32c: object.crc32c.map(|crc| format!("{crc:08x}")),
            headers: pairs(&details.headers),
            metadata: pairs(&object.metadata),
            ..Self::default()
        }
    }

    /// A common prefix of objects.
    pub(crate) fn of_prefix(location: &str) -> Self {
        Self { location: location.to_owned(), kind: "prefix", ..Self::default() }
    }

    /// A bucket.
    pub(crate) fn of_bucket(location: &str) -> Self {
        Self { location: location.to_owned(), kind: "bucket", ..Self::default() }
    }

    /// As JSON.
    pub(crate) fn json(&self) -> Vec<u8> {
        // Text and numbers can always be serialized.
        line(self).unwrap_or_default()
    }

    /// As text: a line for each value.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = String::new();
        let mut add = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{name:<16} {}", printable(value.as_bytes()));
            }
        };
        let size = self.len.map(|len| format!("{} ({})", count(len, "byte", "bytes"), bytes(len)));
        let owner = |id: Option<u32>, name: &Option<String>| match (id, name) {
            (Some(id), Some(name)) => Some(format!("{name} ({id})")),
            (Some(id), None) => Some(id.to_string()),
            (None, _) => None,
        };
        add("location", Some(&self.location));
        add("kind", Some(self.kind));
        add("size", size.as_deref());
        add("on disk", self.allocated.map(bytes).as_deref());
        add("modified", self.modified.as_deref());
        add("accessed", self.accessed.as_deref());
        add("changed", self.changed.as_deref());
        add("mode", self.mode.as_deref());
        add("owner", owner(self.uid, &self.user).as_deref());
        add("group", owner(self.gid, &self.group).as_deref());
        add("links", self.links.map(|links| links.to_string()).as_deref());
        add("target", self.target.as_deref());
        self.attributes.iter().for_each(|name| add("attribute", Some(name)));
        add("etag", self.etag.as_deref());
        add("version", self.version.as_deref());
        add("class", self.class.as_deref());
        add("encryption", self.encryption.as_deref());
        add("encryption key", self.encryption_key.as_deref());
        add("md5", self.md5.as_deref());
        add("crc64nvme", self.crc64nvme.as_deref());
        add("crc32c", self.crc32c.as_deref());
        self.headers.iter().for_each(|(name, value)| add(name, Some(value)));
        self.metadata.iter().for_each(|(name, value)| add("metadata", Some(&format!("{name}={value}"))));
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::{EntryKind, RelPath};

    #[test]
    fn values_are_aligned_and_have_no_control_characters() {
        let object = Object { len: 1536, etag: "\"e\"".to_owned(), ..Object::default() };
        let details = Details {
            modified: "2026-01-02T03:04:05Z".to_owned(),
            headers: vec![("content-type".to_owned(), "a\x1bb".to_owned())],
            ..Details::default()
        };
        let stat = EntryStat::of_object("s3://b/k", &object, &details);
        let expected = "location         s3://b/k\nkind             object\nsize             1,536 bytes (1.50 KiB)\n\
                        modified         2026-01-02T03:04:05Z\netag             e\ncontent-type     a\\x1bb\n";
        assert_eq!(String::from_utf8(stat.text()).unwrap(), expected);
        let entry = Entry { mode: 0o640, uid: 5, ..Entry::new(RelPath::root(), EntryKind::Dir, 0) };
        let text = String::from_utf8(EntryStat::of_entry("/x", &entry).text()).unwrap();
        assert!(
            text.contains("mode             0640\nowner            5\n") && !text.contains("size"),
            "{text}"
        );
        let json = String::from_utf8(EntryStat::of_prefix("s3://b/p/").json()).unwrap();
        assert_eq!(json.trim(), r#"{"type":"stat","location":"s3://b/p/","kind":"prefix"}"#);
    }
}
