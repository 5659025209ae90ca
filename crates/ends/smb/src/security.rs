//! Security descriptors: the owner, the group and the list of permissions (DACL) of an entry, in the format of MS-DTYP
//! 2.4.6.

use std::collections::HashSet;

use haul_core::entry::Xattr;
use haul_core::policy::Verdict;
use haul_core::{Entry, ErrorKind, RelPath, Result};
use haul_ends::offers::PendingOffer;
use serde_bytes::ByteBuf;
use smb2::types::status::NtStatus;

use super::attrs::Attrs;
use super::entries::SECURITY;
use super::reply::{Fault, nonsense};
use super::state::SmbSink;
use super::step::{ChainStep, OpenedKind, READ_SECURITY, WRITE_DACL, WRITE_OWNER};
use super::tree::Tree;

/// The parts of a security descriptor, as requests name them.
pub(super) const OWNER_AND_GROUP: u32 = 1 | 2;
pub(super) const DACL: u32 = 4;

const REVISION: u8 = 1;
const HEADER_LEN: usize = 20;
const DACL_PRESENT: u16 = 0x4;
/// Asks the server to keep [`AUTO_INHERITED`].
const AUTO_INHERIT_REQ: u16 = 0x100;
const AUTO_INHERITED: u16 = 0x400;
const DACL_PROTECTED: u16 = 0x1000;
const SELF_RELATIVE: u16 = 0x8000;
const ACL_HEADER_LEN: usize = 8;

/// A security descriptor. Two are equal if they give the same rights, whatever their layout.
#[derive(Clone, Debug)]
pub(super) struct SecurityDescriptor {
    control: u16,
    owner: Vec<u8>,
    group: Vec<u8>,
    /// `None` denies nobody anything.
    dacl: Option<Vec<u8>>,
}

impl PartialEq for SecurityDescriptor {
    fn eq(&self, other: &Self) -> bool {
        let protected = |one: &Self| one.control & DACL_PROTECTED;
        protected(self) == protected(other)
            && (&self.owner, &self.group, &self.dacl) == (&other.owner, &other.group, &other.dacl)
    }
}

impl SecurityDescriptor {
    /// Reads one; `None` if the bytes are none. They may come from anywhere.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let control = u16_at(bytes, 2)?;
        let place = |at: usize| u32_at(bytes, at).map(|place| place as usize);
        let (owner, group) = (sid_at(bytes, place(4)?)?, sid_at(bytes, place(8)?)?);
        let dacl = match place(16)? {
            0 => None,
            at if control & DACL_PRESENT != 0 => Some(acl_at(bytes, at)?),
            _ => None,
        };
        let is_one = bytes.first() == Some(&REVISION) && control & SELF_RELATIVE != 0;
        let control = control & (DACL_PROTECTED | AUTO_INHERITED);
        is_one.then_some(Self { control, owner, group, dacl })
    }

    /// Its bytes, always in the same order. With `is_request`, those that set it.
    pub(super) fn encode(&self, is_request: bool) -> Vec<u8> {
        let mut control = self.control | SELF_RELATIVE | DACL_PRESENT;
        if is_request && control & AUTO_INHERITED != 0 {
            control |= AUTO_INHERIT_REQ;
        }
        let mut bytes = vec![REVISION, 0];
        bytes.extend(control.to_le_bytes());
        bytes.resize(HEADER_LEN, 0);
        let parts = [(4, &self.owner), (8, &self.group), (16, self.dacl.as_ref().unwrap_or(&Vec::new()))]
            .map(|(at, part)| (at, part.clone()));
        for (at, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            // A descriptor that was read from 64 KiB at most.
            let place = (bytes.len() as u32).to_le_bytes();
            bytes[at..at + 4].copy_from_slice(&place);
            bytes.extend(part);
        }
        bytes
    }

    /// The one that an entry is to have, as an attribute.
    fn attribute(&self) -> Xattr {
        (ByteBuf::from(SECURITY), ByteBuf::from(self.encode(false)))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The identifier at `at`; empty if there is none.
fn sid_at(bytes: &[u8], at: usize) -> Option<Vec<u8>> {
    if at == 0 {
        return Some(Vec::new());
    }
    let rest = bytes.get(at..)?;
    let len = 8 + 4 * usize::from(*rest.get(1)?);
    Some(rest.get(..len)?.to_vec())
}

/// The list of permissions at `at`, without the space behind its entries.
fn acl_at(bytes: &[u8], at: usize) -> Option<Vec<u8>> {
    let all = bytes.get(at..)?;
    let all = all.get(..usize::from(u16_at(all, 2)?))?;
    let mut end = ACL_HEADER_LEN;
    for _ in 0..u16_at(all, 4)? {
        let len = usize::from(u16_at(all, end + 2)?);
        if len < 4 {
            return None;
        }
        end += len;
    }
    let mut acl = all.get(..end)?.to_vec();
    // It is no longer than before.
    acl[2..4].copy_from_slice(&(end as u16).to_le_bytes());
    Some(acl)
}

impl Tree {
    async fn security(&self, path: &RelPath) -> Result<SecurityDescriptor, Fault> {
        let open = ChainStep::open(&self.remote(path)?, OpenedKind::Any, READ_SECURITY);
        let replies =
            self.run(&[open, ChainStep::security(OWNER_AND_GROUP | DACL), ChainStep::close()]).await?;
        replies.opened()?;
        let bytes = replies.info(1)?;
        SecurityDescriptor::parse(&bytes).ok_or_else(|| nonsense("it is no security descriptor").into())
    }

    /// Adds the security descriptors of entries to their attributes, if the user asks for them.
    ///
    /// # Errors
    /// If the server cannot be reached any more.
    pub(super) fn with_security(&self, mut entries: Vec<Entry>) -> Result<Vec<(RelPath, Result<Entry>)>> {
        let mut all = Vec::with_capacity(entries.len());
        if self.smb.server.login.acls {
            let read = self.smb.all(&entries, |entry: &Entry| self.security(&entry.path))?;
            for (mut entry, read) in entries.drain(..).zip(read) {
                let path = entry.path.clone();
                let read = match read {
                    Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unreachable => return Err(error),
                    Err(fault) => Err(self.error("read the security descriptor of", &path, fault)),
                    Ok(security) => {
                        entry.xattrs.push(security.attribute());
                        Ok(entry)
                    }
                };
                all.push((path, read));
            }
        }
        all.extend(entries.into_iter().map(|entry| (entry.path.clone(), Ok(entry))));
        Ok(all)
    }
}

impl SmbSink {
    /// The security descriptor that an entry is to have, if the user asks for it and the source has one.
    fn wanted_security(&self, entry: &Entry) -> Option<SecurityDescriptor> {
        let (login, preserve) = (&self.tree.smb.server.login, &self.options.preserve);
        let kept = entry.xattrs.iter().find(|(name, _)| name[..] == *SECURITY);
        let (name, value) = kept.filter(|(name, _)| login.acls && preserve.has_xattr(name))?;
        let wanted = SecurityDescriptor::parse(value);
        if wanted.is_none() {
            let name = String::from_utf8_lossy(name);
            self.notes.note("security descriptors", &format!("the value of {name} is none"), &entry.path);
        }
        wanted
    }

    /// Sets the security descriptor of an entry, if it is to have one. If the server refuses to set its owner, sets the
    /// rest. A refusal becomes a warning; returns whether it is set.
    pub(super) async fn set_security(&self, entry: &Entry) -> Result<bool, Fault> {
        let Some(wanted) = self.wanted_security(entry) else { return Ok(true) };
        let (remote, bytes) = (self.tree.remote(&entry.path)?, wanted.encode(true));
        let mut refused = NtStatus::ACCESS_DENIED;
        for (parts, access) in [(OWNER_AND_GROUP | DACL, WRITE_DACL | WRITE_OWNER), (DACL, WRITE_DACL)] {
            let chain = [
                ChainStep::open(&remote, OpenedKind::Any, access),
                ChainStep::set_security(parts, bytes.clone()),
                ChainStep::close(),
            ];
            match self.tree.run(&chain).await?.all_ok() {
                Ok(()) if parts == DACL => {
                    let why = format!("the server says {refused}");
                    self.notes.note("owners in security descriptors", &why, &entry.path);
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

    /// Whether each of these existing entries has another security descriptor than it is to have.
    pub(super) fn differ_in_security<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Result<Vec<bool>> {
        let entries: Vec<&Entry> = entries.into_iter().collect();
        let differs = self.tree.smb.all(&entries, async |entry: &&Entry| {
            let Some(wanted) = self.wanted_security(entry) else { return Ok(false) };
            match self.tree.security(&entry.path).await {
                Ok(now) => Ok(now != wanted),
                Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unreachable => Err(error),
                // Setting it meets the same refusal.
                Err(_) => Ok(true),
            }
        })?;
        differs.into_iter().collect()
    }

    /// The positions of the unchanged entries whose security descriptors differ.
    pub(super) fn differing_security(&self, cases: &[PendingOffer<'_, Attrs>]) -> Result<HashSet<usize>> {
        if !self.tree.smb.server.login.acls {
            return Ok(HashSet::new());
        }
        let is_same = |case: &PendingOffer<'_, Attrs>| {
            case.now.is_some() && case.verdict == Verdict::Same && case.answer.is_none()
        };
        let same: Vec<usize> = (0..cases.len()).filter(|at| is_same(&cases[*at])).collect();
        let differ = self.differ_in_security(same.iter().map(|at| cases[*at].entry()))?;
        Ok(same.into_iter().zip(differ).filter(|(_, differs)| *differs).map(|(at, _)| at).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `O:BAG:SYD:PAI(A;;FA;;;BA)`, with the parts in another order and space behind the list.
    fn bytes(spare: u8) -> Vec<u8> {
        let administrators = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0];
        let system = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
        let ace: Vec<u8> = [0, 0, 24, 0, 0xff, 1, 31, 0].into_iter().chain(administrators).collect();
        let mut acl = vec![2, 0, 32 + spare, 0, 1, 0, 0, 0];
        acl.extend(&ace);
        acl.resize(32 + usize::from(spare), 0xee);
        let (acl_at, group_at) = (20_u32, 52 + u32::from(spare));
        let mut all = vec![1, 0, 0x04, 0x94];
        for place in [group_at + 12, group_at, 0, acl_at] {
            all.extend(place.to_le_bytes());
        }
        all.extend(acl);
        all.extend(system);
        all.extend(administrators);
        all
    }

    #[test]
    fn the_layout_does_not_matter() {
        let one = SecurityDescriptor::parse(&bytes(0)).unwrap();
        let other = SecurityDescriptor::parse(&bytes(12)).unwrap();
        assert_eq!(one, other);
        assert_eq!(one.encode(false), other.encode(false));
        assert_eq!(SecurityDescriptor::parse(&one.encode(false)).unwrap(), one);
        assert_eq!((one.owner.len(), one.group.len(), one.dacl.as_ref().unwrap().len()), (16, 12, 32));
        assert_eq!(u16_at(&one.encode(true), 2).unwrap() & AUTO_INHERIT_REQ, AUTO_INHERIT_REQ);
    }

    #[test]
    fn each_part_counts() {
        let one = SecurityDescriptor::parse(&bytes(0)).unwrap();
        assert_ne!(one, SecurityDescriptor { owner: one.group.clone(), ..one.clone() });
        assert_ne!(one, SecurityDescriptor { dacl: None, ..one.clone() });
        assert_ne!(one, SecurityDescriptor { control: 0, ..one.clone() }, "the list is protected");
        assert_eq!(one, SecurityDescriptor { control: DACL_PROTECTED, ..one.clone() });
    }

    #[test]
    fn bytes_that_are_none_are_refused() {
        let good = bytes(0);
        for len in 0..good.len() {
            assert!(SecurityDescriptor::parse(&good[..len]).is_none(), "{len}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] = 0xff;
            if let Some(read) = SecurityDescriptor::parse(&bad) {
                assert!(read.encode(true).len() <= 64 * 1024);
            }
        }
    }
}
