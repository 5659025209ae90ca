//! The wish to stop: set by SIGINT, SIGTERM or SIGHUP, looked at by every loop that waits.
//!
//! Nothing is torn down in the signal handler itself: the loops return an error and the usual
//! destructors remove namespaces, processes and directories.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

/// A flag shared by all who wait.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that the usual signals raise.
    pub(crate) fn on_signals() -> Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))
                .with_context(|| format!("cannot handle signal {signal}"))?;
        }
        Ok(stop)
    }

    /// Whether a signal came.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error when a signal came.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_set() {
            bail!("stopped by a signal");
        }
        Ok(())
    }
}
