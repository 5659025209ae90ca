//! Reads manifests.

use std::io::BufRead;

use haul_core::path::MAX_PATH_LEN;
use haul_core::{Digest, Error, ErrorKind, RelPath, Result, Side};
use haul_engine::HashLine;

use crate::settings::{ListRecords, Separator};

/// The longest line: a path with each byte escaped, a digest and separators.
const MAX_LINE: usize = 2 * MAX_PATH_LEN + 80;

/// Reads a manifest with this name in errors. With `one_file` the destination is a file of that name: a line with that
/// name is about it, and so is the only line of a manifest, because the copy may have renamed the file.
pub(crate) fn read_manifest(
    reader: impl BufRead,
    name: &[u8],
    one_file: Option<Vec<u8>>,
) -> impl Iterator<Item = Result<HashLine>> {
    let name = name.to_vec();
    let mut records = ListRecords::new(reader, Separator::Newline, MAX_LINE);
    let first = [records.next(), one_file.as_ref().and_then(|_| records.next())];
    let is_only = one_file.is_some() && first[1].is_none();
    first.into_iter().flatten().chain(records).enumerate().map(move |(at, record)| {
        let line = record.map_err(|error| Error::io(Side::Local, "read the manifest", &error).on(&name))?;
        let (path, digest) = split(&line).map_err(|cause| bad(&name, at, cause))?;
        if is_only || one_file.as_ref() == Some(&path) {
            return Ok(HashLine { path: RelPath::root(), digest });
        }
        let path = RelPath::tidy(&path).map_err(|cause| bad(&name, at, &cause.to_string()))?;
        Ok(HashLine { path, digest })
    })
}

fn bad(name: &[u8], at: usize, cause: &str) -> Error {
    let cause = format!("entry {}: {cause}", at + 1);
    let error = Error::new(ErrorKind::Unsupported, Side::Local, "read the manifest", cause);
    error
        .on(name)
        .with_hint("lines are `HEX  PATH`, as `haul hash` and b3sum print them, with paths relative to DST")
}

/// The path and the digest of a line.
fn split(line: &[u8]) -> std::result::Result<(Vec<u8>, Digest), &'static str> {
    let (line, escaped) = match line {
        [b'\\', rest @ ..] => (rest, true),
        line => (line, false),
    };
    if let 32 | 40 | 128 = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count() {
        return Err("its digest is MD5, SHA-1 or SHA-512, and haul compares BLAKE3");
    }
    let (hex, rest) = line.split_at_checked(64).ok_or("the line is too short")?;
    let digest = std::str::from_utf8(hex)
        .ok()
        .and_then(Digest::from_hex)
        .ok_or("the line does not begin with a digest")?;
    let path = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *"));
    let path = path.ok_or("two spaces are missing after the digest")?;
    if path.is_empty() {
        return Err("the path is missing");
    }
    Ok((if escaped { unescape(path)? } else { path.to_vec() }, digest))
}

fn unescape(path: &[u8]) -> std::result::Result<Vec<u8>, &'static str> {
    let mut out = Vec::with_capacity(path.len());
    let mut bytes = path.iter();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'\\') => b'\\',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                _ => return Err("a backslash in the path is not followed by `\\`, `n` or `r`"),
            },
            byte => *byte,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::write_line;

    fn read(text: &[u8]) -> Vec<Option<Vec<u8>>> {
        let lines = read_manifest(text, b"list", None);
        lines.map(|line| line.ok().map(|line| line.path.as_bytes().to_vec())).collect()
    }

    #[test]
    fn written_lines_are_read_back() {
        let digest = Digest::of(b"x");
        for path in [&b"a"[..], b"a b/c", b"\\", b"a\nb\\n", b"a\rb", b"\xff\xfe", b" x ", b"\\\\n"] {
            let line = write_line(path, &digest);
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let read: Vec<HashLine> =
                read_manifest(line.as_slice(), b"list", None).collect::<Result<_>>().unwrap();
            assert_eq!(read, [HashLine { path: RelPath::new(path).unwrap(), digest }]);
        }
    }

    #[test]
    fn paths_are_escaped_as_in_b3sum() {
        let hex = Digest::of(b"x").to_string();
        assert_eq!(write_line(b"a", &Digest::of(b"x")), format!("{hex}  a\n").as_bytes());
        assert_eq!(write_line(b"a\\b\nc", &Digest::of(b"x")), format!("\\{hex}  a\\\\b\\nc\n").as_bytes());
    }

    #[test]
    fn invalid_lines_are_refused() {
        let hex = Digest::of(b"x").to_string();
        for line in [
            "short".to_owned(),
            format!("{}  a", &hex[..32]),
            format!("{hex} a"),
            format!("{hex}  "),
            format!("{hex}  /etc/passwd"),
            format!("{hex}  a/../b"),
            format!("\\{hex}  a\\x"),
            hex.replace(|c: char| c.is_ascii_hexdigit(), "g") + "  a",
        ] {
            assert_eq!(read(line.as_bytes()), [None], "{line}");
        }
        assert_eq!(read(format!("{hex}  ./a//b").as_bytes()), [Some(b"a/b".to_vec())]);
        assert_eq!(read(format!("{hex} *a").as_bytes()), [Some(b"a".to_vec())]);
    }

    #[test]
    fn a_single_file_is_matched_by_its_name() {
        let line = write_line(b"f", &Digest::of(b"x"));
        let mut lines = read_manifest(line.as_slice(), b"list", Some(b"f".to_vec()));
        assert!(lines.next().unwrap().unwrap().path.is_root());
        let mut renamed = read_manifest(line.as_slice(), b"list", Some(b"g".to_vec()));
        assert!(renamed.next().unwrap().unwrap().path.is_root() && renamed.next().is_none());
        let two = [line.clone(), write_line(b"g", &Digest::of(b"y"))].concat();
        let lines = read_manifest(two.as_slice(), b"list", Some(b"g".to_vec()));
        assert_eq!(lines.map(|line| line.unwrap().path.is_root()).collect::<Vec<_>>(), [false, true]);
    }
}
