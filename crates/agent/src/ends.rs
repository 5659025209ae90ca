//! The ends that a session can open: the contract, and the file system of this machine.

use std::sync::Arc;

use haul_core::probe::{ProbeResult, ProbeTask};
use haul_core::{
    BufferPool, Error, ErrorKind, Ops, Place, Program, Result, Side, Sink, SinkOptions, Source, SourceOptions,
};
use haul_program::{ProgramSink, ProgramSource, RunMode, named};

/// The ends that a session can open.
pub trait OpenEnds: Send + Sync {
    /// Opens a source whose buffers come from `pool`.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn source(&self, place: &Place, options: SourceOptions, pool: &BufferPool) -> Result<Arc<dyn Source>>;

    /// Opens a sink.
    ///
    /// # Errors
    /// If it cannot be opened.
    fn sink(&self, place: &Place, options: &SinkOptions, pool: &BufferPool) -> Result<Arc<dyn Sink>>;

    /// Runs a program that writes a stream, of which the source keeps `window` slices.
    ///
    /// # Errors
    /// If it cannot be started, or this session may run none.
    fn producer(&self, program: &Program, _window: u32, _pool: &BufferPool) -> Result<Arc<dyn Source>> {
        Err(runs_none(program, Side::Source))
    }

    /// Runs a program that reads a stream.
    ///
    /// # Errors
    /// If it cannot be started, or this session may run none.
    fn consumer(&self, program: &Program) -> Result<Arc<dyn Sink>> {
        Err(runs_none(program, Side::Destination))
    }

    /// Opened ends make at most so many file-system operations in a second, on each side; `None` is no limit.
    fn limit(&self, _iops: Option<u64>) {}

    /// Measures something or looks it up.
    ///
    /// # Errors
    /// If it cannot be done at all.
    fn probe(&self, task: &ProbeTask) -> Result<ProbeResult>;

    /// Whether the local end is confined: then it gets no connections but those of its login.
    fn is_restricted(&self) -> bool {
        false
    }

    /// Whether entries of a source or a sink may be removed.
    ///
    /// # Errors
    /// `PermissionDenied` if not.
    fn may_remove(&self, _of: Side) -> Result<()> {
        Ok(())
    }
}

fn runs_none(program: &Program, side: Side) -> Error {
    let cause = "this login runs no programs, it is confined to a directory (haul agent --root)";
    Error::new(ErrorKind::PermissionDenied, side, "run", cause).on(named(program))
}

/// The file system of this machine, with a limit for each side.
#[derive(Default)]
pub(crate) struct LocalEnds {
    source: Arc<Ops>,
    sink: Arc<Ops>,
}

impl OpenEnds for LocalEnds {
    fn source(&self, place: &Place, options: SourceOptions, pool: &BufferPool) -> Result<Arc<dyn Source>> {
        haul_local::open_source(place, options, true, pool, &self.source)
    }

    fn sink(&self, place: &Place, options: &SinkOptions, pool: &BufferPool) -> Result<Arc<dyn Sink>> {
        haul_local::open_sink(place, true, options, pool, &self.sink)
    }

    fn producer(&self, program: &Program, window: u32, pool: &BufferPool) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(ProgramSource::run(program, RunMode::There, window, pool, Arc::default())?))
    }

    fn consumer(&self, program: &Program) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(ProgramSink::run(program, RunMode::There)?))
    }

    fn limit(&self, iops: Option<u64>) {
        self.source.limit(iops);
        self.sink.limit(iops);
    }

    fn probe(&self, task: &ProbeTask) -> Result<ProbeResult> {
        haul_probe::run(task, &|place| haul_local::resolve(place, true))
    }
}
