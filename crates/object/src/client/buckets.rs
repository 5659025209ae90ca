//! Makes and removes the bucket itself.

use haul_core::{Error, ErrorKind, Result};

use super::bucket::Client;

/// The codes of stores for a bucket that is there already.
const EXISTS: [&str; 3] = ["BucketAlreadyOwnedByYou", "BucketAlreadyExists", "ContainerAlreadyExists"];
/// The codes of stores for a bucket that is not there.
const GONE: [&str; 2] = ["NoSuchBucket", "ContainerNotFound"];

impl Client {
    /// Makes the bucket. Returns whether it is new: with `existing_too`, one that is there already and can be listed will
    /// do.
    ///
    /// # Errors
    /// The error of the request.
    pub fn make_bucket(&self, existing_too: bool) -> Result<bool> {
        let mut tries = 0;
        let made = self.ask(|at| {
            tries += 1;
            self.store.make_bucket(at)
        });
        let is_new = match made {
            Ok(()) => true,
            Err(fault) if EXISTS.contains(&&fault.code[..]) => {
                // The answer to an earlier try may be lost.
                let is_ours = tries > 1 && fault.code == EXISTS[0];
                if !is_ours && !existing_too {
                    let cause = format!("there is a bucket of this name already ({})", fault.code);
                    return Err(Error::new(ErrorKind::Io, self.side(), "make", cause).on(self.name("")));
                }
                is_ours
            }
            Err(fault) => return Err(self.error(&fault, "make", "")),
        };
        // Anything that speaks HTTP can answer the request, but only a store lists.
        let _ = self.list("", true, None)?;
        Ok(is_new)
    }

    /// Checks that the bucket is empty.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`] if it is not, else the error of a request.
    pub fn check_empty(&self) -> Result<()> {
        // Azure, and some servers for S3, remove a bucket with all that is in it.
        if !self.list("", false, None)?.objects.is_empty() {
            return Err(self
                .not_empty("the bucket is not empty")
                .with_hint("--force removes its objects too"));
        }
        // Without permission to list uploads, the store decides.
        if self.terms().lists_uploads && self.uploads("").is_ok_and(|uploads| !uploads.is_empty()) {
            let hint = "`haul rm --incomplete --any` aborts them, and --force does, too";
            return Err(self.not_empty("the bucket has incomplete uploads").with_hint(hint));
        }
        Ok(())
    }

    fn not_empty(&self, cause: &str) -> Error {
        Error::new(ErrorKind::NotEmpty, self.side(), "remove", cause).on(self.name(""))
    }

    /// Removes the bucket if it is empty.
    ///
    /// # Errors
    /// Those of [`Client::check_empty`], else the error of the request.
    pub fn remove_bucket(&self) -> Result<()> {
        self.check_empty()?;
        let mut tries = 0;
        let removed = self.ask(|at| {
            tries += 1;
            self.store.remove_bucket(at)
        });
        match removed {
            Ok(()) => Ok(()),
            // The answer to an earlier try was lost.
            Err(fault) if tries > 1 && GONE.contains(&&fault.code[..]) => Ok(()),
            Err(fault) if fault.code == "BucketNotEmpty" => {
                let hint =
                    "old versions of objects may be there, which only the tools of the provider remove";
                Err(self.not_empty("the store says that it is not empty").with_hint(hint))
            }
            Err(fault) => Err(self.error(&fault, "remove", "")),
        }
    }
}
