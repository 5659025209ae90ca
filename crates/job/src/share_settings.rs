//! Settings for SMB shares.

use std::path::PathBuf;

use haul_smb::ShareOptions;

/// Settings for SMB shares.
#[derive(Clone, Debug, Default)]
pub struct ShareSettings {
    /// The file with user, password and domain, as mount.cifs(8) has it.
    pub credentials: Option<PathBuf>,
    /// The options of shares.
    pub options: ShareOptions,
}
