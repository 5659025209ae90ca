//! Tests of a mount. They need root and `/dev/fuse`, and are skipped with a message without them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests fail by panicking and print why they are skipped"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use haul_slowfs::{FaultEffect, FsFault, MountOptions, Op, SlowMount};
use rustix::io::Errno;
use tempfile::TempDir;

/// A mount, with the directory of its files; `None` if the test must be skipped.
fn mounted(options: MountOptions) -> Option<(SlowMount, TempDir)> {
    if !rustix::process::geteuid().is_root() || !fs::exists("/dev/fuse").unwrap() {
        eprintln!("skipped: needs root and /dev/fuse");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    for name in ["behind", "at"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let mount = SlowMount::new(&dir.path().join("behind"), &dir.path().join("at"), options).unwrap();
    Some((mount, dir))
}

#[test]
fn operations_reach_the_directory_behind_and_are_counted() {
    let Some((mount, dir)) = mounted(MountOptions::default()) else { return };
    let behind = dir.path().join("behind");
    fs::create_dir(mount.join("d")).unwrap();
    fs::write(mount.join("d/f"), vec![7; 3_000_000]).unwrap();
    fs::set_permissions(mount.join("d/f"), fs::Permissions::from_mode(0o4750)).unwrap();
    std::os::unix::fs::chown(mount.join("d/f"), Some(12), Some(34)).unwrap();
    fs::hard_link(mount.join("d/f"), mount.join("hard")).unwrap();
    symlink("d/f", mount.join("soft")).unwrap();
    fs::rename(mount.join("hard"), mount.join("d/other")).unwrap();
    let seen = fs::metadata(mount.join("soft")).unwrap();
    let there = fs::metadata(behind.join("d/other")).unwrap();
    let facts = |m: &fs::Metadata| (m.ino(), m.len(), m.mode(), m.uid(), m.gid(), m.nlink(), m.mtime_nsec());
    assert_eq!(facts(&seen), facts(&there));
    assert_eq!(
        (seen.uid(), seen.nlink(), seen.mode() & 0o7777),
        (12, 2, 0o750),
        "giving away drops set-user-ID"
    );
    assert!(fs::read(mount.join("d/f")).unwrap() == fs::read(behind.join("d/f")).unwrap());
    let counts = mount.counts();
    assert_eq!([Op::Mkdir, Op::Create, Op::Link, Op::Symlink, Op::Rename].map(|op| counts.of(op)), [1; 5]);
    assert!(counts.of(Op::Write) >= 3 && counts.json().contains("\"rename\":1"), "{}", counts.json());
    let mut names: Vec<_> = fs::read_dir(mount.join("d")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["f", "other"]);
    fs::remove_dir_all(mount.join("d")).unwrap();
    assert!(!behind.join("d").exists());
}

#[test]
fn a_listing_returns_attributes_that_are_cached() {
    let Some((mount, dir)) = mounted(MountOptions { xattrs: true, ..MountOptions::nfs(Duration::ZERO) })
    else {
        return;
    };
    for number in 0..3000 {
        fs::write(dir.path().join(format!("behind/{number:0200}")), number.to_string()).unwrap();
    }
    let mut names = 0;
    for entry in fs::read_dir(mount.path()).unwrap() {
        let entry = entry.unwrap();
        let number: u32 = entry.file_name().to_str().unwrap().parse().unwrap();
        assert_eq!(entry.metadata().unwrap().len(), number.to_string().len() as u64);
        names += 1;
    }
    let counts = mount.counts();
    assert_eq!(names, 3000);
    assert!(counts.of(Op::Readdirplus) > 1 && counts.of(Op::Lookup) < 300, "{}", counts.json());
    fs::write(mount.join(format!("{:0200}", 7)), "longer than it was").unwrap();
    assert_eq!(fs::metadata(mount.join(format!("{:0200}", 7))).unwrap().len(), 18);
}

#[test]
fn requests_hang_at_once_and_failed_ones_have_no_effect() {
    let Some((mount, dir)) =
        mounted(MountOptions { meta: Duration::from_millis(1), ..MountOptions::default() })
    else {
        return;
    };
    for number in 0..40 {
        fs::write(dir.path().join(format!("behind/{number}")), "x").unwrap();
    }
    mount.faults().add(FsFault { times: 40, ..FsFault::once(Op::Open, "", FaultEffect::Hang) });
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..40)
            .map(|number| {
                let path = mount.join(number.to_string());
                scope.spawn(move || fs::read(path))
            })
            .collect();
        while mount.hanging() < 40 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Other requests are answered meanwhile.
        assert!(fs::symlink_metadata(mount.join("3")).is_ok());
        assert_eq!(mount.release(), 40);
        for reader in readers {
            assert_eq!(reader.join().unwrap().unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
        }
    });
    mount.faults().add(FsFault::once(Op::Unlink, "7", FaultEffect::Fail(Errno::IO)));
    let error = fs::remove_file(mount.join("7")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert!(dir.path().join("behind/7").exists());
    fs::remove_file(mount.join("7")).unwrap();
}
