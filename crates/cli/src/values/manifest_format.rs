//! The values of `--manifest-format`, and of `--format` of `haul hash`.

use clap::ValueEnum;
use haul_engine::Algorithm;

/// The digests of a manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManifestFormat {
    /// BLAKE3, as b3sum prints it
    #[default]
    Blake3,
    /// SHA-256, as sha256sum prints it
    Sha256,
}

impl From<ManifestFormat> for Algorithm {
    fn from(format: ManifestFormat) -> Self {
        match format {
            ManifestFormat::Blake3 => Self::Blake3,
            ManifestFormat::Sha256 => Self::Sha256,
        }
    }
}
