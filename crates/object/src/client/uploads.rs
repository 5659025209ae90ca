//! Incomplete uploads: their parts, their listing, their abort.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use haul_core::{ErrorKind, ObjectKind, Result};

use super::bucket::Client;
use super::retry::RetryPolicy;
use crate::fault::FailureClass;
use crate::store::{HeldPart, RequestProgress, Upload};

impl Client {
    /// Aborts an upload. Works for a few seconds even if the run is cancelled.
    ///
    /// # Errors
    /// The error of the request.
    pub fn abort(&self, upload: &Upload) -> Result<()> {
        let never = AtomicBool::new(false);
        let limit = Duration::from_secs(4);
        let mut retry = RetryPolicy::new(limit);
        loop {
            let at = RequestProgress::new(Duration::from_secs(2), &never, None);
            match self.store.abort(upload, &at) {
                Ok(()) => return Ok(()),
                Err(fault) if retry.allows(&fault, None) => retry.wait(&fault, || false),
                Err(fault) => return Err(self.error(&fault, "give up the upload of", &upload.key)),
            }
        }
    }

    /// Lists the parts of an upload, ascending; `None` if there is no such upload.
    ///
    /// # Errors
    /// The error of the request.
    pub fn parts(&self, upload: &Upload) -> Result<Option<Vec<HeldPart>>> {
        let mut all: Vec<HeldPart> = Vec::new();
        loop {
            let after = all.last().map_or(0, |part| part.number);
            let (parts, more) = match self.ask(|at| self.store.parts(upload, after, at)) {
                Ok(page) => page,
                Err(fault) if fault.class == FailureClass::NotFound => return Ok(None),
                Err(fault) => return Err(self.error(&fault, "list the parts of", &upload.key)),
            };
            let grows = parts.last().is_some_and(|part| part.number > after);
            all.extend(parts.into_iter().filter(|part| part.number > after));
            if !more || !grows {
                return Ok(Some(all));
            }
        }
    }

    /// Lists the incomplete uploads of all keys below `prefix`. MinIO lists them for an exact key, or for the whole bucket,
    /// only.
    ///
    /// # Errors
    /// The error of the request.
    pub fn uploads_below(&self, prefix: &str) -> Result<Vec<Upload>> {
        if self.kind() != ObjectKind::S3 || self.endpoint().contains("amazonaws.com") {
            return self.uploads(prefix);
        }
        match self.uploads("") {
            Ok(mut all) => {
                all.retain(|upload| upload.key.starts_with(prefix));
                Ok(all)
            }
            // The user may list below the prefix only.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => self.uploads(prefix),
            Err(error) => Err(error),
        }
    }

    /// Lists the incomplete uploads under `prefix`. Without [`Terms::lists_uploads`](crate::Terms::lists_uploads),
    /// those of the object with this exact key.
    ///
    /// # Errors
    /// The error of the request.
    pub fn uploads(&self, prefix: &str) -> Result<Vec<Upload>> {
        let mut all: Vec<Upload> = Vec::new();
        loop {
            let page = self.ask(|at| self.store.uploads(prefix, all.last(), at));
            let (uploads, more) =
                page.map_err(|fault| self.error(&fault, "list the uploads under", prefix))?;
            let grows = uploads.last().is_some_and(|last| Some(last) != all.last());
            all.extend(uploads);
            if !more || !grows {
                return Ok(all);
            }
        }
    }
}
