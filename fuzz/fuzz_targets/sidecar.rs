//! Arbitrary bytes as the sidecar of an object.
#![no_main]

// Its crate has an HTTP client: the modules that it uses are replaced by the few lines below. The client of stores is this
// crate itself.
extern crate self as haul_object;

#[allow(dead_code)]
#[path = "../../crates/streams/src/encoding.rs"]
mod encoding;
#[allow(dead_code)]
#[path = "../../crates/streams/src/sidecar.rs"]
mod sidecar;

/// A store with one object, the sidecar.
mod client {
    use std::cell::RefCell;

    use haul_core::Result;

    use crate::store::{Object, PutOptions};

    pub struct Client(pub RefCell<Vec<u8>>);

    impl Client {
        pub fn name(&self, key: &str) -> String {
            key.to_owned()
        }

        pub fn head(&self, key: &str) -> Result<Option<Object>> {
            let len = self.0.borrow().len() as u64;
            Ok(Some(Object { key: key.to_owned(), len, ..Object::default() }))
        }

        pub fn read_small(&self, _key: &str, limit: usize) -> Result<Option<Vec<u8>>> {
            Ok(Some(self.0.borrow().clone()).filter(|content| content.len() <= limit))
        }

        pub fn write_small(&self, _key: &str, content: Vec<u8>, _options: &PutOptions) -> Result<()> {
            *self.0.borrow_mut() = content;
            Ok(())
        }
    }
}

/// Keys that encrypt nothing.
mod keys {
    use haul_core::Result;

    pub struct Recipients;

    impl Recipients {
        pub fn seal(&self, bytes: &[u8]) -> Result<String> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }

    pub struct Identities;

    impl Identities {
        pub fn unseal(&self, text: &str) -> Option<Vec<u8>> {
            Some(text.as_bytes().to_owned())
        }
    }
}

/// The types of a store, as far as they are used.
#[allow(dead_code)]
mod store {
    #[derive(Clone, Default)]
    pub struct Object {
        pub key: String,
        pub len: u64,
        pub etag: String,
        pub metadata: Vec<(String, String)>,
    }

    impl Object {
        pub fn meta(&self, name: &str) -> Option<&str> {
            self.metadata.iter().find(|(key, _)| key == name).map(|(_, value)| &value[..])
        }
    }

    #[derive(Clone, Default)]
    pub struct PutOptions {
        pub headers: Vec<(String, String)>,
        pub storage_class: Option<String>,
        pub sse: Option<String>,
        pub sse_kms_key_id: Option<String>,
    }
}

use std::cell::RefCell;

use haul_fuzz::{BASE, within};
use libfuzzer_sys::fuzz_target;

pub use crate::client::Client;
use crate::keys::Identities;
use crate::sidecar::{NewRecord, SidecarObject, beside, find, write};
pub use crate::store::{Object, PutOptions};

fuzz_target!(|bytes: &[u8]| {
    // Digests are hard to guess: the bytes are also tried as the fields behind a valid start.
    let digest = "0".repeat(64);
    let valid = format!("{{\"haul\":1,\"length\":3,\"blake3\":\"{digest}\",\"etag\":\"e-1\",");
    let fields = [valid.as_bytes(), bytes, b"}"].concat();
    for content in [bytes, &fields] {
        let client = Client(RefCell::new(content.to_vec()));
        let object = Object { etag: "\"e-1\"".to_owned(), len: 3, ..Object::default() };
        let read = within(BASE, content.len(), || find(&client, &object));
        let Ok(found) = read else { panic!("the store does not fail") };
        let is_sidecar = within(BASE, content.len(), || beside(&client, "key")) == Ok(SidecarObject::Sidecar);
        // An object without metadata has no other place for a digest.
        let Some(stored) = found.stored else { continue };
        assert!(is_sidecar, "only a sidecar is believed");
        let _ = within(BASE, content.len(), || found.plain.proof(&Identities));
        // Valid records are written and read back unchanged.
        let Ok(encoding) = found.encoding else { continue };
        let recorded = NewRecord { stored, encoding, plain: found.plain.clone() };
        assert!(write(&client, "key", &recorded, "e-1", &PutOptions::default()).is_ok());
        let Ok(again) = find(&client, &object) else { panic!("the store does not fail") };
        assert!(again.stored == Some(stored) && again.encoding == Ok(encoding) && again.plain == found.plain);
    }
});
