//! Makes symbolic links on the share, and the reparse points of another share.

use haul_core::policy::Verdict;
use haul_core::{
    Answer, Changes, Compare, Entry, EntryKind, Error, ErrorKind, Preserve, RelPath, Result, SkipReason,
};
use haul_ends::offers::PendingOffer;
use smb2::types::status::NtStatus;

use super::attrs::Attrs;
use super::entries::{REPARSE, is_link};
use super::login::ShareOptions;
use super::meta::Wish;
use super::names::to_wire;
use super::remove::remove_at;
use super::reparse::ReparsePoint;
use super::reparse_source::of_kept;
use super::reply::{Fault, PRIVILEGE_NOT_HELD};
use super::state::{MadeLinks, SmbSink};
use super::step::{ChainStep, OpenedKind, WRITE};
use super::tree::Tree;

/// The answers of a server that makes no reparse points, none that are directories, or none for this user.
const REFUSALS: [NtStatus; 6] = [
    NOT_A_REPARSE_POINT,
    PRIVILEGE_NOT_HELD,
    NtStatus::ACCESS_DENIED,
    NtStatus::NOT_SUPPORTED,
    NtStatus::NOT_IMPLEMENTED,
    NtStatus::INVALID_DEVICE_REQUEST,
];
const NOT_A_REPARSE_POINT: NtStatus = NtStatus(0xC000_0275);

/// The reparse point that an entry is to be.
struct WantedPoint {
    point: ReparsePoint,
    /// Whether it is a directory; `None`: if its target is one.
    is_dir: Option<bool>,
    /// The metadata that it has before it is a reparse point.
    before: Wish,
}

impl WantedPoint {
    /// The reparse point that an entry is to be; `None` if a share cannot hold it. The attribute of a reparse point counts
    /// only from another share (`from_share`): the target, by which the entry was admitted, may be a lie beside it.
    fn of(entry: &Entry, from_share: bool, preserve: &Preserve, share: &ShareOptions) -> Option<Self> {
        let EntryKind::Symlink(target) = &entry.kind else { return None };
        let kept = entry.xattrs.iter().find(|(name, _)| from_share && name[..] == *REPARSE);
        if let Some((_, value)) = kept {
            let (point, is_dir) = of_kept(value)?;
            let before = Wish::before_link(preserve, share, entry);
            return Some(Self { point, is_dir: Some(is_dir), before });
        }
        let (target, _) = wire_target(target, share.map_names)?;
        Some(Self { point: ReparsePoint::link_to(&target)?, is_dir: None, before: Wish::default() })
    }

    /// The words for it in notes about several of them.
    fn kind(&self) -> &'static str {
        if self.point.is_link() { "symbolic links" } else { "reparse points" }
    }

    /// Whether the existing reparse point is this one. Whether it is a directory is compared apart, because on Samba no
    /// reparse point is one.
    fn is_met_by(&self, there: &ReparsePoint, attrs: &Attrs) -> bool {
        if !self.before.is_met_by(attrs) {
            return false;
        }
        match self.is_dir {
            Some(_) => *there == self.point,
            // Another client may have written another name to be shown.
            None => there.relative_target() == self.point.relative_target(),
        }
    }
}

/// The target of a link as SMB has it, and whether it is a directory by its end. `None` if a share cannot hold it.
fn wire_target(target: &[u8], map: bool) -> Option<(String, bool)> {
    if target.is_empty() || target.starts_with(b"/") {
        return None;
    }
    let mut names = Vec::new();
    for name in target.split(|byte| *byte == b'/') {
        names.push(match name {
            b"" => "".into(),
            b"." => ".".into(),
            b".." => "..".into(),
            name => to_wire(name, map).ok()?,
        });
    }
    let is_dir = names.last().is_some_and(|last| matches!(&**last, "" | "." | ".."));
    Some((names.join("\\"), is_dir))
}

/// The path on the share to which a link at `remote` leads, as its names say. `None` if it leads out of the share.
fn resolved(remote: &str, target: &str) -> Option<String> {
    let mut names: Vec<&str> = remote.split('\\').collect();
    names.pop();
    for name in target.split('\\') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join("\\"))
}

impl Tree {
    /// The error of an existing reparse point that is to be replaced. Symbolic links are replaced like files.
    fn refuse_to_replace(&self, path: &RelPath, there: &ReparsePoint) -> Error {
        let cause = format!("an entry is in its place that haul does not replace: {}", there.describe());
        self.fault(ErrorKind::Unsupported, "replace", path, &cause)
    }
}

impl SmbSink {
    /// The reparse point that an entry is to be; `None` if a share cannot hold it.
    fn wanted_point(&self, entry: &Entry) -> Option<WantedPoint> {
        let share = &self.tree.smb.server.login.options;
        WantedPoint::of(entry, self.tree.keeps_reparse_points, &self.options.preserve, share)
    }

    /// Answers the offer of a link that no share can hold.
    pub(super) fn leave_out_link(&self, case: &mut PendingOffer<'_, Attrs>) {
        if is_link(case.entry()) && self.wanted_point(case.entry()).is_none() {
            let why = "a share holds only relative ones whose names SMB can hold";
            case.answer = Some(Ok(self.left_out("symbolic links", why, &case.offer.entry.path)));
        }
    }

    fn left_out(&self, kind: &'static str, why: &str, path: &RelPath) -> Answer {
        self.notes.note(kind, why, path);
        Answer::Left(SkipReason::Unsupported)
    }

    /// Compares the existing reparse points, and answers the offers that would replace one that is no symbolic link.
    pub(super) fn compare_points(&self, cases: &mut [PendingOffer<'_, Attrs>]) -> Result<()> {
        let is_asked = |case: &PendingOffer<'_, Attrs>| {
            case.is_open() && case.now.is_some_and(|now| now.is_reparse_point())
        };
        let asked: Vec<usize> = (0..cases.len()).filter(|at| is_asked(&cases[*at])).collect();
        let read = self.tree.smb.all(&asked, async |at: &usize| {
            self.tree.reparse_point(&self.tree.remote(&cases[*at].offer.entry.path)?).await
        })?;
        let mut equal = Vec::new();
        for (at, read) in asked.into_iter().zip(read) {
            let case = &mut cases[at];
            let path = &case.offer.entry.path;
            let there = match read {
                Ok(there) => there,
                Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unreachable => return Err(error),
                Err(fault) => {
                    case.answer = Some(Err(self.tree.error("look at", path, fault)));
                    continue;
                }
            };
            let wanted = self.wanted_point(&case.offer.entry);
            if case.verdict == Verdict::CompareTarget {
                let is_met =
                    wanted.as_ref().zip(case.now).is_some_and(|(wanted, now)| wanted.is_met_by(&there, &now));
                case.verdict = Verdict::of_comparison(is_met);
                equal.extend(is_met.then_some(at));
            }
            // The source is a share too, and its reparse point of this name changed: the one there is an older copy.
            let is_kept = wanted.is_some_and(|wanted| wanted.is_dir.is_some()) && there.is_whole();
            if case.verdict != Verdict::Same && !there.is_link() && !is_kept {
                case.answer = Some(Err(self.tree.refuse_to_replace(path, &there)));
            }
        }
        self.compare_dir_points(cases, equal)
    }

    /// Compares whether reparse points that are `equal` otherwise are directories, where the server makes both kinds. A link
    /// was made as a file if its target was made after it. Those that a share tells as files may stay directories: on Samba
    /// none is one.
    fn compare_dir_points(&self, cases: &mut [PendingOffer<'_, Attrs>], equal: Vec<usize>) -> Result<()> {
        if self.makes_links.lock().is_some_and(|made| made != MadeLinks::All) {
            return Ok(());
        }
        let wanted = self.tree.smb.all(&equal, async |at: &usize| {
            let entry = cases[*at].entry();
            match self.wanted_point(entry).and_then(|wanted| wanted.is_dir) {
                Some(is_dir) => Ok(is_dir.then_some(true)),
                None => self.leads_to_dir(entry).await,
            }
        })?;
        let mut differing = Vec::new();
        for (at, wanted) in equal.into_iter().zip(wanted) {
            match wanted {
                Ok(Some(is_dir)) if cases[at].now.is_some_and(|now| now.is_dir_point() != is_dir) => {
                    differing.push(at);
                }
                Err(Fault::Failed(error)) if error.kind() == ErrorKind::Unreachable => return Err(error),
                // Nothing tells that it is the wrong kind.
                _ => {}
            }
        }
        let Some(first) = differing.first() else { return Ok(()) };
        let only_looks = self.options.dry_run || self.options.compare == Compare::Metadata;
        let made =
            if only_looks { *self.makes_links.lock() } else { self.made_beside(cases[*first].entry())? };
        if made == Some(MadeLinks::All) {
            differing.into_iter().for_each(|at| cases[at].verdict = Verdict::Differs);
        }
        Ok(())
    }

    /// The links that the server makes; `None` if it does not let haul try it beside `entry`.
    fn made_beside(&self, entry: &Entry) -> Result<Option<MadeLinks>> {
        match self.made_links(&entry.path) {
            Err(error) if error.kind() == ErrorKind::Unreachable => Err(error),
            made => Ok(made.ok()),
        }
    }

    /// Refuses to remove an existing reparse point that is no symbolic link, in favour of a directory or a hard link.
    pub(super) async fn check_replaceable(&self, path: &RelPath, now: &Attrs) -> Result<(), Fault> {
        if !now.is_reparse_point() {
            return Ok(());
        }
        let there = self.tree.reparse_point(&self.tree.remote(path)?).await?;
        if there.is_link() { Ok(()) } else { Err(self.tree.refuse_to_replace(path, &there).into()) }
    }

    /// Answers the offers of links that this server does not make. `replacing` takes those that replace an entry, which has
    /// to stay if the server makes no link: call it before such entries are removed. The others are tried in their
    /// directories: call it after these were made.
    pub(super) fn leave_out_unmade(
        &self,
        cases: &mut [PendingOffer<'_, Attrs>],
        replacing: bool,
    ) -> Result<()> {
        for case in cases.iter_mut().filter(|case| case.is_open() && case.now.is_some() == replacing) {
            let Some(wanted) = self.wanted_point(case.entry()) else { continue };
            let path = &case.offer.entry.path;
            let why = match self.made_links(path) {
                Ok(MadeLinks::None) => "the server makes none for this user",
                Ok(MadeLinks::Files) if wanted.is_dir == Some(true) && !wanted.point.is_link() => {
                    "the server makes none that are directories"
                }
                Ok(_) => continue,
                Err(error) if error.kind() == ErrorKind::Unreachable => return Err(error),
                Err(error) => {
                    case.answer = Some(Err(error));
                    continue;
                }
            };
            case.answer = Some(Ok(self.left_out(wanted.kind(), why, path)));
        }
        Ok(())
    }

    /// The links that the server makes. Tries it once, beside `path`.
    fn made_links(&self, path: &RelPath) -> Result<MadeLinks> {
        if let Some(known) = *self.makes_links.lock() {
            return Ok(known);
        }
        let tried = self.tree.smb.one(async { Ok(self.try_links(path).await) })?;
        let made = tried.map_err(|fault| self.tree.error("make", path, fault))?;
        *self.makes_links.lock() = Some(made);
        Ok(made)
    }

    async fn try_links(&self, path: &RelPath) -> Result<MadeLinks, Fault> {
        let part = self.stage(path)?;
        let point = ReparsePoint::link_to("link").ok_or(Fault::Status(NtStatus::NOT_SUPPORTED))?;
        let mut made = MadeLinks::None;
        for (kind, makes) in [(OpenedKind::Dir, MadeLinks::All), (OpenedKind::File, MadeLinks::Files)] {
            // The chain may be sent again.
            let open = ChainStep::open_or_make(&part.remote, kind, WRITE);
            let chain = [open, ChainStep::set_reparse_point(&point), ChainStep::close()];
            let replies = self.tree.run(&chain).await?;
            replies.opened()?;
            let set = replies.ok(1);
            remove_at(&self.tree, &part.remote).await?;
            match set {
                Ok(()) => {
                    made = makes;
                    break;
                }
                Err(Fault::Status(status)) if REFUSALS.contains(&status) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(made)
    }

    /// Makes the links that were offered.
    pub(super) fn make_links(
        &self,
        cases: &mut [PendingOffer<'_, Attrs>],
        changes: impl Fn(&PendingOffer<'_, Attrs>) -> Changes,
    ) -> Result<()> {
        let is_asked = |at: &usize| cases[*at].is_open() && is_link(cases[*at].entry());
        let asked: Vec<usize> = (0..cases.len()).filter(is_asked).collect();
        let made = self.tree.smb.all(&asked, async |at: &usize| {
            let case = &cases[*at];
            self.make_link(case.entry(), case.now.as_ref()).await
        })?;
        for (at, made) in asked.into_iter().zip(made) {
            let case = &cases[at];
            let made = made.map(|()| Answer::Made(changes(case)));
            cases[at].answer =
                Some(made.map_err(|fault| self.tree.error("make", &case.offer.entry.path, fault)));
        }
        Ok(())
    }

    /// Makes a link in one frame: the server has all of it before it creates the name. A link under a staging name would be
    /// none any more on Samba after it was renamed.
    async fn make_link(&self, entry: &Entry, now: Option<&Attrs>) -> Result<(), Fault> {
        let Some(wanted) = self.wanted_point(entry) else {
            return Err(Fault::Status(NtStatus::NOT_SUPPORTED));
        };
        let is_dir = *self.makes_links.lock() == Some(MadeLinks::All)
            && match wanted.is_dir {
                Some(is_dir) => is_dir,
                // The next run compares it with a target that is made later.
                None => self.leads_to_dir(entry).await?.unwrap_or(false),
            };
        let remote = self.tree.remote(&entry.path)?;
        self.directories.touch(&entry.path);
        // Those that are directories were removed.
        if let Some(now) = now.filter(|now| !now.is_dir() && !now.is_dir_point()) {
            if now.is_file() {
                self.check_locked(&remote).await?;
            }
            match remove_at(&self.tree, &remote).await {
                Err(fault) if !fault.is_missing() => return Err(fault),
                _ => {}
            }
        }
        let kind = if is_dir { OpenedKind::Dir } else { OpenedKind::File };
        let wish = self.wish(entry);
        let mut chain = vec![ChainStep::make(&remote, kind, WRITE)];
        chain.extend(wanted.before.step(None));
        chain.push(ChainStep::set_reparse_point(&wanted.point));
        let made = chain.len();
        let set = wish.step(None);
        let sets = set.is_some();
        chain.extend(set);
        chain.push(ChainStep::close());
        let replies = self.tree.run(&chain).await?;
        match replies.opened() {
            Err(fault) if fault.is_collision() => {
                self.check_spelling(&entry.path).await?;
                // It was made on a connection that was lost.
                let there = self.tree.reparse_point(&remote).await;
                if !there.is_ok_and(|there| there == wanted.point) {
                    return Err(fault);
                }
            }
            opened => {
                opened.map(drop)?;
                if let Err(fault) = replies.ok(made - 1) {
                    let _removed = remove_at(&self.tree, &remote).await;
                    return Err(fault);
                }
                let set_before = 1..made - 1;
                for at in set_before.chain(sets.then_some(made)) {
                    self.accept(replies.ok(at), entry)?;
                }
            }
        }
        self.warn(entry);
        self.set_security(entry).await.map(drop)
    }

    /// Whether the target of a link is a directory; `None` if the share does not tell. Windows tells the two kinds of links
    /// apart.
    async fn leads_to_dir(&self, entry: &Entry) -> Result<Option<bool>, Fault> {
        let EntryKind::Symlink(target) = &entry.kind else { return Ok(None) };
        let target = wire_target(target, self.tree.smb.server.login.options.map_names);
        let Some((target, is_dir)) = target else { return Ok(None) };
        if is_dir {
            return Ok(Some(true));
        }
        let Some(path) = resolved(&self.tree.remote(&entry.path)?, &target) else { return Ok(None) };
        match self.tree.stat_at(&path).await {
            Ok(there) => Ok(Some(there.is_dir() || there.is_reparse_point() && there.is_dir_point())),
            Err(Fault::Failed(error)) => Err(error.into()),
            Err(Fault::Status(_)) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_bytes::ByteBuf;

    use super::*;

    #[test]
    fn the_attribute_of_a_reparse_point_counts_from_a_share_only() {
        let junction = [&0xA000_0003_u32.to_le_bytes()[..], &[4, 0, 0, 0], b"data"].concat();
        let kept = (ByteBuf::from(REPARSE), ByteBuf::from([b"d", &junction[..]].concat()));
        let kind = EntryKind::Symlink(b"dir/ok".to_vec());
        let link = Entry { xattrs: vec![kept], ..Entry::new(RelPath::new(b"link").unwrap(), kind, 0) };
        let of = |from_share| {
            let options = ShareOptions::default();
            WantedPoint::of(&link, from_share, &Preserve::default(), &options).unwrap()
        };
        assert_eq!((of(true).point.bytes(), of(true).is_dir), (&junction[..], Some(true)));
        assert_eq!((of(true).kind(), of(false).kind()), ("reparse points", "symbolic links"));
        assert_eq!((Some(of(false).point), of(false).is_dir), (ReparsePoint::link_to("dir\\ok"), None));
        assert_eq!(of(false).before, Wish::default());
    }

    #[test]
    fn a_target_is_relative_and_has_names_of_smb() {
        let of = |target: &str| wire_target(target.as_bytes(), false);
        assert_eq!(of("a/../b c"), Some(("a\\..\\b c".to_owned(), false)));
        assert_eq!(of("dir//sub/"), Some(("dir\\\\sub\\".to_owned(), true)));
        assert_eq!(of(".."), Some(("..".to_owned(), true)));
        for none in ["", "/etc", "a:b", "a\\b", "con/x"] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(wire_target(b"\xff", true), None);
        assert!(wire_target(b"a:b", true).is_some());
    }

    #[test]
    fn a_target_is_found_by_its_names() {
        assert_eq!(resolved("top\\dir\\link", "..\\other\\.\\x").as_deref(), Some("top\\other\\x"));
        assert_eq!(resolved("link", "x").as_deref(), Some("x"));
        assert_eq!(resolved("top\\link", "..").as_deref(), Some(""));
        assert_eq!(resolved("top\\link", "..\\..\\x"), None);
    }
}
