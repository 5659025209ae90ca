//! Translates the headers of Google's XML API to those of S3, and back. Google documents no other difference
//! (<https://cloud.google.com/storage/docs/multipart-uploads>). So a server of S3 stands in for Google where no
//! emulator supports multipart uploads.

/// A head as a client of Google's writes it, in the words of S3. Who asks is not said: the store lets everybody in.
pub(super) fn to_s3(head: &[u8]) -> Vec<u8> {
    each_line(head, |name, value| match name {
        "authorization" => None,
        "x-goog-hash" => {
            let sum = value.strip_prefix("crc32c=").unwrap_or_default();
            Some(format!("x-amz-checksum-crc32c: {sum}"))
        }
        "x-goog-if-generation-match" => Some("if-none-match: *".to_owned()),
        _ => Some(format!("{}: {value}", name.replace("x-goog-", "x-amz-"))),
    })
}

/// A head as S3 writes it, in the words of Google.
pub(super) fn from_s3(head: &[u8]) -> Vec<u8> {
    each_line(head, |name, value| match name {
        "x-amz-checksum-crc32c" => Some(format!("x-goog-hash: crc32c={value}")),
        _ => Some(format!("{}: {value}", name.replace("x-amz-", "x-goog-"))),
    })
}

fn each_line(head: &[u8], line: impl Fn(&str, &str) -> Option<String>) -> Vec<u8> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.trim_end().lines();
    let mut all = vec![lines.next().unwrap_or_default().to_owned()];
    all.extend(lines.filter_map(|text| {
        let (name, value) = text.split_once(':')?;
        line(&name.to_ascii_lowercase(), value.trim())
    }));
    format!("{}\r\n\r\n", all.join("\r\n")).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_told_in_other_words() {
        let head = b"PUT /b/k HTTP/1.1\r\nAuthorization: Bearer x\r\nX-Goog-Meta-A: b\r\nx-goog-hash: crc32c=y==\r\n\r\n";
        let text = String::from_utf8(to_s3(head)).unwrap();
        assert_eq!(text, "PUT /b/k HTTP/1.1\r\nx-amz-meta-a: b\r\nx-amz-checksum-crc32c: y==\r\n\r\n");
        let text =
            String::from_utf8(from_s3(b"HTTP/1.1 200 OK\r\nX-Amz-Checksum-Crc32c: z\r\n\r\n")).unwrap();
        assert_eq!(text, "HTTP/1.1 200 OK\r\nx-goog-hash: crc32c=z\r\n\r\n");
    }
}
