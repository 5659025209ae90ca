//! The estimated requests of `haul put -n`.

use haul_streams::put::RequestEstimate;
use serde::Serialize;

use super::wording::{bytes, count};

#[derive(Serialize)]
struct EstimateLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    destination: &'a str,
    len: u64,
    parts: u64,
    put: u64,
    get: u64,
}

/// As JSON.
pub(crate) fn estimate_json(destination: &str, len: u64, estimate: RequestEstimate) -> Vec<u8> {
    let RequestEstimate { put, get, parts } = estimate;
    // Text and numbers can always be serialized.
    super::json::line(&EstimateLine { kind: "estimate", destination, len, parts, put, get })
        .unwrap_or_default()
}

/// As text.
pub(crate) fn estimate_line(destination: &str, len: u64, estimate: RequestEstimate) -> Vec<u8> {
    let RequestEstimate { put, get, parts } = estimate;
    let parts = if parts > 0 { format!(" in {}", count(parts, "part", "parts")) } else { String::new() };
    let requests = count(put + get, "request", "requests");
    let kinds = if get > 0 { format!("{put} PUT, {get} GET") } else { format!("{put} PUT") };
    format!("{destination}: {}{parts}, {requests}: {kinds}\n", bytes(len)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_text_or_json() {
        let text = |put, get, parts| {
            String::from_utf8(estimate_line("s3://b/k", 8 << 20, RequestEstimate { put, get, parts }))
                .unwrap()
        };
        assert_eq!(text(1, 0, 0), "s3://b/k: 8.00 MiB, 1 request: 1 PUT\n");
        assert_eq!(text(5, 1, 2), "s3://b/k: 8.00 MiB in 2 parts, 6 requests: 5 PUT, 1 GET\n");
        let json =
            String::from_utf8(estimate_json("s3://b/k", 7, RequestEstimate { put: 1, get: 0, parts: 0 }))
                .unwrap();
        let expected = r#"{"type":"estimate","destination":"s3://b/k","len":7,"parts":0,"put":1,"get":0}"#;
        assert_eq!(json.trim_end(), expected);
    }
}
