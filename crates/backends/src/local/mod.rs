//! The local file system as a source and a sink.

use haul_core::{BufferPool, Place, Result, Sink, SinkOptions, Source};
use std::sync::Arc;

/// Opens a source. `far` says that another machine asks: a leading `~` is then a home directory.
///
/// # Errors
/// If the path cannot be resolved. A root that does not exist is no error here: [`Source::root`] tells.
pub fn open_source(_place: &Place, _far: bool, _pool: &BufferPool) -> Result<Arc<dyn Source>> {
    Err(haul_core::Error::new(haul_core::ErrorKind::Unsupported, haul_core::Side::Local, "open", "not yet"))
}

/// Opens a sink. Missing directories above the root are made when the first entry is.
///
/// # Errors
/// If the path cannot be resolved.
pub fn open_sink(
    _place: &Place,
    _far: bool,
    _options: &SinkOptions,
    _pool: &BufferPool,
) -> Result<Arc<dyn Sink>> {
    Err(haul_core::Error::new(haul_core::ErrorKind::Unsupported, haul_core::Side::Local, "open", "not yet"))
}
