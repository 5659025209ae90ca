//! Reads and writes lists of `--files-from`.

use std::ffi::{OsStr, OsString};
use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_core::path::{MAX_PATH_LEN, printable};
use haul_core::{Error, ErrorKind, RelPath, Report, Result, Side};

use haul_job::Paths;

use super::records::{ListRecords, Separator, open_list};

/// Opens a list of paths; `-` is standard input.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn read_paths(file: &OsStr, from0: bool) -> Result<(Paths, ListUse)> {
    let paths = paths(open_list(file)?, file.to_os_string(), from0);
    let list = ListUse { file: file.to_os_string(), count: Arc::default() };
    let count = Arc::clone(&list.count);
    let counted = paths.inspect(move |_| _ = count.fetch_add(1, Ordering::Relaxed));
    Ok((Box::new(counted), list))
}

/// How much of a list was read.
pub(crate) struct ListUse {
    file: OsString,
    count: Arc<AtomicU64>,
}

impl ListUse {
    /// A warning after a whole run if the list has no path.
    pub(crate) fn warning(&self, report: &Report) -> Option<String> {
        if report.fatal.is_some() || report.interrupted {
            return None;
        }
        let is_empty = self.count.load(Ordering::Relaxed) == 0;
        is_empty.then(|| {
            let file = printable(self.file.as_bytes());
            format!("the list of --files-from has no paths: `{file}`")
        })
    }
}

fn paths(reader: impl BufRead + Send + 'static, file: OsString, from0: bool) -> Paths {
    let separator = if from0 { Separator::Nul } else { Separator::AnyLineEnd };
    let records = ListRecords::new(reader, separator, MAX_PATH_LEN);
    let wanted = records.filter(move |record| {
        from0 || !record.as_ref().is_ok_and(|name| matches!(name.first(), Some(b'#' | b';')))
    });
    Box::new(wanted.map(move |record| match record {
        Ok(name) => path_of(&name),
        Err(error) => Err(Error::io(Side::Local, "read the list", &error).on(file.as_bytes())),
    }))
}

/// As in rsync, a leading slash is the source directory. `..` is refused, and so is `/./`, where rsync would cut the path.
fn path_of(name: &[u8]) -> Result<RelPath> {
    if name.windows(3).any(|bytes| bytes == b"/./") {
        let cause = "haul keeps the whole path, and rsync only the part after `/./`";
        let error = Error::new(ErrorKind::Unsupported, Side::Source, "copy the listed path", cause);
        return Err(error.on(name).with_hint("write it without `/./`, or give the source with -R"));
    }
    let start = name.iter().position(|byte| *byte != b'/').unwrap_or(name.len());
    RelPath::tidy(&name[start..]).map_err(|bad| {
        let error = Error::new(ErrorKind::Unsupported, Side::Source, "copy the listed path", bad.to_string());
        error.on(name).with_hint("paths in --files-from are relative to the source")
    })
}

/// A name in the format of `--files-from`; `None` if that needs NUL.
pub(crate) fn listed(name: &[u8], nul: bool) -> Option<Vec<u8>> {
    let name = if name.is_empty() { b"." } else { name };
    if nul {
        return Some([name, b"\0"].concat());
    }
    if name.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return None;
    }
    // Otherwise the line would be a comment.
    let before: &[u8] = if matches!(name.first(), Some(b'#' | b';')) { b"./" } else { b"" };
    Some([before, name, b"\n"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static [u8], from0: bool) -> Vec<Option<Vec<u8>>> {
        paths(text, "list".into(), from0).map(|path| path.ok().map(|p| p.as_bytes().to_vec())).collect()
    }

    #[test]
    fn paths_are_relative_to_the_source() {
        let text = b"# no\n;no\n\n/usr//bin/\r\n./#yes\na/../b\n\xff\n.\na/./b\n";
        let expected = [
            Some(b"usr/bin".to_vec()),
            Some(b"#yes".to_vec()),
            None,
            Some(b"\xff".to_vec()),
            Some(vec![]),
            None,
        ];
        assert_eq!(read(text, false), expected);
        assert_eq!(read(b"#a\nb\0", true), [Some(b"#a\nb".to_vec())]);
    }

    #[test]
    fn a_list_without_paths_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("list");
        for (text, is_empty) in [("", true), ("# none\n\n", true), ("a\n", false), ("..\n", false)] {
            std::fs::write(&file, text).unwrap();
            let (paths, list) = read_paths(file.as_os_str(), false).unwrap();
            let _ = paths.count();
            let said = list.warning(&Report::default());
            assert_eq!(said.is_some_and(|said| said.contains("has no paths: `/")), is_empty, "{text:?}");
            let ended = Report { interrupted: true, ..Report::default() };
            assert_eq!(list.warning(&ended), None);
        }
    }

    #[test]
    fn listed_names_are_read_back() {
        assert_eq!(listed(b"a b\xff", false), Some(b"a b\xff\n".to_vec()));
        assert_eq!(listed(b"#a", false), Some(b"./#a\n".to_vec()));
        assert_eq!(listed(b"a\nb", false), None);
        assert_eq!(listed(b"#a\nb", true), Some(b"#a\nb\0".to_vec()));
        assert_eq!(listed(b"", false), Some(b".\n".to_vec()));
    }
}
