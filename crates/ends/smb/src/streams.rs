//! Alternate data streams. Each becomes an extended attribute of its entry.

use std::collections::BTreeMap;

use haul_core::entry::Xattr;
use haul_core::{Entry, ErrorKind, RelPath, Result};
use haul_ends::server_tree::ServerTree;
use serde_bytes::ByteBuf;

use super::entries::{STREAM, is_link};
use super::remove::remove_at;
use super::reply::Fault;
use super::state::SmbSink;
use super::step::{ChainStep, LOOK, OpenedKind, READ, WRITE};
use super::stream_list::{MOST, NamedStream, kept_name, parse};
use super::tree::Tree;

/// The path of a stream on the share.
fn at(remote: &str, name: &str) -> String {
    format!("{remote}:{name}")
}

impl Tree {
    async fn streams_at(&self, remote: &str) -> Result<Vec<NamedStream>, Fault> {
        let open = ChainStep::open(remote, OpenedKind::Any, LOOK);
        let replies = self.run(&[open, ChainStep::streams(), ChainStep::close()]).await?;
        replies.opened()?;
        parse(&replies.info(1)?)
    }

    /// The content of a stream.
    async fn stream(&self, remote: &str, stream: &NamedStream) -> Result<Vec<u8>, Fault> {
        if stream.len == 0 {
            return Ok(Vec::new());
        }
        // Checked by the caller to be at most MOST.
        let len = stream.len as u32;
        let open = ChainStep::open(&at(remote, &stream.name), OpenedKind::File, READ);
        let replies = self.run(&[open, ChainStep::read(0, len), ChainStep::close()]).await?;
        replies.opened()?;
        replies.data(1)
    }

    /// The streams of an entry, as attributes.
    pub(super) async fn stream_attributes(&self, path: &RelPath) -> Result<Vec<Xattr>, Fault> {
        let remote = self.remote(path)?;
        let streams = self.streams_at(&remote).await?;
        let len = streams.iter().fold(0_u64, |sum, stream| sum.saturating_add(stream.len));
        if len > MOST {
            let cause = format!("its alternate data streams have {len} bytes; haul copies 64 KiB at most");
            let error = self.fault(ErrorKind::Unsupported, "read the streams of", path, &cause);
            return Err(error.with_hint("without --smb-streams, haul copies it without them").into());
        }
        let mut attributes = Vec::with_capacity(streams.len());
        for stream in streams {
            let content = self.stream(&remote, &stream).await?;
            if content.len() as u64 != stream.len {
                return Err(self.changed(path).into());
            }
            let name = [STREAM, stream.name.as_bytes()].concat();
            attributes.push((ByteBuf::from(name), ByteBuf::from(content)));
        }
        Ok(attributes)
    }
}

impl SmbSink {
    /// The streams that an entry is to have; `None` if the user does not ask for them.
    fn wanted_streams<'a>(&self, entry: &'a Entry) -> Option<BTreeMap<&'a str, &'a [u8]>> {
        let preserve = &self.options.preserve;
        if !self.tree.smb.server.login.options.streams || !preserve.has_xattr(STREAM) || is_link(entry) {
            return None;
        }
        let mut wanted = BTreeMap::new();
        for (attribute, content) in &entry.xattrs {
            // The others become warnings with those for other metadata.
            if let Some(name) = attribute.strip_prefix(STREAM)
                && let Ok(name) = kept_name(name, content)
            {
                wanted.insert(name, &content[..]);
            }
        }
        Some(wanted)
    }

    /// Whether an entry is to have streams.
    pub(super) fn wants_streams(&self, entry: &Entry) -> bool {
        self.wanted_streams(entry).is_some_and(|wanted| !wanted.is_empty())
    }

    /// Whether the existing entry has other streams than it is to have.
    pub(super) async fn differs_in_streams(&self, entry: &Entry) -> Result<bool, Fault> {
        let Some(wanted) = self.wanted_streams(entry) else { return Ok(false) };
        let remote = self.tree.remote(&entry.path)?;
        let now = self.tree.streams_at(&remote).await?;
        if now.len() != wanted.len() {
            return Ok(true);
        }
        for (stream, (name, content)) in now.iter().zip(wanted) {
            let is_like = stream.name == name && stream.len == content.len() as u64;
            if !is_like || self.tree.stream(&remote, stream).await? != content {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes the streams of the entry at `remote`, and removes others unless the entry is new. A refusal becomes a
    /// warning. Returns whether it wrote any, which changes the times of the entry.
    pub(super) async fn set_streams(&self, remote: &str, entry: &Entry, is_new: bool) -> Result<bool, Fault> {
        let Some(wanted) = self.wanted_streams(entry) else { return Ok(false) };
        let now = if is_new { Vec::new() } else { self.tree.streams_at(remote).await? };
        let mut wrote = false;
        for stream in now.iter().filter(|stream| !wanted.contains_key(&*stream.name)) {
            self.accept_stream(remove_at(&self.tree, &at(remote, &stream.name)).await, entry)?;
            wrote = true;
        }
        for (name, content) in wanted {
            let here = now.iter().find(|stream| stream.name == name);
            let here = here.filter(|stream| stream.len == content.len() as u64);
            if let Some(stream) = here
                && self.tree.stream(remote, stream).await? == content
            {
                continue;
            }
            let mut chain = vec![ChainStep::make_empty(&at(remote, name), WRITE)];
            if !content.is_empty() {
                chain.push(ChainStep::write(0, content, self.options.durable));
            }
            chain.push(ChainStep::close());
            self.accept_stream(self.tree.run(&chain).await?.all_ok(), entry)?;
            wrote = true;
        }
        Ok(wrote)
    }

    fn accept_stream(&self, done: Result<(), Fault>, entry: &Entry) -> Result<(), Fault> {
        match done {
            Err(Fault::Status(status)) => {
                let why = format!("the server says {status}");
                self.notes.note("alternate data streams", &why, &entry.path);
                Ok(())
            }
            done => done,
        }
    }
}
