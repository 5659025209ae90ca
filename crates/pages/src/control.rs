//! The file `global/pg_control` of a PostgreSQL cluster.

use crate::bytes::crc32c;
use crate::pages::{MAX_PAGE, PageKind, Pages};

/// The fields of the control file about pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The cluster has data checksums.
    pub has_checksums: bool,
    /// The size of a block in bytes.
    block: usize,
    /// The blocks of each file of a relation, but for the last one.
    blocks_per_file: u32,
}

impl Control {
    /// How many bytes of the file are enough.
    pub const LEN: usize = 512;

    /// Reads the beginning of the file; `None` if it is none of PostgreSQL 9.5 or later, or damaged.
    ///
    /// The place of a field differs between versions. So the checksum is found by its value, and the block size behind
    /// the number that shows the format of floating point.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..bytes.len().min(Self::LEN))?;
        let float = 1_234_567.0_f64.to_le_bytes();
        let sizes = bytes.windows(float.len()).position(|window| window == float)? + float.len();
        let is_end = |end: &usize| le32(bytes, *end).is_some_and(|sum| sum == crc32c(&bytes[..*end]));
        let end = (sizes..bytes.len()).step_by(4).find(is_end)?;
        // Since version 10 a number that is not public is between the two.
        let nonce = if le32(bytes, 8)? >= 1000 { 32 } else { 0 };
        let version = le32(bytes, end.checked_sub(nonce + 4)?)?;
        let block = usize::try_from(le32(bytes, sizes)?).ok()?;
        let is_size = block.is_power_of_two() && (1024..=MAX_PAGE).contains(&block);
        let blocks_per_file = le32(bytes, sizes + 4)?;
        is_size.then_some(Self { has_checksums: version != 0, block, blocks_per_file })
    }

    /// A cluster with checksums, and with the sizes that almost all have.
    #[must_use]
    pub(crate) fn usual() -> Self {
        Self { has_checksums: true, block: 8192, blocks_per_file: 131_072 }
    }

    /// The pages of the file with this number in its relation.
    #[must_use]
    pub fn pages(&self, segment: u32) -> Pages {
        Pages { size: self.block, kind: PageKind::Postgres(segment.wrapping_mul(self.blocks_per_file)) }
    }
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|number| u32::from_le_bytes(*number))
}
