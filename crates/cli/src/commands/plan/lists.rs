//! Lists that `haul plan` writes: one per part, and one of invalid names.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use haul_core::{Error, ErrorKind, RelPath, Result, Side};
use haul_job::Observer;
use haul_plan::PlanOutput;

use crate::render::Console;
use crate::settings::{listed, of_option, usage};

/// Bytes buffered before lists are written.
const PENDING: usize = 4 * 1024 * 1024;
/// Number of names with a newline that are reported.
const ODD: usize = 1000;

/// The lists of a plan.
pub(super) struct PlanLists {
    prefix: Option<PathBuf>,
    nul: bool,
    unfit: Option<(PathBuf, BufWriter<File>)>,
    failure: Option<Error>,
    /// The buffered bytes of each list, and whether its file exists.
    parts: Vec<PendingList>,
    pending: usize,
    /// Names that a list without NUL cannot contain.
    odd: Vec<RelPath>,
}

#[derive(Default)]
struct PendingList {
    bytes: Vec<u8>,
    made: bool,
}

impl PlanLists {
    /// Lists at `prefix` plus a number, and a list of invalid names at `unfit`; `nul` ends names with NUL.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if lists with that prefix exist, or a file cannot be created.
    pub(super) fn new(prefix: Option<&Path>, unfit: Option<&Path>, nul: bool) -> Result<Self> {
        if let Some(prefix) = prefix {
            refuse_mixing(prefix)?;
        }
        let make = |path: &Path| -> Result<(PathBuf, BufWriter<File>)> {
            let file = File::create(path).map_err(|e| of_option(failed(&e, path)))?;
            Ok((path.to_owned(), BufWriter::new(file)))
        };
        Ok(Self {
            prefix: prefix.map(Path::to_owned),
            nul,
            unfit: unfit.map(make).transpose()?,
            failure: None,
            parts: Vec::new(),
            pending: 0,
            odd: Vec::new(),
        })
    }

    /// Writes the remaining bytes, and a list for each of `count` parts even if it is empty. Returns the files of the
    /// lists. Reports names that could not be listed as failures.
    ///
    /// # Errors
    /// If a list cannot be written.
    pub(super) fn finish(mut self, count: usize, console: &Console) -> Result<Vec<String>> {
        let odd = std::mem::take(&mut self.odd);
        for path in &odd {
            let cause = "a list without -0 cannot contain a name with a newline";
            let error = Error::new(ErrorKind::Unsupported, Side::Local, "list", cause);
            console.failed(path.as_bytes(), &error.with_hint("use -0, also with --files-from"));
        }
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if let Some((path, out)) = &mut self.unfit {
            out.flush().map_err(|e| failed(&e, path))?;
        }
        let Some(prefix) = self.prefix.clone() else { return Ok(Vec::new()) };
        self.parts.resize_with(count.max(self.parts.len()), PendingList::default);
        self.write(&prefix)?;
        Ok((0..self.parts.len()).map(|at| list_path(&prefix, at).display().to_string()).collect())
    }

    /// Writes the buffered bytes.
    fn write(&mut self, prefix: &Path) -> Result<()> {
        for (at, part) in self.parts.iter_mut().enumerate() {
            if part.made && part.bytes.is_empty() {
                continue;
            }
            let path = list_path(prefix, at);
            let mut options = OpenOptions::new();
            options.append(true).create_new(!part.made);
            let written = options.open(&path).and_then(|mut file| file.write_all(&part.bytes));
            written.map_err(|e| failed(&e, &path))?;
            part.made = true;
            part.bytes = Vec::new();
        }
        self.pending = 0;
        Ok(())
    }

    /// The name in the format of a list.
    fn record(&mut self, path: &RelPath) -> Option<Vec<u8>> {
        let record = listed(path.as_bytes(), self.nul);
        if record.is_none() && self.odd.len() < ODD && !self.odd.contains(path) {
            self.odd.push(path.clone());
        }
        record
    }
}

impl PlanOutput for PlanLists {
    fn unfit(&mut self, path: &RelPath) {
        if self.unfit.is_none() {
            return;
        }
        let record = self.record(path);
        if let (Some((file, out)), Some(record)) = (&mut self.unfit, record)
            && let Err(e) = out.write_all(&record)
        {
            let error = failed(&e, file);
            self.failure.get_or_insert(error);
        }
    }

    fn part(&mut self, part: usize, path: &RelPath) -> Result<()> {
        let Some(prefix) = self.prefix.clone() else { return Ok(()) };
        let Some(record) = self.record(path) else { return Ok(()) };
        if self.parts.len() <= part {
            self.parts.resize_with(part + 1, PendingList::default);
        }
        self.pending += record.len();
        self.parts[part].bytes.extend(record);
        if self.pending >= PENDING { self.write(&prefix) } else { Ok(()) }
    }
}

/// The list of part `at`, counted from 0.
fn list_path(prefix: &Path, at: usize) -> PathBuf {
    let mut path = prefix.as_os_str().as_bytes().to_vec();
    path.extend(format!(".{:04}", at + 1).into_bytes());
    PathBuf::from(OsString::from_vec(path))
}

/// Refuses a prefix with lists of an earlier plan, which would be copied along with the new ones.
fn refuse_mixing(prefix: &Path) -> Result<()> {
    let directory =
        prefix.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = prefix.file_name() else {
        return Err(usage("write lists", "the prefix has no file name").on(prefix.as_os_str().as_bytes()));
    };
    let is_list = |found: &OsStr| {
        let number = found.as_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        number.is_some_and(|digits| digits.len() >= 4 && digits.iter().all(u8::is_ascii_digit))
    };
    for found in std::fs::read_dir(directory).map_err(|e| of_option(failed(&e, directory)))? {
        let found = found.map_err(|e| failed(&e, directory))?;
        if is_list(&found.file_name()) {
            let error = usage("write lists", "a list of an earlier plan exists")
                .on(found.path().as_os_str().as_bytes());
            return Err(error.with_hint("remove the lists of that plan, or use another prefix"));
        }
    }
    Ok(())
}

fn failed(error: &std::io::Error, path: &Path) -> Error {
    Error::io(Side::Local, "write the list", error).on(path.as_os_str().as_bytes())
}
