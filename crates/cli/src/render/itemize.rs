//! One line for each change, as `rsync --itemize-changes` prints it.

use haul_core::event::{Action, Content, Done};
use haul_core::path::printable;
use haul_core::{Changes, EntryKind, Preserve};

use super::wording::shown;
/// The facts that all lines of a run depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Items {
    /// The destination is not on this machine.
    pub(crate) sends: bool,
    /// Which metadata is taken over.
    pub(crate) preserve: Preserve,
}

impl Items {
    /// The line for an entry, without a newline; `None` if rsync prints none for the action.
    pub(super) fn line(self, name: &[u8], done: Done<'_>) -> Option<String> {
        let is_dir = matches!(done.kind, Some(EntryKind::Dir));
        let name = format!("{}{}", shown(name), if is_dir { "/" } else { "" });
        if done.action == Action::Removed {
            return Some(format!("*deleting   {name}"));
        }
        let update = match done.action {
            Action::Copied | Action::Replaced if self.sends => '<',
            Action::Copied | Action::Replaced => '>',
            Action::Made => 'c',
            Action::Linked => 'h',
            Action::Updated => '.',
            Action::Left | Action::Same | Action::Removed | Action::RemovedAtSource => return None,
        };
        let target = match (done.kind, done.content) {
            (_, Content::OfName(first)) => format!(" => {}", shown(first)),
            (Some(EntryKind::Symlink(target)), _) => format!(" -> {}", printable(target)),
            _ => String::new(),
        };
        let kind = match done.kind {
            Some(EntryKind::Dir) => 'd',
            Some(EntryKind::Symlink(_)) => 'L',
            Some(EntryKind::CharDevice(_) | EntryKind::BlockDevice(_)) => 'D',
            Some(EntryKind::Fifo | EntryKind::Socket) => 'S',
            Some(EntryKind::File) | None => 'f',
        };
        Some(format!("{update}{kind}{} {name}{target}", self.attributes(update, done.kind, done.changes)))
    }

    /// The line for the log, which also has the files that `mv` removes at the source.
    pub(super) fn logged(self, name: &[u8], done: Done<'_>) -> Option<String> {
        match done.action {
            Action::RemovedAtSource => Some(format!("removed at the source: {}", shown(name))),
            _ => self.line(name, done),
        }
    }

    fn attributes(self, update: char, kind: Option<&EntryKind>, changes: Changes) -> String {
        if changes.has(Changes::NEW) || changes.has(Changes::KIND) {
            return "+".repeat(9);
        }
        // A replaced entry gets the time of the copy.
        let keeps_time = kind.is_none_or(|kind| self.preserve.has_times(kind));
        let new_time = !keeps_time && matches!(update, '<' | '>' | 'c');
        let time = if new_time { 'T' } else { 't' };
        let columns = [
            ('c', changes.has(Changes::CONTENT)),
            ('s', changes.has(Changes::SIZE)),
            (time, new_time || changes.has(Changes::TIME)),
            ('p', changes.has(Changes::MODE)),
            ('o', changes.has(Changes::OWNER)),
            ('g', changes.has(Changes::GROUP)),
            ('u', false),
            ('a', changes.has(Changes::ACL)),
            ('x', changes.has(Changes::XATTR)),
        ];
        // As rsync does: nothing is transferred, and nothing differs.
        let none = if columns.iter().all(|(_, is)| !is) && !matches!(update, '<' | '>') { ' ' } else { '.' };
        columns.map(|(letter, is)| if is { letter } else { none }).iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(action: Action, kind: &EntryKind, changes: Changes, items: Items) -> String {
        let done = Done { action, kind: Some(kind), changes, len: 3, content: Content::Unknown };
        items.line(b"a b", done).unwrap_or_default()
    }

    #[test]
    fn lines_are_those_of_rsync() {
        let (file, dir) = (&EntryKind::File, &EntryKind::Dir);
        let link = &EntryKind::Symlink(b"to\x1b".to_vec());
        let here = Items { sends: false, preserve: Preserve::default() };
        let differs = Changes::SIZE | Changes::TIME;
        assert_eq!(line(Action::Copied, file, Changes::NEW, here), ">f+++++++++ a b");
        assert_eq!(line(Action::Replaced, file, Changes::KIND, here), ">f+++++++++ a b");
        assert_eq!(line(Action::Replaced, file, differs, here), ">f.st...... a b");
        assert_eq!(line(Action::Replaced, file, differs, Items { sends: true, ..here }), "<f.st...... a b");
        let untimed = Items { preserve: Preserve { times: false, ..here.preserve }, ..here };
        assert_eq!(line(Action::Replaced, file, Changes::SIZE, untimed), ">f.sT...... a b");
        assert_eq!(line(Action::Replaced, file, Changes::NONE, here), ">f......... a b");
        assert_eq!(line(Action::Updated, dir, Changes::TIME, here), ".d..t...... a b/");
        let all = Changes::from(u16::MAX ^ 0b11);
        assert_eq!(line(Action::Updated, file, all, here), ".fcstpog.ax a b");
        assert_eq!(line(Action::Made, dir, Changes::NEW, here), "cd+++++++++ a b/");
        assert_eq!(line(Action::Made, link, Changes::CONTENT, here), "cLc........ a b -> to\\x1b");
        assert_eq!(line(Action::Removed, dir, Changes::NONE, here), "*deleting   a b/");
        assert_eq!(line(Action::Linked, file, Changes::NONE, here), "hf          a b");
        for action in [Action::Left, Action::Same, Action::RemovedAtSource] {
            assert_eq!(line(action, file, Changes::NONE, here), "");
        }
        let fifo = &EntryKind::Fifo;
        assert_eq!(line(Action::Made, fifo, Changes::NEW, here), "cS+++++++++ a b");
        assert_eq!(line(Action::Made, &EntryKind::CharDevice(1), Changes::NEW, here), "cD+++++++++ a b");
        let content = Content::OfName(b"first");
        let done = Done { action: Action::Linked, kind: Some(file), changes: Changes::NEW, len: 3, content };
        assert_eq!(here.line(b"", done).unwrap(), "hf+++++++++ . => first");
    }
}
