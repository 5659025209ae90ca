//! Arbitrary bytes as a tablespace, as a control file and as the name of a relation.
#![no_main]

use haul_fuzz::within;
use haul_pages::{Control, PageVerdict, innodb, relation_file};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let pages = [innodb(bytes), Control::parse(bytes).map(|control| control.pages(0))];
    for pages in pages.into_iter().flatten() {
        let judged = within(1 << 20, bytes.len(), || {
            let pages_of = bytes.chunks(pages.size()).enumerate();
            pages_of.map(|(number, page)| pages.judge(number as u64, page)).collect::<Vec<_>>()
        });
        assert_eq!(judged.len(), bytes.len().div_ceil(pages.size()));
        assert_ne!(pages.judge(1, &vec![0; pages.size()]), PageVerdict::Bad, "a page of zeros is new");
    }
    let _ = relation_file(bytes);
});
