//! How far ends are reached, from the words about it.

use haul_backends::peer::PeerConfig;
use haul_core::{BufferPool, Result};

use super::{usage, words::split_words};
use crate::args::LinkArgs;

/// The least memory that haul works with: a few buffers for each end.
const MIN_MEMORY: u64 = 32 * 1024 * 1024;

/// What starts haul on other machines unless another one is named; as in the definition of the option.
const DEFAULT_HAUL: &str = "haul";

/// How ends are opened.
pub(crate) struct LinkSettings {
    /// For ends on other machines.
    pub(crate) peer: PeerConfig,
    /// Whether to put haul onto machines that have none.
    pub(crate) bootstrap: bool,
    /// Whether the person said where haul is on other machines: then nothing else will do.
    pub(crate) haul_named: bool,
    /// Memory for content of this process.
    pub(crate) pool: BufferPool,
}

impl LinkSettings {
    /// Checks and resolves the words.
    ///
    /// # Errors
    /// If the remote shell cannot be split, or the memory is too little.
    pub(crate) fn resolve(args: &LinkArgs) -> Result<Self> {
        let shell = match &args.rsh {
            None => vec!["ssh".to_owned()],
            Some(command) => split_words(command)
                .map_err(|cause| usage("read the remote shell of -e", cause).on(command.as_bytes()))?,
        };
        if args.remote_haul.trim().is_empty() {
            return Err(usage("read --remote-haul", "it is empty"));
        }
        if args.max_memory < MIN_MEMORY {
            return Err(usage("obey --max-memory", "haul needs 32MiB at least"));
        }
        let peer = PeerConfig {
            shell,
            shell_given: args.rsh.is_some(),
            remote_haul: args.remote_haul.clone(),
            streams: args.streams.unwrap_or(0),
            timeout: args.timeout,
            max_memory: args.max_memory,
        };
        Ok(Self {
            peer,
            bootstrap: args.missing.bootstrap,
            haul_named: args.remote_haul != DEFAULT_HAUL,
            pool: BufferPool::new(args.max_memory),
        })
    }
}
