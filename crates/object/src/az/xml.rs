//! What Azure says and is told in XML. Answers are untrusted.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::options::note_of;

use crate::fault::{Class, Fault};
use crate::payload::md5_in;
use crate::store::{Answer, Object, Page, Tag};
use crate::time;
use crate::xml::{decode, parse, print};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Results {
    #[serde(default)]
    blobs: Blobs,
    next_marker: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blobs {
    #[serde(default)]
    blob: Vec<Blob>,
    #[serde(default)]
    blob_prefix: Vec<Prefix>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blob {
    name: Name,
    properties: Properties,
    metadata: Option<HashMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Prefix {
    name: Name,
}

/// Percent-encoded where XML could not carry it.
#[derive(Deserialize)]
struct Name {
    #[serde(rename = "@Encoded", default)]
    encoded: bool,
    #[serde(rename = "$text", default)]
    text: String,
}

impl Name {
    fn read(self) -> Answer<String> {
        // In this encoding a plus is a plus.
        if self.encoded { decode(self.text.replace('+', "%2B"), Some("url")) } else { Ok(self.text) }
    }
}

#[derive(Deserialize)]
struct Properties {
    #[serde(rename = "Last-Modified", default)]
    modified: String,
    #[serde(rename = "Etag", default)]
    etag: String,
    #[serde(rename = "Content-Length", default)]
    len: u64,
    #[serde(rename = "Content-MD5")]
    md5: Option<String>,
    #[serde(rename = "AccessTier")]
    tier: Option<String>,
}

/// A page of blobs.
pub(super) fn page(content: &[u8]) -> Answer<Page> {
    let results: Results = parse(content)?;
    let object = |blob: Blob| {
        let of = blob.properties;
        // Of what the customer's own key encrypts, only that is told.
        let notes = blob.metadata.filter(|notes| !notes.contains_key("@Encrypted"));
        let noted = notes.is_some();
        let note = |(name, value): (String, String)| (note_of(&name.to_ascii_lowercase()), value);
        Ok(Object {
            key: blob.name.read()?,
            len: of.len,
            // In listings it is without the quotes that it has elsewhere.
            etag: format!("\"{}\"", of.etag.trim_matches('"')),
            metadata: notes.into_iter().flatten().map(note).collect(),
            noted,
            modified: time::of_http(&of.modified),
            class: of.tier.filter(|tier| !tier.is_empty()),
            content_md5: of.md5.as_deref().and_then(md5_in),
            ..Object::default()
        })
    };
    let objects = results.blobs.blob.into_iter().map(object).collect::<Answer<_>>()?;
    let prefixes = results.blobs.blob_prefix.into_iter().map(|prefix| prefix.name.read());
    let next = results.next_marker.filter(|marker| !marker.is_empty());
    Ok(Page { objects, prefixes: prefixes.collect::<Answer<_>>()?, next })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    #[serde(default)]
    uncommitted_blocks: Blocks,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blocks {
    #[serde(default)]
    block: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Block {
    name: String,
    size: u64,
}

/// The uncommitted blocks of a blob: their names and lengths.
pub(super) fn blocks(content: &[u8]) -> Answer<Vec<(String, u64)>> {
    let listed: Listed = parse(content)?;
    Ok(listed.uncommitted_blocks.block.into_iter().map(|block| (block.name, block.size)).collect())
}

#[derive(Serialize)]
struct BlockList<'a> {
    /// The newest of each name: also one that was committed, when the answer to that was lost.
    #[serde(rename = "Latest")]
    latest: Vec<&'a str>,
}

/// The blocks that a blob is made of.
pub(super) fn block_list(tags: &[Tag]) -> Answer<String> {
    if tags.is_empty() {
        return Err(Fault::new(Class::Final, "a blob is made of no blocks"));
    }
    print("BlockList", &BlockList { latest: tags.iter().map(|tag| &tag.etag[..]).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_page() {
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
        assert_eq!((object.note("haul-blake3"), object.note("mode")), (Some("a&b"), Some("100644")));
        assert_eq!(page.objects.iter().map(|object| object.noted).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!((page.prefixes, page.next), (vec!["p/".into(), "q/".into()], Some("m!".to_owned())));
        let text = b"<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>";
        assert_eq!(self::page(text).unwrap(), Page::default());
    }

    #[test]
    fn reads_and_writes_lists_of_blocks() {
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
