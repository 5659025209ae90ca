//! Lists objects, and refuses listings that leave the prefix or never end.

use haul_core::Result;
use haul_core::path::printable;

use super::bucket::Client;
use super::positions::{ListingPosition, names};
use crate::fault::Fault;
use crate::store::{ListPage, RequestResult};

impl Client {
    /// Lists one page of the objects under `prefix`; with `delimiter`, up to the next slash.
    ///
    /// # Errors
    /// The error of the request; `Unreachable` also for an invalid listing.
    pub fn list(&self, prefix: &str, delimiter: bool, next: Option<&str>) -> Result<ListPage> {
        let before = next.and_then(|token| self.positions.before(token));
        let page = self.ask(|at| {
            let page = self.store.list(prefix, delimiter, next, at)?;
            check(&page, prefix, next, before.as_ref())?;
            Ok(page)
        });
        let page = page.map_err(|fault| self.error(&fault, "list", prefix))?;
        self.positions.went_on(next, &page, before);
        Ok(page)
    }

    /// Lists the objects under `prefix` page by page; with `delimiter`, up to the next slash. An error is the last item.
    pub fn pages(&self, prefix: &str, delimiter: bool) -> impl Iterator<Item = Result<ListPage>> {
        let mut left = Some(None::<String>);
        std::iter::from_fn(move || {
            let page = self.list(prefix, delimiter, left.take()?.as_deref());
            left = page.as_ref().ok().and_then(|page| page.next.clone()).map(Some);
            Some(page)
        })
    }
}

/// Checks that a page has only names under the prefix, and some name that is new after the pages `before` it.
///
/// # Errors
/// `Nonsense` if not.
fn check(
    page: &ListPage,
    prefix: &str,
    next: Option<&str>,
    before: Option<&ListingPosition>,
) -> RequestResult<()> {
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
    use crate::client::positions::ListingPositions;
    use crate::store::Object;

    fn page(keys: &[&str], prefixes: &[&str], next: Option<&str>) -> ListPage {
        ListPage {
            objects: keys.iter().map(|&key| Object { key: key.to_owned(), ..Object::default() }).collect(),
            prefixes: prefixes.iter().map(|&prefix| prefix.to_owned()).collect(),
            next: next.map(str::to_owned),
        }
    }

    #[test]
    fn a_name_outside_of_the_prefix_is_refused() {
        let is = |keys: &[&str], prefixes: &[&str]| check(&page(keys, prefixes, None), "t/a", None, None);
        assert!(is(&["t/a", "t/a/b"], &["t/ab/"]).is_ok());
        for stray in ["t/", "t/b", "/tmp/evil", "../x", "", "T/a"] {
            let fault = is(&["t/a1", stray], &[]).unwrap_err();
            assert!(fault.message.contains(&format!("lists `{stray}` below `t/a`")), "{}", fault.message);
            assert!(is(&[], &[stray]).is_err());
        }
    }

    #[test]
    fn an_endless_listing_is_detected() {
        let ends = ListingPositions::default();
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
        // The two orders in which stores list, and an empty page.
        for pages in [[["a-b", "a-c"], ["a.d", "a/x"]], [["a/x", "a/y"], ["a-b", "a-c"]]] {
            let [first, second] = pages.map(|keys| page(&keys, &[], Some("u")));
            let end = ListingPosition::default().after(&first);
            assert!(check(&second, "", Some("t"), Some(&end)).is_ok());
            assert!(check(&first, "", Some("t"), Some(&end)).is_err());
            assert!(check(&page(&[], &[], Some("u")), "", Some("t"), Some(&end)).is_ok());
        }
        assert_eq!(ends.len(), 1, "what is behind is forgotten");
    }
}
