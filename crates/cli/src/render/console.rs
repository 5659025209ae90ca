//! The one place that all of a run's output goes through.

use haul_core::sync::{Mutex, MutexGuard};
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use haul_core::event::Action;
use haul_core::text::one_line;
use haul_core::{Error, Progress, Result, Side};

use super::failures::Failures;
use super::gauge::{Gauge, NoGauge, amount, pace};
use super::json::{self, Json};
use super::people::People;
use super::plain::Ticker;
use super::tty::Bottom;
use super::{Diagnosis, Difference, Measurement, Planned, Start, Summary, View};
use crate::exit_code::{Circumstances, Exit};
use crate::jobs::{Ended, Job};
use crate::settings::of_option;

/// When progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Showing {
    /// Redrawn on a terminal, else a line now and then.
    #[default]
    AsFits,
    /// Also where other output would get in its way.
    Always,
    /// Not at all.
    Never,
}

/// What is shown, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputSettings {
    /// Nothing but errors.
    pub(crate) quiet: bool,
    /// Each entry as it is done.
    pub(crate) verbose: bool,
    /// JSON on standard output.
    pub(crate) json: bool,
    /// When progress is shown.
    pub(crate) progress: Showing,
    /// Where failed paths are written, and whether each is ended by NUL.
    pub(crate) failed: Option<(PathBuf, bool)>,
    /// Nothing is changed: entries are told as what would be done.
    pub(crate) dry_run: bool,
    /// Metadata that could not be set makes the run incomplete.
    pub(crate) strict: bool,
}

/// Shows a run and keeps what its end needs.
pub(crate) struct Console {
    view: Box<dyn View>,
    settings: OutputSettings,
    failures: Mutex<Failures>,
    lines: Arc<super::Lines>,
    job: Option<Arc<Job>>,
    /// Where the run stood last.
    last: Mutex<Option<Progress>>,
}

impl Console {
    /// Begins to show a run.
    ///
    /// # Errors
    /// If the file for failed paths cannot be made.
    pub(crate) fn start(settings: OutputSettings, start: &Start) -> Result<Arc<Self>> {
        let failures = match &settings.failed {
            None => Failures::default(),
            Some((path, nul)) => Failures::with_list(path, *nul).map_err(|error| {
                of_option(Error::io(Side::Local, "write the list", &error).on(path.as_os_str().as_bytes()))
            })?,
        };
        let lines = Arc::new(super::Lines::stdout());
        let view: Box<dyn View> = if settings.json {
            Box::new(Json::new(Arc::clone(&lines), settings.dry_run, settings.progress != Showing::Never))
        } else {
            Box::new(People::new(Arc::clone(&lines), gauge(&settings), settings.dry_run))
        };
        let console = Self {
            view,
            settings,
            failures: Mutex::new(failures),
            lines,
            job: start.job.clone(),
            last: Mutex::default(),
        };
        console.view.start(start);
        Ok(Arc::new(console))
    }

    /// Where the run stands.
    pub(crate) fn progress(&self, progress: &Progress) {
        self.view.progress(progress);
        *self.last.lock() = Some(*progress);
        if let Some(job) = &self.job {
            job.progress(&progress.totals);
        }
    }

    /// One entry was dealt with.
    pub(crate) fn entry(&self, action: Action, name: &[u8], len: u64) {
        if self.settings.verbose || self.settings.dry_run && !self.settings.quiet {
            self.view.entry(action, name, len);
        }
    }

    /// One entry failed.
    pub(crate) fn failed(&self, name: &[u8], error: &Error) {
        let live = self.failures().add(name, error);
        self.view.failed(name, error, live);
    }

    /// Two ends differ.
    pub(crate) fn difference(&self, difference: Difference, name: &[u8], detail: &str) {
        if !self.settings.quiet || difference != Difference::Extra {
            self.view.difference(difference, name, detail);
        }
    }

    /// A sentence for the person.
    pub(crate) fn note(&self, text: &str) {
        if !self.settings.quiet {
            self.view.note(&one_line(text));
        }
    }

    /// A sentence of something that stands in the way, said in any case.
    pub(crate) fn warn(&self, text: &str) {
        self.view.note(&one_line(text));
    }

    /// Says in one line where the run stands, because somebody asked.
    pub(crate) fn status(&self) {
        let last = *self.last.lock();
        let text = last.map_or_else(
            || "connecting, or looking at what is there".to_owned(),
            |progress| format!("{} · {}", amount(&progress), pace(&progress)),
        );
        self.view.note(&text);
    }

    /// What a probe measured.
    pub(crate) fn measurement(&self, measurement: &Measurement) {
        self.view.measurement(measurement);
    }

    /// What is in a tree.
    pub(crate) fn planned(&self, planned: &Planned) {
        if !self.settings.quiet {
            self.view.planned(planned);
        }
    }

    /// What the doctor found.
    pub(crate) fn diagnosis(&self, diagnosis: &Diagnosis) {
        self.view.diagnosis(diagnosis);
    }

    /// Tells how the run ended, and with which code.
    pub(crate) fn finish(&self, mut summary: Summary) -> Exit {
        let circumstances = {
            let mut failures = self.failures();
            summary.list_failure = failures.finish_list().err();
            summary.groups = failures.groups();
            summary.unseen = failures.unseen();
            summary.report.totals.failed = summary.report.totals.failed.max(failures.count());
            Circumstances {
                full: failures.is_full(),
                unaccounted: summary.unaccounted() > 0,
                strict: self.settings.strict,
                bad: summary.bad,
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
        self.view.summary(&summary);
        if let Some(job) = &self.job {
            summary.quiet = false;
            let (text, summary_json) = (summary.text(), json::summary(&summary));
            let exit_code = summary.exit as u8;
            job.ended(&summary.report.totals, Ended { exit_code, text, summary: summary_json });
        }
        if let Some(cause) = self.lines.failure() {
            super::say(&format!("haul: failed to write to standard output: {cause}\n"));
            if summary.exit == Exit::Done {
                return Exit::Incomplete;
            }
        }
        summary.exit
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock()
    }
}

fn gauge(settings: &OutputSettings) -> Box<dyn Gauge> {
    let names_on_terminal = (settings.verbose || settings.dry_run) && std::io::stdout().is_terminal();
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
