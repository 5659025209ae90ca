//! Listings by pages, as `ListObjectsV2` makes them.

use std::fmt::Write;
use std::ops::Bound;

use super::super::http::HttpRequest;
use super::habits::Habits;
use super::reply::StoreAnswer;
use super::state::StoreData;

/// The most keys and prefixes in a page, as at S3.
const PAGE: usize = 1000;

/// A page of the objects in the bucket of `request`.
pub(super) fn list(state: &StoreData, request: &HttpRequest, habits: Habits) -> StoreAnswer {
    let bucket = format!("{}/", request.path.trim_end_matches('/'));
    let parameter = |name: &str| {
        let found =
            request.query.split('&').filter_map(|pair| pair.split_once('=')).find(|(n, _)| *n == name);
        decoded(found.map_or("", |(_, value)| value))
    };
    let (prefix, after) = (bucket.clone() + &parameter("prefix"), parameter("continuation-token"));
    let delimiter = parameter("delimiter");
    let mut from = if after.is_empty() { Bound::Included(prefix.clone()) } else { Bound::Excluded(after) };
    // Paths are kept as they came in addresses, which is the encoding that is asked for.
    let encoding = request.has("encoding-type").then_some("<EncodingType>url</EncodingType>");
    let (mut text, mut count, mut last) = (encoding.unwrap_or_default().to_owned(), 0, None);
    while let Some((path, object)) = state.objects.range((from, Bound::Unbounded)).next() {
        let Some(rest) = path.strip_prefix(&prefix) else { break };
        if count == PAGE {
            let token = last.unwrap_or_default();
            let _ = write!(
                text,
                "<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
            );
            break;
        }
        count += 1;
        let shared = rest.find(&delimiter).filter(|_| !delimiter.is_empty());
        let seen = if let Some(at) = shared {
            let shared = &path[bucket.len()..prefix.len() + at + delimiter.len()];
            let _ = write!(text, "<CommonPrefixes><Prefix>{shared}</Prefix></CommonPrefixes>");
            // After all that begin so.
            format!("{bucket}{shared}\u{10ffff}")
        } else {
            let (len, etag) = (object.content.len, object.etag(habits));
            let key = &path[bucket.len()..];
            let _ = write!(
                text,
                "<Contents><Key>{key}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified>\
                 <ETag>&quot;{etag}&quot;</ETag><Size>{len}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            );
            path.clone()
        };
        from = Bound::Excluded(seen.clone());
        last = Some(seen);
    }
    StoreAnswer::xml("ListBucketResult", &format!("<KeyCount>{count}</KeyCount>{text}"))
}

/// Text as it was before it was written into an address.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex =
            |byte: Option<u8>| char::from(byte.unwrap_or_default()).to_digit(16).unwrap_or_default() as u8;
        bytes.push(match byte {
            b'%' => hex(rest.next()) << 4 | hex(rest.next()),
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::held::{HeldObject, ReceivedContent};
    use super::*;

    #[test]
    fn pages_follow_each_other() {
        let mut state = StoreData::default();
        let mut put = |key: String| {
            state
                .objects
                .insert(format!("/b/{key}"), HeldObject::whole(ReceivedContent::of(b"x"), Vec::new()));
        };
        (0..1500).for_each(|number| put(format!("a/{number:04}")));
        (0..1500).for_each(|number| put(format!("c/{number:04}/x")));
        put("b".to_owned());
        let page = |query: &str| {
            let request =
                HttpRequest { path: "/b/".to_owned(), query: query.to_owned(), ..HttpRequest::default() };
            String::from_utf8(list(&state, &request, Habits::default()).content).unwrap()
        };
        let count = |text: &str, word: &str| text.matches(word).count();
        let first = page("list-type=2&prefix=a%2F");
        assert_eq!((count(&first, "<Key>"), count(&first, "true")), (1000, 1));
        let second = page("prefix=a%2F&continuation-token=%2Fb%2Fa%2F0999");
        assert_eq!((count(&second, "<Key>"), count(&second, "true")), (500, 0));
        let names = page("prefix=&delimiter=%2F");
        assert_eq!((count(&names, "<Key>b"), count(&names, "<Prefix>")), (1, 2));
        let below = page("prefix=c/&delimiter=/");
        assert_eq!((count(&below, "<Prefix>"), count(&below, "true")), (1000, 1));
        let token = "%2Fb%2Fc%2F0999%2F%F4%8F%BF%BF";
        assert!(below.contains(&decoded(token)));
        let rest = page(&format!("prefix=c/&delimiter=/&continuation-token={token}"));
        assert_eq!((count(&rest, "<Prefix>"), count(&rest, "true")), (500, 0));
    }
}
