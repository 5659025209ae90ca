//! Arbitrary bytes as an index, with and without a valid hash.
#![no_main]

// The modules that read it. Their crate depends on more.
#[allow(dead_code)]
#[path = "../../crates/index/src/format.rs"]
mod format;
#[allow(dead_code)]
#[path = "../../crates/index/src/stored.rs"]
mod stored;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use haul_core::RelPath;
use haul_fuzz::within;
use libfuzzer_sys::fuzz_target;

/// serde reserves up to a mebibyte for each list; hashing takes a buffer.
const BASE: usize = 4 * 1024 * 1024;

fuzz_target!(|bytes: &[u8]| {
    // The first two bytes are the length of the footer. The blocks precede it.
    let Some((split, body)) = bytes.split_first_chunk::<2>() else { return };
    let footer = usize::from(u16::from_le_bytes(*split)).min(body.len());
    let mut whole = format::MAGIC.to_vec();
    whole.extend(body);
    whole.extend((footer as u64).to_le_bytes());
    whole.extend(blake3::hash(&whole).as_bytes());
    for content in [bytes, &whole] {
        open(content);
    }
});

fn open(content: &[u8]) {
    static FILE: OnceLock<(File, PathBuf)> = OnceLock::new();
    let (file, path) = FILE.get_or_init(|| {
        let name = PathBuf::from(format!("/dev/shm/haul-fuzz-{}", std::process::id()));
        let file = File::create(&name).unwrap();
        let opened = File::open(&name).unwrap();
        std::fs::remove_file(&name).unwrap();
        let path = format!("/proc/self/fd/{}", opened.as_raw_fd()).into();
        std::mem::forget(opened);
        (file, path)
    });
    file.set_len(content.len() as u64).unwrap();
    file.write_all_at(content, 0).unwrap();
    within(BASE, content.len(), || {
        let Ok(stored) = stored::StoredIndex::open(path, b"") else { return };
        let root = RelPath::root();
        if let Ok(Some(found)) = stored.directory(&root) {
            let _ = stored.entries(&root, &found).map(Iterator::count);
        }
        let _ = stored.names(&root, &[b"a", b"b"]);
        let _ = stored.records().map(Iterator::count);
    });
}
