//! The promises of sources and sinks, held against the ends of the test kit itself; and that the check finds a broken one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::panic::catch_unwind;
use std::sync::Arc;

use haul_core::{BufferPool, Error, ErrorKind, Retry, Side, Sink, SinkOptions, Source};
use haul_testkit::conformance::{Keeps, Subject, TestedEnd};
use haul_testkit::ends::{Call, Effect, EndFaults, FaultySink, FaultySource, MemSink, MemSource, MemTree};

/// A tree in memory behind decorators with the faults that `faults` adds.
fn subject(faults: impl FnOnce(&EndFaults)) -> Subject {
    let (tree, plan) = (MemTree::new(), EndFaults::new());
    faults(&plan);
    let (read, written) = ((Arc::clone(&tree), Arc::clone(&plan)), (Arc::clone(&tree), plan));
    Subject {
        world: Box::new(tree),
        source: Box::new(move || {
            let source = MemSource::new(&read.0, &BufferPool::new(64 << 20));
            Arc::new(FaultySource::new(Arc::new(source), &read.1)) as Arc<dyn Source>
        }),
        sink: Box::new(move |options: &SinkOptions| {
            let sink = MemSink::new(&written.0, options);
            Arc::new(FaultySink::new(Arc::new(sink), &written.1)) as Arc<dyn Sink>
        }),
    }
}

fn plain() -> Subject {
    let tree = MemTree::new();
    let (read, written) = (Arc::clone(&tree), Arc::clone(&tree));
    Subject {
        world: Box::new(tree),
        source: Box::new(move || Arc::new(MemSource::new(&read, &BufferPool::new(64 << 20)))),
        sink: Box::new(move |options| Arc::new(MemSink::new(&written, options))),
    }
}

#[test]
fn memory_source() {
    TestedEnd::new("memory", Keeps::everything(), plain).check_source();
}

#[test]
fn memory_sink() {
    TestedEnd::new("memory", Keeps::everything(), plain).check_sink();
}

#[test]
fn faultless_source() {
    TestedEnd::new("memory without faults", Keeps::everything(), || subject(|_| {})).check_source();
}

#[test]
fn faultless_sink() {
    TestedEnd::new("memory without faults", Keeps::everything(), || subject(|_| {})).check_sink();
}

/// The message of `check` for an end with a fault.
fn says(check: fn(&TestedEnd), call: Call, effect: Effect) -> String {
    let end = TestedEnd::new("broken", Keeps::everything(), move || {
        subject(|faults| faults.add(call, 0..u64::MAX, effect.clone()))
    });
    let panic = catch_unwind(std::panic::AssertUnwindSafe(|| check(&end))).expect_err("the check fails");
    panic.downcast_ref::<String>().expect("a panic with a message").clone()
}

#[test]
fn every_broken_promise_is_named() {
    let error = Error::new(ErrorKind::Io, Side::Source, "look at", "broken disk");
    for (check, call, effect, names) in [
        (
            TestedEnd::check_source as fn(&TestedEnd),
            Call::Read,
            Effect::WrongContent,
            &["slices_are_read_in_any_order", "odd_names_are_read"][..],
        ),
        (
            TestedEnd::check_source,
            Call::Read,
            Effect::ShortContent,
            &["small_files_are_read_in_the_order_of_the_batch"],
        ),
        (
            TestedEnd::check_source,
            Call::Lookup,
            Effect::FailEach(error.clone()),
            &["a_lookup_of_the_root", "holds_agrees_with_lookup"],
        ),
        (
            TestedEnd::check_source,
            Call::Root,
            Effect::Fail(error.clone()),
            &["a_missing_root_is_none", "the_root_is_a_file"],
        ),
        (
            TestedEnd::check_source,
            Call::Digest,
            Effect::Fail(error.clone()),
            &["digests_are_those_of_the_files"],
        ),
        (
            TestedEnd::check_sink,
            Call::Write,
            Effect::Fail(error.clone()),
            &["a_small_file_is_written", "an_offer_may_be_repeated"],
        ),
        (
            TestedEnd::check_sink,
            Call::Offer,
            Effect::FailEach(error.clone()),
            &["a_missing_file_is_needed", "a_dry_run_finishes"],
        ),
        (TestedEnd::check_sink, Call::Link, Effect::Fail(error.clone()), &["a_further_name_is_made"]),
        (TestedEnd::check_sink, Call::Remove, Effect::Fail(error.clone()), &["odd_names_are_removed"]),
        (
            TestedEnd::check_sink,
            Call::Discard,
            Effect::Fail(error.clone()),
            &["a_discarded_file_is_not_resumed"],
        ),
        (TestedEnd::check_sink, Call::Finish, Effect::Fail(error), &["finish_of_an_unused_sink"]),
    ] {
        let text = says(check, call, effect.clone());
        for name in names {
            assert!(text.contains(&format!("\n  {name}: ")), "{call:?} {effect:?} is not found: {text}");
        }
    }
}

#[test]
fn an_exception_that_is_kept_is_named_too() {
    let end = TestedEnd::new("memory", Keeps::everything(), plain)
        .except(&[("a_missing_root_is_none", "it has one")]);
    let panic = catch_unwind(std::panic::AssertUnwindSafe(|| end.check_source())).expect_err("it holds");
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("breaks 1 of") && text.contains("a_missing_root_is_none: holds"), "{text}");
}

#[test]
fn faults_affect_the_calls_that_they_name() {
    let faults = EndFaults::new();
    faults.add(Call::Root, 1..2, Effect::errno(Side::Source, 5));
    faults.add(Call::Root, 3..4, Effect::Hang);
    let source = MemSource::new(&MemTree::new(), &BufferPool::new(0));
    let source = Arc::new(FaultySource::new(Arc::new(source), &faults));
    assert!(source.root().is_ok());
    let error = source.root().expect_err("the second call fails");
    assert_eq!((error.errno(), error.retry()), (Some(5), Retry::Again));
    assert!(source.root().is_ok() && source.lookup(&[]).is_ok());
    let hung = std::thread::spawn(move || source.root().is_ok());
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!hung.is_finished());
    faults.release();
    assert!(hung.join().unwrap());
    assert_eq!((faults.count(Call::Root), faults.count(Call::Read)), (4, 0));
}
