//! A reader for the XML that stores send: the records right below the root, one at a time, with their text exactly as it
//! was written.
//!
//! Keys are text in which every character counts, so nothing is trimmed and no line ending is changed. An answer is
//! untrusted: its root must be the one that was asked for, only the five entities of XML exist, there is no document
//! type, and the depth and the size of a record are bounded whatever the answer says.

use std::str::FromStr;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::fault::{Class, Fault};
use crate::store::Answer;

/// Elements inside each other. Answers have six at most.
const MAX_DEPTH: usize = 16;

/// Elements of one record. A record with the most metadata that a provider takes has fewer.
const MAX_ELEMENTS: usize = 10_000;

/// Records of one answer. A page has 1,000 at AWS, Google and by our own request at Azure, a list of blocks 100,000.
const MAX_RECORDS: usize = 200_000;

/// An element with what is in it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Its name, without a prefix.
    pub(crate) name: String,
    /// Its own text.
    pub(crate) text: String,
    /// Elements in it.
    pub(crate) inner: Vec<Record>,
    /// Those of its attributes that say `true`.
    truths: Vec<String>,
}

impl Record {
    /// An element in it, the first of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.inner.iter().find(|inner| inner.name == name)
    }

    /// The text of an element in it; empty if there is none.
    pub(crate) fn text_of(&self, name: &str) -> &str {
        self.get(name).map_or("", |inner| &inner.text)
    }

    /// The same without spaces around it, where there is any.
    pub(crate) fn word(&self, name: &str) -> Option<String> {
        Some(self.text_of(name).trim().to_owned()).filter(|word| !word.is_empty())
    }

    /// The text of an element that must be there.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn need(&self, name: &str) -> Answer<&str> {
        let missing = || Fault::nonsense(format!("`{}` has no `{name}`", self.name));
        self.get(name).map(|inner| &inner.text[..]).ok_or_else(missing)
    }

    /// A number that must be there.
    ///
    /// # Errors
    /// If it is not, or is none.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Answer<T> {
        let text = self.need(name)?.trim();
        text.parse()
            .map_err(|_| Fault::nonsense(format!("its `{name}` is `{}`, which is no number", short(text))))
    }

    /// Whether an attribute says `true`.
    pub(crate) fn is(&self, attribute: &str) -> bool {
        self.truths.iter().any(|name| name == attribute)
    }

    /// Whether its text is `true`.
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

/// Hands the records of an answer to `visit`, in their order. The root is one of `roots`; elements right below it that are
/// named in `lists` are no records themselves: what is in them is. An `Error` in the place of the root is the store's
/// refusal, whatever the status of the answer was: that of long requests is sent before their end is known.
///
/// # Errors
/// [`Class::Foreign`] if it is another document or none, [`Class::Nonsense`] if it ends early or breaks the rules, and
/// what `visit` says.
pub(crate) fn records(
    content: &[u8],
    roots: &[&str],
    lists: &[&str],
    visit: &mut dyn FnMut(Record) -> Answer<()>,
) -> Answer<()> {
    let (mut reader, root) = begin(content)?;
    if root == "Error" {
        let (code, message) = refusal_in(content).unwrap_or_default();
        // Without a status of its own, what the code does not tell is the store's momentary failure.
        return Err(Fault::answer(500, &code, &message));
    }
    if !roots.contains(&&root[..]) {
        return Err(Fault::new(Class::Foreign, format!("`<{root}>`")));
    }
    read(&mut reader, lists, visit)
}

/// The whole of a small answer, as one record.
///
/// # Errors
/// As [`records`].
pub(crate) fn whole(content: &[u8], roots: &[&str]) -> Answer<Record> {
    let mut all = Record { name: roots.first().copied().unwrap_or_default().to_owned(), ..Record::default() };
    records(content, roots, &[], &mut |record| {
        if all.inner.len() == MAX_ELEMENTS {
            return Err(broken("it has too many elements"));
        }
        all.inner.push(record);
        Ok(())
    })?;
    Ok(all)
}

/// The code and the message of an answer that says no; `None` if it is something else.
pub(crate) fn refusal_in(content: &[u8]) -> Option<(String, String)> {
    let (mut reader, root) = begin(content).ok()?;
    if root != "Error" {
        return None;
    }
    let (mut code, mut message) = (String::new(), String::new());
    let mut take = |record: Record| {
        match &record.name[..] {
            "Code" => record.text.trim().clone_into(&mut code),
            "Message" => message = record.text,
            _ => {}
        }
        Ok(())
    };
    // What was told before it broke off counts.
    let _ = read(&mut reader, &[], &mut take);
    Some((code, message))
}

/// The name of the root, and what reads on behind it.
fn begin(content: &[u8]) -> Answer<(Reader<&[u8]>, String)> {
    // Azure begins with a byte order mark.
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content).trim_ascii();
    let foreign = |what: &str| Fault::new(Class::Foreign, what);
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
            _ => return Err(foreign("what is no XML")),
        }
    }
}

/// Reads what is in the root.
fn read(
    reader: &mut Reader<&[u8]>,
    lists: &[&str],
    visit: &mut dyn FnMut(Record) -> Answer<()>,
) -> Answer<()> {
    // The record that is read, and the elements in it that are open.
    let mut open: Vec<Record> = Vec::new();
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
                open.push(Record::of(&start));
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

fn add(open: &mut [Record], text: &str) {
    if let Some(record) = open.last_mut() {
        record.text.push_str(text);
    }
}

fn entity(name: &[u8]) -> Answer<&'static str> {
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

    fn all(text: &str) -> Answer<Vec<Record>> {
        let mut all = Vec::new();
        records(text.as_bytes(), &["R"], &["L"], &mut |record| {
            all.push(record);
            Ok(())
        })?;
        Ok(all)
    }

    fn class(text: &str) -> Class {
        all(text).unwrap_err().class
    }

    #[test]
    fn text_is_read_exactly_as_it_was_written() {
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
    fn what_is_no_answer_of_a_store_is_told_apart_from_one_that_broke_off() {
        for foreign in
            ["", " \n", "<!DOCTYPE html><html></html>", "<html><body>x</body></html>", "{\"a\":1}", "R"]
        {
            assert_eq!(class(foreign), Class::Foreign, "{foreign}");
        }
        let laughs = "<!DOCTYPE R [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;\">]><R><K>&b;</K></R>";
        assert_eq!(class(laughs), Class::Foreign);
        for broken in
            ["<R>", "<R><K>a</K>", "<R><K>a</L></R>", "<R><K>&b;</K></R>", "<R><K>&#0;</K></R>", "<R><K"]
        {
            assert_eq!(class(broken), Class::Nonsense, "{broken}");
        }
        let deep = format!("<R>{}", "<a>".repeat(1_000_000));
        assert_eq!(class(&deep), Class::Nonsense);
        let wide = format!("<R><K>{}</K></R>", "<a/>".repeat(MAX_ELEMENTS + 1));
        assert_eq!(class(&wide), Class::Nonsense);
        let many = format!("<R>{}</R>", "<a/>".repeat(MAX_RECORDS + 1));
        assert_eq!(class(&many), Class::Nonsense);
    }

    #[test]
    fn a_refusal_behind_a_good_status_is_one() {
        let fault = all("<Error><Code>AccessDenied</Code><Message>no</Message></Error>").unwrap_err();
        assert_eq!((fault.class, &fault.message[..]), (Class::Denied, "no"));
        assert_eq!(all("<Error><Code>InternalErr").unwrap_err().class, Class::Again);
        assert_eq!(refusal_in(b"<Error><Code>A</Code><Mess"), Some(("A".to_owned(), String::new())));
        assert_eq!(refusal_in(b"<html><Code>A</Code></html>"), None);
    }
}
