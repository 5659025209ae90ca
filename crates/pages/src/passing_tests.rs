//! Files that pass once, in pieces of any length, several at a time.

use haul_core::{BadPage, Databases, ErrorKind, PageReport};
use proptest::prelude::*;

use crate::PassingPages;
use crate::postgres::sum;
use crate::tests::{SIZE, checks, control, path, tablespace};

const BLOCK: usize = 8192;

fn passing(of: Databases, fails: bool) -> PassingPages {
    PassingPages::new(checks(of, fails))
}

/// Files that begin, pass in turn in pieces of these lengths, and end.
fn pass(pages: &mut PassingPages, files: &[(&str, &[u8])], lens: &[usize]) {
    let mut open: Vec<_> =
        files.iter().filter_map(|(name, bytes)| Some((pages.begin(&path(name))?, 0, *bytes))).collect();
    let mut lens = lens.iter().cycle();
    while open.iter().any(|(_, at, bytes)| *at < bytes.len()) {
        for (file, at, bytes) in &mut open {
            let len = (*lens.next().unwrap()).min(bytes.len() - *at);
            pages.content(file, *at as u64, &bytes[*at..*at + len]);
            *at += len;
        }
    }
    open.into_iter().for_each(|(file, at, _)| pages.end(file, at as u64));
}

fn named(report: &PageReport) -> Vec<(String, u64)> {
    report.named.iter().map(|BadPage { path, page }| (path.to_string(), *page)).collect()
}

/// Blocks of PostgreSQL, last changed at these places in the log.
fn relation(changed: &[u64]) -> Vec<u8> {
    let mut all = Vec::new();
    for (number, at) in changed.iter().enumerate() {
        let mut page: Vec<u8> = (0..BLOCK).map(|at| (at * 3 + number * 11) as u8).collect();
        page[..4].copy_from_slice(&((at >> 32) as u32).to_le_bytes());
        page[4..8].copy_from_slice(&(*at as u32).to_le_bytes());
        let sum = sum(number as u32, &page);
        page[8..10].copy_from_slice(&sum.to_le_bytes());
        all.extend(page);
    }
    all
}

#[test]
fn a_bad_page_is_named_at_once_whatever_the_pieces_are() {
    let mut bad = tablespace(40);
    bad[31 * SIZE + 17] ^= 1;
    let good = tablespace(9);
    for lens in [&[100][..], &[1, SIZE, 70_000, 3], &[1 << 20]] {
        let mut pages = passing(Databases::Auto, true);
        pass(&mut pages, &[("good.ibd", &good), ("shop/bad.ibd", &bad), ("x.frm", b"text")], lens);
        let error = pages.check().unwrap_err();
        assert_eq!((error.kind(), error.subject()), (ErrorKind::BadPages, &b"shop/bad.ibd"[..]));
        let report = pages.report();
        assert_eq!(named(&report), [("shop/bad.ibd".to_owned(), 31)]);
        assert_eq!((report.counts.innodb, report.counts.bad), (49, 1));
        let mut warns = passing(Databases::InnoDb, false);
        pass(&mut warns, &[("shop/bad.ibd", &bad)], lens);
        assert!(warns.finish().is_ok() && warns.report().counts.bad == 1);
    }
}

#[test]
fn holes_are_zeros() {
    let mut space = tablespace(40);
    let mut pages = passing(Databases::Auto, true);
    let mut file = pages.begin(&path("a.ibd")).unwrap();
    // New pages, and a page whose end is a hole.
    space[22 * SIZE..25 * SIZE].fill(0);
    pages.content(&mut file, 0, &space[..22 * SIZE]);
    pages.content(&mut file, 25 * SIZE as u64, &space[25 * SIZE..30 * SIZE + 4096]);
    pages.content(&mut file, 31 * SIZE as u64, &space[31 * SIZE..40 * SIZE - 4]);
    pages.end(file, 40 * SIZE as u64);
    let report = pages.report();
    let bad = [30, 39].map(|page| ("a.ibd".to_owned(), page));
    assert_eq!((named(&report), report.counts.innodb), (bad.to_vec(), 37), "their ends are not zeros");
    // A last page that is cut off is none.
    let mut pages = passing(Databases::Auto, true);
    pass(&mut pages, &[("a.ibd", &space[..10 * SIZE + 5000])], &[4096]);
    assert_eq!((pages.check(), pages.report().counts.innodb), (Ok(()), 10));
}

#[test]
fn a_stream_that_is_one_tablespace_is_known_by_its_pages() {
    let mut space = tablespace(20);
    for damaged in [19, 0] {
        space[damaged * SIZE + 100] ^= 1;
        for name in ["dump", "a.ibd"] {
            let mut pages = passing(Databases::Auto, true);
            let mut file = pages.begin_only(&path(name));
            for (number, piece) in space.chunks(50_000).enumerate() {
                pages.content(&mut file, number as u64 * 50_000, piece);
            }
            pages.end(file, space.len() as u64);
            assert!(named(&pages.report()).contains(&(name.to_owned(), damaged as u64)));
            assert!(pages.finish().is_err());
        }
    }
    for (of, fails) in [(Databases::Auto, false), (Databases::InnoDb, true), (Databases::Postgres, true)] {
        let mut pages = passing(of, true);
        let mut file = pages.begin_only(&path("dump.sql"));
        pages.content(&mut file, 0, b"create table");
        pages.end(file, 12);
        assert_eq!(pages.finish().is_err(), fails, "{of:?}");
        assert_eq!(pages.report().unchecked.len(), usize::from(!fails));
    }
}

#[test]
fn the_control_file_of_postgres_decides_also_if_it_comes_last() {
    let mut bad = relation(&[1, 2, 3]);
    bad[2 * BLOCK + 5000] ^= 1;
    let run = |files: &[(&str, &[u8])], of: Databases| {
        let mut pages = passing(of, true);
        for file in files {
            pass(&mut pages, &[*file], &[5000]);
        }
        let ended = pages.finish();
        (pages.report(), ended)
    };
    let (with, without) = (control(1), control(0));
    for files in [
        [("pg/base/5/1", &bad[..]), ("pg/global/pg_control", &with[..])],
        [("pg/global/pg_control", &with), ("pg/base/5/1", &bad)],
    ] {
        let (report, ended) = run(&files, Databases::Auto);
        assert_eq!((named(&report), report.counts.postgres), (vec![("pg/base/5/1".to_owned(), 2)], 3));
        assert_eq!(ended.unwrap_err().subject(), b"pg/base/5/1");
    }
    for (files, cause) in [
        (vec![("base/5/1", &bad[..]), ("global/pg_control", &without[..])], "no data checksums"),
        (vec![("global/pg_control", &without), ("base/5/1", &bad)], "no data checksums"),
        (vec![("base/5/1", &bad), ("other/global/pg_control", &with)], "no global/pg_control"),
    ] {
        let (report, ended) = run(&files, Databases::Auto);
        assert!(ended.is_ok() && report.counts.bad == 0 && report.unchecked[0].cause.contains(cause));
        assert!(run(&files, Databases::Postgres).1.unwrap_err().cause().contains(cause));
        assert!(run(&files, Databases::InnoDb).0.unchecked.is_empty());
    }
}

#[test]
fn blocks_that_changed_during_a_backup_of_postgres_may_be_torn() {
    let label = b"START WAL LOCATION: 1/20000028 (file 000000010000000100000020)\nCHECKPOINT LOCATION: 1/0\n";
    let mut torn = relation(&[5, 0x1_2000_0028, 0x1_2000_0027]);
    torn[BLOCK + 5000] ^= 1;
    let mut pages = passing(Databases::Auto, true);
    pass(&mut pages, &[("backup_label", label)], &[60]);
    pass(&mut pages, &[("base/5/1", &torn)], &[9000]);
    pass(&mut pages, &[("global/pg_control", &control(1))], &[9000]);
    assert!(pages.finish().is_ok());
    let counts = pages.report().counts;
    assert_eq!((counts.postgres, counts.bad, counts.without_checksum), (2, 0, 1));
    torn[2 * BLOCK + 5000] ^= 1;
    let mut pages = passing(Databases::Auto, true);
    let control = control(1);
    for file in [("backup_label", &label[..]), ("global/pg_control", &control), ("base/5/1", &torn)] {
        pass(&mut pages, &[file], &[9000]);
    }
    assert_eq!(named(&pages.report()), [] as [(String, u64); 0], "not before the end");
    assert!(pages.finish().is_err());
    assert_eq!(named(&pages.report()), [("base/5/1".to_owned(), 2)]);
}

#[test]
fn the_memory_for_files_that_pass_at_the_same_time_is_limited() {
    let mut pages = passing(Databases::Auto, true);
    let beginning = [0x55; 60_000];
    let mut open = Vec::new();
    for number in 0..1000 {
        let mut file = pages.begin(&path(&format!("{number}.ibd"))).unwrap();
        pages.content(&mut file, 0, &beginning);
        open.push(file);
    }
    let unchecked = &pages.report().unchecked[0];
    assert!(unchecked.cause.starts_with("too many files") && unchecked.count > 500, "{unchecked:?}");
}

proptest! {
    #[test]
    fn pieces_of_any_length_are_judged_alike(
        bad in prop::collection::btree_set(0_usize..30, 0..4),
        lens in prop::collection::vec(1_usize..100_000, 1..6),
        cut in 0..SIZE,
    ) {
        let mut space = tablespace(30);
        bad.iter().for_each(|page| space[page * SIZE + 60] ^= 4);
        space.truncate(space.len() - cut);
        let mut pages = passing(Databases::Auto, true);
        pass(&mut pages, &[("a.ibd", &space), ("b.ibd", &space)], &lens);
        let whole = space.len() / SIZE;
        let expected: Vec<_> = ["a.ibd", "b.ibd"]
            .into_iter()
            .flat_map(|name| bad.iter().filter(|page| **page < whole).map(move |page| (name.to_owned(), *page as u64)))
            .collect();
        prop_assert_eq!(named(&pages.report()), expected);
    }
}
