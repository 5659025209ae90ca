//! Deletes objects: many by one request where the store supports it and XML can carry their keys, else one by one. A
//! failure does not stop the others, and each object that stays is reported.

use haul_core::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use haul_core::{Error, Result};

use super::bucket::Client;
use crate::fault::{FailureClass, Fault};
use crate::store::Object;

impl Client {
    /// Deletes objects; returns those that stay, with the reason.
    ///
    /// # Errors
    /// The store cannot be reached any more; some objects may be deleted then.
    pub fn remove(&self, keys: &[String]) -> Result<Vec<(String, Error)>> {
        let most = self.store.terms().delete_batch;
        let (mut failed, mut single, mut together) = (Vec::new(), Vec::new(), Vec::new());
        for key in keys {
            let with_others = most > 1 && self.store.deletes_together(key);
            if with_others { together.push(&key[..]) } else { single.push(&key[..]) }
        }
        for keys in together.chunks(most) {
            if keys.len() == 1 || self.one_by_one.load(Ordering::Relaxed) {
                single.extend(keys);
            } else {
                single.extend(self.remove_together(keys, &mut failed)?);
            }
        }
        failed.extend(self.remove_each(&single)?);
        Ok(failed)
    }

    /// Deletes an object that was looked at just now, unless it is another one by now. For many at a time.
    ///
    /// A store that does not support the condition deletes the object that it has.
    ///
    /// # Errors
    /// [`haul_core::ErrorKind::SourceChanged`] if it is another object, else the error of the request.
    pub fn remove_unchanged(&self, object: &Object) -> Result<()> {
        let _permit = self.small_limiter.permit();
        let delete = |etag: Option<&str>| self.ask(|at| self.store.delete(&object.key, etag, at));
        let deleted = match delete(Some(&object.etag)) {
            Err(fault) if fault.class == FailureClass::Unsupported => delete(None),
            other => other,
        };
        match deleted {
            Ok(()) => Ok(()),
            // A request whose answer was lost may have deleted it.
            Err(fault) if fault.class == FailureClass::Condition && self.head(&object.key)?.is_none() => {
                Ok(())
            }
            Err(fault) => Err(self.changed_or(&fault, "remove", object)),
        }
    }

    /// Deletes objects by one request; returns those to be deleted one by one.
    fn remove_together<'a>(
        &self,
        keys: &[&'a str],
        failed: &mut Vec<(String, Error)>,
    ) -> Result<Vec<&'a str>> {
        let mut deleted = match self.ask(|at| self.store.delete_all(keys, at)) {
            Ok(deleted) => deleted,
            Err(fault) if ends_all(&fault) => {
                return Err(self.error(&fault, "remove", keys.first().copied().unwrap_or_default()));
            }
            // One of the keys may be the reason, or the store does not support such requests.
            Err(fault) => {
                self.one_by_one.fetch_or(fault.class == FailureClass::Unsupported, Ordering::Relaxed);
                return Ok(keys.to_vec());
            }
        };
        let mut again = Vec::new();
        for &key in keys {
            match deleted.left.remove(key) {
                // A temporary failure is retried in a request of its own.
                Some(fault) if matches!(fault.class, FailureClass::Again | FailureClass::SlowDown) => {
                    again.push(key);
                }
                Some(fault) => failed.push((key.to_owned(), self.error(&fault, "remove", key))),
                // An object that the answer does not name counts as not deleted.
                None if !deleted.gone.contains(key) => again.push(key),
                None => {}
            }
        }
        Ok(again)
    }

    /// Deletes objects by one request each, several at a time.
    fn remove_each(&self, keys: &[&str]) -> Result<Vec<(String, Error)>> {
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(Vec::new());
        let work = || -> Result<()> {
            while let Some(&key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.ask(|at| self.store.delete(key, None, at)) {
                    Ok(()) => {}
                    Err(fault) => {
                        let error = self.error(&fault, "remove", key);
                        if ends_all(&fault) {
                            next.fetch_add(keys.len(), Ordering::Relaxed);
                            return Err(error);
                        }
                        failed.lock().push((key.to_owned(), error));
                    }
                }
            }
            Ok(())
        };
        let threads = keys.len().min(self.removals_at_once());
        if threads < 2 {
            work()?;
        } else {
            haul_threads::together(threads, "remove", work)?.into_iter().collect::<Result<()>>()?;
        }
        Ok(failed.into_inner())
    }
}

/// Whether a failure is not specific to one object, so that further requests are pointless.
fn ends_all(fault: &Fault) -> bool {
    let no_bucket = matches!(&fault.code[..], "NoSuchBucket" | "ContainerNotFound");
    no_bucket
        || matches!(
            fault.class,
            FailureClass::Again
                | FailureClass::SlowDown
                | FailureClass::Login
                | FailureClass::Expired
                | FailureClass::Abandoned
                | FailureClass::Foreign
                | FailureClass::Nonsense
        )
}
