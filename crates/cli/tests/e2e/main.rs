//! The promises of haul, each tested end to end with the real program.
//!
//! Every test is named after the promise that it checks. A test whose requirements this host lacks reports it and
//! counts as skipped; with `E2E_NO_SKIPS=1` it fails. `TEST_SEED=N` repeats a run with the same random moments. With
//! `--fault-shell`, this program is a remote shell that damages the data that passes; with `--lying-server`, it is an
//! SFTP server that sends false answers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says what it does"
)]

mod advice;
mod ages;
mod backups;
mod between;
mod book;
mod buckets;
mod changing;
mod clients;
mod cloudtrees;
mod compression;
mod config;
mod copy_links;
mod crash;
mod database_pages;
mod databases;
mod deeptrees;
mod delta;
mod descriptors;
mod digests;
mod direct;
mod disks;
mod durability;
mod encoded;
mod failures;
mod faults;
mod file_streams;
mod filesystems;
mod filters;
mod full;
mod groups;
mod guards;
mod habits;
mod hostile;
mod indexed;
mod interrupts;
mod ioerrors;
mod iops;
mod itemize;
mod keep_dirlinks;
mod kerberos;
mod kills;
mod kit;
mod limits;
mod link_dest;
mod listings;
mod lists;
mod localstate;
mod log_file;
mod lying_answers;
mod lying_haul;
mod lying_sftp;
mod lying_stores;
mod manifests;
mod memory;
mod messages;
mod mistakes;
mod modes;
mod moves;
mod no_haul;
mod no_proc;
mod not_stores;
mod objtrees;
mod old_versions;
mod other_haul;
mod output;
mod packages;
mod pagecache;
mod passwords;
mod paths;
mod pipes;
mod plan;
mod postgres;
mod power;
mod preserve;
mod presign;
mod probe;
mod provider;
mod providers;
mod questions;
mod reach;
mod realtrees;
mod refused;
mod removals;
mod reruns;
mod restricted;
mod resume;
mod routes;
mod scene;
mod selected_objects;
mod selection;
mod several;
mod sftp;
mod sftp_links;
mod shapes;
mod share_limits;
mod share_links;
mod share_metadata;
mod shares;
mod signals;
mod slow;
mod small;
mod smb;
mod space;
mod stat;
mod store;
mod stores;
mod storms;
mod stream_limits;
mod streams;
mod sync;
mod threads;
mod trust;
mod unpack;
mod verify;
mod wildcards;
mod words;
mod xbcloud;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use haul_testkit::Need;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// From here on, the time that a test took is printed: all of them together have to end within some minutes.
const SLOW: Duration = Duration::from_secs(15);

/// One test: its name, its needs of the machine, and its function.
pub(crate) struct TestCase {
    name: &'static str,
    needs: &'static [Need],
    run: fn(),
}

/// Lists functions as cases: `cases![Need::Root: one, two]`, or without needs `cases![one, two]`.
macro_rules! cases {
    ($($need:expr),+ ; $($run:ident),+ $(,)?) => {{
        const NEEDS: &[haul_testkit::Need] = &[$($need),+];
        vec![$($crate::TestCase::new(concat!(module_path!(), "::", stringify!($run)), NEEDS, $run)),+]
    }};
    ($($run:ident),+ $(,)?) => {
        vec![$($crate::TestCase::new(concat!(module_path!(), "::", stringify!($run)), &[], $run)),+]
    };
}
pub(crate) use cases;

impl TestCase {
    pub(crate) fn new(name: &'static str, needs: &'static [Need], run: fn()) -> Self {
        Self { name: name.trim_start_matches("e2e::"), needs, run }
    }

    fn into_trial(self) -> Trial {
        Trial::ignorable_test(self.name, move || {
            let missing: Vec<String> = self.needs.iter().filter_map(|need| need.missing()).collect();
            if missing.is_empty() {
                let begun = Instant::now();
                (self.run)();
                if begun.elapsed() > SLOW {
                    eprintln!("slow: {} took {} s", self.name, begun.elapsed().as_secs());
                }
                return Ok(Completion::Completed);
            }
            let why = missing.join(", ");
            eprintln!("skipped: {}: {why}", self.name);
            if std::env::var_os("E2E_NO_SKIPS").is_some_and(|value| value == "1") {
                return Err(Failed::from(format!("skipped: {why}")));
            }
            Ok(Completion::ignored_with(why))
        })
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == scene::FAULT_SHELL).is_some() {
        return haul_testkit::fault::relay(arguments);
    }
    if arguments.next_if(|first| first == scene::LYING_SERVER).is_some() {
        return haul_testkit::lying_sftp::serve(arguments);
    }
    if arguments.next_if(|first| first == haul_testkit::lying_haul::LIAR_SHELL).is_some() {
        return haul_testkit::lying_haul::relay(arguments);
    }
    if arguments.next_if(|first| first == haul_testkit::measured::MEASURE).is_some() {
        return haul_testkit::measured::measure(arguments);
    }
    let cases = [
        kit::cases(),
        routes::cases(),
        paths::cases(),
        reruns::cases(),
        resume::cases(),
        realtrees::cases(),
        kerberos::cases(),
        kills::cases(),
        keep_dirlinks::cases(),
        interrupts::cases(),
        signals::cases(),
        questions::cases(),
        passwords::cases(),
        direct::cases(),
        durability::cases(),
        between::cases(),
        faults::cases(),
        slow::cases(),
        share_limits::cases(),
        share_links::cases(),
        share_metadata::cases(),
        shares::cases(),
        smb::cases(),
        indexed::cases(),
        space::cases(),
        failures::cases(),
        full::cases(),
        hostile::cases(),
        lying_haul::cases(),
        sync::cases(),
        threads::cases(),
        restricted::cases(),
        several::cases(),
        shapes::cases(),
        disks::cases(),
        wildcards::cases(),
        stat::cases(),
        buckets::cases(),
        presign::cases(),
        words::cases(),
        guards::cases(),
        habits::cases(),
        advice::cases(),
        mistakes::cases(),
        messages::cases(),
        selection::cases(),
        filters::cases(),
        changing::cases(),
        copy_links::cases(),
        clients::cases(),
        reach::cases(),
        refused::cases(),
        database_pages::cases(),
        databases::cases(),
        file_streams::cases(),
        pipes::cases(),
        filesystems::cases(),
        limits::cases(),
        lists::cases(),
        link_dest::cases(),
        log_file::cases(),
        iops::cases(),
        itemize::cases(),
        memory::cases(),
        digests::cases(),
        verify::cases(),
        manifests::cases(),
        compression::cases(),
        config::cases(),
        listings::cases(),
        selected_objects::cases(),
        sftp::cases(),
        sftp_links::cases(),
        lying_sftp::cases(),
        lying_answers::cases(),
        no_haul::cases(),
        no_proc::cases(),
        other_haul::cases(),
        packages::cases(),
        output::cases(),
        probe::cases(),
        stream_limits::cases(),
        streams::cases(),
        stores::cases(),
        objtrees::cases(),
        storms::cases(),
        removals::cases(),
        lying_stores::cases(),
        not_stores::cases(),
        backups::cases(),
        encoded::cases(),
        postgres::cases(),
        plan::cases(),
        groups::cases(),
        providers::cases(),
        cloudtrees::cases(),
        pagecache::cases(),
        delta::cases(),
        power::cases(),
        preserve::cases(),
        ages::cases(),
        localstate::cases(),
        ioerrors::cases(),
        deeptrees::cases(),
        descriptors::cases(),
        modes::cases(),
        moves::cases(),
        old_versions::cases(),
        trust::cases(),
        unpack::cases(),
        xbcloud::cases(),
        book::cases(),
    ];
    let trials = cases.into_iter().flatten().map(TestCase::into_trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
