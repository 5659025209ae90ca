//! URLs: percent-encoding, and protection against keys that change the URL's meaning.

use crate::fault::{FailureClass, Fault};

use crate::store::RequestResult;

/// Parses a URL. Refuses keys with `.` or `..` components: normalization would address another object.
pub(crate) fn address(text: &str) -> RequestResult<reqwest::Url> {
    let url = reqwest::Url::parse(text).map_err(|_| Fault::unsendable("its name"))?;
    let behind_host =
        text.split_once("://").map_or("", |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    let path = behind_host.split('?').next().unwrap_or_default();
    if url.path().trim_start_matches('/') != path.trim_start_matches('/') {
        return Err(Fault::unsendable("a name with `.` or `..` between slashes"));
    }
    Ok(url)
}

/// The host of a plain `http://` URL, unless it is this host.
pub(crate) fn in_clear(text: &str) -> Option<String> {
    let url = reqwest::Url::parse(text).ok().filter(|url| url.scheme() == "http")?;
    let host = url.host_str()?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = bare == "localhost"
        || bare.ends_with(".localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    (!is_here).then(|| host.to_owned())
}

/// Refuses to send a bearer secret in plain text.
///
/// # Errors
/// [`FailureClass::Insecure`] if it would be.
pub(crate) fn keep_secret(text: &str, what: &str) -> RequestResult<()> {
    match in_clear(text) {
        None => Ok(()),
        Some(host) => {
            let cause = format!("{what} would go to {host} in the clear: use https://, or --insecure-http");
            Err(Fault::new(FailureClass::Insecure, cause))
        }
    }
}

/// Percent-encodes all but letters, digits and `-._~`; in paths, the slash too stays.
pub(crate) fn encode(text: &str, slash: bool, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || slash && byte == b'/' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// Appends query parameters to a URL.
pub(crate) fn append_query(url: &mut String, query: &[(&str, String)]) {
    for (name, value) in query {
        url.push(if url.contains('?') { '&' } else { '?' });
        encode(name, false, url);
        url.push('=');
        encode(value, false, url);
    }
}

/// Encodes pairs as a query string.
pub(crate) fn form(pairs: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        encode(name, false, &mut text);
        text.push('=');
        encode(value, false, &mut text);
    }
    text
}

/// Splits an endpoint into its scheme and its host, with a path if allowed.
///
/// # Errors
/// A sentence if it is not an endpoint.
pub(crate) fn endpoint(text: &str, path_allowed: bool) -> Result<(String, String), String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
    let rest = rest.trim_end_matches('/');
    let forbidden: &[char] = if path_allowed { &['?', '@', '#', ' '] } else { &['/', '?', '@', '#', ' '] };
    if !matches!(scheme, "http" | "https") || rest.is_empty() || rest.contains(forbidden) {
        return Err(format!("`{text}` is no endpoint; endpoints are like https://HOST or http://HOST:PORT"));
    }
    Ok((scheme.to_owned(), rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_to_another_host_is_detected() {
        for address in
            ["http://h/b", "http://127.0.0.1.example/b", "http://10.0.0.1:80/b", "http://[fe80::1]/b"]
        {
            assert!(keep_secret(address, "a token").is_err(), "{address}");
        }
        for address in [
            "https://h/b",
            "http://127.0.0.1:1/b",
            "http://127.8.0.1/",
            "http://[::1]:9/b",
            "http://localhost/",
        ] {
            assert!(keep_secret(address, "a token").is_ok(), "{address}");
        }
    }

    #[test]
    fn no_url_addresses_another_object() {
        for key in ["a b", "a//b", "a+%\u{e9}", "...", ".a/..b", "a\r\n", "é", "a\\..\\b", "a?b#c", ";=@"] {
            let mut text = "http://h:1/bucket/".to_owned();
            encode(key, true, &mut text);
            assert!(address(&text).is_ok(), "{key}");
        }
        for key in ["..", ".", "a/../b", "a/./b", "x/../../other/key", "a/.."] {
            let mut text = "http://h:1/bucket/".to_owned();
            encode(key, true, &mut text);
            assert!(address(&(text + "?versions=")).is_err(), "{key}");
        }
        assert!(address("http://h").is_ok() && address("http://h:1/b?list-type=2&prefix=..%2F").is_ok());
    }
}
