//! The lies of an SFTP server, each in a file.

use std::fmt;
use std::fs;
use std::path::Path;

/// A [`Field`], and the list of all, by which one is found by its name.
macro_rules! fields {
    ($($(#[$what:meta])* $field:ident,)*) => {
        /// The change of an answer. `number` and `bytes` are those of the [`ServerLie`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $($(#[$what])* $field,)*
        }

        const FIELDS: &[Field] = &[$(Field::$field),*];
    };
}

fields! {
    /// The length field of the packet is `number`.
    Length,
    /// The length field is larger by `number` than the length of the packet.
    LengthBeyond,
    /// The kind of the packet is `number`.
    Kind,
    /// The number of the request is larger by `number`.
    Id,
    /// The number of the request is that of the answer before.
    FormerId,
    /// There is no answer.
    Never,
    /// The answer comes twice.
    Twice,
    /// Only the first `number` bytes come, as a packet of that length.
    Cut,
    /// `number` bytes more come, in the same packet.
    Tail,
    /// The connection ends in the place of the answer.
    End,
    /// The answer is the status `number`, with `bytes` as its words.
    Status,
    /// The answer is a status whose words have the length `number`.
    WordsLength,
    /// The answer is an empty list of names, whatever was asked.
    NoNames,
    /// The answer is the handle `bytes`, whatever was asked.
    Handle,
    /// The answer is the handle before.
    FormerHandle,
    /// The handle, or the data, has the length `number` and the bytes that it had.
    StringLength,
    /// There are so many bytes more of data.
    MoreData,
    /// There are so many bytes fewer of data, and at least none.
    LessData,
    /// Every byte of the data is inverted.
    FlippedData,
    /// The number of names is `number`.
    Count,
    /// The first name is `bytes`.
    Name,
    /// The first name has the length `number`.
    NameLength,
    /// The line of `ls -l` for the first name is `bytes`.
    Shown,
    /// One more name, `bytes`, of a file of 5 bytes.
    MoreFile,
    /// One more name, `bytes`, of a directory.
    MoreDirectory,
    /// One more name, `bytes`, of a symbolic link.
    MoreLink,
    /// A listing does not end: its last part comes again and again.
    Again,
    /// A listing does not end: parts without names come.
    Nothing,
    /// A listing does not end before `number` parts of a hundred other names each have come.
    Others,
    /// A listing does not end before `number` parts of 250 KiB of short names have come.
    Stuffed,
    /// The flags of the metadata are `number`, and the fields that they announce are missing.
    Flags,
    /// The metadata tell nothing.
    Bare,
    /// The size is `number`.
    Size,
    /// User and group are `number`.
    Owner,
    /// Kind and permission bits are `number`.
    Mode,
    /// Both times are `number`.
    Times,
    /// There are `number` extended attributes, of which none comes.
    Extended,
    /// The version is `number`.
    Version,
    /// One more extension: the name `bytes`, without a version if `number` is 0.
    Extension,
    /// There are `number` more extensions.
    Extensions,
    /// All numbers of the answer are `number`.
    Numbers,
    /// The request is not carried out, and answered with the status `number`.
    Pretend,
}

/// One lie of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLie {
    /// The request that is answered so, as `readdir` or `fsync`.
    pub asked: String,
    /// Whether every such answer is a lie, or only the first one of all connections.
    pub every: bool,
    /// The change.
    pub field: Field,
    /// The number that [`Field`] speaks of.
    pub number: u64,
    /// The bytes that [`Field`] speaks of.
    pub bytes: Vec<u8>,
}

impl ServerLie {
    /// Writes it to the directory `dir`, which is made.
    ///
    /// # Panics
    /// If that fails.
    pub fn save(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("lie"), self.to_string()).unwrap();
    }

    /// Whether the server of this directory has told its lie.
    #[must_use]
    pub fn was_told(dir: &Path) -> bool {
        dir.join("told").exists()
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let asked = words.next()?.to_owned();
        let every = words.next()? == "every";
        let field = words.next()?;
        let field = FIELDS.iter().copied().find(|known| format!("{known:?}") == field)?;
        let number = words.next()?.parse().ok()?;
        let hex = words.next().unwrap_or_default();
        let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        let bytes = (0..hex.len()).step_by(2).map(byte).collect::<Option<_>>()?;
        Some(Self { asked, every, field, number, bytes })
    }
}

impl fmt::Display for ServerLie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let which = if self.every { "every" } else { "first" };
        write!(f, "{} {which} {:?} {} ", self.asked, self.field, self.number)?;
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lie_is_read_as_it_was_written() {
        for field in FIELDS {
            for bytes in [vec![], b"..\xff\0".to_vec()] {
                let lie = ServerLie {
                    asked: "open".to_owned(),
                    every: true,
                    field: *field,
                    number: u64::MAX,
                    bytes,
                };
                assert_eq!(ServerLie::parse(&lie.to_string()), Some(lie));
            }
        }
        assert_eq!(ServerLie::parse("open every Nonsense 1 "), None);
    }
}
