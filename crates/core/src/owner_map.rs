//! Other owners and groups in place of those of the source, as in rsync's `--usermap`, `--groupmap` and `--chown`.

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, OwnerNames};
use crate::filter::matches_name;

/// The owners or groups that a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerFrom {
    /// All of them.
    Any,
    /// Those with a number in this range.
    Ids(u32, u32),
    /// Those with this name; an empty one stands for numbers without a name.
    Name(Vec<u8>),
    /// Those with a name that matches the pattern.
    Pattern(Vec<u8>),
}

/// The owner or group that replaces them: a number, or a name at the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerTo {
    /// A number.
    Id(u32),
    /// A name.
    Name(Vec<u8>),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdRule {
    /// The owners or groups that it replaces.
    pub from: OwnerFrom,
    /// The owner or group that replaces them.
    pub to: OwnerTo,
}

impl IdRule {
    /// Reads a list of rules `FROM:TO`, separated by commas; the first that matches counts. FROM is a name, a pattern
    /// of names with `*`, `?` or `[`, a number, a range of numbers LOW-HIGH, or nothing, for numbers without a name.
    ///
    /// # Errors
    /// The rule that is invalid.
    pub fn parse(text: &str) -> Result<Vec<Self>, &str> {
        text.split(',').map(|one| Self::parse_one(one).ok_or(one)).collect()
    }

    fn parse_one(text: &str) -> Option<Self> {
        let (from, to) = text.rsplit_once(':')?;
        Some(Self { from: OwnerFrom::parse(from)?, to: OwnerTo::parse(to)? })
    }

    /// The rule of `--chown`.
    #[must_use]
    pub fn for_all(to: OwnerTo) -> Self {
        Self { from: OwnerFrom::Any, to }
    }

    fn matches(&self, id: u32, name: &[u8]) -> bool {
        match &self.from {
            OwnerFrom::Any => true,
            OwnerFrom::Ids(low, high) => (*low..=*high).contains(&id),
            OwnerFrom::Name(wanted) => name == &wanted[..],
            OwnerFrom::Pattern(pattern) => matches_name(pattern, name),
        }
    }
}

impl OwnerFrom {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Any);
        }
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let (low, high) = text.split_once('-').unwrap_or((text, text));
            let (low, high) = (number(low)?, number(high)?);
            return (low <= high).then_some(Self::Ids(low, high));
        }
        let bytes = text.as_bytes().to_vec();
        Some(if text.contains(['*', '?', '[']) { Self::Pattern(bytes) } else { Self::Name(bytes) })
    }
}

impl OwnerTo {
    /// Reads a name or a number. `None` if it is neither, or a number that no owner can have.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return number(text).filter(|id| *id != u32::MAX).map(Self::Id);
        }
        let is_name = !text.is_empty() && !text.starts_with('-') && !text.contains([' ', '\t', ':', '\n']);
        is_name.then(|| Self::Name(text.as_bytes().to_vec()))
    }
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The name of an owner or a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OwnerName {
    /// An owner; else a group.
    pub is_user: bool,
    /// Its name.
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
}

/// The rules for owners and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerMap {
    /// For owners.
    pub users: Vec<IdRule>,
    /// For groups.
    pub groups: Vec<IdRule>,
}

impl OwnerMap {
    /// Whether a rule needs the names that owners and groups have at the source.
    #[must_use]
    pub fn needs_names(&self) -> bool {
        let is_named = |rule: &IdRule| matches!(rule.from, OwnerFrom::Name(_) | OwnerFrom::Pattern(_));
        self.users.iter().chain(&self.groups).any(is_named)
    }

    /// The names that have to be looked up at the destination.
    #[must_use]
    pub fn names(&self) -> Vec<OwnerName> {
        let name = |is_user| {
            move |rule: &IdRule| match &rule.to {
                OwnerTo::Name(name) => Some(OwnerName { is_user, name: name.clone() }),
                OwnerTo::Id(_) => None,
            }
        };
        let (users, groups) =
            (self.users.iter().filter_map(name(true)), self.groups.iter().filter_map(name(false)));
        users.chain(groups).collect()
    }

    /// The rules with the numbers of [`OwnerMap::names`], in their order.
    #[must_use]
    pub fn resolved(mut self, ids: &[u32]) -> Self {
        let rules = self.users.iter_mut().chain(&mut self.groups);
        let named = rules.filter(|rule| matches!(rule.to, OwnerTo::Name(_)));
        named.zip(ids).for_each(|(rule, id)| rule.to = OwnerTo::Id(*id));
        self
    }

    /// Gives the entry the owner and group of the first rule that matches. `names`: those of its owner and group at the
    /// source.
    pub fn apply(&self, entry: &mut Entry, names: &OwnerNames) {
        let uid = mapped(&self.users, entry.uid, &names.user);
        let gid = mapped(&self.groups, entry.gid, &names.group);
        // The name belongs to the number that was replaced.
        if let Some(uid) = uid {
            entry.uid = uid;
            entry.names.iter_mut().for_each(|names| names.user.clear());
        }
        if let Some(gid) = gid {
            entry.gid = gid;
            entry.names.iter_mut().for_each(|names| names.group.clear());
        }
    }
}

fn mapped(rules: &[IdRule], id: u32, name: &[u8]) -> Option<u32> {
    let rule = rules.iter().find(|rule| rule.matches(id, name))?;
    if let OwnerTo::Id(id) = rule.to { Some(id) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryKind;
    use crate::path::RelPath;

    fn mapped_by(users: &str, id: u32, name: &str) -> u32 {
        let names = OwnerNames { user: name.as_bytes().to_vec(), group: b"g".to_vec() };
        let entry = Entry::new(RelPath::root(), EntryKind::File, 0);
        let mut entry = Entry { uid: id, gid: 3, names: Some(Box::new(names.clone())), ..entry };
        let map = OwnerMap { users: IdRule::parse(users).unwrap(), groups: Vec::new() };
        map.apply(&mut entry, &names);
        let names = entry.names.unwrap();
        assert_eq!((entry.gid, &names.group[..]), (3, &b"g"[..]));
        assert_eq!(names.user.is_empty(), entry.uid != id || name.is_empty());
        entry.uid
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let rules = "bob:1,5-7:2,w*:3,:4,9:5,*:6";
        for (id, name, to) in
            [(8, "bob", 1), (6, "x", 2), (8, "www", 3), (8, "", 4), (9, "nine", 5), (10, "x", 6)]
        {
            assert_eq!(mapped_by(rules, id, name), to, "{id} {name}");
        }
        assert_eq!(mapped_by("5:6", 7, "x"), 7);
    }

    #[test]
    fn names_at_the_destination_are_resolved_in_order() {
        let users = IdRule::parse("1:a,2:20,3:b").unwrap();
        let map = OwnerMap { users, groups: vec![IdRule::for_all(OwnerTo::parse("g").unwrap())] };
        let names: Vec<_> = map.names().into_iter().map(|name| (name.is_user, name.name)).collect();
        assert_eq!(names, [(true, b"a".to_vec()), (true, b"b".to_vec()), (false, b"g".to_vec())]);
        let map = map.resolved(&[10, 30, 40]);
        let to: Vec<&OwnerTo> = map.users.iter().map(|rule| &rule.to).collect();
        assert_eq!(to, [&OwnerTo::Id(10), &OwnerTo::Id(20), &OwnerTo::Id(30)]);
        assert_eq!(map.groups[0].to, OwnerTo::Id(40));
        assert!(!map.needs_names());
    }

    #[test]
    fn invalid_rules_are_named() {
        for bad in [
            "",
            "a",
            "a:",
            "1-:2",
            "1-2-3:4",
            "5x:6",
            "-1:2,",
            "1:a b",
            "1:-x",
            "1:4294967295",
            "1:99999999999",
        ] {
            assert!(IdRule::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(IdRule::parse("a:1,b"), Err("b"));
        assert!(OwnerMap { users: IdRule::parse("a*:1").unwrap(), ..OwnerMap::default() }.needs_names());
    }
}
