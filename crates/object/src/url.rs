//! Addresses: what is in them percent-encoded, and nothing that becomes the address of something else.

use crate::fault::{Class, Fault};
use crate::http::unsendable;
use crate::store::Answer;

/// The address as it is sent: that of another object if a reader of addresses takes away `.` and `..`.
pub(crate) fn address(text: &str) -> Answer<reqwest::Url> {
    let url = reqwest::Url::parse(text).map_err(|_| unsendable("its name"))?;
    let behind_host =
        text.split_once("://").map_or("", |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    let path = behind_host.split('?').next().unwrap_or_default();
    if url.path().trim_start_matches('/') != path.trim_start_matches('/') {
        return Err(unsendable("a name with `.` or `..` between slashes"));
    }
    Ok(url)
}

/// The host that an address goes to in the clear: over `http://`, and not on this machine.
pub(crate) fn in_clear(text: &str) -> Option<String> {
    let url = reqwest::Url::parse(text).ok().filter(|url| url.scheme() == "http")?;
    let host = url.host_str()?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = bare == "localhost"
        || bare.ends_with(".localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    (!is_here).then(|| host.to_owned())
}

/// A fault if a token that gives access by itself would go there in the clear.
///
/// # Errors
/// If so.
pub(crate) fn keep_secret(text: &str, what: &str) -> Answer<()> {
    match in_clear(text) {
        None => Ok(()),
        Some(host) => {
            let cause = format!("{what} would go to {host} in the clear: use https://, or --insecure-http");
            Err(Fault::new(Class::Insecure, cause))
        }
    }
}

/// Percent-encodes everything but letters, digits and `-._~`, and in paths the slash.
pub(crate) fn encode(text: &str, slash: bool, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || slash && byte == b'/' {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// Appends parameters to an address, behind `?` or what is there already.
pub(crate) fn append_query(url: &mut String, query: &[(&str, String)]) {
    for (name, value) in query {
        url.push(if url.contains('?') { '&' } else { '?' });
        encode(name, false, url);
        url.push('=');
        encode(value, false, url);
    }
}

/// Names and values as they stand in an address, joined by `&`.
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

/// The scheme and the host of an endpoint, and the path behind it if it may have one.
///
/// # Errors
/// A sentence, if it is none.
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
    fn what_goes_over_a_network_in_the_clear_is_known() {
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
    fn no_address_becomes_that_of_another_object() {
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
