//! The XML of Azure's requests and answers. Answers are untrusted.

use serde::Serialize;

use super::options::haul_key;

use crate::fault::{FailureClass, Fault};
use crate::payload::md5_in;
use crate::record::{Element, records};
use crate::store::{ListPage, Object, RequestResult, Tag, fits};
use crate::time;
use crate::xml::{decode, print};

/// The name of a blob, percent-decoded where XML could not carry it.
fn name(of: &Element) -> RequestResult<String> {
    let text = of.need("Name")?;
    // A plus is a plus in this encoding.
    let encoded = of.get("Name").is_some_and(|name| name.is("Encoded"));
    if encoded { decode(&text.replace('+', "%2B"), Some("url")) } else { Ok(text.to_owned()) }
}

fn object(blob: &Element) -> RequestResult<Object> {
    let of = blob.get("Properties").ok_or_else(|| Fault::nonsense("a blob without properties"))?;
    // Metadata that the customer's own key encrypts is reported as encrypted only.
    let notes = blob.get("Metadata").filter(|notes| !notes.is("Encrypted"));
    let note = |note: &Element| (haul_key(&note.name.to_ascii_lowercase()), note.text.clone());
    let len = if of.get("Content-Length").is_some() { of.number("Content-Length")? } else { 0 };
    if i64::try_from(len).is_err() {
        return Err(Fault::nonsense(format!("it tells a length of {len}")));
    }
    Ok(Object {
        key: name(blob)?,
        len,
        // Listings omit the quotes of ETags.
        etag: format!("\"{}\"", of.text_of("Etag").trim_matches('"')),
        metadata: notes.into_iter().flat_map(|notes| notes.inner.iter().map(note)).collect(),
        has_metadata: notes.is_some(),
        modified: time::of_http(of.text_of("Last-Modified")),
        class: of.word("AccessTier"),
        content_md5: of.word("Content-MD5").as_deref().and_then(md5_in),
        ..Object::default()
    })
}

/// Parses a page of blobs.
pub(super) fn page(content: &[u8]) -> RequestResult<ListPage> {
    let mut page = ListPage::default();
    records(content, &["EnumerationResults"], &["Blobs"], &mut |record| {
        match &record.name[..] {
            "Blob" => page.objects.push(object(&record)?),
            "BlobPrefix" => page.prefixes.push(name(&record)?),
            "NextMarker" => page.next = Some(record.text).filter(|marker| !marker.is_empty()),
            _ => {}
        }
        fits(page.objects.len() + page.prefixes.len(), "names")
    })?;
    Ok(page)
}

/// Parses the names and lengths of the uncommitted blocks of a blob.
pub(super) fn blocks(content: &[u8]) -> RequestResult<Vec<(String, u64)>> {
    let mut blocks = Vec::new();
    records(content, &["BlockList"], &["UncommittedBlocks"], &mut |record| {
        if record.name == "Block" {
            blocks.push((record.need("Name")?.trim().to_owned(), record.number("Size")?));
        }
        Ok(())
    })?;
    Ok(blocks)
}

#[derive(Serialize)]
struct BlockList<'a> {
    /// The latest version of each name, which includes a committed one whose answer was lost.
    #[serde(rename = "Latest")]
    latest: Vec<&'a str>,
}

/// The request that commits the blocks of a blob.
pub(super) fn block_list(tags: &[Tag]) -> RequestResult<String> {
    if tags.is_empty() {
        return Err(Fault::new(FailureClass::Final, "a blob is made of no blocks"));
    }
    print("BlockList", &BlockList { latest: tags.iter().map(|tag| &tag.etag[..]).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_parsed() {
        let text = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://a/\" \
            ContainerName=\"c\"><Prefix>p</Prefix><Blobs><BlobPrefix><Name>p/</Name></BlobPrefix><Blob>\
            <Name Encoded=\"true\">a%EF%BF%BE+</Name><Properties><Last-Modified>Wed, 09 Sep 2009 09:20:02 GMT\
            </Last-Modified><Etag>0x8CBFF45D8A29A19</Etag><Content-Length>7</Content-Length>\
            <Content-MD5>1B2M2Y8AsgTpgAmY7PhCfg==</Content-MD5><AccessTier>Hot</AccessTier></Properties>\
            <Metadata><haul_blake3>a&amp;b</haul_blake3><Mode>100644</Mode></Metadata></Blob>\
            <Blob><Name>x</Name><Properties/><Metadata Encrypted=\"true\"/></Blob>\
            <Blob><Name>y</Name><Properties/><Metadata/></Blob><BlobPrefix><Name>q/</Name></BlobPrefix></Blobs><NextMarker>m!</NextMarker></EnumerationResults>";
        let page = page(text.as_bytes()).unwrap();
        let object = &page.objects[0];
        assert_eq!(
            (&object.key[..], object.len, &object.etag[..]),
            ("a\u{fffe}+", 7, "\"0x8CBFF45D8A29A19\"")
        );
        assert_eq!(object.md5().as_deref(), Some("d41d8cd98f00b204e9800998ecf8427e"));
        assert_eq!((&object.modified[..], object.class.as_deref()), ("2009-09-09T09:20:02Z", Some("Hot")));
        assert_eq!((object.meta("haul-blake3"), object.meta("mode")), (Some("a&b"), Some("100644")));
        assert_eq!(
            page.objects.iter().map(|object| object.has_metadata).collect::<Vec<_>>(),
            [true, false, true]
        );
        assert_eq!((page.prefixes, page.next), (vec!["p/".into(), "q/".into()], Some("m!".to_owned())));
        let text = b"<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>";
        assert_eq!(self::page(text).unwrap(), ListPage::default());
    }

    #[test]
    fn block_lists_are_parsed_and_written() {
        let text = b"<BlockList><CommittedBlocks><Block><Name>Yw==</Name><Size>1</Size></Block></CommittedBlocks>\
            <UncommittedBlocks><Block><Name>YQ==</Name><Size>5</Size></Block></UncommittedBlocks></BlockList>";
        assert_eq!(blocks(text).unwrap(), [("YQ==".to_owned(), 5)]);
        let text = b"<BlockList><UncommittedBlocks /></BlockList>";
        assert!(blocks(text).unwrap().is_empty());
        let tag = |name: &str| Tag { etag: name.to_owned(), ..Tag::default() };
        let list = block_list(&[tag("YQ=="), tag("Yg==")]).unwrap();
        assert_eq!(list, "<BlockList><Latest>YQ==</Latest><Latest>Yg==</Latest></BlockList>");
    }
}
