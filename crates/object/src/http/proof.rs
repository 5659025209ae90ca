//! Whether what answers is a store of the kind that is asked for. What answers 200 to everything can be a proxy, the login
//! page of a network, or another port of the store.

use std::sync::atomic::Ordering;

use reqwest::Method;

use super::{Call, Head, Http, Signer};
use crate::fault::{Class, Fault};
use crate::store::Answer;

impl Http {
    /// What was read of an answer; if that is no answer of a store, it is said whose it is.
    pub(crate) fn understood<T>(&self, signer: &impl Signer, head: &Head, read: Answer<T>) -> Answer<T> {
        read.map_err(|fault| match fault.class {
            Class::Foreign => self.foreign(signer, head, &fault.message),
            _ => fault,
        })
    }

    /// Whether something has answered that can only be a store of this kind.
    pub(crate) fn is_proven<S: Signer>(&self, _: &S, head: &Head) -> bool {
        if head.is_of(S::PREFIX) {
            self.proven.store(true, Ordering::Relaxed);
        }
        self.proven.load(Ordering::Relaxed)
    }

    /// The fault of an answer that is `what`, and not a store's. Where a store has answered before, something stands
    /// in between for a while.
    pub(crate) fn foreign<S: Signer>(&self, _: &S, head: &Head, what: &str) -> Fault {
        let is_redirect = (300..400).contains(&head.status);
        let answered = match (head.content_type(), head.get("location")) {
            (_, Some(location)) if is_redirect => format!("it redirects to {location}"),
            ("text/html", _) => "it answered with text/html (is that the console's port?)".to_owned(),
            ("" | "application/xml" | "text/xml", _) => format!("it answered with {what}"),
            (kind, _) => format!("it answered with {kind}"),
        };
        let status = if head.status == 200 { String::new() } else { format!(" (HTTP {})", head.status) };
        let class = if self.proven.load(Ordering::Relaxed) { Class::Again } else { Class::Foreign };
        Fault::new(class, format!("{} does not speak {}: {answered}{status}", head.host, S::SPOKEN))
    }

    /// The fault of an answer that says no: the store's, or that it is no store's.
    pub(super) fn refused<S: Signer>(
        &self,
        signer: &S,
        call: &Call<'_>,
        head: &Head,
        fault: Fault,
        content: &[u8],
    ) -> Fault {
        if !fault.code.is_empty() {
            self.proven.store(true, Ordering::Relaxed);
            return fault;
        }
        // Proxies that are asked too much, or have lost what is behind them, say so in pages of their own.
        let is_final = (300..500).contains(&head.status) && !matches!(head.status, 408 | 429);
        // Some emulators of stores give no reasons either, but none calls a request for XML a bad one.
        let is_foreign = match head.status {
            300..400 => head.get("location").is_some(),
            400 => !content.is_empty(),
            _ => is_page(head, content),
        };
        if call.method == Method::HEAD || !is_final || !is_foreign || self.is_proven(signer, head) {
            return fault;
        }
        self.foreign(signer, head, "something else")
    }
}

/// Whether an answer is a page for a browser.
pub(super) fn is_page(head: &Head, content: &[u8]) -> bool {
    let start = content.trim_ascii_start().get(..14).unwrap_or_default().to_ascii_lowercase();
    let begins_so = start.starts_with(b"<!doctype html") || start.starts_with(b"<html");
    begins_so || head.content_type() == "text/html" && !content.is_empty()
}
