//! Settings for SMB shares.

use std::path::PathBuf;

/// Settings for SMB shares.
#[derive(Clone, Debug, Default)]
pub struct ShareSettings {
    /// The file with user, password and domain, as mount.cifs(8) has it.
    pub credentials: Option<PathBuf>,
    /// Whether everything has to be encrypted.
    pub encrypt: bool,
    /// Whether characters that SMB has no place for in names are replaced as mount.cifs(8) replaces them.
    pub map_names: bool,
    /// Whether security descriptors are read and set.
    pub acls: bool,
}
