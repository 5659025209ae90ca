//! Reparse points: symbolic links, junctions and other entries that have a tag with data (MS-FSCC 2.1.2).

/// The most bytes of a reparse point.
pub(super) const MOST: usize = 16 * 1024;

const SYMLINK: u32 = 0xA000_000C;
const JUNCTION: u32 = 0xA000_0003;
const NFS: u32 = 0x8000_0014;
const AF_UNIX: u32 = 0x8000_0023;
const LX_FIFO: u32 = 0x8000_0024;
const LX_CHR: u32 = 0x8000_0025;
const LX_BLK: u32 = 0x8000_0026;
/// The names of tags after IO_REPARSE_TAG_.
const NAMES: [(u32, &str); 13] = [
    (SYMLINK, "SYMLINK"),
    (JUNCTION, "MOUNT_POINT"),
    (0xA000_001D, "LX_SYMLINK"),
    (NFS, "NFS"),
    (0x8000_0013, "DEDUP"),
    (0x8000_0017, "WOF"),
    (0x9000_001A, "CLOUD"),
    (0x8000_001E, "STORAGE_SYNC"),
    (0x8000_001B, "APPEXECLINK"),
    (AF_UNIX, "AF_UNIX"),
    (LX_FIFO, "LX_FIFO"),
    (LX_CHR, "LX_CHR"),
    (LX_BLK, "LX_BLK"),
];
/// The first data of those with the tag NFS: the type of a pipe, socket or link, and of a device.
const NFS_WHOLE: [&[u8; 8]; 3] = [b"FIFO\0\0\0\0", b"SOCK\0\0\0\0", b"LNK\x01\0\0\0\0"];
const NFS_DEVICES: [&[u8; 8]; 2] = [b"CHR\0\0\0\0\0", b"BLK\0\0\0\0\0"];
/// The bit of a tag that stands for another entry.
const SURROGATE: u32 = 0x2000_0000;
/// The bit of a tag that Microsoft has given. Other tags have a GUID after the head.
const MICROSOFT: u32 = 0x8000_0000;
/// The bytes before the data: tag, length and two bytes without meaning.
const HEAD: usize = 8;
const GUID: usize = 16;
/// The bytes before the names of a link and of a junction.
const LINK_HEAD: usize = 20;
const JUNCTION_HEAD: usize = 16;
/// The flag of a target that is relative to the directory of the link.
const RELATIVE: u32 = 1;

/// A reparse point as the server has it: the tag, the length of the data, and the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReparsePoint(Vec<u8>);

impl ReparsePoint {
    /// Takes the bytes, which may come from anywhere; `None` if they are no reparse point.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (tag, len) = (u32_at(bytes, 0)?, usize::from(u16_at(bytes, 4)?));
        let guid = if tag & MICROSOFT == 0 { GUID } else { 0 };
        if bytes.len() > MOST || bytes.len() != HEAD + guid + len {
            return None;
        }
        let mut bytes = bytes.to_vec();
        bytes[6..HEAD].fill(0);
        Some(Self(bytes))
    }

    /// A symbolic link to a target that is relative to its directory, with `\` between the names. `None` if the target is
    /// too long.
    pub(super) fn link_to(target: &str) -> Option<Self> {
        let name: Vec<u8> = target.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let len = LINK_HEAD + 2 * name.len();
        if len > MOST {
            return None;
        }
        let mut bytes = SYMLINK.to_le_bytes().to_vec();
        // The name that counts, and then the same one to be shown. All lengths have 16 bits.
        for field in [len - HEAD, 0, 0, name.len(), name.len(), name.len()] {
            bytes.extend((field as u16).to_le_bytes());
        }
        bytes.extend(RELATIVE.to_le_bytes());
        bytes.extend(&name);
        bytes.extend(&name);
        Some(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn tag(&self) -> u32 {
        u32_at(&self.0, 0).unwrap_or_default()
    }

    pub(super) fn is_link(&self) -> bool {
        self.tag() == SYMLINK
    }

    /// Whether haul may keep it: its data are all that it means, and it is no device. Those of others name content that
    /// the server keeps elsewhere.
    pub(super) fn is_whole(&self) -> bool {
        match self.tag() {
            NFS => self.has_nfs_type(&NFS_WHOLE),
            AF_UNIX | LX_FIFO => true,
            tag => tag & SURROGATE != 0,
        }
    }

    /// Whether it is a character or block device.
    pub(super) fn is_device(&self) -> bool {
        matches!(self.tag(), LX_CHR | LX_BLK) || self.tag() == NFS && self.has_nfs_type(&NFS_DEVICES)
    }

    fn has_nfs_type(&self, types: &[&[u8; 8]]) -> bool {
        let data = self.0.get(HEAD..).and_then(<[u8]>::first_chunk);
        data.is_some_and(|data| types.contains(&data))
    }

    /// The target of a symbolic link, relative to its directory and with `\` between the names. `None` for any other
    /// reparse point.
    pub(super) fn relative_target(&self) -> Option<String> {
        if !self.is_link() || u32_at(&self.0, JUNCTION_HEAD)? & RELATIVE == 0 {
            return None;
        }
        // One that begins with `\` is from the root of a volume of the server. Windows finds no name with `/`, and other
        // systems would take it for a separator, or for their own root.
        self.name().filter(|target| !target.starts_with('\\') && !target.contains('/'))
    }

    /// A target that stands for a reparse point without a relative one. It is absolute on every system.
    pub(super) fn absolute_target(&self) -> String {
        let name = self.name().unwrap_or_else(|| self.describe()).replace('\\', "/");
        if name.starts_with('/') { name } else { format!("/{name}") }
    }

    /// The name that a link or junction leads to, as the server has it.
    pub(super) fn name(&self) -> Option<String> {
        let head = match self.tag() {
            SYMLINK => LINK_HEAD,
            JUNCTION => JUNCTION_HEAD,
            _ => return None,
        };
        let (at, len) = (usize::from(u16_at(&self.0, 8)?), usize::from(u16_at(&self.0, 10)?));
        let name = self.0.get(head..)?.get(at..at + len)?;
        if name.is_empty() || !name.len().is_multiple_of(2) {
            return None;
        }
        let units: Vec<u16> =
            name.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        String::from_utf16(&units).ok().filter(|name| !name.contains('\0'))
    }

    /// The words for it in messages.
    pub(super) fn describe(&self) -> String {
        match self.tag() {
            SYMLINK if self.name().is_none() => "it is a symbolic link whose target is no text".to_owned(),
            SYMLINK if self.relative_target().is_some() => "it is a symbolic link".to_owned(),
            SYMLINK if self.name().is_some_and(|name| name.contains('/')) => {
                "it is a symbolic link whose target has the character /".to_owned()
            }
            SYMLINK => "it is a symbolic link to an absolute path of Windows".to_owned(),
            JUNCTION => "it is a junction".to_owned(),
            tag => match NAMES.iter().find(|(known, _)| *known == tag) {
                Some((_, name)) => format!("it is a reparse point with the tag IO_REPARSE_TAG_{name}"),
                None => format!("it is a reparse point with the tag {tag:#010x}"),
            },
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reparse point with this tag and data.
    fn point(tag: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = tag.to_le_bytes().to_vec();
        bytes.extend((data.len() as u16).to_le_bytes());
        bytes.extend([0xee; 2]);
        bytes.extend(data);
        bytes
    }

    /// The data of a link as Windows writes them: the name to be shown comes first.
    fn link(target: &str, flags: Option<u32>) -> Vec<u8> {
        let name: Vec<u8> = target.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let len = name.len() as u16;
        let mut data: Vec<u8> = [len, len, 0, len].into_iter().flat_map(u16::to_le_bytes).collect();
        data.extend(flags.iter().flat_map(|flags| flags.to_le_bytes()));
        data.extend([&name[..], &name[..]].concat());
        data
    }

    #[test]
    fn a_link_is_read_as_it_is_written() {
        for target in ["a", "..\\b c\\\u{e9}", &"x".repeat(4000)] {
            let made = ReparsePoint::link_to(target).unwrap();
            assert_eq!(made.relative_target().as_deref(), Some(target));
            assert_eq!(ReparsePoint::parse(made.bytes()), Some(made.clone()));
            let other = ReparsePoint::parse(&point(SYMLINK, &link(target, Some(RELATIVE)))).unwrap();
            assert_eq!(other.relative_target(), made.relative_target());
            assert!(made.is_link() && made.is_whole());
            assert_eq!(made.describe(), "it is a symbolic link");
        }
        assert_eq!(ReparsePoint::link_to(&"x".repeat(4091)).map(|made| made.bytes().len()), Some(MOST));
        assert_eq!(ReparsePoint::link_to(&"x".repeat(4092)), None);
    }

    #[test]
    fn only_a_relative_target_leads_somewhere() {
        for (bytes, said) in [
            (point(SYMLINK, &link("\\??\\C:\\x", Some(0))), "to an absolute path of Windows"),
            (point(SYMLINK, &link("\\x", Some(RELATIVE))), "to an absolute path of Windows"),
            (point(SYMLINK, &link("C:\\x", Some(0))), "to an absolute path of Windows"),
            (point(SYMLINK, &link("/etc/passwd", Some(RELATIVE))), "has the character /"),
            (point(SYMLINK, &link("..\\a/b", Some(RELATIVE))), "has the character /"),
            (point(SYMLINK, &link("", Some(RELATIVE))), "no text"),
            (point(SYMLINK, &link("a\0b", Some(RELATIVE))), "no text"),
            (point(JUNCTION, &link("\\??\\C:\\x", None)), "a junction"),
            (point(0x8000_0013, b"chunks"), "IO_REPARSE_TAG_DEDUP"),
            (point(0x8000_9999, b""), "the tag 0x80009999"),
        ] {
            let read = ReparsePoint::parse(&bytes).unwrap();
            assert_eq!(read.relative_target(), None, "{said}");
            assert!(read.describe().contains(said), "{}", read.describe());
            assert!(read.absolute_target().starts_with('/'), "{}", read.absolute_target());
        }
    }

    #[test]
    fn those_whose_content_is_elsewhere_are_not_whole() {
        let of = |tag: u32| ReparsePoint::parse(&point(tag, b"data")).unwrap().is_whole();
        assert!(of(SYMLINK) && of(JUNCTION) && of(0xA000_001D) && of(AF_UNIX) && of(LX_FIFO));
        assert!(!of(0x8000_0013) && !of(0x9000_001A));
    }

    #[test]
    fn devices_are_not_whole() {
        let of = |tag: u32, data: &[u8]| {
            let read = ReparsePoint::parse(&point(tag, data)).unwrap();
            (read.is_whole(), read.is_device())
        };
        // The types as MS-FSCC 2.1.2.6 has them, and the numbers of a device.
        let nfs = |kind: u64| of(NFS, &[&kind.to_le_bytes()[..], &[1, 0, 0, 0, 3, 0, 0, 0]].concat());
        for whole in [0x014B_4E4C, 0x4F46_4946, 0x4B43_4F53] {
            assert_eq!(nfs(whole), (true, false), "{whole:#x}");
        }
        for device in [0x0052_4843, 0x004B_4C42] {
            assert_eq!(nfs(device), (false, true), "{device:#x}");
        }
        assert_eq!((nfs(7), of(NFS, b"FIFO")), ((false, false), (false, false)));
        assert_eq!((of(LX_CHR, b""), of(LX_BLK, b"")), ((false, true), (false, true)));
    }

    #[test]
    fn bytes_that_are_no_reparse_point_are_refused() {
        let good = point(SYMLINK, &link("target", Some(RELATIVE)));
        for end in 0..good.len() {
            assert_eq!(ReparsePoint::parse(&good[..end]), None, "cut at {end}");
        }
        assert_eq!(ReparsePoint::parse(&[&good[..], b"x"].concat()), None);
        assert_eq!(ReparsePoint::parse(&point(NFS, &vec![0; MOST - HEAD + 1])), None);
        assert!(ReparsePoint::parse(&point(NFS, &vec![0; MOST - HEAD])).is_some());
        // A tag of another maker has a GUID, which its length leaves out.
        let other = [&point(7, b"")[..], &[9; GUID]].concat();
        assert!(ReparsePoint::parse(&other).is_some() && ReparsePoint::parse(&other[..HEAD]).is_none());
    }

    #[test]
    fn names_outside_of_the_data_are_none() {
        let mut data = link("ab", Some(RELATIVE));
        for at in 0..12 {
            for value in [1, 3, 0x7f, 0xff] {
                let before = std::mem::replace(&mut data[at], value);
                let read = ReparsePoint::parse(&point(SYMLINK, &data)).unwrap();
                let _no_panic = (read.relative_target(), read.describe());
                data[at] = before;
            }
        }
        for len in 0..data.len() {
            let read = ReparsePoint::parse(&point(SYMLINK, &data[..len])).unwrap();
            let _no_panic = (read.relative_target(), read.describe());
        }
    }
}
