//! Reads and sets security descriptors.

use haul_core::entry::Xattr;
use haul_core::{Entry, RelPath, Result};
use serde_bytes::ByteBuf;
use smb2::types::status::NtStatus;

use super::descriptor::{DACL, OWNER_AND_GROUP, SACL, SecurityDescriptor};
use super::entries::SECURITY;
use super::login::ShareOptions;
use super::reply::{Fault, nonsense};
use super::state::SmbSink;
use super::step::{ChainStep, OpenedKind, READ_SECURITY, SACL_ACCESS, WRITE_DACL, WRITE_OWNER};
use super::tree::Tree;

impl ShareOptions {
    /// The parts of security descriptors that are read and set.
    fn parts(&self) -> u32 {
        OWNER_AND_GROUP | DACL | if self.sacls { SACL } else { 0 }
    }

    /// The access that they need, beside that for the others, to read or set the list of audited accesses.
    fn sacl_access(&self) -> u32 {
        if self.sacls { SACL_ACCESS } else { 0 }
    }
}

impl Tree {
    /// The security descriptor of an entry, as an attribute.
    pub(super) async fn security_attribute(&self, path: &RelPath) -> Result<Xattr, Fault> {
        let security = self.security(path).await?;
        Ok((ByteBuf::from(SECURITY), ByteBuf::from(security.encode(false))))
    }

    async fn security(&self, path: &RelPath) -> Result<SecurityDescriptor, Fault> {
        let options = &self.smb.server.login.options;
        let access = READ_SECURITY | options.sacl_access();
        let open = ChainStep::open(&self.remote(path)?, OpenedKind::Any, access);
        let replies = self.run(&[open, ChainStep::security(options.parts()), ChainStep::close()]).await?;
        replies.opened()?;
        let bytes = replies.info(1)?;
        SecurityDescriptor::parse(&bytes).ok_or_else(|| nonsense("it is no security descriptor").into())
    }
}

impl SmbSink {
    /// The security descriptor that an entry is to have, if the user asks for it and the source has one.
    fn wanted_security(&self, entry: &Entry) -> Option<SecurityDescriptor> {
        let (options, preserve) = (&self.tree.smb.server.login.options, &self.options.preserve);
        let kept = entry.xattrs.iter().find(|(name, _)| name[..] == *SECURITY);
        let (_, value) = kept.filter(|(name, _)| options.acls && preserve.has_xattr(name))?;
        let wanted = SecurityDescriptor::parse(value)?;
        Some(if options.sacls { wanted } else { wanted.without_sacl() })
    }

    /// Sets the security descriptor of an entry, if it is to have one. If the server refuses to set its owner, sets the
    /// rest. A refusal becomes a warning; returns whether it is set.
    pub(super) async fn set_security(&self, entry: &Entry) -> Result<bool, Fault> {
        let Some(wanted) = self.wanted_security(entry) else { return Ok(true) };
        let (remote, bytes) = (self.tree.remote(&entry.path)?, wanted.encode(true));
        let options = &self.tree.smb.server.login.options;
        let (all, owner_access) = (options.parts(), WRITE_OWNER | options.sacl_access());
        let mut refused = NtStatus::ACCESS_DENIED;
        for (parts, access) in [(all, WRITE_DACL | owner_access), (DACL, WRITE_DACL)] {
            let chain = [
                ChainStep::open(&remote, OpenedKind::Any, access),
                ChainStep::set_security(parts, bytes.clone()),
                ChainStep::close(),
            ];
            match self.tree.run(&chain).await?.all_ok() {
                Ok(()) if parts == DACL => {
                    let why = format!("the server says {refused}");
                    let what = match options.sacls {
                        false => "owners in security descriptors",
                        true => "owners and audited accesses in security descriptors",
                    };
                    self.notes.note(what, &why, &entry.path);
                    return Ok(true);
                }
                Ok(()) => return Ok(true),
                Err(Fault::Status(status)) if !Fault::Status(status).is_missing() => refused = status,
                Err(fault) => return Err(fault),
            }
        }
        self.notes.note("security descriptors", &format!("the server says {refused}"), &entry.path);
        Ok(false)
    }

    /// Whether the existing entry has another security descriptor than it is to have.
    pub(super) async fn differs_in_security(&self, entry: &Entry) -> Result<bool, Fault> {
        let Some(wanted) = self.wanted_security(entry) else { return Ok(false) };
        Ok(self.tree.security(&entry.path).await? != wanted)
    }
}
