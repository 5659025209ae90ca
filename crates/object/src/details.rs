//! The details of an object that a copy does not need.

/// The HTTP headers that stores keep with an object.
const KEPT: [&str; 6] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-disposition",
    "cache-control",
    "expires",
];

/// The version of an object, by provider; Google numbers generations.
const VERSION: [&str; 3] = ["x-amz-version-id", "x-goog-generation", "x-ms-version-id"];

/// How an object is encrypted, by provider.
const ENCRYPTION: [&str; 3] = [
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-goog-encryption-algorithm",
];

/// The key for that: its name, or the digest of a key of the customer.
const KEY: [&str; 6] = [
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-customer-key-md5",
    "x-goog-encryption-kms-key-name",
    "x-goog-encryption-key-sha256",
    "x-ms-encryption-scope",
    "x-ms-encryption-key-sha256",
];

/// The details of an object that a copy does not need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The time of the last modification, as in RFC 3339.
    pub modified: String,
    /// The HTTP headers that the store keeps with the object.
    pub headers: Vec<(String, String)>,
    /// The version, where the bucket keeps versions.
    pub version: Option<String>,
    /// How the store encrypts the object.
    pub encryption: Option<String>,
    /// The key for that.
    pub encryption_key: Option<String>,
}

impl Details {
    /// Those in the headers of an answer.
    pub(crate) fn of<'h>(get: &dyn Fn(&str) -> Option<&'h str>) -> Self {
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| get(name));
            values.find(|value| !value.is_empty() && *value != "null").map(str::to_owned)
        };
        let header = |name: &&str| Some(((*name).to_owned(), get(name)?.to_owned()));
        Self {
            modified: crate::time::of_http(get("last-modified").unwrap_or_default()),
            headers: KEPT.iter().filter_map(header).collect(),
            version: first(&VERSION),
            encryption: first(&ENCRYPTION),
            encryption_key: first(&KEY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_name_them_in_their_own_headers() {
        let of = |pairs: &[(&str, &'static str)]| {
            Details::of(&|name| pairs.iter().find(|(other, _)| *other == name).map(|(_, value)| *value))
        };
        let aws = of(&[
            ("last-modified", "Wed, 09 Sep 2009 09:20:02 GMT"),
            ("content-type", "text/plain"),
            ("x-amz-version-id", "v1"),
            ("x-amz-server-side-encryption", "aws:kms"),
            ("x-amz-server-side-encryption-aws-kms-key-id", "k"),
        ]);
        assert_eq!(aws.modified, "2009-09-09T09:20:02Z");
        assert_eq!(aws.headers, [("content-type".to_owned(), "text/plain".to_owned())]);
        let words = |details: &Details| {
            let word = |word: &Option<String>| word.clone().unwrap_or_default();
            [word(&details.version), word(&details.encryption), word(&details.encryption_key)].join(" ")
        };
        assert_eq!(words(&aws), "v1 aws:kms k");
        assert_eq!(
            words(&of(&[("x-goog-generation", "7"), ("x-goog-encryption-algorithm", "AES256")])),
            "7 AES256 "
        );
        assert_eq!(words(&of(&[("x-amz-version-id", "null")])), "  ");
    }
}
