//! Reads the XML that stores send, one record (an element below the root) at a time, with its text unchanged.
//!
//! Every character of a key counts, so nothing is trimmed and no line ending is changed. Answers are untrusted: the
//! root must be an expected one, only the five predefined entities are accepted, a document type is refused, and the
//! depth and size of a record are limited.

use std::str::FromStr;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::fault::{FailureClass, Fault};
use crate::store::RequestResult;

/// The deepest nesting. Answers have at most six levels.
const MAX_DEPTH: usize = 16;

/// The most elements of one record; a record with the most metadata of any provider has fewer.
const MAX_ELEMENTS: usize = 10_000;

/// The most records of one answer. A page has 1,000 at AWS and Google, and at Azure by our request; a block list
/// 100,000.
const MAX_RECORDS: usize = 200_000;

/// An element with its content.
#[derive(Debug, Default)]
pub(crate) struct Element {
    /// Name without namespace prefix.
    pub(crate) name: String,
    /// Text of the element itself.
    pub(crate) text: String,
    /// Child elements.
    pub(crate) inner: Vec<Element>,
    /// The names of the attributes with the value `true`.
    truths: Vec<String>,
}

impl Element {
    /// The first child element of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.inner.iter().find(|inner| inner.name == name)
    }

    /// The text of a child element; empty if there is none.
    pub(crate) fn text_of(&self, name: &str) -> &str {
        self.get(name).map_or("", |inner| &inner.text)
    }

    /// The trimmed text of a child element, unless it is empty.
    pub(crate) fn word(&self, name: &str) -> Option<String> {
        Some(self.text_of(name).trim().to_owned()).filter(|word| !word.is_empty())
    }

    /// The text of a required child element.
    ///
    /// # Errors
    /// `Nonsense` if there is none.
    pub(crate) fn need(&self, name: &str) -> RequestResult<&str> {
        let missing = || Fault::nonsense(format!("`{}` has no `{name}`", self.name));
        self.get(name).map(|inner| &inner.text[..]).ok_or_else(missing)
    }

    /// The number in a required child element.
    ///
    /// # Errors
    /// `Nonsense` if there is none, or it is not a number.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> RequestResult<T> {
        let text = self.need(name)?.trim();
        text.parse()
            .map_err(|_| Fault::nonsense(format!("its `{name}` is `{}`, which is no number", short(text))))
    }

    /// Whether an attribute is `true`.
    pub(crate) fn is(&self, attribute: &str) -> bool {
        self.truths.iter().any(|name| name == attribute)
    }

    /// Whether the text is `true`.
    pub(crate) fn says_true(&self) -> bool {
        self.text.trim().eq_ignore_ascii_case("true")
    }

    fn of(start: &BytesStart<'_>) -> Self {
        let truths = start.attributes().flatten().take(8).filter(|attribute| &*attribute.value == b"true");
        Self {
            name: name_of(start),
            truths: truths
                .map(|one| String::from_utf8_lossy(one.key.local_name().as_ref()).into_owned())
                .collect(),
            ..Self::default()
        }
    }
}

/// The beginning of a text, for a message.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

fn name_of(start: &BytesStart<'_>) -> String {
    String::from_utf8_lossy(start.local_name().as_ref()).chars().take(80).collect()
}

fn broken(cause: impl std::fmt::Display) -> Fault {
    Fault::nonsense(cause.to_string().chars().take(200).collect::<String>())
}

/// Passes the records of an answer to `visit`, in order. The root must be one of `roots`; elements in `lists` below it
/// are containers, whose children are the records. An `Error` as root is an error answer whatever the status: stores
/// send the status of long requests before the result is known.
///
/// # Errors
/// [`FailureClass::Foreign`] if it is another document or not XML, [`FailureClass::Nonsense`] if it is truncated or
/// invalid, and those of `visit`.
pub(crate) fn records(
    content: &[u8],
    roots: &[&str],
    lists: &[&str],
    visit: &mut dyn FnMut(Element) -> RequestResult<()>,
) -> RequestResult<()> {
    let (mut reader, root) = begin(content)?;
    if root == "Error" {
        let (code, message) = refusal_in(content).unwrap_or_default();
        // Without an error status, an unknown code counts as a temporary failure.
        return Err(Fault::answer(500, &code, &message));
    }
    if !roots.contains(&&root[..]) {
        return Err(Fault::new(FailureClass::Foreign, format!("`<{root}>`")));
    }
    read(&mut reader, lists, visit)
}

/// Reads a small answer as one element.
///
/// # Errors
/// Those of [`records`].
pub(crate) fn whole(content: &[u8], roots: &[&str]) -> RequestResult<Element> {
    let mut all =
        Element { name: roots.first().copied().unwrap_or_default().to_owned(), ..Element::default() };
    records(content, roots, &[], &mut |record| {
        if all.inner.len() == MAX_ELEMENTS {
            return Err(broken("it has too many elements"));
        }
        all.inner.push(record);
        Ok(())
    })?;
    Ok(all)
}

/// The code and the message of an error answer; `None` if it is something else.
pub(crate) fn refusal_in(content: &[u8]) -> Option<(String, String)> {
    let (mut reader, root) = begin(content).ok()?;
    if root != "Error" {
        return None;
    }
    let (mut code, mut message) = (String::new(), String::new());
    let mut take = |record: Element| {
        match &record.name[..] {
            "Code" => record.text.trim().clone_into(&mut code),
            "Message" => message = record.text,
            _ => {}
        }
        Ok(())
    };
    // Whatever was read before a truncation counts.
    let _ = read(&mut reader, &[], &mut take);
    Some((code, message))
}

/// Reads up to the root. Returns the reader and the name of the root.
fn begin(content: &[u8]) -> RequestResult<(Reader<&[u8]>, String)> {
    // Azure's answers begin with a byte order mark.
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content).trim_ascii();
    let foreign = |what: &str| Fault::new(FailureClass::Foreign, what);
    if content.is_empty() {
        return Err(foreign("nothing"));
    }
    let mut reader = Reader::from_reader(content);
    reader.config_mut().expand_empty_elements = true;
    loop {
        match reader.read_event() {
            Ok(Event::Start(start)) => {
                let name = name_of(&start);
                return Ok((reader, name));
            }
            Ok(Event::Decl(_) | Event::Comment(_) | Event::PI(_)) => {}
            Ok(Event::Text(text)) if text.trim_ascii().is_empty() => {}
            Ok(Event::DocType(_)) => return Err(foreign("a document with a type of its own")),
            _ => return Err(foreign("data that is no XML")),
        }
    }
}

/// Reads the content of the root.
fn read(
    reader: &mut Reader<&[u8]>,
    lists: &[&str],
    visit: &mut dyn FnMut(Element) -> RequestResult<()>,
) -> RequestResult<()> {
    // The record being read, and its open child elements.
    let mut open: Vec<Element> = Vec::new();
    let (mut in_list, mut elements, mut count) = (false, 0, 0);
    loop {
        match reader.read_event().map_err(broken)? {
            Event::Eof => return Err(broken("it ends too early")),
            Event::Start(start) => {
                if open.is_empty() && !in_list && lists.contains(&&name_of(&start)[..]) {
                    in_list = true;
                    continue;
                }
                elements += 1;
                if open.len() == MAX_DEPTH || elements > MAX_ELEMENTS {
                    return Err(broken("there is too much in one of its elements"));
                }
                open.push(Element::of(&start));
            }
            Event::End(_) => match (open.pop(), open.last_mut()) {
                (Some(done), Some(around)) => around.inner.push(done),
                (Some(done), None) => {
                    (elements, count) = (0, count + 1);
                    if count > MAX_RECORDS {
                        return Err(broken("it has too many records"));
                    }
                    visit(done)?;
                }
                (None, _) if in_list => in_list = false,
                (None, _) => return Ok(()),
            },
            Event::Text(text) => add(&mut open, std::str::from_utf8(&text).map_err(broken)?),
            Event::CData(text) => add(&mut open, std::str::from_utf8(&text).map_err(broken)?),
            Event::GeneralRef(reference) => match reference.resolve_char_ref().map_err(broken)? {
                Some(c) => add(&mut open, c.encode_utf8(&mut [0; 4])),
                None => add(&mut open, entity(&reference)?),
            },
            Event::DocType(_) => return Err(broken("it has a document type")),
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::Empty(_) => {}
        }
    }
}

fn add(open: &mut [Element], text: &str) {
    if let Some(record) = open.last_mut() {
        record.text.push_str(text);
    }
}

fn entity(name: &[u8]) -> RequestResult<&'static str> {
    Ok(match name {
        b"lt" => "<",
        b"gt" => ">",
        b"amp" => "&",
        b"quot" => "\"",
        b"apos" => "'",
        _ => return Err(broken("it has an entity that XML does not know")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> RequestResult<Vec<Element>> {
        let mut all = Vec::new();
        records(text.as_bytes(), &["R"], &["L"], &mut |record| {
            all.push(record);
            Ok(())
        })?;
        Ok(all)
    }

    fn class(text: &str) -> FailureClass {
        all(text).unwrap_err().class
    }

    #[test]
    fn text_is_read_unchanged() {
        let text = "\u{feff}  <?xml version=\"1.0\"?><!-- c --><x:R xmlns:x='u'><K> a\r\n&#13;&lt;&#x1F600;<![CDATA[&amp;]]>\t </K>\
            <L><M Encoded=\"true\" Other='false'><N/></M><M/></L><L/></x:R> junk";
        let all = all(text).unwrap();
        assert_eq!(all[0].text, " a\r\n\r<\u{1f600}&amp;\t ");
        let names: Vec<_> = all.iter().map(|record| &record.name[..]).collect();
        assert_eq!(names, ["K", "M", "M"]);
        assert!(all[1].is("Encoded") && !all[1].is("Other") && !all[2].is("Encoded"));
        assert!(all[1].get("N").is_some() && all[1].need("O").is_err());
    }

    #[test]
    fn foreign_documents_are_distinguished_from_truncated_answers() {
        for foreign in
            ["", " \n", "<!DOCTYPE html><html></html>", "<html><body>x</body></html>", "{\"a\":1}", "R"]
        {
            assert_eq!(class(foreign), FailureClass::Foreign, "{foreign}");
        }
        let laughs = "<!DOCTYPE R [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;\">]><R><K>&b;</K></R>";
        assert_eq!(class(laughs), FailureClass::Foreign);
        for broken in
            ["<R>", "<R><K>a</K>", "<R><K>a</L></R>", "<R><K>&b;</K></R>", "<R><K>&#0;</K></R>", "<R><K"]
        {
            assert_eq!(class(broken), FailureClass::Nonsense, "{broken}");
        }
        let deep = format!("<R>{}", "<a>".repeat(1_000_000));
        assert_eq!(class(&deep), FailureClass::Nonsense);
        let wide = format!("<R><K>{}</K></R>", "<a/>".repeat(MAX_ELEMENTS + 1));
        assert_eq!(class(&wide), FailureClass::Nonsense);
        let many = format!("<R>{}</R>", "<a/>".repeat(MAX_RECORDS + 1));
        assert_eq!(class(&many), FailureClass::Nonsense);
    }

    #[test]
    fn an_error_document_with_a_success_status_is_an_error() {
        let fault = all("<Error><Code>AccessDenied</Code><Message>no</Message></Error>").unwrap_err();
        assert_eq!((fault.class, &fault.message[..]), (FailureClass::Denied, "no"));
        assert_eq!(all("<Error><Code>InternalErr").unwrap_err().class, FailureClass::Again);
        assert_eq!(refusal_in(b"<Error><Code>A</Code><Mess"), Some(("A".to_owned(), String::new())));
        assert_eq!(refusal_in(b"<html><Code>A</Code></html>"), None);
    }
}
