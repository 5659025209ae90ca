//! URLs that give access to one object for some time.

use std::time::Duration;

use haul_core::{Error, ErrorKind, Result};

use super::bucket::Client;
use crate::fault::FailureClass;
use crate::url_method::UrlMethod;

impl Client {
    /// A URL with which anyone can read or write one object for the time `lasts`. It is a secret.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] if the credentials cannot sign URLs, else that of finding them.
    pub fn presign(&self, key: &str, method: UrlMethod, lasts: Duration) -> Result<String> {
        self.store.presign(key, method, lasts).map_err(|fault| match fault.class {
            FailureClass::Unsupported => {
                Error::new(ErrorKind::Usage, self.side(), "sign a URL", fault.message).on(self.name(key))
            }
            _ => self.error(&fault, "sign a URL for", key),
        })
    }
}
