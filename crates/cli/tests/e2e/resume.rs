//! Data of an interrupted run is used only if it matches the source and no other program changed it.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, chown};
use std::path::{Path, PathBuf};

use haul_core::journal::{JournalHeader, decode, encode_record};
use haul_testkit::{Need, TestTree, assert_same_tree};
use rustix::fs::{FlockOperation, XattrFlags};

use crate::kills::{half_way, staged};
use crate::scene::{Scene, Way, events, summary};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        a_byte_that_is_damaged_in_a_staged_file_does_not_reach_its_name,
        a_source_that_was_changed_and_set_back_in_time_is_copied_anew,
        unsynced_slices_do_not_count_after_another_boot,
    ];
    all.extend(cases![
        Need::Root;
        a_journal_of_somebody_else_is_ignored,
        a_staged_file_that_somebody_else_planted_is_not_waited_for,
    ]);
    all
}

const LEN: u64 = 40 << 20;

/// A large file that is half at `dst`.
struct Half {
    scene: Scene,
    source: TestTree,
    copy: PathBuf,
}

impl Half {
    fn new() -> Self {
        let scene = Scene::new();
        let source = scene.tree("src");
        source.file("huge", LEN);
        let copy = scene.join("dst");
        half_way(&scene, &source, &copy, LEN / 2);
        Self { scene, source, copy }
    }

    fn part(&self) -> PathBuf {
        staged(&self.copy, ".part").remove(0)
    }

    fn journal(&self) -> PathBuf {
        staged(&self.copy, ".journal").remove(0)
    }

    fn slices(&self) -> Vec<u32> {
        let (_, slices) = decode(&fs::read(self.journal()).unwrap()).unwrap();
        slices.into_iter().map(|(index, _)| index).collect()
    }

    /// Makes the journal say something else of itself.
    fn edit(&self, edit: impl FnOnce(&mut JournalHeader)) {
        let (mut header, slices) = decode(&fs::read(self.journal()).unwrap()).unwrap();
        edit(&mut header);
        let mut bytes = header.encode().to_vec();
        slices.iter().for_each(|(index, value)| bytes.extend(encode_record(header.seed(), *index, value)));
        fs::write(self.journal(), bytes).unwrap();
    }

    /// Resumes; returns how many bytes counted as resumed. The result is right.
    fn resumed(&self) -> u64 {
        let run = self.scene.copy(Way::Local, self.source.path(), &self.copy).finish().expect_success();
        assert_same_tree(self.source.path(), &self.copy);
        assert!(staged(&self.copy, ".part").is_empty() && staged(&self.copy, ".journal").is_empty());
        assert!(key(&self.copy.join("huge")).is_none(), "the key is gone with the staging name");
        summary(&run).of("resumed_bytes")
    }
}

fn key(path: &Path) -> Option<Vec<u8>> {
    let mut value = [0; 16];
    rustix::fs::getxattr(path, "user.haul.key", &mut value).ok().map(|len| value[..len].to_vec())
}

/// Changes a byte of a file in place.
fn damage(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

fn a_byte_that_is_damaged_in_a_staged_file_does_not_reach_its_name() {
    let half = Half::new();
    let slices = half.slices();
    assert!(slices.len() > 2, "{slices:?}");
    damage(&half.part(), u64::from(slices[1]) * (4 << 20) + 12_345);
    assert!(half.resumed() > 0, "the other slices are gone on with");
    // It is left out if that is asked for.
    let half = Half::new();
    damage(&half.part(), u64::from(half.slices()[1]) * (4 << 20) + 12_345);
    let run = half.scene.copy(Way::Local, half.source.path(), &half.copy).arg("--no-recheck");
    run.finish().expect_success();
    let same =
        fs::read(half.copy.join("huge")).unwrap() == fs::read(half.source.path().join("huge")).unwrap();
    assert!(!same, "nothing was read back");
}

fn a_source_that_was_changed_and_set_back_in_time_is_copied_anew() {
    let half = Half::new();
    let large = half.source.path().join("huge");
    let time = fs::metadata(&large).unwrap().modified().unwrap();
    damage(&large, u64::from(half.slices()[0]) * (4 << 20) + 99);
    File::options().write(true).open(&large).unwrap().set_modified(time).unwrap();
    assert_eq!(half.resumed(), 0, "its change time is another");
}

fn unsynced_slices_do_not_count_after_another_boot() {
    let half = Half::new();
    half.edit(|header| header.synced = false);
    let slices = half.slices().len() as u64;
    assert_eq!(half.resumed(), slices * (4 << 20), "within one boot it does");
    let half = Half::new();
    half.edit(|header| (header.synced, header.boot) = (false, [7; 16]));
    assert_eq!(half.resumed(), 0);
    let half = Half::new();
    half.edit(|header| header.boot = [7; 16]);
    assert!(half.resumed() > 0, "what was synced does");
}

fn a_journal_of_somebody_else_is_ignored() {
    const NOBODY: u32 = 65534;
    let forgeries: [fn(&Half); 3] = [
        |half| chown(half.journal(), Some(NOBODY), Some(NOBODY)).unwrap(),
        |half| fs::hard_link(half.journal(), half.scene.join("other-name")).unwrap(),
        |half| {
            let part = half.part();
            if key(&part).is_some() {
                rustix::fs::setxattr(&part, "user.haul.key", &[1; 16], XattrFlags::empty()).unwrap();
            } else {
                half.edit(|header| header.key = [1; 16]);
            }
        },
    ];
    for (at, forge) in forgeries.into_iter().enumerate() {
        let half = Half::new();
        forge(&half);
        assert_eq!(half.resumed(), 0, "forgery {at}");
    }
}

fn a_staged_file_that_somebody_else_planted_is_not_waited_for() {
    let scene = Scene::new();
    let source = scene.tree("src");
    source.file("file", 1000);
    let copy = scene.join("dst");
    fs::create_dir(&copy).unwrap();
    let name = format!(".haul-{}.part", &blake3::hash(b"file").to_hex()[..16]);
    let planted = File::create(copy.join(name)).unwrap();
    chown(copy.join(staged(&copy, ".part")[0].file_name().unwrap()), Some(65534), Some(65534)).unwrap();
    rustix::fs::flock(&planted, FlockOperation::LockExclusive).unwrap();
    let run = scene.copy(Way::Local, source.path(), &copy).finish().expect_code(1);
    let told = events(&run).into_iter().find(|event| event["type"] == "failed").unwrap();
    assert!(told.to_string().contains("another user holds a file under its staging name"), "{told}");
    drop(planted);
    scene.copy(Way::Local, source.path(), &copy).finish().expect_success();
    assert_same_tree(source.path(), &copy);
}
