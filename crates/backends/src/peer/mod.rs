//! Another haul, reached over one or more lanes.

use haul_core::location::SshHost;
use haul_core::{BufferPool, Place, Result, Sink, SinkOptions, Source};
use std::sync::Arc;

/// How to reach a far haul.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// The ssh command and its options, split into words; `["ssh"]` unless `-e` was given.
    pub shell: Vec<String>,
    /// Whether `shell` came from `-e`: then haul adds nothing of its own but port, host and command.
    pub shell_given: bool,
    /// The words that start haul at the far end, as its login shell reads them: `haul` or `--remote-haul`.
    pub remote_haul: String,
    /// Connections to open at most; 0 lets haul choose.
    pub streams: u32,
    /// Seconds without any sign of life after which a lane is given up.
    pub timeout: u32,
    /// The memory budget of the far process, in bytes.
    pub max_memory: u64,
}

/// A session with a far haul: any number of roots over any number of lanes.
pub struct Peer;

impl Peer {
    /// Logs in, starts the far haul and greets it, on the first lane; more lanes are opened as work comes.
    /// `note` gets sentences that the person should see.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::Unreachable`] or [`haul_core::ErrorKind::Protocol`], with the way out as hint.
    pub fn connect(
        _host: &SshHost,
        _config: &PeerConfig,
        _pool: &BufferPool,
        _note: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Arc<Self>> {
        Ok(Arc::new(Self))
    }

    /// Opens a source at the far end.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_source(self: &Arc<Self>, _place: &Place) -> Result<Arc<dyn Source>> {
        Err(haul_core::Error::new(
            haul_core::ErrorKind::Unsupported,
            haul_core::Side::Local,
            "open",
            "not yet",
        ))
    }

    /// Opens a sink at the far end.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_sink(self: &Arc<Self>, _place: &Place, _options: &SinkOptions) -> Result<Arc<dyn Sink>> {
        Err(haul_core::Error::new(
            haul_core::ErrorKind::Unsupported,
            haul_core::Side::Local,
            "open",
            "not yet",
        ))
    }
}
