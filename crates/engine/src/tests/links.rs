//! Hard links in the source.

use haul_core::event::Action;
use haul_core::{Entry, ErrorKind, Retry};

use super::faults::{EndCall, error};
use super::memory::{dir, file, older};
use super::runs::{Setup, options};
use crate::CopyOptions;

fn names(names: &[&str], nlink: u32) -> Vec<Entry> {
    names.iter().map(|name| Entry { nlink, ino: 5, dev: 1, ..file(name, 10) }).collect()
}

#[test]
fn the_first_name_is_copied_and_the_others_are_linked() {
    let mut setup = Setup::new(names(&["a", "b", "c"], 3), []);
    let totals = setup.copy();
    assert_eq!((totals.copied, totals.linked), (1, 2));
    assert!(setup.has("a") && setup.has("b") && setup.has("c"));
    let linked = (Action::Linked, "b".to_owned());
    assert!(setup.actions().contains(&linked));
}

#[test]
fn a_file_with_names_outside_of_the_tree_is_copied_once() {
    let mut setup = Setup::new(names(&["a", "b"], 7), []);
    let totals = setup.copy();
    assert_eq!((totals.copied, totals.linked), (1, 1));
}

#[test]
fn files_of_different_devices_are_no_links() {
    let mut files = names(&["a", "b"], 2);
    files[1].dev = 2;
    let totals = Setup::new(files, []).copy();
    assert_eq!((totals.copied, totals.linked), (2, 0));
}

#[test]
fn a_second_run_links_nothing() {
    let mut setup = Setup::new(names(&["a", "b"], 2), names(&["a", "b"], 2));
    let totals = setup.copy();
    assert_eq!((totals.same, totals.linked), (2, 0));
}

#[test]
fn the_names_of_a_file_whose_first_name_failed_are_copied_without_it() {
    // A link to the first name would be one to the older content.
    for there in [vec![], vec![older(file("a", 10))]] {
        let mut setup = Setup::new(names(&["a", "b", "c"], 3), there);
        setup.faults.plan(EndCall::Write, "a", 1, &error(ErrorKind::Io, Retry::Never));
        let totals = setup.copy();
        assert_eq!((totals.failed, totals.copied, totals.linked), (1, 1, 1));
        let names: Vec<(Action, String)> = [(Action::Copied, "b"), (Action::Linked, "c")]
            .map(|(action, name)| (action, name.to_owned()))
            .into();
        assert_eq!(setup.actions(), names);
    }
}

#[test]
fn a_link_in_the_place_of_a_directory_fails_without_deletion() {
    let mut setup = Setup::new(names(&["a", "b"], 2), [dir("b"), file("b/x", 1)]);
    assert_eq!((setup.copy().failed, setup.has("b/x")), (1, true));
    assert_eq!(setup.failures(), [("b".to_owned(), ErrorKind::NotEmpty)]);
}

#[test]
fn a_link_in_the_place_of_a_directory_waits_for_the_deletion() {
    let mut setup = Setup::new(
        names(&["a", "b"], 2).into_iter().chain([dir("")]),
        [dir(""), dir("b"), file("b/x", 1), older(file("a", 10))],
    );
    let report = setup.run(CopyOptions { delete: Some(crate::Delete::default()), ..options() });
    assert_eq!((report.totals.linked, report.totals.failed, report.totals.removed), (1, 0, 1));
    assert!(setup.has("b") && !setup.has("b/x"));
}

#[test]
fn links_to_a_deferred_file_wait_too() {
    let old = [dir(""), dir("a"), file("a/x", 1)];
    for dry_run in [false, true] {
        let sink = super::memory::MemorySink {
            tree: haul_core::sync::Mutex::new(super::memory::tree(old.clone())),
            dry_run,
            ..Default::default()
        };
        let mut setup = Setup::with_sink(names(&["a", "b"], 2).into_iter().chain([dir("")]), sink);
        let delete = Some(crate::Delete::default());
        let report = setup.run(CopyOptions { delete, dry_run, ..options() });
        let totals = report.totals;
        assert_eq!((totals.copied, totals.linked, totals.failed, totals.removed), (1, 1, 0, 1), "{dry_run}");
        assert_eq!(setup.has("b"), !dry_run);
    }
}
