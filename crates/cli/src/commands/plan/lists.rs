//! Lists that a plan writes: one for each part, and one of names that do not fit.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use haul_core::{Error, ErrorKind, RelPath, Result, Side};
use haul_plan::PlanOutput;

use crate::render::Console;
use crate::settings::{listed, of_option, usage};

/// Bytes of lists that are kept before they are written.
const PENDING: usize = 4 * 1024 * 1024;
/// Names with a newline that are told one by one; the others are counted with them.
const ODD: usize = 1000;

/// The lists of a plan.
pub(super) struct Lists {
    prefix: Option<PathBuf>,
    nul: bool,
    unfit: Option<(PathBuf, BufWriter<File>)>,
    failure: Option<Error>,
    /// What is to be added to each list, and which are there already.
    parts: Vec<Pending>,
    pending: usize,
    /// Names that a list without NUL cannot hold: the first, and how many.
    odd: Vec<RelPath>,
}

#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    made: bool,
}

impl Lists {
    /// Lists at `prefix` with a number behind it, and one of names at `unfit`; `nul` ends names with NUL.
    ///
    /// # Errors
    /// If lists of that prefix are there already, or a file cannot be made.
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

    /// Writes what is left, and a list for each of `count` parts though nothing is in it. Says how the lists are
    /// called. Names that could not be listed are told on `console`, each as a failure.
    ///
    /// # Errors
    /// If a list cannot be written.
    pub(super) fn finish(mut self, count: usize, console: &Console) -> Result<Vec<String>> {
        let odd = std::mem::take(&mut self.odd);
        for path in &odd {
            let cause = "a list without -0 cannot hold a name with a newline";
            let error = Error::new(ErrorKind::Unsupported, Side::Local, "list", cause);
            console.failed(path.as_bytes(), &error.with_hint("use -0, here and with --files-from"));
        }
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        if let Some((path, out)) = &mut self.unfit {
            out.flush().map_err(|e| failed(&e, path))?;
        }
        let Some(prefix) = self.prefix.clone() else { return Ok(Vec::new()) };
        self.parts.resize_with(count.max(self.parts.len()), Pending::default);
        self.write(&prefix)?;
        Ok((0..self.parts.len()).map(|at| list_path(&prefix, at).display().to_string()).collect())
    }

    /// Adds what is pending to the lists.
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

    /// The name as a list holds it.
    fn record(&mut self, path: &RelPath) -> Option<Vec<u8>> {
        let record = listed(path.as_bytes(), self.nul);
        if record.is_none() && self.odd.len() < ODD && !self.odd.contains(path) {
            self.odd.push(path.clone());
        }
        record
    }
}

impl PlanOutput for Lists {
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
            self.parts.resize_with(part + 1, Pending::default);
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

/// Lists of an earlier plan beside those of this one would be copied as if they belonged to it.
fn refuse_mixing(prefix: &Path) -> Result<()> {
    let folder = prefix.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = prefix.file_name() else {
        return Err(usage("write lists", "the prefix names no file").on(prefix.as_os_str().as_bytes()));
    };
    let is_list = |found: &OsStr| {
        let number = found.as_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"."));
        number.is_some_and(|digits| digits.len() >= 4 && digits.iter().all(u8::is_ascii_digit))
    };
    for found in std::fs::read_dir(folder).map_err(|e| of_option(failed(&e, folder)))? {
        let found = found.map_err(|e| failed(&e, folder))?;
        if is_list(&found.file_name()) {
            let error = usage("write lists", "there is a list of an earlier plan")
                .on(found.path().as_os_str().as_bytes());
            return Err(error.with_hint("remove the lists of that plan, or give another prefix"));
        }
    }
    Ok(())
}

fn failed(error: &std::io::Error, path: &Path) -> Error {
    Error::io(Side::Local, "write the list", error).on(path.as_os_str().as_bytes())
}
