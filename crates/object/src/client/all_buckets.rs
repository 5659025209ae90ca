//! Lists the buckets that the credentials may see.

use haul_core::Result;

use super::bucket::Client;
use crate::bucket_page::ListedBucket;
use crate::fault::{FailureClass, Fault};

/// The most pages. A page of AWS has up to 10,000 buckets, and an account a million.
const MAX_PAGES: usize = 10_000;

impl Client {
    /// Lists the buckets that the credentials may see, page by page; the client is opened without a bucket. An error is
    /// the last item.
    pub fn buckets(&self) -> impl Iterator<Item = Result<Vec<ListedBucket>>> {
        let mut left = Some(None::<String>);
        let mut pages = 0;
        std::iter::from_fn(move || {
            let next = left.take()?;
            pages += 1;
            let page = self.ask(|at| {
                let page = self.store.list_buckets(next.as_deref(), at)?;
                if page.next.is_some() && (page.next == next || pages == MAX_PAGES) {
                    return Err(Fault::nonsense("the list of buckets would go on for ever"));
                }
                Ok(page)
            });
            Some(match page {
                Ok(page) => {
                    left = page.next.map(Some);
                    Ok(page.buckets)
                }
                Err(fault) => Err(self.no_buckets(&fault)),
            })
        })
    }

    fn no_buckets(&self, fault: &Fault) -> haul_core::Error {
        let error = self.error(fault, "list the buckets of", "");
        let is_refused = matches!(fault.class, FailureClass::Denied | FailureClass::Unsupported);
        if !is_refused && !fault.is_bare() {
            return error;
        }
        let scheme = self.kind().scheme();
        error.with_hint(format!(
            "keys often give access to one bucket alone: name it, as in {scheme}://BUCKET/"
        ))
    }
}
