//! Arbitrary bytes as the XML of an object store.
#![no_main]

// The reader. Its crate has an HTTP client.
#[allow(dead_code)]
#[path = "../../crates/object/src/fault.rs"]
mod fault;
#[allow(dead_code)]
#[path = "../../crates/object/src/record.rs"]
mod record;
mod store {
    pub(crate) type RequestResult<T> = Result<T, crate::fault::Fault>;
}

use haul_fuzz::{BASE, within};
use libfuzzer_sys::fuzz_target;

const ROOTS: [&str; 4] = ["ListBucketResult", "EnumerationResults", "DeleteResult", "BlockList"];
const LISTS: [&str; 2] = ["Blobs", "UncommittedBlocks"];

fuzz_target!(|bytes: &[u8]| {
    // The root element is hard to guess: the bytes are also tried inside one.
    let wrapped = [b"<ListBucketResult>", bytes, b"</ListBucketResult>"].concat();
    for content in [bytes, &wrapped] {
        within(BASE, content.len(), || {
            let _ = record::records(content, &ROOTS, &LISTS, &mut |record| {
                let _ = (record.need("Key"), record.number::<u64>("Size"), record.says_true());
                Ok(())
            });
            let _ = record::refusal_in(content);
        });
        within(BASE, content.len(), || drop(record::whole(content, &ROOTS)));
    }
});
