//! Changes modes, owners and groups on the way from the source to the destination (`--chmod`, `--chown`, `--usermap`,
//! `--groupmap`).

use haul_core::chmod::change_mode;
use haul_core::sync::Mutex;
use haul_core::{Entry, Error, ErrorKind, ModeChange, OwnerMap, OwnerNames, Result, Side};
use std::collections::HashMap;

/// The most owners and groups whose names are remembered: a source may report any number.
const KNOWN: usize = 64 * 1024;

/// Changes of modes, owners and groups. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataChanges {
    /// Changes of modes, in their order.
    pub modes: Vec<ModeChange>,
    /// Owners and groups, with the numbers that they have at the destination.
    pub owners: OwnerMap,
}

/// Changes the entries of one source.
#[derive(Default)]
pub(crate) struct Changer {
    changes: MetadataChanges,
    needs_names: bool,
    /// The names of owners (`true`) and groups. An entry that is looked up again has no names.
    names: Mutex<HashMap<(bool, u32), Vec<u8>>>,
}

impl Changer {
    pub(crate) fn new(changes: &MetadataChanges) -> Self {
        let needs_names = changes.owners.needs_names();
        Self { changes: changes.clone(), needs_names, names: Mutex::default() }
    }

    /// The entry with its changes. Each entry of a source is changed once.
    ///
    /// # Errors
    /// `Unsupported` if a rule needs a name that the source did not report.
    pub(crate) fn change(&self, mut entry: Entry) -> Result<Entry> {
        if self.changes == MetadataChanges::default() {
            return Ok(entry);
        }
        change_mode(&self.changes.modes, &mut entry);
        let names = if self.needs_names { self.names_of(&entry)? } else { OwnerNames::default() };
        self.changes.owners.apply(&mut entry, &names);
        Ok(entry)
    }

    /// The names of the owner and group that the entry has at the source. Those of an entry that was changed before
    /// no longer belong to its numbers, so the names that the scan reported count.
    fn names_of(&self, entry: &Entry) -> Result<OwnerNames> {
        let mut known = self.names.lock();
        let keys = [(true, entry.uid), (false, entry.gid)];
        if let [Some(user), Some(group)] = keys.map(|key| known.get(&key)) {
            return Ok(OwnerNames { user: user.clone(), group: group.clone() });
        }
        let Some(names) = &entry.names else {
            let cause = "its owner changed while it was read, and a rule needs the name of the owner";
            let error = Error::new(ErrorKind::Unsupported, Side::Source, "map the owner of", cause);
            return Err(error.on(entry.path.as_bytes()).with_hint("run the same command again"));
        };
        if known.len() < KNOWN {
            known.entry(keys[0]).or_insert_with(|| names.user.clone());
            known.entry(keys[1]).or_insert_with(|| names.group.clone());
        }
        Ok((**names).clone())
    }
}

#[cfg(test)]
mod tests {
    use haul_core::{EntryKind, IdRule, RelPath};

    use super::*;

    fn entry(uid: u32, user: Option<&str>) -> Entry {
        let names =
            user.map(|user| Box::new(OwnerNames { user: user.as_bytes().to_vec(), group: b"g".to_vec() }));
        Entry { uid, gid: 9, mode: 0o600, names, ..Entry::new(RelPath::root(), EntryKind::File, 0) }
    }

    #[test]
    fn names_are_known_again_when_an_entry_is_looked_up() {
        let owners = OwnerMap { users: IdRule::parse("bob:7,*:8").unwrap(), groups: Vec::new() };
        let modes = ModeChange::parse("u+x", 0).unwrap();
        let changer = Changer::new(&MetadataChanges { modes, owners });
        let changed = changer.change(entry(5, Some("bob"))).unwrap();
        assert_eq!((changed.uid, changed.gid, changed.mode), (7, 9, 0o700));
        assert_eq!(changer.change(entry(5, None)).unwrap().uid, 7);
        assert_eq!(changer.change(entry(5, Some(""))).unwrap().uid, 7, "its name was dropped by a change");
        assert_eq!(changer.change(entry(6, Some("eve"))).unwrap().uid, 8);
        assert_eq!(changer.change(entry(4, None)).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn rules_of_numbers_need_no_names() {
        let owners = OwnerMap { users: IdRule::parse("5:7").unwrap(), groups: Vec::new() };
        let changer = Changer::new(&MetadataChanges { modes: Vec::new(), owners });
        assert_eq!(changer.change(entry(5, None)).unwrap().uid, 7);
    }
}
