//! The directory of the job records: `jobs` in `$XDG_STATE_HOME/haul` or `~/.local/state/haul`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::record::{JobRecord, JobState};

/// Number of records kept, besides those of running jobs.
const KEPT: usize = 100;
/// Maximum size of a record; real ones have a few kilobytes.
const MAX_LEN: u64 = 4 * 1024 * 1024;

/// The directory of the records, accessible to its owner only.
#[derive(Clone)]
pub(crate) struct JobDirectory(PathBuf);

impl JobDirectory {
    /// Opens the directory of this user's jobs; creates it if it is missing.
    ///
    /// # Errors
    /// If it cannot be created or belongs to another user.
    pub(crate) fn open() -> io::Result<Self> {
        Self::at(haul_state::directory("jobs")?)
    }

    fn at(path: PathBuf) -> io::Result<Self> {
        haul_state::make(&path)?;
        Ok(Self(path))
    }

    /// Reserves the next job number.
    ///
    /// # Errors
    /// If its file cannot be created.
    pub(super) fn claim(&self) -> io::Result<u64> {
        let mut id = self.ids()?.last().copied().unwrap_or(0);
        loop {
            id += 1;
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.file(id)) {
                Ok(_) => return Ok(id),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Replaces a record atomically.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(&self, record: &JobRecord) -> io::Result<()> {
        let temporary = self.0.join(format!("{}.new", record.id));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written = file.write_all(&serde_json::to_vec(record)?);
        let placed = written.and_then(|()| fs::rename(&temporary, self.file(record.id)));
        if placed.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        placed
    }

    /// All readable records, oldest first.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub(crate) fn records(&self) -> io::Result<Vec<JobRecord>> {
        Ok(self.ids()?.into_iter().filter_map(|id| self.record(id)).collect())
    }

    /// One record.
    pub(crate) fn record(&self, id: u64) -> Option<JobRecord> {
        let path = self.file(id);
        let small = fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_LEN);
        JobRecord::parse(&fs::read(path).ok().filter(|_| small)?)
    }

    /// Removes the oldest records beyond the limit, and sockets without a process.
    pub(crate) fn tidy(&self) {
        let Ok(ids) = self.ids() else { return };
        let runs = |id: u64| self.record(id).is_some_and(|record| record.state() == JobState::Running);
        for id in ids.iter().take(ids.len().saturating_sub(KEPT)).filter(|id| !runs(**id)) {
            self.remove(*id);
        }
        for id in self.numbers("sock").unwrap_or_default() {
            if !runs(id) {
                self.remove_socket(id);
            }
        }
    }

    /// Removes a record.
    pub(super) fn remove(&self, id: u64) {
        self.remove_socket(id);
        let _ = fs::remove_file(self.file(id));
    }

    /// Removes the socket of a run.
    pub(super) fn remove_socket(&self, id: u64) {
        let _ = fs::remove_file(self.0.join(socket_name(id)));
    }

    /// The open directory, and the path of a run's socket through its descriptor: paths of sockets must be short.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub(super) fn socket(&self, id: u64) -> io::Result<(File, PathBuf)> {
        use std::os::fd::AsRawFd;
        let held = File::open(&self.0)?;
        let path = Path::new("/proc/self/fd").join(held.as_raw_fd().to_string()).join(socket_name(id));
        Ok((held, path))
    }

    fn file(&self, id: u64) -> PathBuf {
        self.0.join(format!("{id}.json"))
    }

    /// The numbers of all records, ascending.
    fn ids(&self) -> io::Result<Vec<u64>> {
        self.numbers("json")
    }

    fn numbers(&self, extension: &str) -> io::Result<Vec<u64>> {
        let number = |name: &Path| {
            let of_kind = name.extension().is_some_and(|found| found == extension);
            name.file_stem().filter(|_| of_kind)?.to_str()?.parse().ok()
        };
        let names = fs::read_dir(&self.0)?.filter_map(|entry| Some(PathBuf::from(entry.ok()?.file_name())));
        let mut numbers: Vec<u64> = names.filter_map(|name| number(&name)).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn socket_name(id: u64) -> String {
    format!("{id}.sock")
}

#[cfg(test)]
mod tests {
    use super::super::process::ProcessIdentity;
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn directory() -> (tempfile::TempDir, JobDirectory) {
        let scratch = tempfile::tempdir().unwrap();
        let directory = JobDirectory::at(scratch.path().join("a/haul/jobs")).unwrap();
        (scratch, directory)
    }

    fn record(id: u64) -> JobRecord {
        JobRecord::new(id, Vec::new(), String::new(), ProcessIdentity::this())
    }

    #[test]
    fn job_numbers_ascend_and_are_unique() {
        let (_scratch, directory) = directory();
        assert_eq!(fs::metadata(&directory.0).unwrap().mode() & 0o777, 0o700);
        let mut ids: Vec<u64> = std::thread::scope(|scope| {
            let claims: Vec<_> = (0..8).map(|_| scope.spawn(|| directory.claim().unwrap())).collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        ids.sort_unstable();
        assert_eq!(ids, (1..=8).collect::<Vec<_>>());
        assert_eq!(directory.records().unwrap(), [], "those that say nothing yet are left out");
        let third = record(3);
        directory.write(&third).unwrap();
        assert_eq!(directory.records().unwrap(), [third]);
        fs::write(directory.file(99), "torn").unwrap();
        assert_eq!(directory.claim().unwrap(), 100);
    }

    #[test]
    fn old_records_and_dead_sockets_are_removed_but_not_running_jobs() {
        let (_scratch, directory) = directory();
        for id in 1..=KEPT as u64 + 10 {
            let mut record = record(id);
            record.process.ticks += u64::from(id != 2);
            directory.write(&record).unwrap();
            fs::write(directory.0.join(socket_name(id)), "").unwrap();
        }
        directory.tidy();
        let ids = directory.ids().unwrap();
        assert_eq!((ids.len(), ids[0], ids[1]), (KEPT + 1, 2, 11));
        assert_eq!(directory.numbers("sock").unwrap(), [2]);
    }

    #[test]
    fn a_directory_writable_by_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let (_scratch, directory) = directory();
        fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(JobDirectory::at(directory.0.clone()).is_err());
    }
}
