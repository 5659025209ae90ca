//! Numbers of owners and groups by their names on this machine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_core::owner_map::OwnerName;

/// The number of an owner or a group; `None` if this machine has none of that name.
#[must_use]
pub fn id_of(name: &OwnerName) -> Option<u32> {
    let text = OsStr::from_bytes(&name.name);
    if name.is_user {
        uzers::get_user_by_name(text).map(|user| user.uid())
    } else {
        uzers::get_group_by_name(text).map(|group| group.gid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_this_machine() {
        let id = |is_user, name: &str| id_of(&OwnerName { is_user, name: name.as_bytes().to_vec() });
        assert_eq!((id(true, "root"), id(false, "root")), (Some(0), Some(0)));
        assert_eq!(id(true, "no-such-user"), None);
    }
}
