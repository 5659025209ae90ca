//! The SFTP server of OpenSSH, held to the promises of sources and sinks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use haul_core::BufferPool;
use haul_core::location::SshHost;
use haul_sftp::{Limits, Sftp};
use haul_ssh::SshConfig;
use haul_testkit::conformance::{Keeps, OnDisk, Subject, TestedEnd};
use haul_testkit::sshd::sftp_server;
use haul_testkit::write_program;

/// A session with a server that a script starts in the place of ssh.
fn connect(world: &OnDisk) -> Arc<Sftp> {
    let shell = world.beside("shell");
    write_program(&shell, format!("#!/bin/sh\nexec {}\n", sftp_server().display()));
    let shell = vec![shell.display().to_string()];
    let ssh = SshConfig { shell, shell_given: true, family: None, timeout: 30, persist: None };
    let host = SshHost { destination: "host".to_owned(), port: None };
    let limits = Limits { streams: 2, iops: None };
    Sftp::connect(&host, &ssh, limits, &BufferPool::new(64 << 20), Arc::new(|_| {})).unwrap()
}

/// SFTP 3 has whole seconds, no inodes, no attributes and no holes.
fn keeps() -> Keeps {
    Keeps {
        nanoseconds: false,
        xattrs: false,
        fifos: false,
        sparse: false,
        symlink_times: false,
        inodes: false,
        hard_links: false,
        ..Keeps::everything()
    }
}

fn sftp() -> TestedEnd {
    TestedEnd::new("sftp", keeps(), || {
        let world = OnDisk::new();
        let session = connect(&world);
        let at = world.place();
        let (reader, from) = (Arc::clone(&session), at.clone());
        Subject {
            world: Box::new(world),
            source: Box::new(move || reader.open_source(&from, haul_core::Links::Kept).unwrap()),
            sink: Box::new(move |options| session.open_sink(&at, options).unwrap()),
        }
    })
}

#[test]
fn source() {
    sftp().check_source();
}

#[test]
fn sink() {
    sftp().check_sink();
}
