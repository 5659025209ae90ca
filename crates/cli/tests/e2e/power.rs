//! A destination that loses power.

use std::fs::{self, File};
use std::io::Write;

use haul_testkit::{CrashDisk, DiskFault, DiskOp, FileSystem, Keep, Need, Trigger, content};

use crate::{Case, cases};

const FILE_SYSTEMS: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

pub(crate) fn cases() -> Vec<Case> {
    cases![
        Need::Root, Need::Fuse, Need::LoopMounts, Need::Program("mkfs.xfs"), Need::Program("mkfs.btrfs");
        the_disk_keeps_what_was_synced_and_loses_the_rest,
    ]
}

fn the_disk_keeps_what_was_synced_and_loses_the_rest() {
    for kind in FILE_SYSTEMS {
        let mut disk = CrashDisk::new(kind, 320 << 20);
        content::write_file(&disk.join("synced"), 1, 3 << 20);
        File::open(disk.join("synced")).unwrap().sync_all().unwrap();
        File::open(disk.path()).unwrap().sync_all().unwrap();
        content::write_file(&disk.join("lost"), 2, 3 << 20);
        disk.cut_now(Keep::None);
        assert!(File::open(disk.join("lost")).unwrap().sync_all().is_err(), "{kind:?}");
        disk.remount();
        let mut wanted = vec![0; 3 << 20];
        content::fill(1, 0, &mut wanted);
        assert!(fs::read(disk.join("synced")).unwrap() == wanted, "{kind:?}");
        assert_ne!(fs::metadata(disk.join("lost")).map_or(0, |meta| meta.len()), 3 << 20, "{kind:?}");

        disk.fail(DiskFault::of(DiskOp::Write).content_only().times(3));
        let mut file = File::create(disk.join("file")).unwrap();
        content::fill(3, 0, &mut wanted);
        file.write_all(&wanted).unwrap();
        assert!(file.sync_all().is_err(), "{kind:?}");
        let mut other = File::create(disk.join("other")).unwrap();
        other.write_all(&wanted).unwrap();
        other.sync_all().unwrap();
        drop((file, other));
        disk.cut_at(Trigger::Flush(1), Keep::None);
        File::create(disk.join("last")).unwrap().sync_all().unwrap_err();
        assert!(disk.is_cut());
        disk.format();
        assert!(!disk.join("other").exists());
    }
}
