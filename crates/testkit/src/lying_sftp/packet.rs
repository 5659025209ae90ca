//! The packets of SFTP version 3, as far as it takes to lie in them.

use super::lie::{Field, ServerLie};

pub(super) const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
pub(super) const NAMES: u8 = 104;
const ATTRS: u8 = 105;
const REPLY: u8 = 201;
const END_OF_FILE: u32 = 1;
/// How long a stuffed packet is.
const STUFFED: usize = 250 * 1024;

/// The name of a request, by its packet without the length.
pub(super) fn asked(body: &[u8]) -> String {
    let kinds = [
        "init", "", "open", "close", "read", "write", "lstat", "fstat", "setstat", "fsetstat", "opendir",
        "readdir", "remove", "mkdir", "rmdir", "realpath", "stat", "rename", "readlink", "symlink",
    ];
    match body.first() {
        Some(200) => {
            let name = PacketReader(body.get(5..).unwrap_or_default()).string();
            String::from_utf8_lossy(&name).split('@').next().unwrap_or_default().to_owned()
        }
        Some(kind) => kinds.get(usize::from(*kind).wrapping_sub(1)).copied().unwrap_or_default().to_owned(),
        None => String::new(),
    }
}

pub(super) fn id(body: &[u8]) -> [u8; 4] {
    body.get(1..5).and_then(|id| id.try_into().ok()).unwrap_or_default()
}

/// A packet with its length.
pub(super) fn framed(body: &[u8]) -> Vec<u8> {
    [&length(body.len())[..], body].concat()
}

fn length(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap().to_be_bytes()
}

fn string(bytes: &[u8]) -> Vec<u8> {
    framed(bytes)
}

/// A status for the request of this number.
pub(super) fn status(id: [u8; 4], code: u32, words: &[u8]) -> Vec<u8> {
    [&[STATUS][..], &id, &code.to_be_bytes(), &string(words), &string(b"")].concat()
}

/// Whether it says that a listing has ended.
pub(super) fn is_end(body: &[u8]) -> bool {
    body.first() == Some(&STATUS) && body.get(5..9) == Some(&END_OF_FILE.to_be_bytes())
}

struct PacketReader<'a>(&'a [u8]);

impl PacketReader<'_> {
    fn take(&mut self, len: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }

    fn u32(&mut self) -> u32 {
        self.take(4).try_into().map(u32::from_be_bytes).unwrap_or_default()
    }

    fn string(&mut self) -> Vec<u8> {
        let len = self.u32();
        self.take(len as usize)
    }

    fn attrs(&mut self) -> RawAttrs {
        let flags = self.u32();
        let len = |flag: u32, len: usize| if flags & flag != 0 { len } else { 0 };
        RawAttrs {
            flags,
            size: self.take(len(1, 8)),
            owner: self.take(len(2, 8)),
            mode: self.take(len(4, 4)),
            times: self.take(len(8, 8)),
            more: Vec::new(),
        }
    }
}

/// Metadata, each part as its bytes.
#[derive(Clone, Default)]
struct RawAttrs {
    flags: u32,
    size: Vec<u8>,
    owner: Vec<u8>,
    mode: Vec<u8>,
    times: Vec<u8>,
    more: Vec<u8>,
}

impl RawAttrs {
    /// Those of an entry of this mode.
    fn of(mode: u32) -> Self {
        Self {
            flags: 15,
            size: 5_u64.to_be_bytes().to_vec(),
            owner: vec![0; 8],
            mode: mode.to_be_bytes().to_vec(),
            times: [1_600_000_000_u32.to_be_bytes(); 2].concat(),
            more: Vec::new(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.flags.to_be_bytes()[..], &self.size, &self.owner, &self.mode, &self.times, &self.more].concat()
    }

    /// Whether the lie is one of metadata; then it is told.
    fn lie(&mut self, lie: &ServerLie) -> bool {
        let number = lie.number as u32;
        match lie.field {
            Field::Bare => *self = Self::default(),
            Field::Flags => *self = Self { flags: number, ..Self::default() },
            Field::Size => self.size = lie.number.to_be_bytes().to_vec(),
            Field::Owner => self.owner = [number.to_be_bytes(); 2].concat(),
            Field::Mode => self.mode = number.to_be_bytes().to_vec(),
            Field::Times => self.times = [number.to_be_bytes(); 2].concat(),
            Field::Extended => {
                self.flags |= 1 << 31;
                self.more = number.to_be_bytes().to_vec();
            }
            _ => return false,
        }
        true
    }
}

type RawName = (Vec<u8>, Vec<u8>, RawAttrs);

fn names(body: &[u8]) -> Vec<RawName> {
    let mut rest = PacketReader(&body[5..]);
    (0..rest.u32()).map(|_| (rest.string(), rest.string(), rest.attrs())).collect()
}

fn with_names(id: [u8; 4], names: &[RawName]) -> Vec<u8> {
    let mut body = [&[NAMES][..], &id, &length(names.len())].concat();
    for (name, shown, attrs) in names {
        body.extend([string(name), string(shown), attrs.bytes()].concat());
    }
    body
}

/// A part of a listing that nobody made: `number` tells it from others.
pub(super) fn other_names(id: [u8; 4], number: u64, stuffed: bool) -> Vec<u8> {
    let one =
        |at: u64| (format!("n{:07}", number * 10_000 + at).into_bytes(), vec![], RawAttrs::of(0o100_644));
    let len = with_names(id, &[one(0)]).len() - 9;
    let count = if stuffed { (STUFFED / len) as u64 } else { 100 };
    with_names(id, &(0..count).map(one).collect::<Vec<_>>())
}

/// The last number and the last handle that were answered on this connection.
#[derive(Default)]
pub(super) struct Before {
    pub(super) id: [u8; 4],
    pub(super) handle: Vec<u8>,
}

/// The bytes to be sent in the place of the answer `body`; `None` if there is no such field in it.
pub(super) fn lie(lie: &ServerLie, body: &[u8], before: &Before) -> Option<Vec<u8>> {
    let kind = *body.first()?;
    let number = lie.number as u32;
    let mut changed = body.to_vec();
    let rest = || PacketReader(body.get(5..).unwrap_or_default());
    match lie.field {
        Field::Length => return Some([&number.to_be_bytes()[..], body].concat()),
        Field::LengthBeyond => return Some([&length(body.len() + number as usize)[..], body].concat()),
        Field::Never | Field::End => return Some(Vec::new()),
        Field::Twice => return Some(framed(body).repeat(2)),
        Field::Kind => changed[0] = number as u8,
        Field::Id => {
            let other = u32::from_be_bytes(id(body)).wrapping_add(number);
            changed[1..5].copy_from_slice(&other.to_be_bytes());
        }
        Field::FormerId => changed[1..5].copy_from_slice(&before.id),
        Field::Cut => changed.truncate(number as usize),
        Field::Tail => changed.resize(body.len() + number as usize, 0x41),
        Field::Status => changed = status(id(body), number, &lie.bytes),
        Field::WordsLength => {
            changed = [&[STATUS][..], &id(body), &4_u32.to_be_bytes(), &number.to_be_bytes()].concat();
        }
        Field::NoNames => changed = with_names(id(body), &[]),
        Field::Handle => changed = [&[HANDLE][..], &id(body), &string(&lie.bytes)].concat(),
        Field::FormerHandle if kind == HANDLE && !before.handle.is_empty() => {
            changed = [&[HANDLE][..], &id(body), &string(&before.handle)].concat();
        }
        Field::StringLength if matches!(kind, HANDLE | DATA) => {
            changed[5..9].copy_from_slice(&number.to_be_bytes());
        }
        Field::MoreData | Field::LessData | Field::FlippedData if kind == DATA => {
            let mut data = rest().string();
            match lie.field {
                Field::MoreData => data.resize(data.len() + number as usize, 0x41),
                Field::LessData => data.truncate(data.len().saturating_sub(number as usize)),
                _ => data.iter_mut().for_each(|byte| *byte = !*byte),
            }
            changed = [&[DATA][..], &id(body), &string(&data)].concat();
        }
        Field::Count if kind == NAMES => changed[5..9].copy_from_slice(&number.to_be_bytes()),
        _ if kind == NAMES => changed = lie_in_names(lie, body)?,
        _ if kind == ATTRS => {
            let mut attrs = rest().attrs();
            attrs.lie(lie).then_some(())?;
            changed = [&[ATTRS][..], &id(body), &attrs.bytes()].concat();
        }
        Field::Version if kind == 2 => changed[1..5].copy_from_slice(&number.to_be_bytes()),
        Field::Extension if kind == 2 => {
            changed.extend(string(&lie.bytes));
            changed.extend(if number == 0 { Vec::new() } else { string(b"1") });
        }
        Field::Extensions if kind == 2 => {
            changed.extend([string(b"x"), string(b"")].concat().repeat(number as usize));
        }
        Field::Numbers if kind == REPLY => {
            changed[5..].chunks_exact_mut(8).for_each(|some| some.copy_from_slice(&lie.number.to_be_bytes()));
        }
        _ => return None,
    }
    Some(framed(&changed))
}

fn lie_in_names(lie: &ServerLie, body: &[u8]) -> Option<Vec<u8>> {
    let mut names = names(body);
    let listing = names.len() > 1 || names.first().is_some_and(|(name, _, _)| name == b".");
    let is_own = |name: &[u8]| listing && matches!(name, b"." | b"..");
    let mode = match lie.field {
        Field::MoreFile => Some(0o100_644),
        Field::MoreDirectory => Some(0o040_755),
        Field::MoreLink => Some(0o120_777),
        _ => None,
    };
    if let Some(mode) = mode {
        names.push((lie.bytes.clone(), Vec::new(), RawAttrs::of(mode)));
        return Some(with_names(id(body), &names));
    }
    let mut told = false;
    let mut length_at = None;
    let mut at = 9;
    for (name, shown, attrs) in names.iter_mut().filter(|(name, _, _)| !is_own(name)) {
        match lie.field {
            Field::Name => name.clone_from(&lie.bytes),
            Field::Shown => shown.clone_from(&lie.bytes),
            Field::NameLength => length_at = Some(name.clone()),
            _ if !attrs.lie(lie) => return None,
            _ => {}
        }
        told = true;
        // The same name for all of them would only be one name.
        if !lie.every || matches!(lie.field, Field::Name | Field::NameLength) {
            break;
        }
    }
    let mut changed = with_names(id(body), &names);
    if let Some(name) = length_at {
        let wanted = string(&name);
        at += changed[at..].windows(wanted.len()).position(|some| some == wanted)?;
        changed[at..at + 4].copy_from_slice(&(lie.number as u32).to_be_bytes());
    }
    told.then_some(changed)
}
