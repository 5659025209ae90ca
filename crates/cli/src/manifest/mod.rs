//! Manifests: lines as b3sum prints and checks them, `HEX  PATH`.
//!
//! A path with a backslash, a newline or a carriage return is escaped (`\\`, `\n`, `\r`) and its line begins with a
//! backslash. Other bytes stand as they are, also where they are no UTF-8; `b3sum --check` refuses those lines,
//! `haul verify --manifest` does not.

mod collect;
mod read;
mod sign;
mod temporary;
mod write;

pub(crate) use collect::{Manifest, ManifestNames, ManifestRequest, WrittenManifest};
pub(crate) use read::read_manifest;
pub(crate) use sign::verify_signature;
pub(crate) use write::write_line;
