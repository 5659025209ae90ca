//! Listings that can be believed: every name is below what was asked for, and each page is behind the one before.

use haul_core::sync::Mutex;
use std::collections::HashMap;

use haul_core::Result;
use haul_core::path::printable;

use super::Client;
use crate::fault::Fault;
use crate::store::{Answer, Page};

/// Listings that are remembered at a time. Of more, the rest go unchecked.
const MOST: usize = 10_000;

/// How far a listing has got: the greatest name so far, in the order of bytes, and in that of file systems, where a folder
/// comes with all that is in it before its longer neighbours. Stores list in one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct End {
    by_bytes: String,
    by_folders: String,
}

/// How far listings have got, by the token of the next page.
#[derive(Default)]
pub(super) struct Ends(Mutex<HashMap<String, End>>);

impl Client {
    /// One page of what is under `prefix`; with `delimiter`, up to the next slash.
    ///
    /// # Errors
    /// If it cannot be listed, or what came is no listing of that.
    pub fn list(&self, prefix: &str, delimiter: bool, next: Option<&str>) -> Result<Page> {
        let before = next.and_then(|token| self.ends.before(token));
        let page = self.ask(|at| {
            let page = self.store.list(prefix, delimiter, next, at)?;
            check(&page, prefix, next, before.as_ref())?;
            Ok(page)
        });
        let page = page.map_err(|fault| self.error(&fault, "list", prefix))?;
        self.ends.went_on(next, &page, before);
        Ok(page)
    }
}

impl Ends {
    fn before(&self, token: &str) -> Option<End> {
        self.0.lock().get(token).cloned()
    }

    fn went_on(&self, from: Option<&str>, page: &Page, before: Option<End>) {
        let mut ends = self.0.lock();
        if let Some(from) = from {
            ends.remove(from);
        }
        if let (Some(next), true) = (&page.next, ends.len() < MOST) {
            ends.insert(next.clone(), before.unwrap_or_default().after(page));
        }
    }
}

impl End {
    /// Where it is after a page.
    fn after(self, page: &Page) -> Self {
        let Self { mut by_bytes, mut by_folders } = self;
        for name in names(page) {
            if *name > *by_bytes {
                name.clone_into(&mut by_bytes);
            }
            if folder_order(name).gt(folder_order(&by_folders)) {
                name.clone_into(&mut by_folders);
            }
        }
        Self { by_bytes, by_folders }
    }
}

/// A name as what sorts as a file system does.
fn folder_order(name: &str) -> impl Iterator<Item = u16> + '_ {
    name.bytes().map(|byte| if byte == b'/' { 0 } else { u16::from(byte) + 1 })
}

fn names(page: &Page) -> impl Iterator<Item = &str> {
    page.objects.iter().map(|object| &object.key[..]).chain(page.prefixes.iter().map(|prefix| &prefix[..]))
}

/// Looks whether a page is what was asked for, and comes to something new behind the pages `before` it.
///
/// # Errors
/// If not.
fn check(page: &Page, prefix: &str, next: Option<&str>, before: Option<&End>) -> Answer<()> {
    if let Some(stray) = names(page).find(|name| !name.starts_with(prefix)) {
        let (stray, prefix) = (printable(stray.as_bytes()), printable(prefix.as_bytes()));
        return Err(Fault::nonsense(format!("it lists `{stray}` below `{prefix}`, so it is not trusted")));
    }
    if next.is_some() && page.next.as_deref() == next {
        return Err(Fault::nonsense("each page of the listing begins at the same place"));
    }
    match (before, names(page).next()) {
        (Some(before), Some(name)) if page.next.is_some() && before.clone().after(page) == *before => {
            let name = printable(name.as_bytes());
            Err(Fault::nonsense(format!("the listing comes to `{name}` again, and would go on for ever")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Object;

    fn page(keys: &[&str], prefixes: &[&str], next: Option<&str>) -> Page {
        Page {
            objects: keys.iter().map(|&key| Object { key: key.to_owned(), ..Object::default() }).collect(),
            prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
            next: next.map(str::to_owned),
        }
    }

    #[test]
    fn a_name_outside_of_what_was_asked_for_is_refused() {
        let is = |keys: &[&str], prefixes: &[&str]| check(&page(keys, prefixes, None), "t/a", None, None);
        assert!(is(&["t/a", "t/a/b"], &["t/ab/"]).is_ok());
        for stray in ["t/", "t/b", "/tmp/evil", "../x", "", "T/a"] {
            let fault = is(&["t/a1", stray], &[]).unwrap_err();
            assert!(fault.message.contains(&format!("lists `{stray}` below `t/a`")), "{}", fault.message);
            assert!(is(&[], &[stray]).is_err());
        }
    }

    #[test]
    fn a_listing_that_never_ends_is_found_out() {
        let ends = Ends::default();
        let mut token = None;
        let mut pages = 0;
        // Another token each time, and the same names in turns.
        let refused = loop {
            let turn = ["a", "b"][pages % 2];
            pages += 1;
            let next = format!("t{pages}");
            let page = page(&[turn], &[], Some(&next));
            let before = token.as_deref().and_then(|token| ends.before(token));
            if let Err(fault) = check(&page, "", token.as_deref(), before.as_ref()) {
                break fault;
            }
            ends.went_on(token.as_deref(), &page, before);
            token = Some(next);
        };
        assert_eq!(pages, 3);
        assert!(refused.message.contains("comes to `a` again"), "{}", refused.message);
        assert!(check(&page(&["a"], &[], Some("t")), "", Some("t"), None).is_err());
        // The orders in which stores list, and a page with nothing on it.
        for pages in [[["a-b", "a-c"], ["a.d", "a/x"]], [["a/x", "a/y"], ["a-b", "a-c"]]] {
            let [first, second] = pages.map(|keys| page(&keys, &[], Some("u")));
            let end = End::default().after(&first);
            assert!(check(&second, "", Some("t"), Some(&end)).is_ok());
            assert!(check(&first, "", Some("t"), Some(&end)).is_err());
            assert!(check(&page(&[], &[], Some("u")), "", Some("t"), Some(&end)).is_ok());
        }
        assert_eq!(ends.0.lock().len(), 1, "what is behind is forgotten");
    }
}
