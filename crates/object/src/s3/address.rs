//! Where a bucket is: the address of each request.

use std::sync::atomic::{AtomicBool, Ordering};

/// The address of a bucket.
pub(super) struct Address {
    bucket: String,
    /// Scheme and host of an endpoint that was named; without it, the provider's own.
    endpoint: Option<(String, String)>,
    /// The bucket is in the path, not in the name of the host.
    in_path: AtomicBool,
}

impl Address {
    /// The bucket's. A named endpoint is taken to want the bucket in the path, until it says otherwise.
    ///
    /// # Errors
    /// A sentence, if the endpoint is none.
    pub(super) fn new(bucket: &str, endpoint: Option<&str>) -> Result<Self, String> {
        let endpoint = endpoint.map(|text| {
            let (scheme, host) = text.split_once("://").unwrap_or(("https", text));
            let host = host.trim_end_matches('/');
            if !matches!(scheme, "http" | "https")
                || host.is_empty()
                || host.contains(['/', '?', '@', '#', ' '])
            {
                return Err(format!(
                    "`{text}` is no endpoint; endpoints are like https://HOST or http://HOST:PORT"
                ));
            }
            Ok((scheme.to_owned(), host.to_owned()))
        });
        let endpoint = endpoint.transpose()?;
        // A certificate for *.s3… does not cover a name with a dot in it.
        let in_path = AtomicBool::new(endpoint.is_some() || bucket.contains('.'));
        Ok(Self { bucket: bucket.to_owned(), endpoint, in_path })
    }

    /// The bucket's name.
    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Puts the bucket into the name of the host from now on. Whether that is a change.
    pub(super) fn leave_path(&self) -> bool {
        self.in_path.swap(false, Ordering::Relaxed)
    }

    /// The address of an object, or without a key of the bucket.
    pub(super) fn url(&self, region: &str, key: Option<&str>, query: &[(&str, String)]) -> String {
        let (scheme, host) = match &self.endpoint {
            Some((scheme, host)) => (&scheme[..], host.clone()),
            None => ("https", format!("s3.{region}.{}", domain(region))),
        };
        let mut url = if self.in_path.load(Ordering::Relaxed) {
            format!("{scheme}://{host}/{}", self.bucket)
        } else {
            format!("{scheme}://{}.{host}", self.bucket)
        };
        url.push('/');
        if let Some(key) = key {
            encode(key, true, &mut url);
        } else if self.in_path.load(Ordering::Relaxed) {
            url.pop();
        }
        for (at, (name, value)) in query.iter().enumerate() {
            url.push(if at == 0 { '?' } else { '&' });
            encode(name, false, &mut url);
            url.push('=');
            encode(value, false, &mut url);
        }
        url
    }
}

/// The domain of AWS that a region belongs to.
fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// Percent-encodes as AWS signs: everything but letters, digits and `-._~`, and in paths the slash.
pub(super) fn encode(text: &str, slash: bool, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || slash && byte == b'/' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_is_where_the_store_wants_it() {
        let url = |endpoint, bucket: &str| {
            Address::new(bucket, endpoint).unwrap().url(
                "eu-west-1",
                Some("a b/é+"),
                &[("uploadId", "x=/".into())],
            )
        };
        assert_eq!(url(None, "b"), "https://b.s3.eu-west-1.amazonaws.com/a%20b/%C3%A9%2B?uploadId=x%3D%2F");
        assert!(url(None, "b.c").starts_with("https://s3.eu-west-1.amazonaws.com/b.c/a%20b/"));
        assert!(url(Some("http://h:1/"), "b").starts_with("http://h:1/b/a%20b/"));
        assert!(url(Some("h"), "b").starts_with("https://h/b/"));
        for bad in ["ftp://h", "http://", "http://h/path", "http://u@h"] {
            assert!(Address::new("b", Some(bad)).is_err(), "{bad}");
        }
        let address = Address::new("b", Some("http://h:1")).unwrap();
        assert_eq!(address.url("r", None, &[("list-type", "2".into())]), "http://h:1/b?list-type=2");
        assert!(address.leave_path() && !address.leave_path());
        assert_eq!(address.url("r", None, &[]), "http://b.h:1/");
    }
}
