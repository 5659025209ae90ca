//! As much of HTTP/1.1 as it takes to stand between a client and a server that behave.

use std::io::{self, BufRead, Write};

/// The method, the address and the headers of a request.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    /// `GET`, `PUT` …
    pub method: String,
    /// The path, as it is written.
    pub path: String,
    /// The query, without the question mark.
    pub query: String,
    /// The headers: names in lower case.
    pub headers: Vec<(String, String)>,
}

impl HttpRequest {
    /// A header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &value[..])
    }

    /// Whether the query has this parameter.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.query.split('&').any(|pair| pair.split('=').next() == Some(name))
    }

    /// Whether it writes a part, at S3 and Google or at Azure.
    #[must_use]
    pub fn writes_part(&self) -> bool {
        self.method == "PUT" && (self.has("partNumber") || self.has("blockid"))
    }

    /// The number of the part that it writes.
    #[must_use]
    pub fn part(&self) -> Option<u32> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == "partNumber").find_map(|(_, value)| value.parse().ok())
    }

    /// Whether it ends an upload in parts.
    #[must_use]
    pub fn completes(&self) -> bool {
        self.method == "POST" && self.has("uploadId")
    }

    /// The first byte of the range that it asks for.
    #[must_use]
    pub fn range_start(&self) -> Option<u64> {
        self.header("range")?.strip_prefix("bytes=")?.split('-').next()?.parse().ok()
    }
}

/// The head of a request or an answer: its bytes, its first line and its headers.
pub(super) struct MessageHead {
    pub(super) bytes: Vec<u8>,
    pub(super) first: String,
    pub(super) headers: Vec<(String, String)>,
}

/// Reads a head; `None` where the connection ends instead.
pub(super) fn read_head(from: &mut impl BufRead) -> io::Result<Option<MessageHead>> {
    let (mut bytes, mut lines) = (Vec::new(), Vec::new());
    loop {
        let mut line = Vec::new();
        if from.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        bytes.extend_from_slice(&line);
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if text.is_empty() {
            break;
        }
        lines.push(text);
    }
    let mut lines = lines.into_iter();
    let first = lines.next().unwrap_or_default();
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    Ok(Some(MessageHead { bytes, first, headers: headers.collect() }))
}

impl MessageHead {
    fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| &value[..])
    }

    /// Bytes of content that follow; `None` where they come in chunks.
    pub(super) fn len(&self) -> Option<u64> {
        if self.get("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            return None;
        }
        Some(self.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Whether the sender closes the connection after this.
    pub(super) fn closes(&self) -> bool {
        self.get("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Its bytes, with another value of a header.
    pub(super) fn saying(&self, name: &str, value: &str) -> Vec<u8> {
        let others = self.headers.iter().filter(|(other, _)| other != name);
        let lines: Vec<String> = others.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{}\r\n{}{name}: {value}\r\n\r\n", self.first, lines.concat()).into_bytes()
    }

    pub(super) fn request(&self) -> HttpRequest {
        let mut words = self.first.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let (path, query) = words.next().unwrap_or_default().split_once('?').map_or_else(
            || (self.first.split(' ').nth(1).unwrap_or_default().to_owned(), String::new()),
            |(path, query)| (path.to_owned(), query.to_owned()),
        );
        HttpRequest { method, path, query, headers: self.headers.clone() }
    }

    /// The status of an answer.
    fn status(&self) -> &str {
        self.first.split(' ').nth(1).unwrap_or_default()
    }

    /// Whether content follows an answer to this method.
    pub(super) fn answer_has_content(&self, method: &str) -> bool {
        method != "HEAD" && !matches!(self.status(), "204" | "304")
    }

    /// Whether an answer reports success.
    pub(super) fn says_done(&self) -> bool {
        self.status().starts_with('2')
    }
}

/// Hands on content, each piece through `each`, which may change it, or end it by an error.
pub(super) fn pass(
    from: &mut impl BufRead,
    to: &mut impl Write,
    len: Option<u64>,
    each: &mut dyn FnMut(&mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let Some(mut left) = len else {
        loop {
            let mut size = Vec::new();
            from.read_until(b'\n', &mut size)?;
            to.write_all(&size)?;
            let digits = String::from_utf8_lossy(&size);
            let digits = digits.trim().split(';').next().unwrap_or_default();
            let size = u64::from_str_radix(digits, 16).map_err(io::Error::other)?;
            pass(from, to, Some(size), each)?;
            let mut end = Vec::new();
            from.read_until(b'\n', &mut end)?;
            to.write_all(&end)?;
            if size == 0 {
                return to.flush();
            }
        }
    };
    let mut buffer = vec![0; 64 * 1024];
    while left > 0 {
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = from.read(&mut buffer[..room])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        each(&mut buffer[..read])?;
        to.write_all(&buffer[..read])?;
        left -= read as u64;
    }
    to.flush()
}
