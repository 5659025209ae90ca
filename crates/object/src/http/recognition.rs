//! Decides whether a store of the expected kind answers. A proxy, the login page of a network or another port of the
//! store may answer 200 to everything.

use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::Method;

use super::call::{HttpCall, ResponseHead, Signer};
use crate::fault::{FailureClass, Fault};
use crate::store::RequestResult;

/// Recognizes a store of the expected kind.
#[derive(Default)]
pub(crate) struct Recognition {
    /// A store of this kind has answered.
    proven: AtomicBool,
}

impl Recognition {
    /// Records that a store of this kind has answered.
    pub(super) fn prove(&self) {
        self.proven.store(true, Ordering::Relaxed);
    }

    /// The parsed answer; if it is not from a store, the failure says who answered.
    pub(crate) fn understood<T>(
        &self,
        signer: &impl Signer,
        head: &ResponseHead,
        read: RequestResult<T>,
    ) -> RequestResult<T> {
        read.map_err(|fault| match fault.class {
            FailureClass::Foreign => self.foreign(signer, head, &fault.message),
            _ => fault,
        })
    }

    /// Whether a store of this kind has answered, now or before.
    pub(crate) fn is_proven<S: Signer>(&self, _: &S, head: &ResponseHead) -> bool {
        if head.is_of(S::PREFIX) {
            self.proven.store(true, Ordering::Relaxed);
        }
        self.proven.load(Ordering::Relaxed)
    }

    /// The failure of an answer that is not a store's. If a store has answered before, the failure is temporary.
    pub(crate) fn foreign<S: Signer>(&self, _: &S, head: &ResponseHead, what: &str) -> Fault {
        let is_redirect = (300..400).contains(&head.status);
        let answered = match (head.content_type(), head.get("location")) {
            (_, Some(location)) if is_redirect => format!("it redirects to {location}"),
            ("text/html", _) => "it answered with text/html (is that the console's port?)".to_owned(),
            ("" | "application/xml" | "text/xml", _) => format!("it answered with {what}"),
            (kind, _) => format!("it answered with {kind}"),
        };
        let status = if head.status == 200 { String::new() } else { format!(" (HTTP {})", head.status) };
        let class =
            if self.proven.load(Ordering::Relaxed) { FailureClass::Again } else { FailureClass::Foreign };
        Fault::new(class, format!("{} does not speak {}: {answered}{status}", head.host, S::SPOKEN))
    }

    /// The failure of an error answer: the store's, or that it is not from a store.
    pub(super) fn refused<S: Signer>(
        &self,
        signer: &S,
        call: &HttpCall<'_>,
        head: &ResponseHead,
        fault: Fault,
        content: &[u8],
    ) -> Fault {
        if !fault.code.is_empty() {
            self.proven.store(true, Ordering::Relaxed);
            return fault;
        }
        // Overloaded proxies, and those that have lost the server behind them, send pages of their own.
        let is_final =
            (300..500).contains(&head.status) && !matches!(head.status, 408 | 429) || head.status == 501;
        // Some emulators of stores send no reasons either, but none sends 400 for such a request.
        let is_foreign = match head.status {
            300..400 => head.get("location").is_some(),
            400 => !content.is_empty(),
            _ => is_page(head, content),
        };
        if call.method == Method::HEAD || !is_final || !is_foreign || self.is_proven(signer, head) {
            return fault;
        }
        // Go, nginx and Apache answer so where TLS is expected.
        if head.status == 400 && content.windows(5).any(|text| text == b"HTTPS") {
            let message = format!("{host} speaks HTTPS: is it https://{host}?", host = head.host);
            return Fault::new(FailureClass::Foreign, message);
        }
        self.foreign(signer, head, "something else")
    }
}

/// Whether an answer is a web page.
pub(super) fn is_page(head: &ResponseHead, content: &[u8]) -> bool {
    let start = content.trim_ascii_start().get(..14).unwrap_or_default().to_ascii_lowercase();
    let begins_so = start.starts_with(b"<!doctype html") || start.starts_with(b"<html");
    begins_so || head.content_type() == "text/html" && !content.is_empty()
}
