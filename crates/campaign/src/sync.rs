//! Compares `haul sync` with `rsync -aHAX --delete` after random changes of both trees, without faults.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::process::joined;
use haul_testkit::store::{ACCESS_KEY, SECRET_KEY, endpoint};
use haul_testkit::tree::list;
use haul_testkit::{Care, CommandRun, TreeShape, duplicate};

use crate::job::slash;
use crate::judge::equal;
use crate::round::Round;

/// Both trees are local.
pub(crate) fn local(round: &mut Round) {
    compared(round, TreeShape::default(), &Care::default(), &[], |round, from, to| {
        round.haul("sync").arg("--force-delete").arg(slash(from)).arg(slash(to))
    });
}

/// Large files are updated in place.
pub(crate) fn in_place(round: &mut Round) {
    compared(
        round,
        TreeShape { big: 3, ..TreeShape::default() },
        &Care::default(),
        &["--inplace"],
        |round, from, to| {
            round.haul("sync").arg("--force-delete").arg("--inplace").arg(slash(from)).arg(slash(to))
        },
    );
}

/// The destination, or the source, behind a real sshd.
pub(crate) fn ssh(round: &mut Round) {
    let push = round.one_in(2);
    compared(round, TreeShape::default(), &Care::default(), &[], move |round, from, to| {
        let remote = |path: &Path| joined(&[b"127.0.0.1:", slash(path).as_encoded_bytes()]);
        let (from, to) = if push { (slash(from), remote(to)) } else { (remote(from), slash(to)) };
        let run = round.haul("sync").arg("--force-delete").args(["-e", &round.world.ssh(), "--remote-haul"]);
        run.arg(&round.world.haul).arg(from).arg(to)
    });
}

/// The same over SFTP, which keeps times in seconds and neither extended attributes nor hard links.
pub(crate) fn sftp(round: &mut Round) {
    let push = round.one_in(2);
    let care = Care { hard_links: false, link_times: false, ..Care::of_sftp() };
    compared(
        round,
        TreeShape { hard_links: false, ..TreeShape::of_sftp() },
        &care,
        &[],
        move |round, from, to| {
            let remote = |path: &Path| joined(&[b"sftp://127.0.0.1", slash(path).as_encoded_bytes()]);
            let (from, to) = if push { (slash(from), remote(to)) } else { (remote(from), slash(to)) };
            round.haul("sync").arg("--force-delete").args(["-e", &round.world.ssh()]).arg(from).arg(to)
        },
    );
}

/// Changes two trees, syncs them with both programs, and compares the results. Where rsync leaves a difference from the
/// source (it does not split groups of hard links, for example), haul may leave the same or none.
fn compared(
    round: &mut Round,
    shape: TreeShape,
    care: &Care,
    options: &[&str],
    command: impl Fn(&Round, &Path, &Path) -> CommandRun,
) {
    let from = round.tree("src", shape);
    let (to, other) = (round.join("dst"), round.join("by-rsync"));
    duplicate(&from, &to);
    // Several turns, so that a sync starts from the result of an earlier one.
    for turn in 0..round.random.between(1, 4) {
        let (of_source, of_target) = (round.random.between(0, 7), round.random.between(0, 7));
        let seeds = (round.random.next_u64(), round.random.next_u64());
        let mut done = haul_testkit::RandomTrees::new(seeds.0, shape).mutate(&from, of_source);
        done.push("and at the destination".to_owned());
        done.extend(haul_testkit::RandomTrees::new(seeds.1, shape).mutate(&to, of_target));
        if other.exists() {
            fs::remove_dir_all(&other).unwrap();
        }
        duplicate(&to, &other);
        if list(&from).is_empty() {
            // haul refuses an empty source; rsync does not.
            break;
        }
        let run = command(round, &from, &to).finish();
        round.ran();
        round.fault((of_source + of_target).min(1));
        if run.code() != Some(0) {
            return round
                .lost(format!("turn {turn}: sync did not end with exit code 0 after {done:?}: {run}"));
        }
        let Some(differ) = equal(&from, &to, care) else { continue };
        let mut rsync = Command::new("rsync");
        rsync.args(["-aHAX", "--delete", "--numeric-ids", "--modify-window=-1"]).args(options);
        tool(rsync.arg(slash(&from)).arg(slash(&other)));
        if equal(&other, &to, care).is_some() {
            return round.wrong(format!("turn {turn}: after {done:?} from the source {differ}"));
        }
        round.note("turns in which rsync left the same differences", 1);
    }
    round.all_gone();
}

/// Syncs a tree to a bucket and back to an empty directory, and again after changes of the source and of the copy.
pub(crate) fn store(round: &mut Round) {
    let shape = TreeShape { specials: false, ..TreeShape::default() };
    let care = Care::default();
    let (from, to) = (round.tree("src", shape), round.join("dst"));
    let bucket = format!("b{:016x}", round.random.next_u64());
    let place = format!("http://{}", endpoint());
    tool(Command::new("curl").args(["-sf", "-X", "PUT"]).arg(format!("{place}/{bucket}")));
    for turn in 0..2 {
        without_set_ids(&from);
        for (source, target) in
            [(slash(&from), remote(&bucket)), (remote(&bucket), slash(&to))].map(|(from, to)| (from, to))
        {
            let run = round.haul("sync").arg("--force-delete").arg(source).arg(target);
            let run = run
                .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
                .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
                .env("AWS_ENDPOINT_URL", &place)
                .finish();
            round.ran();
            if run.code() != Some(0) {
                return round.lost(format!("turn {turn}: sync did not end with exit code 0: {run}"));
            }
        }
        round.fault(1);
        // The root of the tree is the bucket, which stores no metadata for it.
        let differ = haul_testkit::tree_differences(&from, &to, &care);
        let differ: Vec<_> = differ.into_iter().filter(|line| !line.starts_with("\"\":")).collect();
        if !differ.is_empty() {
            return round.wrong(format!("turn {turn}: {} differences: {:?}", differ.len(), &differ[..1]));
        }
        let seeds = (round.random.next_u64(), round.random.next_u64());
        haul_testkit::RandomTrees::new(seeds.0, shape).mutate(&from, 5);
        haul_testkit::RandomTrees::new(seeds.1, shape).mutate(&to, 3);
    }
    // Frees the space: the store and the trees share a disk.
    tool(Command::new("curl").args(["-sf", "-X", "DELETE"]).arg(format!("{place}/{bucket}")));
    round.all_gone();
}

fn remote(bucket: &str) -> OsString {
    format!("s3://{bucket}/tree/").into()
}

/// Removes set-ID bits, which haul does not restore from a store by default.
fn without_set_ids(root: &Path) {
    let paths: Vec<PathBuf> = list(root).into_iter().map(|path| root.join(path)).collect();
    for path in paths {
        let meta = fs::symlink_metadata(&path).unwrap();
        if !meta.is_symlink() && meta.permissions().mode() & 0o6000 != 0 {
            fs::set_permissions(&path, fs::Permissions::from_mode(meta.permissions().mode() & 0o1777))
                .unwrap();
        }
    }
}
