//! Opens sources and sinks at the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_core::{Error, ErrorKind, Links, Place, Result, Side, Sink, SinkOptions, Source};

use super::session::Sftp;
use super::source::SftpSource;
use super::state::SftpSink;
use super::tree::Tree;

impl Sftp {
    /// Opens a source at the server, which treats symbolic links as `links` says.
    ///
    /// # Errors
    /// If the path cannot be resolved.
    pub fn open_source(self: &Arc<Self>, place: &Place, links: Links) -> Result<Arc<dyn Source>> {
        let tree = Tree::open(self.clone(), place, Side::Source, links)?;
        Ok(Arc::new(SftpSource::new(tree)))
    }

    /// Opens a sink at the server. Missing directories above the root are created with the first entry.
    ///
    /// # Errors
    /// `Usage` if only one of owner and group is to be set; errors if the path cannot be resolved.
    pub fn open_sink(self: &Arc<Self>, place: &Place, options: &SinkOptions) -> Result<Arc<dyn Sink>> {
        if options.preserve.owner != options.preserve.group {
            let cause = "SFTP sets owner and group together, or neither";
            let error = Error::new(ErrorKind::Usage, Side::Destination, "set the owner", cause);
            return Err(
                error.with_hint("give both --no-owner and --no-group, or install haul on the remote host")
            );
        }
        let writes = !options.dry_run && !options.verify_disk;
        if writes && !self.warned.swap(true, Ordering::Relaxed) {
            self.pool.note(&format!(
                "no haul checks the content on arrival at {}: `--verify disk` reads it back",
                self.pool.name()
            ));
        }
        let tree = Tree::open(self.clone(), place, Side::Destination, Links::Kept)?;
        Ok(Arc::new(SftpSink::new(tree, options.clone())))
    }
}
