//! Commands of other tools.

use super::table::rows;

/// Other names of commands of haul.
pub(crate) const ALIASES: &[(&str, &str)] = &[
    ("cp", "copy"),
    ("mv", "copy"),
    ("move", "copy"),
    ("check", "verify"),
    ("cat", "get"),
    ("mirror", "sync"),
    ("du", "ls"),
];

/// The first line of the help of a command that has another name and does something else than the command of haul.
pub(crate) fn about(typed: &str) -> Option<&'static str> {
    match typed {
        "mv" | "move" => {
            Some("Copy SRC to DST, verify, and remove the source files: copy --remove-source-files")
        }
        "du" => Some("Show how much a location holds: ls -r --summarize without the list"),
        "cat" => Some("Write an object or file to standard output: get"),
        _ => None,
    }
}

/// Whether a command is `copy --remove-source-files`.
pub(crate) fn moves(typed: &str) -> bool {
    matches!(typed, "mv" | "move")
}

/// Whether a command is `ls -r --summarize` without the list.
pub(crate) fn sums(typed: &str) -> bool {
    typed == "du"
}

/// Whether `-f` of a command means force, as with cp(1) and mv(1). With `copy` it is rsync's --filter.
pub(crate) fn forces(typed: &str) -> bool {
    matches!(typed, "cp" | "mv" | "move")
}

/// Commands that haul refuses, each with the command to run instead.
pub(super) fn refused() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    rows(include_str!("commands.txt")).map(|[names, advice]| (names.split(' ').collect(), advice))
}
