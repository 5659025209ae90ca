//! The kinds of fault and their weights.

use haul_testkit::Need;

use crate::faults::{clock, disk, hostile, kill, limits, space, staged, wire};
use crate::round::Round;
use crate::sync;

/// A kind of round.
pub(crate) struct RoundKind {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Rounds of this kind in each cycle through all kinds.
    weight: usize,
    pub(crate) needs: &'static [Need],
    pub(crate) round: fn(&mut Round),
}

const fn kind(
    name: &'static str,
    what: &'static str,
    weight: usize,
    needs: &'static [Need],
    round: fn(&mut Round),
) -> RoundKind {
    RoundKind { name, what, weight, needs, round }
}

const NONE: &[Need] = &[];
const STORE: &[Need] = &[Need::Program("weed"), Need::Program("curl")];
const DISK: &[Need] = &[Need::Root, Need::Fuse, Need::LoopMounts, Need::Program("mkfs.ext4")];

/// Every kind.
pub(crate) const KINDS: &[RoundKind] = &[
    kind("kill", "`kill -9` of either end, or of both", 6, NONE, kill::killed),
    kind("signal", "SIGHUP, TERM, INT, QUIT, PIPE; TSTP and CONT", 2, NONE, kill::signalled),
    kind("two", "two or three runs at once", 2, NONE, kill::two_at_once),
    kind("flip", "bytes flipped on the wire", 4, NONE, wire::flipped),
    kind("cut", "connections cut", 2, NONE, wire::cut),
    kind("stall", "stalled connections", 1, NONE, wire::stalled),
    kind("staged", "bytes flipped in staged files and journals", 4, NONE, staged::flipped),
    kind("full", "a full disk, by blocks or inodes", 2, &[Need::Root, Need::Tmpfs], space::full),
    kind("error", "ENOSPC, EDQUOT, EIO or EROFS at any request", 2, &[Need::Root, Need::Fuse], space::errors),
    kind("files", "few file descriptors", 2, &[Need::Program("prlimit")], limits::files),
    kind("memory", "little address space", 1, &[Need::Program("prlimit")], limits::address_space),
    kind("oom", "killed for memory in a cgroup", 1, &[Need::Root], limits::out_of_memory),
    kind("hostile", "a remote haul that lies", 4, NONE, hostile::lies),
    kind("clock", "the clock jumps during a run", 1, &[Need::Program("faketime")], clock::jumps),
    kind("power", "power cuts on ext4", 1, DISK, disk::power),
    kind("eio", "EIO of the disk in write-back, ext4", 1, DISK, disk::write_errors),
    kind("sync-local", "no fault: `sync` as rsync, locally", 3, &[Need::Program("rsync")], sync::local),
    kind("sync-inplace", "no fault: `sync --inplace` as rsync", 2, &[Need::Program("rsync")], sync::in_place),
    kind(
        "sync-ssh",
        "no fault: `sync` over ssh as rsync",
        2,
        &[Need::Program("rsync"), Need::Program("ssh")],
        sync::ssh,
    ),
    kind(
        "sync-sftp",
        "no fault: `sync` over SFTP as rsync",
        2,
        &[Need::Program("rsync"), Need::Program("ssh")],
        sync::sftp,
    ),
    kind("sync-store", "no fault: `sync` to a store and back", 1, STORE, sync::store),
];

/// One cycle through the kinds: each as often as its weight says, spread evenly.
pub(crate) fn order(kinds: &[&'static RoundKind]) -> Vec<&'static RoundKind> {
    let most = kinds.iter().map(|kind| kind.weight).max().unwrap_or(1);
    (0..most).flat_map(|turn| kinds.iter().copied().filter(move |kind| turn < kind.weight)).collect()
}
