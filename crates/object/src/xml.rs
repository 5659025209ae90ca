//! XML that providers share: requests, error answers, lists of buckets, and keys that XML cannot carry.

use quick_xml::se::to_string_with_root;
use serde::Serialize;

use crate::bucket_page::{BucketPage, ListedBucket};
use crate::fault::{FailureClass, Fault};
use crate::record::{records, refusal_in};
use crate::store::{RequestResult, fits};
use crate::time;

/// Serializes a request.
pub(crate) fn print<T: Serialize>(root: &str, value: &T) -> RequestResult<String> {
    to_string_with_root(root, value).map_err(|error| Fault::new(FailureClass::Final, error.to_string()))
}

/// The failure that an error answer describes.
pub(crate) fn refusal(status: u16, content: &[u8]) -> Fault {
    let (code, message) = refusal_in(content).unwrap_or_default();
    Fault::answer(status, &code, &message)
}

/// Decodes a key that was percent-encoded because XML could not carry it.
pub(crate) fn decode(text: &str, encoding: Option<&str>) -> RequestResult<String> {
    if encoding != Some("url") || !text.contains(['%', '+']) {
        return Ok(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let bad = || Fault::nonsense(format!("it lists a key that is not encoded as it says: {text}"));
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().ok_or_else(bad)?, rest.next().ok_or_else(bad)?];
                let digits = std::str::from_utf8(&digits).map_err(|_| bad())?;
                u8::from_str_radix(digits, 16).map_err(|_| bad())?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Parses a page of buckets of S3 or of Google, or of containers of Azure.
pub(crate) fn bucket_page(content: &[u8]) -> RequestResult<BucketPage> {
    let mut page = BucketPage::default();
    let (roots, lists) = (["ListAllMyBucketsResult", "EnumerationResults"], ["Buckets", "Containers"]);
    records(content, &roots, &lists, &mut |record| {
        let name = || record.need("Name").map(str::to_owned);
        match &record.name[..] {
            "Bucket" => page.buckets.push(ListedBucket {
                name: name()?,
                created: record.text_of("CreationDate").to_owned(),
                modified: None,
            }),
            "Container" => page.buckets.push(ListedBucket {
                name: name()?,
                created: String::new(),
                modified: record
                    .get("Properties")
                    .map(|properties| time::of_http(properties.text_of("Last-Modified"))),
            }),
            "ContinuationToken" | "NextMarker" => {
                page.next = Some(record.text).filter(|token| !token.is_empty());
            }
            _ => {}
        }
        fits(page.buckets.len(), "buckets")
    })?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_all_providers_are_parsed() {
        let s3 = b"<?xml version=\"1.0\"?><ListAllMyBucketsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
            <Owner><ID>1</ID></Owner><Buckets><Bucket><Name>a</Name><CreationDate>2019-12-11T23:32:47.000Z\
            </CreationDate></Bucket><Bucket><Name>b</Name></Bucket></Buckets><ContinuationToken>t</ContinuationToken>\
            </ListAllMyBucketsResult>";
        let page = bucket_page(s3).unwrap();
        let of = |bucket: &ListedBucket| (bucket.name.clone(), bucket.created.clone());
        assert_eq!(of(&page.buckets[0]), ("a".to_owned(), "2019-12-11T23:32:47.000Z".to_owned()));
        assert_eq!(
            (of(&page.buckets[1]), page.next),
            (("b".to_owned(), String::new()), Some("t".to_owned()))
        );
        let azure = b"\xef\xbb\xbf<EnumerationResults ServiceEndpoint=\"https://a/\"><Containers><Container><Name>c\
            </Name><Properties><Last-Modified>Wed, 09 Sep 2009 09:20:02 GMT</Last-Modified></Properties></Container>\
            </Containers><NextMarker /></EnumerationResults>";
        let page = bucket_page(azure).unwrap();
        assert_eq!(page.buckets[0].modified.as_deref(), Some("2009-09-09T09:20:02Z"));
        assert_eq!((page.buckets.len(), page.next), (1, None));
        let none = b"<ListAllMyBucketsResult><Owner/><Buckets/></ListAllMyBucketsResult>";
        assert_eq!(bucket_page(none).unwrap(), BucketPage::default());
        assert_eq!(bucket_page(b"<html/>").unwrap_err().class, FailureClass::Foreign);
    }
}
