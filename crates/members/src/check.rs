//! Checks that the members of an index can be unpacked beside each other.

use std::collections::HashMap;

use haul_core::path::printable;
use haul_core::staging::has_staging_name;
use haul_core::{EntryKind, RelPath};

use crate::index::{IndexFault, Member, MemberIndex, StreamFormat};

/// Keeps the last member of each path in tar, as tar does. In xbstream, a path may come once.
///
/// # Errors
/// Why the members cannot be unpacked.
pub(crate) fn check(mut index: MemberIndex) -> Result<MemberIndex, IndexFault> {
    let mut last: HashMap<RelPath, usize> = HashMap::with_capacity(index.members.len());
    for (at, member) in index.members.iter().enumerate() {
        let path = &member.head.path;
        if has_staging_name(path) {
            return Err(damaged(path, "its name is one of those under which haul stages files"));
        }
        if last.insert(path.clone(), at).is_some() && index.format == StreamFormat::Xbstream {
            return Err(damaged(path, "two files have this name"));
        }
    }
    let members = std::mem::take(&mut index.members);
    let kept = members.into_iter().enumerate().filter(|(at, member)| last.get(&member.head.path) == Some(at));
    index.members = kept.map(|(_, member)| member).collect();
    let places: HashMap<&RelPath, &Member> =
        index.members.iter().map(|member| (&member.head.path, member)).collect();
    for Member { head, .. } in &index.members {
        let mut above = head.path.parent();
        while let Some(dir) = above.filter(|dir| !dir.is_root()) {
            if let Some(found) = places.get(&dir) {
                if found.head.kind != EntryKind::Dir || found.head.link.is_some() {
                    let why = format!("it is below {}, which is not a directory", printable(dir.as_bytes()));
                    return Err(damaged(&head.path, &why));
                }
                // That directory was or will be checked itself.
                break;
            }
            above = dir.parent();
        }
        if let Some(to) = &head.link {
            let found = places.get(to).map(|found| &found.head);
            if found.is_none_or(|found| found.kind != EntryKind::File || found.link.is_some()) {
                let why =
                    format!("it is a hard link to {}, which is no file there", printable(to.as_bytes()));
                return Err(damaged(&head.path, &why));
            }
        }
    }
    Ok(index)
}

fn damaged(path: &RelPath, why: &str) -> IndexFault {
    IndexFault::Damaged(0, format!("{}: {why}", printable(path.as_bytes())))
}
