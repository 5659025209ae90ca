//! What stores say and are told in XML. Answers are untrusted: what does not parse is an error of the store.

use quick_xml::de::from_reader;
use quick_xml::se::to_string_with_root;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::fault::{Class, Fault};
use crate::store::Answer;

/// Reads an answer.
pub(crate) fn parse<T: DeserializeOwned>(content: &[u8]) -> Answer<T> {
    if let Some(fault) = error_in(200, content) {
        return Err(fault);
    }
    from_reader(content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content))
        .map_err(|error| Fault::new(Class::Again, format!("the answer makes no sense: {error}")))
}

/// Writes a request.
pub(crate) fn print<T: Serialize>(root: &str, value: &T) -> Answer<String> {
    to_string_with_root(root, value).map_err(|error| Fault::new(Class::Final, error.to_string()))
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "Code", default)]
    code: String,
    #[serde(rename = "Message", default)]
    message: String,
}

/// An error in an answer, also in one whose status says that all is well: the status of long requests is sent
/// before their end is known.
fn error_in(status: u16, content: &[u8]) -> Option<Fault> {
    // Azure begins with a byte order mark.
    let text = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content).trim_ascii_start();
    let text = match text.strip_prefix(b"<?xml") {
        Some(rest) => {
            let end = rest.iter().position(|byte| *byte == b'>')?;
            rest[end + 1..].trim_ascii_start()
        }
        None => text,
    };
    if !text.starts_with(b"<Error>") && !text.starts_with(b"<Error ") {
        return None;
    }
    let Refusal { code, message } = from_reader(text).ok()?;
    // Without a status of its own, what the code does not tell is the store's momentary failure.
    Some(Fault::answer(if status == 200 { 500 } else { status }, &code, &message))
}

/// The reason of an answer that says no.
pub(crate) fn refusal(status: u16, content: &[u8]) -> Fault {
    error_in(status, content).unwrap_or_else(|| Fault::answer(status, "", ""))
}

/// Undoes the encoding of keys that XML could not carry.
pub(crate) fn decode(text: String, encoding: Option<&str>) -> Answer<String> {
    if encoding != Some("url") || !text.contains(['%', '+']) {
        return Ok(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let bad =
        || Fault::new(Class::Final, format!("the store lists a key that is not encoded as it says: {text}"));
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
