//! Requests and error answers in XML, and keys that XML cannot carry.

use quick_xml::se::to_string_with_root;
use serde::Serialize;

use crate::fault::{FailureClass, Fault};
use crate::record::refusal_in;
use crate::store::RequestResult;

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
