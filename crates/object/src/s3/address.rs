//! The URLs of a bucket.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::url::{append_query, encode};

/// The address of a bucket.
pub(crate) struct Address {
    bucket: String,
    /// Scheme and host of a configured endpoint; without it, the provider's own.
    endpoint: Option<(String, String)>,
    /// Path-style addressing: the bucket is in the path, not in the host name.
    in_path: AtomicBool,
}

impl Address {
    /// The address of a bucket. With an endpoint, path-style is tried first.
    ///
    /// # Errors
    /// A sentence if the endpoint is invalid.
    pub(crate) fn new(bucket: &str, endpoint: Option<&str>) -> Result<Self, String> {
        let endpoint = endpoint.map(|text| crate::url::endpoint(text, false)).transpose()?;
        // A certificate for *.s3… does not cover a bucket name with a dot.
        let in_path = AtomicBool::new(endpoint.is_some() || bucket.contains('.'));
        Ok(Self { bucket: bucket.to_owned(), endpoint, in_path })
    }

    /// Switches to virtual-host style; returns whether that is a change.
    pub(crate) fn leave_path(&self) -> bool {
        self.in_path.swap(false, Ordering::Relaxed)
    }

    /// The URL of an object or, without a key, of the bucket; without a bucket, of the store.
    pub(crate) fn url(&self, region: &str, key: Option<&str>, query: &[(&str, String)]) -> String {
        let (scheme, host) = match &self.endpoint {
            Some((scheme, host)) => (&scheme[..], host.clone()),
            None => ("https", format!("s3.{region}.{}", domain(region))),
        };
        let mut url = if self.bucket.is_empty() {
            format!("{scheme}://{host}")
        } else if self.in_path.load(Ordering::Relaxed) {
            format!("{scheme}://{host}/{}", self.bucket)
        } else {
            format!("{scheme}://{}.{host}", self.bucket)
        };
        url.push('/');
        if let Some(key) = key {
            encode(key, true, &mut url);
        } else if self.in_path.load(Ordering::Relaxed) && !self.bucket.is_empty() {
            url.pop();
        }
        append_query(&mut url, query);
        url
    }
}

/// The AWS domain of a region.
fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_is_in_the_path_or_the_host_name() {
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
        let all = |endpoint| Address::new("", endpoint).unwrap().url("eu-west-1", None, &[("x", "y".into())]);
        assert_eq!(all(Some("http://h:1")), "http://h:1/?x=y");
        assert_eq!(all(None), "https://s3.eu-west-1.amazonaws.com/?x=y");
    }
}
