//! The packets of SFTP version 3, and of those extensions of OpenSSH that haul uses.
//!
//! Sources: draft-ietf-secsh-filexfer-02, and the file `PROTOCOL` of OpenSSH for the extensions and for the deviation
//! of OpenSSH from the draft: `SYMLINK` takes the target first. Names and handles are bytes throughout.

use std::io::{self, Read};

/// The version of the protocol.
pub(super) const VERSION: u32 = 3;
/// The longest packet that haul accepts, in bytes without its length field: the limit of OpenSSH
/// (`SFTP_MAX_MSG_LENGTH`).
pub(super) const MAX_PACKET: usize = 256 * 1024;
/// Bytes of data that every server accepts in one request (draft, section 3).
pub(super) const PLAIN_DATA: u32 = 32 * 1024;

/// Open for reading.
pub(super) const READ: u32 = 0x01;
/// Open for writing.
pub(super) const WRITE: u32 = 0x02;
/// Create the file if it does not exist.
pub(super) const CREATE: u32 = 0x08;
/// Fail if the file exists.
pub(super) const EXCLUSIVE: u32 = 0x20;

/// Status: success.
pub(super) const OK: u32 = 0;
/// Status: end of file or listing.
pub(super) const EOF: u32 = 1;
/// Status: no such file.
pub(super) const NO_SUCH_FILE: u32 = 2;
/// Status: permission denied.
pub(super) const PERMISSION_DENIED: u32 = 3;
/// Status: any other failure.
pub(super) const FAILURE: u32 = 4;
/// Status: bad message; OpenSSH sends it for `ENAMETOOLONG` and `EINVAL`.
pub(super) const BAD_MESSAGE: u32 = 5;
/// Status: the server does not support this.
pub(super) const OP_UNSUPPORTED: u32 = 8;

/// Flag of a file system in the answer to `statvfs@openssh.com`: read-only.
pub(super) const READ_ONLY: u64 = 1;

/// The longest handle (draft, section 3).
const MOST_HANDLE: usize = 256;
/// The most bytes to keep of a server's message.
const MOST_WORDS: usize = 1024;
/// The most bytes to keep of the answer to an extension.
const MOST_REPLY: usize = 1024;

const INIT: u8 = 1;
const VERSION_IS: u8 = 2;
const EXTENDED: u8 = 200;

const HAS_SIZE: u32 = 0x01;
const HAS_OWNER: u32 = 0x02;
const HAS_MODE: u32 = 0x04;
const HAS_TIMES: u32 = 0x08;
const HAS_EXTENDED: u32 = 0x8000_0000;

/// Metadata. Only fields with a value are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attrs {
    /// Length in bytes.
    pub(super) size: Option<u64>,
    /// User and group by number.
    pub(super) owner: Option<(u32, u32)>,
    /// Permission bits; from a server also the kind of file, as in `st_mode`.
    pub(super) mode: Option<u32>,
    /// Seconds since 1970 of the last access and of the last modification.
    pub(super) times: Option<(u32, u32)>,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) enum SftpRequest<'a> {
    /// Open a file; flags as [`READ`], and the mode of a new one.
    Open { path: &'a [u8], flags: u32, mode: u32 },
    /// Close a file or a listing.
    Close { handle: &'a [u8] },
    /// Read from a file.
    Read { handle: &'a [u8], offset: u64, len: u32 },
    /// Write to a file. `len` bytes of data follow the encoded part.
    Write { handle: &'a [u8], offset: u64, len: u32 },
    /// Attributes of a name; follows no link.
    Lstat { path: &'a [u8] },
    /// Attributes of a path; follows links.
    Stat { path: &'a [u8] },
    /// Attributes of an open file.
    Fstat { handle: &'a [u8] },
    /// Set attributes of a path; follows links.
    Setstat { path: &'a [u8], attrs: Attrs },
    /// Set attributes of an open file.
    Fsetstat { handle: &'a [u8], attrs: Attrs },
    /// Open a directory for listing.
    Opendir { path: &'a [u8] },
    /// The next names of a listing.
    Readdir { handle: &'a [u8] },
    /// Remove a file or a link.
    Remove { path: &'a [u8] },
    /// Make a directory.
    Mkdir { path: &'a [u8], mode: u32 },
    /// Remove an empty directory.
    Rmdir { path: &'a [u8] },
    /// The absolute path.
    Realpath { path: &'a [u8] },
    /// Where a link points.
    Readlink { path: &'a [u8] },
    /// Make a link.
    Symlink { target: &'a [u8], path: &'a [u8] },
    /// Rename. The result depends on the server if the new name exists.
    Rename { from: &'a [u8], to: &'a [u8] },
    /// `posix-rename@openssh.com`: rename, replacing an existing file.
    PosixRename { from: &'a [u8], to: &'a [u8] },
    /// `hardlink@openssh.com`: create a hard link.
    Hardlink { of: &'a [u8], path: &'a [u8] },
    /// `fsync@openssh.com`: make an open file durable.
    Fsync { handle: &'a [u8] },
    /// `lsetstat@openssh.com`: set metadata of a link itself.
    Lsetstat { path: &'a [u8], attrs: Attrs },
    /// `limits@openssh.com`.
    Limits,
    /// `statvfs@openssh.com`: free space.
    Statvfs { path: &'a [u8] },
    /// `expand-path@openssh.com`: resolves `~user`.
    ExpandPath { path: &'a [u8] },
}

impl SftpRequest<'_> {
    /// Appends the packet, with its length field.
    pub(super) fn encode(&self, id: u32, into: &mut Vec<u8>) {
        let start = into.len();
        let mut packet = Packet::new(into);
        let follows = match *self {
            Self::Open { path, flags, mode } => {
                let attrs = Attrs { mode: Some(mode), ..Attrs::default() };
                packet.plain(3, id).string(path).u32(flags).attrs(&attrs)
            }
            Self::Close { handle } => packet.plain(4, id).string(handle),
            Self::Read { handle, offset, len } => packet.plain(5, id).string(handle).u64(offset).u32(len),
            Self::Write { handle, offset, len } => packet.plain(6, id).string(handle).u64(offset).u32(len),
            Self::Lstat { path } => packet.plain(7, id).string(path),
            Self::Fstat { handle } => packet.plain(8, id).string(handle),
            Self::Setstat { path, attrs } => packet.plain(9, id).string(path).attrs(&attrs),
            Self::Fsetstat { handle, attrs } => packet.plain(10, id).string(handle).attrs(&attrs),
            Self::Opendir { path } => packet.plain(11, id).string(path),
            Self::Readdir { handle } => packet.plain(12, id).string(handle),
            Self::Remove { path } => packet.plain(13, id).string(path),
            Self::Mkdir { path, mode } => {
                let attrs = Attrs { mode: Some(mode), ..Attrs::default() };
                packet.plain(14, id).string(path).attrs(&attrs)
            }
            Self::Rmdir { path } => packet.plain(15, id).string(path),
            Self::Realpath { path } => packet.plain(16, id).string(path),
            Self::Stat { path } => packet.plain(17, id).string(path),
            Self::Rename { from, to } => packet.plain(18, id).string(from).string(to),
            Self::Readlink { path } => packet.plain(19, id).string(path),
            Self::Symlink { target, path } => packet.plain(20, id).string(target).string(path),
            Self::PosixRename { from, to } => packet.extended(id, POSIX_RENAME).string(from).string(to),
            Self::Hardlink { of, path } => packet.extended(id, HARDLINK).string(of).string(path),
            Self::Fsync { handle } => packet.extended(id, FSYNC).string(handle),
            Self::Lsetstat { path, attrs } => packet.extended(id, LSETSTAT).string(path).attrs(&attrs),
            Self::Limits => packet.extended(id, LIMITS),
            Self::Statvfs { path } => packet.extended(id, STATVFS).string(path),
            Self::ExpandPath { path } => packet.extended(id, EXPAND_PATH).string(path),
        }
        .data_follows(match *self {
            Self::Write { len, .. } => len,
            _ => 0,
        });
        let len = u32::try_from(into.len() - start - 4).unwrap_or(u32::MAX).saturating_add(follows);
        into[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// The size of the answer, to tell how busy a connection is.
    #[must_use]
    pub(super) fn owes(&self) -> u64 {
        match *self {
            Self::Read { len, .. } => u64::from(len),
            Self::Readdir { .. } => 16 * 1024,
            _ => 64,
        }
    }
}

/// Name of an extension.
pub(super) const POSIX_RENAME: &str = "posix-rename@openssh.com";
/// Name of an extension.
pub(super) const HARDLINK: &str = "hardlink@openssh.com";
/// Name of an extension.
pub(super) const FSYNC: &str = "fsync@openssh.com";
/// Name of an extension.
pub(super) const LSETSTAT: &str = "lsetstat@openssh.com";
/// Name of an extension.
pub(super) const LIMITS: &str = "limits@openssh.com";
/// Name of an extension.
pub(super) const STATVFS: &str = "statvfs@openssh.com";
/// Name of an extension.
pub(super) const EXPAND_PATH: &str = "expand-path@openssh.com";

/// The first packet of a session.
#[must_use]
pub(super) fn encode_init() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 5, INIT];
    bytes.extend(VERSION.to_be_bytes());
    bytes
}

/// A packet that is being written.
struct Packet<'a>(&'a mut Vec<u8>);

impl<'a> Packet<'a> {
    fn new(into: &'a mut Vec<u8>) -> Self {
        into.extend([0; 4]);
        Self(into)
    }

    fn plain(&mut self, kind: u8, id: u32) -> &mut Self {
        self.0.push(kind);
        self.u32(id)
    }

    fn extended(&mut self, id: u32, name: &str) -> &mut Self {
        self.plain(EXTENDED, id).string(name.as_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn string(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.0.extend(bytes);
        self
    }

    fn attrs(&mut self, attrs: &Attrs) -> &mut Self {
        let flag = |there: bool, flag: u32| if there { flag } else { 0 };
        self.u32(
            flag(attrs.size.is_some(), HAS_SIZE)
                | flag(attrs.owner.is_some(), HAS_OWNER)
                | flag(attrs.mode.is_some(), HAS_MODE)
                | flag(attrs.times.is_some(), HAS_TIMES),
        );
        if let Some(size) = attrs.size {
            self.u64(size);
        }
        if let Some((uid, gid)) = attrs.owner {
            self.u32(uid).u32(gid);
        }
        if let Some(mode) = attrs.mode {
            self.u32(mode);
        }
        if let Some((accessed, modified)) = attrs.times {
            self.u32(accessed).u32(modified);
        }
        self
    }

    /// Ends the packet; this many bytes are sent behind it.
    fn data_follows(&mut self, len: u32) -> u32 {
        len
    }
}

/// Names in a directory, with their metadata.
pub(super) type DirNames = Vec<(Vec<u8>, Attrs)>;
/// Names of extensions, with their versions.
pub(super) type Extensions = Vec<(Vec<u8>, Vec<u8>)>;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SftpResponse {
    /// A status code such as [`OK`], and the server's message.
    Status(u32, Vec<u8>),
    /// An open file or listing.
    Handle(Vec<u8>),
    /// Content.
    Data(Data),
    /// Names with their metadata.
    Names(DirNames),
    /// Metadata.
    Attrs(Attrs),
    /// The answer to an extension.
    Extended(Vec<u8>),
}

/// Content, inside the packet that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data {
    packet: Vec<u8>,
    start: usize,
    len: usize,
}

impl Data {
    /// The content.
    #[must_use]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.packet[self.start..self.start + self.len]
    }
}

/// The error of a malformed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads the answer to `INIT`: the version, and the extensions that are offered with their versions.
///
/// # Errors
/// If it is no such answer.
pub(super) fn decode_version(packet: &[u8]) -> Result<(u32, Extensions), Malformed> {
    let mut rest = Rest(packet);
    if rest.u8()? != VERSION_IS {
        return Err(Malformed);
    }
    let version = rest.u32()?;
    let mut extensions = Vec::new();
    while !rest.0.is_empty() {
        extensions.push((rest.string()?.to_vec(), rest.string()?.to_vec()));
    }
    Ok((version, extensions))
}

/// Reads an answer and the number of the request that it is for. No memory is taken for a length that the packet
/// does not hold.
///
/// # Errors
/// If it is none.
pub(super) fn decode(packet: Vec<u8>) -> Result<(u32, SftpResponse), Malformed> {
    let mut rest = Rest(&packet);
    let kind = rest.u8()?;
    let id = rest.u32()?;
    let response = match kind {
        101 => {
            let code = rest.u32()?;
            // Servers older than version 3 leave the words out.
            let words = if rest.0.is_empty() { &[][..] } else { rest.string()? };
            SftpResponse::Status(code, words[..words.len().min(MOST_WORDS)].to_vec())
        }
        102 => match rest.string()? {
            handle if handle.len() > MOST_HANDLE => return Err(Malformed),
            handle => SftpResponse::Handle(handle.to_vec()),
        },
        103 => {
            let len = rest.string()?.len();
            SftpResponse::Data(Data { start: 9, len, packet })
        }
        104 => {
            let count = rest.u32()?;
            // Each name takes twelve bytes at least.
            if count as usize > rest.0.len() / 12 {
                return Err(Malformed);
            }
            let mut names = Vec::with_capacity(count as usize);
            for _ in 0..count {
                let name = rest.string()?.to_vec();
                let _as_ls_has_it = rest.string()?;
                names.push((name, rest.attrs()?));
            }
            // Names that the count leaves out would be missed by nobody. Later versions have one byte after the last.
            if rest.0.len() > 1 {
                return Err(Malformed);
            }
            SftpResponse::Names(names)
        }
        105 => SftpResponse::Attrs(rest.attrs()?),
        201 => SftpResponse::Extended(rest.0[..rest.0.len().min(MOST_REPLY)].to_vec()),
        _ => return Err(Malformed),
    };
    Ok((id, response))
}

/// The numbers of an extension's answer.
///
/// # Errors
/// If there are fewer than `N`.
pub(super) fn decode_numbers<const N: usize>(bytes: &[u8]) -> Result<[u64; N], Malformed> {
    let mut rest = Rest(bytes);
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = rest.u64()?;
    }
    Ok(numbers)
}

/// The unread rest of a packet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    fn attrs(&mut self) -> Result<Attrs, Malformed> {
        let flags = self.u32()?;
        let mut attrs = Attrs::default();
        if flags & HAS_SIZE != 0 {
            attrs.size = Some(self.u64()?);
        }
        if flags & HAS_OWNER != 0 {
            attrs.owner = Some((self.u32()?, self.u32()?));
        }
        if flags & HAS_MODE != 0 {
            attrs.mode = Some(self.u32()?);
        }
        if flags & HAS_TIMES != 0 {
            attrs.times = Some((self.u32()?, self.u32()?));
        }
        if flags & HAS_EXTENDED != 0 {
            for _ in 0..self.u32()? {
                self.string()?;
                self.string()?;
            }
        }
        Ok(attrs)
    }
}

/// Reads a packet without its length. Allocates memory only after the length was checked.
pub(super) fn read_packet(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    reader.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len) as usize;
    if len == 0 || len > MAX_PACKET {
        let why = "the received data is not SFTP; does a login script there print something?";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut packet = vec![0; len];
    reader.read_exact(&mut packet)?;
    Ok(packet)
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
