use std::collections::BTreeMap;

use haul_core::{BadPage, Databases, ErrorKind, PageChecks, RelPath, Result};
use proptest::prelude::*;

use crate::bytes::crc32c;
use crate::{Control, HEAD_LEN, PageCheck, PageVerdict, ReadHead, innodb, is_innodb_name, relation_file};

pub(crate) const SIZE: usize = 16 << 10;

/// A tablespace in the format `full_crc32` with pages of 16 KiB, all of them in use.
pub(crate) fn tablespace(pages: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for number in 0..pages {
        let mut page: Vec<u8> = (0..SIZE).map(|at| (at * 7 + number * 13) as u8).collect();
        page[4..8].copy_from_slice(&(number as u32).to_be_bytes());
        page[24..26].copy_from_slice(&(if number == 0 { 8_u16 } else { 17_855 }).to_be_bytes());
        for at in [34, 38] {
            page[at..at + 4].copy_from_slice(&9_u32.to_be_bytes());
        }
        page[54..58].copy_from_slice(&0x15_u32.to_be_bytes());
        seal(&mut page);
        all.extend(page);
    }
    all
}

fn seal(page: &mut [u8]) {
    let sum = crc32c(&page[..SIZE - 4]);
    page[SIZE - 4..].copy_from_slice(&sum.to_be_bytes());
}

/// A control file as that of version 15: the block size behind the floating point number, the checksum at the end.
pub(crate) fn control(checksums: u32) -> Vec<u8> {
    let mut bytes = vec![7; 200];
    bytes[8..12].copy_from_slice(&1300_u32.to_le_bytes());
    bytes.extend(1_234_567.0_f64.to_le_bytes());
    bytes.extend(8192_u32.to_le_bytes());
    bytes.extend(131_072_u32.to_le_bytes());
    bytes.extend([1; 28]);
    bytes.extend(checksums.to_le_bytes());
    bytes.extend([9; 32]);
    bytes.extend(crc32c(&bytes).to_le_bytes());
    bytes.resize(8192, 0);
    bytes
}

/// Files in memory.
#[derive(Default)]
struct MemoryFiles(BTreeMap<&'static str, Vec<u8>>, &'static str);

impl ReadHead for MemoryFiles {
    fn head(&self, len: usize) -> Result<Vec<u8>> {
        let file = &self.0[self.1];
        Ok(file[..len.min(file.len())].to_vec())
    }

    fn other(&self, path: &RelPath, len: usize) -> Option<Vec<u8>> {
        let file = self.0.get(path.to_string().as_str())?;
        Some(file[..len.min(file.len())].to_vec())
    }
}

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

pub(crate) fn checks(of: Databases, fails: bool) -> PageChecks {
    PageChecks { of, fails }
}

#[test]
fn names_of_tablespaces_are_known() {
    for name in ["shop/orders.ibd", "ibdata1", "x/ibdata12", "undo001", "undo_001", "t#P#p0.ibd"] {
        assert!(is_innodb_name(name.as_bytes()), "{name}");
    }
    for name in ["orders.frm", ".ibd", "ibdata", "ibtmp1", "ib_logfile0", "undo", "undo1.sql", "x.ibd/y"] {
        assert!(!is_innodb_name(name.as_bytes()), "{name}");
    }
}

#[test]
fn files_of_relations_are_known_with_their_cluster() {
    let of = |path: &str| {
        relation_file(path.as_bytes())
            .map(|file| (String::from_utf8(file.cluster.to_vec()).unwrap(), file.segment))
    };
    let known = |cluster: &str, segment| Some((cluster.to_owned(), segment));
    assert_eq!(of("base/5/16384"), known("", 0));
    assert_eq!(of("var/pg/base/5/16384.3"), known("var/pg/", 3));
    assert_eq!(of("global/1262_fsm"), known("", 0));
    assert_eq!(of("pg/global/1262_vm.1"), known("pg/", 1));
    assert_eq!(of("pg/pg_tblspc/16400/PG_15_202209061/5/16385_init"), known("pg/", 0));
    for none in [
        "16384",
        "5/16384",
        "xbase/5/16384",
        "base/5/pg_filenode.map",
        "base/5/t3_16384",
        "base/x/16384",
        "global/pg_control",
        "base/pgsql_tmp/1",
        "base/5/16384.x",
        "base/5/16384.99999999999",
        "PG_15_202209061/5/16385",
        "base/5/",
        "",
    ] {
        assert_eq!(of(none), None, "{none}");
    }
}

#[test]
fn a_space_is_recognized_also_without_its_first_page() {
    let mut space = tablespace(8);
    let whole = innodb(&space).unwrap();
    assert_eq!((whole.size(), whole.is_innodb()), (SIZE, true));
    assert_eq!(innodb(&space[..64 << 10]), Some(whole));
    space[..SIZE].fill(0x55);
    let guessed = innodb(&space).unwrap();
    assert_eq!(guessed.size(), SIZE);
    assert_eq!(guessed.judge(0, &space[..SIZE]), PageVerdict::Bad);
    assert_eq!(guessed.judge(3, &space[3 * SIZE..4 * SIZE]), PageVerdict::Good);
    assert_eq!(innodb(&vec![0; HEAD_LEN]), None);
    assert_eq!(innodb(&vec![0x55; HEAD_LEN]), None);
    assert_eq!(innodb(b""), None);
}

#[test]
fn zeros_are_new_and_one_bit_more_is_not() {
    let pages = innodb(&tablespace(4)).unwrap();
    let mut page = vec![0; SIZE];
    assert_eq!(pages.judge(5, &page), PageVerdict::Good);
    page[100] = 1;
    assert_eq!(pages.judge(5, &page), PageVerdict::Bad);
    let pages = Control::parse(&control(1)).unwrap().pages(0);
    assert_eq!((pages.size(), pages.judge(0, &[0; 8192])), (8192, PageVerdict::Good));
    assert_eq!(pages.judge(0, &page[..8192]), PageVerdict::Bad);
    assert_eq!(pages.judge(0, &page[..100]), PageVerdict::Unknown);
}

#[test]
fn a_control_file_tells_whether_there_are_checksums() {
    assert!(Control::parse(&control(1)).unwrap().has_checksums);
    assert!(!Control::parse(&control(0)).unwrap().has_checksums);
    let mut damaged = control(1);
    damaged[30] ^= 1;
    assert_eq!(Control::parse(&damaged), None);
}

#[test]
fn a_torn_page_is_read_again_and_a_bad_one_is_named() {
    let good = tablespace(20);
    let mut torn = good.clone();
    torn[3 * SIZE + 5000] ^= 1;
    torn[7 * SIZE + 9000] ^= 1;
    let check = PageCheck::new(checks(Databases::Auto, true));
    let files = MemoryFiles(BTreeMap::from([("a.ibd", torn.clone())]), "a.ibd");
    let file = check.file(&path("a.ibd"), b"", good.len() as u64, &files).unwrap().unwrap();
    // Page 3 is complete when it is read for the third time, page 7 stays bad.
    let mut reads = 0;
    let mut read = |page: &mut [u8], at: u64| {
        reads += 1;
        let complete = at == 3 * SIZE as u64 && reads > 2;
        let from = if complete { &good } else { &torn };
        page.copy_from_slice(&from[at as usize..at as usize + page.len()]);
        Ok::<_, ()>(())
    };
    let mut bytes = torn.clone();
    assert_eq!(file.check(&mut bytes, 0, &mut read, &|| true), Ok(false));
    assert!(bytes[3 * SIZE..4 * SIZE] == good[3 * SIZE..4 * SIZE], "what was checked is what is sent");
    let report = check.report();
    assert_eq!(report.named, [BadPage { path: path("a.ibd"), page: 7 }]);
    assert_eq!((report.counts.innodb, report.counts.bad), (20, 1));
    assert_eq!(file.failure().kind(), ErrorKind::BadPages);
    assert!(!file.are_good());
    // Found again, it is the same page.
    assert_eq!(file.check(&mut bytes, 0, &mut read, &|| false), Ok(false));
    assert_eq!(check.report().counts.bad, 1);
    // The error of reading is passed on.
    assert_eq!(file.check(&mut bytes, 0, &mut |_, _| Err(5), &|| false), Err(5));
}

#[test]
fn with_a_warning_alone_all_pages_may_be_bad() {
    let mut space = tablespace(4);
    space[2 * SIZE] ^= 1;
    let check = PageCheck::new(checks(Databases::InnoDb, false));
    let files = MemoryFiles(BTreeMap::from([("a.ibd", space.clone())]), "a.ibd");
    let file = check.file(&path("a.ibd"), b"", space.len() as u64, &files).unwrap().unwrap();
    assert!(file.check_runs(&[(0, &space)]) && file.are_good());
    assert_eq!(check.report().named.len(), 1);
}

#[test]
fn pages_in_several_runs_are_put_together() {
    let mut space = tablespace(6);
    // A hole in page 2, as of a page that was compressed.
    space[2 * SIZE + 4096..3 * SIZE - 4].fill(0);
    seal(&mut space[2 * SIZE..3 * SIZE]);
    let check = PageCheck::new(checks(Databases::Auto, true));
    let files = MemoryFiles(BTreeMap::from([("a.ibd", space.clone())]), "a.ibd");
    let file = check.file(&path("a.ibd"), b"", space.len() as u64, &files).unwrap().unwrap();
    let (first, second) = (2 * SIZE + 4096, 3 * SIZE - 4096);
    let runs = [(0, &space[..first]), (second as u64, &space[second..])];
    assert!(file.check_runs(&runs));
    assert_eq!(check.report().counts.innodb, 6);
    // Read in two parts, each of which is checked as a whole page.
    let mut read = |page: &mut [u8], at: u64| {
        page.copy_from_slice(&space[at as usize..at as usize + page.len()]);
        Ok::<_, ()>(())
    };
    for range in [0..first, second..space.len()] {
        let mut bytes = space[range.clone()].to_vec();
        assert_eq!(file.check(&mut bytes, range.start as u64, &mut read, &|| false), Ok(true));
    }
}

#[test]
fn files_that_cannot_be_checked_are_noted_or_fail() {
    let text = || vec![b'x'; 100_000];
    let files = |name| {
        MemoryFiles(
            BTreeMap::from([("a.ibd", text()), ("base/5/1", text()), ("zero.ibd", vec![0; 70_000])]),
            name,
        )
    };
    let find = |check: &std::sync::Arc<PageCheck>, name: &'static str| {
        check.file(&path(name), b"", 100_000, &files(name)).map(|found| found.is_some())
    };
    let check = PageCheck::new(checks(Databases::Auto, true));
    for name in ["a.ibd", "base/5/1", "zero.ibd", "other"] {
        assert_eq!(find(&check, name), Ok(false), "{name}");
    }
    assert_eq!(check.report().unchecked.len(), 3);
    let strict = PageCheck::new(checks(Databases::InnoDb, true));
    assert_eq!(find(&strict, "a.ibd").unwrap_err().kind(), ErrorKind::BadPages);
    assert_eq!((find(&strict, "base/5/1"), find(&strict, "zero.ibd")), (Ok(false), Ok(false)));
    let warning = PageCheck::new(checks(Databases::Postgres, false));
    assert_eq!((find(&warning, "a.ibd"), find(&warning, "base/5/1")), (Ok(false), Ok(false)));
    assert_eq!(warning.report().unchecked.len(), 1);
    // The source is a directory of the cluster.
    let part = PageCheck::new(checks(Databases::Auto, true));
    let files_of_base = MemoryFiles(BTreeMap::from([("5/1", text())]), "5/1");
    assert!(part.file(&path("5/1"), b"base", 100_000, &files_of_base).unwrap().is_none());
    assert_eq!(part.report().unchecked.len(), 1);
    // With a control file that says there are none.
    let without = PageCheck::new(checks(Databases::Postgres, true));
    let mut files = files("base/5/1");
    files.0.insert("global/pg_control", control(0));
    let error = without.file(&path("base/5/1"), b"", 100_000, &files).err().unwrap();
    assert_eq!(error.cause(), "their cluster has no data checksums");
}

proptest! {
    #[test]
    fn each_flipped_bit_is_found(bit in 0..SIZE * 8, number in 0_usize..4) {
        let mut space = tablespace(4);
        let pages = innodb(&space).unwrap();
        space[number * SIZE + bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(pages.judge(number as u64, &space[number * SIZE..(number + 1) * SIZE]), PageVerdict::Bad);
        prop_assert_eq!(innodb(&space).unwrap().size(), SIZE);
    }

    #[test]
    fn arbitrary_bytes_are_judged_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..9000),
        flags in any::<u32>(),
        kind in prop::sample::select(vec![8_u16, 14, 15, 16, 17, 34354, 37401, 0x8001, 0xffff]),
    ) {
        let mut head = bytes.clone();
        head.resize(HEAD_LEN, 3);
        head[4..8].fill(0);
        head[24..26].copy_from_slice(&8_u16.to_be_bytes());
        head[34..42].fill(1);
        head[54..58].copy_from_slice(&flags.to_be_bytes());
        if let Some(pages) = innodb(&head) {
            let mut page = head[..pages.size()].to_vec();
            page[24..26].copy_from_slice(&kind.to_be_bytes());
            let _ = pages.judge(1, &page);
            let _ = pages.judge(u64::MAX, &bytes);
        }
        let _ = (innodb(&bytes), Control::parse(&bytes), relation_file(&bytes), is_innodb_name(&bytes));
    }
}
