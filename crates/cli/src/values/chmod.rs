//! Changes of modes and owners.

use haul_core::owner_map::OwnerTo;
use haul_core::{IdRule, ModeChange};

/// The owner and group of `--chown`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chown {
    pub(crate) user: Option<OwnerTo>,
    pub(crate) group: Option<OwnerTo>,
}

/// Reads a list of changes of modes.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_chmod(text: &str) -> Result<Vec<ModeChange>, String> {
    ModeChange::parse(text, haul_local::umask()).map_err(|bad| {
        let part = if bad == text { String::new() } else { format!(" (`{bad}`)") };
        format!(
            "`{text}` is not a change of modes{part}; changes are like u+w, go-rwx, D755,F644 or Dg+s,a+rX"
        )
    })
}

/// Reads a list of rules for owners or groups.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_map(text: &str) -> Result<Vec<IdRule>, String> {
    IdRule::parse(text).map_err(|bad| {
        let part = if bad == text { String::new() } else { format!(" (`{bad}`)") };
        if is_backwards(bad) {
            return format!("`{text}` has a range that is backwards{part}: begin it with the lower number");
        }
        format!("`{text}` is not a list of FROM:TO{part}; lists are like alice:bob, 1000-1999:33 or *:nobody")
    })
}

/// Whether a rule has a range whose first number is higher than its last one.
fn is_backwards(rule: &str) -> bool {
    let range = rule.rsplit_once(':').and_then(|(from, _)| from.split_once('-'));
    let numbers = range.and_then(|(low, high)| low.parse::<u32>().ok().zip(high.parse::<u32>().ok()));
    numbers.is_some_and(|(low, high)| low > high)
}

/// Reads an owner and a group.
///
/// # Errors
/// A message for clap.
pub(crate) fn parse_chown(text: &str) -> Result<Chown, String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let read = |name: &str| if name.is_empty() { Some(None) } else { OwnerTo::parse(name).map(Some) };
    match (read(user), read(group)) {
        (Some(user), Some(group)) if user.is_some() || group.is_some() => Ok(Chown { user, group }),
        _ => Err(format!("`{text}` is not an owner; owners are like alice, alice:staff, :staff or 33:33")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_groups_may_be_given_alone() {
        let name = |text: &str| OwnerTo::parse(text);
        assert_eq!(parse_chown("a:b"), Ok(Chown { user: name("a"), group: name("b") }));
        assert_eq!(parse_chown("a"), Ok(Chown { user: name("a"), group: None }));
        assert_eq!(parse_chown("a:"), Ok(Chown { user: name("a"), group: None }));
        assert_eq!(parse_chown(":33"), Ok(Chown { user: None, group: Some(OwnerTo::Id(33)) }));
        for bad in ["", ":", "a:b:c", "a b", "-1", "5x:", "99999999999"] {
            assert!(parse_chown(bad).unwrap_err().contains(" are like "), "{bad}");
        }
    }

    #[test]
    fn the_wrong_part_of_a_list_is_named() {
        assert!(parse_chmod("u+w,z+r").unwrap_err().contains("(`z+r`)"));
        assert!(parse_map("a:b,c").unwrap_err().contains("(`c`)"));
        assert!(parse_map("c").unwrap_err().starts_with("`c` is not a list of FROM:TO; "));
    }

    #[test]
    fn a_range_begins_with_its_lower_number() {
        assert!(parse_map("3-9:0,7-7:0").is_ok());
        assert!(parse_map("a:b,9-3:0").unwrap_err().contains("backwards (`9-3:0`)"));
        assert!(parse_map("9-3:0:1").unwrap_err().contains(" are like "));
    }
}
