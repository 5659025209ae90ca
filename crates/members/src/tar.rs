//! The headers of tar: ustar, pax, and GNU with long names and sparse files.

use haul_core::path::printable;
use haul_core::{EntryKind, RelPath, Timestamp};

use crate::build::{IndexBuilder, MemberPayload, ScanStep};
use crate::index::{IndexFault, MemberHead, TarMetadata};
use crate::numbers::{field, time_field};
use crate::pax::{MAX_RUNS, Pax, map_in_content};

/// The unit of tar.
pub(crate) const BLOCK: usize = 512;

/// The longest extended header.
const MAX_EXTENDED: u64 = 1 << 20;

/// Decodes headers.
#[derive(Default)]
pub(crate) struct Tar {
    part: TarStep,
    /// For all members that follow.
    global: Pax,
    /// For the next member.
    next: Pax,
    /// Padding after the content.
    padding: u64,
    /// A block of zeros has come.
    ended: bool,
    file: Option<SparseFile>,
    /// The member whose content passes, and its length.
    open: (u32, u64),
}

/// The part of a tar that is decoded next.
#[derive(Default)]
enum TarStep {
    #[default]
    Header,
    /// An extended header of this type and length.
    Extended(u8, usize),
    /// More of the map of a sparse file of GNU tar.
    Map,
    /// The map in the content of a sparse file.
    MapInContent,
}

/// A sparse file whose map is not complete.
struct SparseFile {
    head: MemberHead,
    /// The length of the content in the stream.
    stored: u64,
    len: u64,
    map: Vec<u64>,
    /// The blocks of a map in the content.
    content: Vec<u8>,
}

/// Whether a block is the header of a member.
pub(crate) fn is_header(block: &[u8]) -> bool {
    let Some(sum) = block.get(148..156).and_then(field) else { return false };
    let with = |signed: bool| {
        block.iter().enumerate().fold(0_i64, |all, (at, byte)| {
            let byte = if (148..156).contains(&at) { b' ' } else { *byte };
            all + if signed { i64::from(byte as i8) } else { i64::from(byte) }
        })
    };
    block.len() == BLOCK && block[0] != 0 && [with(false), with(true)].contains(&(sum as i64))
}

fn text(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

fn padding(len: u64) -> u64 {
    len.wrapping_neg() % BLOCK as u64
}

impl Tar {
    /// Decodes the part that ends at this offset of the stream.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        at: u64,
        to: &mut IndexBuilder,
    ) -> Result<ScanStep, IndexFault> {
        match std::mem::take(&mut self.part) {
            TarStep::Header => self.header(bytes, at, to),
            TarStep::Extended(kind, len) => self.extended(kind, &bytes[..len], at),
            TarStep::Map => self.more_map(bytes, at, to),
            TarStep::MapInContent => self.map_in_content(bytes, at, to),
        }
    }

    fn header(&mut self, block: &[u8], at: u64, to: &mut IndexBuilder) -> Result<ScanStep, IndexFault> {
        let begun = at - BLOCK as u64;
        let damaged = |why: &str| IndexFault::Damaged(begun, why.to_owned());
        if block.iter().all(|byte| *byte == 0) {
            self.ended = true;
            // Bytes after the end have no meaning.
            return Ok(ScanStep::Skip(u64::MAX));
        }
        if !is_header(block) {
            return Err(damaged("there is no header where one has to begin"));
        }
        let size = field(&block[124..136]).ok_or_else(|| damaged("a header has no valid length"))?;
        let kind = block[156];
        if matches!(kind, b'x' | b'g' | b'L' | b'K') {
            if size > MAX_EXTENDED {
                return Err(damaged("an extended header is longer than 1 MiB"));
            }
            if size > 0 {
                self.part = TarStep::Extended(kind, size as usize);
            }
            // An empty one is followed by the next header.
            let len = if size > 0 { size + padding(size) } else { BLOCK as u64 };
            return Ok(ScanStep::Gather(len as usize));
        }
        let pax = self.values();
        let size = pax.size.unwrap_or(size);
        if kind == b'V' {
            return Ok(ScanStep::Skip(size.saturating_add(padding(size))));
        }
        let head = head(block, &pax).map_err(|fault| match fault {
            IndexFault::Damaged(_, why) => IndexFault::Damaged(begun, why),
            IndexFault::Unsupported(_, why) => IndexFault::Unsupported(begun, why),
            other => other,
        })?;
        let file = |len, map| SparseFile { head: head.clone(), stored: size, len, map, content: Vec::new() };
        if head.kind != EntryKind::File || head.link.is_some() {
            let number = to.begin(head)?;
            to.end(number, 0)?;
            // Only files have content; some programs state the length of a linked file.
            return Ok(ScanStep::Gather(BLOCK));
        }
        if kind == b'S' {
            let len = field(&block[483..495]).ok_or_else(|| damaged("a header has no valid length"))?;
            self.file = Some(file(len, Vec::new()));
            return self.gnu_map(&block[386..483], 4, at, to);
        }
        if pax.sparse.in_content {
            self.file = Some(file(pax.sparse.size.unwrap_or(size), Vec::new()));
            self.part = TarStep::MapInContent;
            return Ok(ScanStep::Gather(BLOCK));
        }
        match pax.sparse.size {
            Some(len) => self.content(file(len, pax.sparse.map), at, to),
            None => self.content(file(size, vec![0, size]), at, to),
        }
    }

    /// The values for the next member, which are used up.
    fn values(&mut self) -> Pax {
        let (next, global) = (std::mem::take(&mut self.next), &self.global);
        Pax {
            path: next.path.or_else(|| global.path.clone()),
            link: next.link.or_else(|| global.link.clone()),
            size: next.size.or(global.size),
            uid: next.uid.or(global.uid),
            gid: next.gid.or(global.gid),
            mtime: next.mtime.or(global.mtime),
            xattrs: next.xattrs,
            sparse: next.sparse,
        }
    }

    fn extended(&mut self, kind: u8, bytes: &[u8], at: u64) -> Result<ScanStep, IndexFault> {
        let damaged = || IndexFault::Damaged(at, "an extended header is damaged".to_owned());
        match kind {
            b'x' => self.next.add(bytes).ok_or_else(damaged)?,
            b'g' => self.global.add(bytes).ok_or_else(damaged)?,
            b'L' => self.next.path = Some(text(bytes).to_owned()),
            _ => self.next.link = Some(text(bytes).to_owned()),
        }
        Ok(ScanStep::Gather(BLOCK))
    }

    fn more_map(&mut self, block: &[u8], at: u64, to: &mut IndexBuilder) -> Result<ScanStep, IndexFault> {
        self.gnu_map(&block[..505], 21, at, to)
    }

    /// Adds so many runs of a map; the byte behind them says whether more follow.
    fn gnu_map(
        &mut self,
        map: &[u8],
        runs: usize,
        at: u64,
        to: &mut IndexBuilder,
    ) -> Result<ScanStep, IndexFault> {
        let damaged = || IndexFault::Damaged(at, "the map of a sparse file is damaged".to_owned());
        let Some(mut file) = self.file.take() else { return Err(damaged()) };
        for run in map[..runs * 24].chunks_exact(24) {
            if run[0] != 0 {
                file.map.push(field(&run[..12]).ok_or_else(damaged)?);
                file.map.push(field(&run[12..]).ok_or_else(damaged)?);
            }
        }
        if file.map.len() > 2 * MAX_RUNS {
            return Err(damaged());
        }
        if map.last().is_some_and(|more| *more != 0) {
            (self.file, self.part) = (Some(file), TarStep::Map);
            return Ok(ScanStep::Gather(BLOCK));
        }
        self.content(file, at, to)
    }

    fn map_in_content(
        &mut self,
        block: &[u8],
        at: u64,
        to: &mut IndexBuilder,
    ) -> Result<ScanStep, IndexFault> {
        let damaged = || IndexFault::Damaged(at, "the map of a sparse file is damaged".to_owned());
        let Some(mut file) = self.file.take() else { return Err(damaged()) };
        file.content.extend_from_slice(block);
        file.stored = file.stored.checked_sub(BLOCK as u64).ok_or_else(damaged)?;
        // Within a number, the map goes on.
        let may_be_whole = matches!(file.content.last(), Some(0 | b'\n'));
        let map = if may_be_whole { map_in_content(&file.content).map_err(|()| damaged())? } else { None };
        match map {
            Some(map) => {
                file.map = map;
                self.content(file, at, to)
            }
            None => {
                (self.file, self.part) = (Some(file), TarStep::MapInContent);
                Ok(ScanStep::Gather(BLOCK))
            }
        }
    }

    /// The content of a file comes next.
    fn content(&mut self, file: SparseFile, at: u64, to: &mut IndexBuilder) -> Result<ScanStep, IndexFault> {
        let SparseFile { head, stored, len, map, .. } = file;
        let name = printable(head.path.as_bytes());
        let mut runs = Vec::new();
        let (mut end, mut data) = (0_u64, 0_u64);
        for run in map.chunks_exact(2) {
            let over = run[0].saturating_add(run[1]);
            if run[0] < end || over > len {
                return Err(IndexFault::Damaged(
                    at,
                    format!("{name}: two runs of its map are for one offset"),
                ));
            }
            (end, data) = (over, data + run[1]);
            runs.push((run[0], run[1]));
        }
        if data != stored || len > haul_core::digest::MAX_FILE_LEN {
            return Err(IndexFault::Damaged(at, format!("{name}: its map lies about its length")));
        }
        self.padding = padding(stored);
        runs.reverse();
        let number = to.begin(head)?;
        self.open = (number, len);
        Ok(ScanStep::Payload(MemberPayload { member: number, runs, crc: 0 }))
    }

    /// The content has passed.
    pub(crate) fn payload_over(&self, to: &mut IndexBuilder) -> Result<ScanStep, IndexFault> {
        let (number, len) = self.open;
        to.end(number, len)?;
        Ok(ScanStep::Skip(self.padding))
    }

    /// The stream ends here.
    pub(crate) fn end(&self, at: u64) -> Result<(), IndexFault> {
        if self.ended {
            return Ok(());
        }
        Err(IndexFault::Damaged(at, "it ends before its end mark, a block of zeros".to_owned()))
    }
}

/// The metadata in the header of a member.
fn head(block: &[u8], pax: &Pax) -> Result<MemberHead, IndexFault> {
    let damaged = |why: &str| IndexFault::Damaged(0, why.to_owned());
    let named = text(&block[..100]);
    // GNU has other fields where ustar has a prefix of the path.
    let prefix = if block[257..265] == *b"ustar\x0000" { text(&block[345..500]) } else { &[] };
    let own = if prefix.is_empty() { named.to_owned() } else { [prefix, b"/", named].concat() };
    let path = pax.sparse.name.as_ref().or(pax.path.as_ref()).unwrap_or(&own);
    let target = pax.link.as_deref().unwrap_or_else(|| text(&block[157..257]));
    let below = |path: &[u8]| {
        RelPath::tidy(path)
            .map_err(|_| damaged(&format!("it names {}, which is not below the directory", printable(path))))
    };
    let number = |at: std::ops::Range<usize>| field(&block[at]).ok_or_else(|| damaged("a header is damaged"));
    let device = || -> Result<u64, IndexFault> {
        // glibc's makedev(3).
        let (major, minor) = (number(329..337)?, number(337..345)?);
        Ok((major & 0xfff) << 8 | (major & !0xfff) << 32 | minor & 0xff | (minor & !0xff) << 12)
    };
    let (mut kind, mut link) = (EntryKind::File, None);
    match block[156] {
        0 | b'0' if path.ends_with(b"/") => kind = EntryKind::Dir,
        0 | b'0' | b'7' | b'S' => {}
        b'1' => link = Some(below(target)?),
        b'2' => kind = EntryKind::Symlink(target.to_owned()),
        b'3' => kind = EntryKind::CharDevice(device()?),
        b'4' => kind = EntryKind::BlockDevice(device()?),
        b'5' => kind = EntryKind::Dir,
        b'6' => kind = EntryKind::Fifo,
        other => {
            let why = format!("a member has the type {}, which haul cannot unpack", printable(&[other]));
            return Err(IndexFault::Unsupported(0, why));
        }
    }
    let id = |own: Option<u64>, at| -> Result<u32, IndexFault> {
        let id = own.map_or_else(|| number(at), Ok)?;
        u32::try_from(id).map_err(|_| damaged("an owner has a number that no system has"))
    };
    let mut xattrs = pax.xattrs.clone();
    xattrs.sort();
    let metadata = TarMetadata {
        mode: (number(100..108)? & 0o7777) as u32,
        uid: id(pax.uid, 108..116)?,
        gid: id(pax.gid, 116..124)?,
        mtime: pax.mtime.or_else(|| time_field(&block[136..148])).unwrap_or(Timestamp { sec: 0, nsec: 0 }),
        xattrs,
    };
    let path = below(path)?;
    if path.is_root() && kind != EntryKind::Dir {
        return Err(damaged("a member has no name"));
    }
    Ok(MemberHead { path, kind, link, metadata: Some(metadata) })
}
