//! A security descriptor: the owner, the group, the list of permissions (DACL) and the list of audited accesses (SACL) of
//! an entry, in the format of MS-DTYP 2.4.6.

/// The parts of a security descriptor, as requests name them.
pub(super) const OWNER_AND_GROUP: u32 = 1 | 2;
pub(super) const DACL: u32 = 4;
pub(super) const SACL: u32 = 8;

const REVISION: u8 = 1;
const HEADER_LEN: usize = 20;
const DACL_PRESENT: u16 = 0x4;
/// Asks the server to keep [`AUTO_INHERITED`].
const AUTO_INHERIT_REQ: u16 = 0x100;
const AUTO_INHERITED: u16 = 0x400;
const DACL_PROTECTED: u16 = 0x1000;
const SACL_PRESENT: u16 = 0x10;
const SACL_AUTO_INHERIT_REQ: u16 = 0x200;
const SACL_AUTO_INHERITED: u16 = 0x800;
const SACL_PROTECTED: u16 = 0x2000;
const SACL_CONTROL: u16 = SACL_PROTECTED | SACL_AUTO_INHERITED;
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
    /// `None` audits nothing.
    sacl: Option<Vec<u8>>,
}

impl PartialEq for SecurityDescriptor {
    fn eq(&self, other: &Self) -> bool {
        let protected = |one: &Self| one.control & (DACL_PROTECTED | SACL_PROTECTED);
        protected(self) == protected(other)
            && (&self.owner, &self.group) == (&other.owner, &other.group)
            && (&self.dacl, &self.sacl) == (&other.dacl, &other.sacl)
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
        let sacl = match place(12)? {
            at if at != 0 && control & SACL_PRESENT != 0 => Some(acl_at(bytes, at)?),
            _ => None,
        };
        // A list without entries audits nothing.
        let sacl = sacl.filter(|sacl| sacl.len() > ACL_HEADER_LEN);
        let is_one = bytes.first() == Some(&REVISION) && control & SELF_RELATIVE != 0;
        let control = control & (DACL_PROTECTED | AUTO_INHERITED | SACL_CONTROL);
        is_one.then_some(Self { control, owner, group, dacl, sacl })
    }

    pub(super) fn without_sacl(self) -> Self {
        Self { control: self.control & !SACL_CONTROL, sacl: None, ..self }
    }

    /// Its bytes, always in the same order. With `is_request`, those that set it.
    pub(super) fn encode(&self, is_request: bool) -> Vec<u8> {
        let mut control = self.control | SELF_RELATIVE | DACL_PRESENT;
        if is_request && control & AUTO_INHERITED != 0 {
            control |= AUTO_INHERIT_REQ;
        }
        if is_request && control & SACL_AUTO_INHERITED != 0 {
            control |= SACL_AUTO_INHERIT_REQ;
        }
        // Without a list it clears that of the entry, if the list is among the parts of the request.
        if is_request || self.sacl.is_some() {
            control |= SACL_PRESENT;
        }
        let mut bytes = vec![REVISION, 0];
        bytes.extend(control.to_le_bytes());
        bytes.resize(HEADER_LEN, 0);
        let list = |list: &Option<Vec<u8>>| list.clone().unwrap_or_default();
        let parts = [
            (4, self.owner.clone()),
            (8, self.group.clone()),
            (12, list(&self.sacl)),
            (16, list(&self.dacl)),
        ];
        for (at, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            // A descriptor that was read from 64 KiB at most.
            let place = (bytes.len() as u32).to_le_bytes();
            bytes[at..at + 4].copy_from_slice(&place);
            bytes.extend(part);
        }
        bytes
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
    fn the_list_of_audited_accesses_is_kept_and_left_out() {
        let plain = SecurityDescriptor::parse(&bytes(0)).unwrap();
        let audits = plain.dacl.clone();
        let one = SecurityDescriptor { sacl: audits, control: SACL_PROTECTED, ..plain.clone() };
        assert_ne!(one, plain);
        for is_request in [false, true] {
            let encoded = one.encode(is_request);
            assert_eq!(SecurityDescriptor::parse(&encoded).unwrap(), one);
            assert_eq!(u16_at(&encoded, 2).unwrap() & SACL_PRESENT, SACL_PRESENT);
        }
        assert_eq!(one.clone().without_sacl(), SecurityDescriptor { control: 0, sacl: None, ..one });
        let emptied = SecurityDescriptor { sacl: Some(vec![2, 0, 8, 0, 0, 0, 0, 0]), ..plain.clone() };
        assert_eq!(SecurityDescriptor::parse(&emptied.encode(false)).unwrap(), plain);
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
