//! The console: all output of a run goes through it.

use haul_core::sync::Mutex;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::event::{Action, Done};
use haul_core::text::{one_line, without_errno};
use haul_core::{Digest, Error, MetaNote, Progress, Result, Side};
use haul_job::Observer;

use super::differences::Difference;
use super::failures::Failures;
use super::gauge::{NoGauge, ProgressGauge, status_line};
use super::itemize::Items;
use super::json::{self, Json};
use super::lines::OutputLines;
use super::log::Log;
use super::people::{People, difference_line};
use super::plain::Ticker;
use super::plan::Planned;
use super::print::{print_line, say};
use super::probe::{Diagnosis, Measurement};
use super::summary::Summary;
use super::tty::Bottom;
use super::view::{RunView, Start};
use super::wording::shown;
use crate::exit_code::{Circumstances, Exit};
use crate::jobs::{Job, RunResult};
use crate::manifest::{Manifest, ManifestRequest, WrittenManifest};
use crate::settings::{of_option, usage};

/// When progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Showing {
    /// Redrawn on a terminal, otherwise a line at intervals.
    #[default]
    AsFits,
    /// Always, even beside other output.
    Always,
    /// Never.
    Never,
}

/// Output settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputSettings {
    /// Errors only.
    pub(crate) quiet: bool,
    /// List each entry.
    pub(crate) verbose: bool,
    /// List entries that are equal, too.
    pub(crate) lists_equal: bool,
    /// List each change as rsync does.
    pub(crate) itemize: bool,
    /// The facts that all these lines depend on.
    pub(crate) items: Items,
    /// JSON on standard output.
    pub(crate) json: bool,
    /// When progress is shown.
    pub(crate) progress: Showing,
    /// The log to append to.
    pub(crate) log_file: Option<PathBuf>,
    /// The file for failed paths, and whether NUL ends each.
    pub(crate) failed: Option<(PathBuf, bool)>,
    /// The manifest to write.
    pub(crate) manifest: Option<ManifestRequest>,
    /// Dry run: each entry is listed with the action that a run would take.
    pub(crate) dry_run: bool,
    /// Metadata errors are failures.
    pub(crate) strict: bool,
    /// Options give entries other owners or groups than those at the source.
    pub(crate) gives_owners: bool,
}

impl OutputSettings {
    /// Whether entries are listed.
    pub(crate) fn lists_entries(&self) -> bool {
        self.verbose || self.itemize || self.dry_run && !self.quiet
    }
}

/// Shows a run, and collects the data for its summary.
pub(crate) struct Console {
    view: Box<dyn RunView>,
    settings: OutputSettings,
    failures: Mutex<Failures>,
    manifest: Option<Manifest>,
    log: Option<Log>,
    lines: Arc<OutputLines>,
    job: Option<Arc<Job>>,
    /// The last progress.
    last: Mutex<Option<Progress>>,
    /// The file that is being copied.
    in_flight: Mutex<Option<Vec<u8>>>,
}

/// The last line of a run that did not end in time after a signal, or got a second one.
const ABANDONED: &str = "interrupted, before the content on its way had arrived";

impl Console {
    /// Starts to show a run.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Usage`] if the file for failed paths or the manifest cannot be created.
    pub(crate) fn start(settings: OutputSettings, start: &Start) -> Result<Arc<Self>> {
        let failures = match &settings.failed {
            None => Failures::default(),
            Some((path, nul)) => Failures::with_list(path, *nul).map_err(|error| {
                of_option(Error::io(Side::Local, "write the list", &error).on(path.as_os_str().as_bytes()))
            })?,
        };
        let log = settings.log_file.as_deref().map(open_log).transpose()?;
        let manifest = settings.manifest.as_ref().map(Manifest::begin).transpose()?;
        let lines = Arc::new(OutputLines::stdout());
        let view: Box<dyn RunView> = if settings.json {
            Box::new(Json::new(Arc::clone(&lines), settings.dry_run, settings.progress != Showing::Never))
        } else {
            let items = settings.itemize.then_some(settings.items);
            Box::new(People::new(Arc::clone(&lines), gauge(&settings), settings.dry_run, items))
        };
        let console = Self {
            view,
            settings,
            failures: Mutex::new(failures),
            manifest,
            log,
            lines,
            job: start.job.clone(),
            last: Mutex::default(),
            in_flight: Mutex::default(),
        };
        console.view.start(start);
        Ok(Arc::new(console))
    }

    /// Shows a difference between source and destination.
    pub(crate) fn difference(&self, difference: Difference, name: &[u8], detail: &str) {
        self.log(|| difference_line(difference, name, detail));
        if !self.settings.quiet || difference != Difference::Extra {
            self.view.difference(difference, name, detail);
        }
    }

    /// Shows the progress in one line, on request.
    pub(crate) fn status(&self) {
        let last = *self.last.lock();
        let file = self.in_flight.lock().clone();
        let text = last.map_or_else(
            || "connecting or scanning".to_owned(),
            |progress| status_line(&progress, file.as_deref()),
        );
        self.view.note(&text);
    }

    /// Shows the result of a probe.
    pub(crate) fn measurement(&self, measurement: &Measurement) {
        self.view.measurement(measurement);
    }

    /// Shows an analysed tree.
    pub(crate) fn planned(&self, planned: &Planned) {
        if !self.settings.quiet {
            self.view.planned(planned);
        }
    }

    /// Shows the findings of `probe --doctor`.
    pub(crate) fn diagnosis(&self, diagnosis: &Diagnosis) {
        self.view.diagnosis(diagnosis);
    }

    /// Removes the progress, and tells the end, before the program ends at once.
    pub(crate) fn abandon(&self) {
        self.view.abandon();
        if let Some(log) = &self.log {
            let _ = log.end(ABANDONED, Exit::Interrupted as u8);
        }
        print_line(ABANDONED);
    }

    /// Shows the summary, and returns the exit code.
    pub(crate) fn finish(&self, mut summary: Summary) -> Exit {
        // Owners that an option gives are obeyed, or the run fails.
        let is_owner = |note: &MetaNote| note.what == "owner";
        let owners_lost = self.settings.gives_owners && summary.report.notes.iter().any(is_owner);
        summary.owners_lost = owners_lost;
        let mut circumstances = {
            let mut failures = self.failures.lock();
            summary.list_failure = failures.finish_list().err();
            summary.groups = failures.groups();
            summary.unseen = failures.unseen();
            summary.shown_live = true;
            summary.report.totals.failed = summary.report.totals.failed.max(failures.count());
            Circumstances {
                full: failures.is_full(),
                unaccounted: summary.unaccounted() > 0,
                strict: self.settings.strict,
                bad: summary.bad,
                metadata_differs: summary.differences.metadata > 0,
                owners_lost,
                output_lost: summary.list_failure.is_some() || self.lines.failure().is_some(),
            }
        };
        summary.job = self.job.as_ref().map(|job| job.id());
        summary.verbose = self.settings.verbose;
        summary.quiet = self.settings.quiet;
        summary.strict = self.settings.strict;
        summary.dry_run = self.settings.dry_run;
        summary.failed_list = self.settings.failed.clone();
        summary.exit = Exit::of_report(&summary.report, circumstances);
        summary.manifest = self.manifest.as_ref().map(|manifest| write(manifest, &summary));
        if matches!(summary.manifest, Some(Err(_))) {
            circumstances.output_lost = true;
            summary.exit = Exit::of_report(&summary.report, circumstances);
        }
        summary.log_failure = self.end_log(&mut summary);
        if summary.log_failure.is_some() {
            circumstances.output_lost = true;
            summary.exit = Exit::of_report(&summary.report, circumstances);
        }
        self.view.summary(&summary);
        if let Some(job) = &self.job {
            (summary.quiet, summary.shown_live) = (false, false);
            let (text, summary_json) = (summary.text(), json::summary(&summary));
            let exit_code = summary.exit as u8;
            job.ended(&summary.report.totals, RunResult { exit_code, text, summary: summary_json });
        }
        if let Some(cause) = self.lines.failure() {
            say(&format!("haul: failed to write to standard output: {}\n", without_errno(&cause)));
            if summary.exit == Exit::Done {
                return Exit::Incomplete;
            }
        }
        summary.exit
    }

    /// Logs the whole summary. Returns the reason why the log is incomplete, if it is.
    fn end_log(&self, summary: &mut Summary) -> Option<String> {
        let log = self.log.as_ref()?;
        let shown = (summary.quiet, summary.shown_live);
        (summary.quiet, summary.shown_live) = (false, false);
        let text = summary.text();
        (summary.quiet, summary.shown_live) = shown;
        log.end(&text, summary.exit as u8).err()
    }

    /// Logs the error that ends the run before it has a summary.
    pub(crate) fn ended_by(&self, error: &Error) {
        if let Some(log) = &self.log {
            // The user sees the error of the run; one of the log would hide it.
            let _ = log.end(&error.to_string(), Exit::of_error(error) as u8);
        }
    }

    fn log(&self, text: impl FnOnce() -> String) {
        if let Some(log) = &self.log {
            log.line(&text());
        }
    }
}

impl Observer for Console {
    fn progress(&self, progress: &Progress) {
        let file = self.in_flight.lock().clone();
        self.view.progress(progress, file.as_deref());
        *self.last.lock() = Some(*progress);
        if let Some(log) = &self.log {
            log.flush();
        }
        if let Some(job) = &self.job {
            job.progress(&progress.totals);
        }
    }

    fn in_flight(&self, name: &[u8]) {
        *self.in_flight.lock() = Some(name.to_vec());
    }

    fn entry(&self, name: &[u8], done: Done<'_>) {
        if let Some(manifest) = &self.manifest {
            manifest.add(done.action, name, done.content);
        }
        if let Some(log) = &self.log {
            self.settings.items.logged(name, done).iter().for_each(|line| log.line(line));
        }
        if self.settings.lists_entries() && (done.action != Action::Same || self.settings.lists_equal) {
            self.view.entry(name, done);
        }
    }

    fn sha256(&self, name: &[u8], digest: Option<Digest>) {
        if let Some(manifest) = &self.manifest {
            manifest.add_sha256(name, digest);
        }
    }

    fn failed(&self, name: &[u8], error: &Error) {
        let live = self.failures.lock().add(name, error);
        self.log(|| format!("failed: {}: {error}", shown(name)));
        self.view.failed(name, error, live);
    }

    fn bad_page(&self, name: &[u8], page: u64) {
        self.log(|| format!("bad page: {} page {page}", shown(name)));
        self.view.bad_page(name, page);
    }

    fn note(&self, text: &str) {
        self.log(|| format!("note: {}", without_errno(text)));
        if !self.settings.quiet {
            self.view.note(&one_line(without_errno(text)));
        }
    }

    fn warn(&self, text: &str) {
        self.log(|| format!("warning: {}", without_errno(text)));
        self.view.note(&one_line(without_errno(text)));
    }
}

/// Opens the log.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if it cannot be opened.
fn open_log(path: &Path) -> Result<Log> {
    Log::open(path).map_err(|error| {
        let cause = without_errno(&error.to_string());
        usage("write the log", cause).on(path.as_os_str().as_bytes())
    })
}

/// Writes the manifest of a run that came to its end.
fn write(manifest: &Manifest, summary: &Summary) -> std::result::Result<WrittenManifest, String> {
    if summary.report.interrupted || summary.report.fatal.is_some() {
        return Err("the run did not come to its end".to_owned());
    }
    manifest.write(summary.exit == Exit::Done).map_err(|error| without_errno(&error.to_string()))
}

fn gauge(settings: &OutputSettings) -> Box<dyn ProgressGauge> {
    let names_on_terminal = settings.lists_entries() && std::io::stdout().is_terminal();
    let shown = match settings.progress {
        Showing::Always => true,
        Showing::Never => false,
        Showing::AsFits => !settings.quiet && !names_on_terminal,
    };
    if !shown {
        Box::new(NoGauge)
    } else if std::io::stderr().is_terminal() {
        Box::new(Bottom::new())
    } else {
        Box::new(Ticker::new())
    }
}
