//! An answer as it is put together and sent.

use std::fmt::Write;

/// An answer.
#[derive(Default)]
pub(super) struct StoreAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content: Vec<u8>,
    /// The length that is told where it is not that of the content.
    pub(super) len: Option<u64>,
}

impl StoreAnswer {
    pub(super) fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    pub(super) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn xml(root: &str, content: &str) -> Self {
        Self { content: format!("<{root}>{content}</{root}>").into_bytes(), ..Self::new(200) }
    }

    pub(super) fn refusal(status: u16, code: &str) -> Self {
        let content = format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>");
        Self { content: content.into_bytes(), ..Self::new(status) }
    }

    /// Its head as it is sent.
    pub(super) fn head(&self, method: &str) -> Vec<u8> {
        let mut text = format!("HTTP/1.1 {} x\r\nx-amz-request-id: 1\r\n", self.status);
        for (name, value) in &self.headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        let len = self.len.filter(|_| method == "HEAD").unwrap_or(self.content.len() as u64);
        let _ = write!(text, "Content-Length: {len}\r\n\r\n");
        text.into_bytes()
    }
}
