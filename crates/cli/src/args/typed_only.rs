//! Limits of the settings: the commands that take them, and the options that belong to one run.

/// Commands for locations: they take settings, and `-h` beside other arguments is rsync's --human-readable.
pub(crate) const COMMANDS: [&str; 16] = [
    "copy", "sync", "verify", "hash", "put", "get", "pipe", "index", "ls", "rm", "stat", "mb", "rb",
    "presign", "plan", "probe",
];

/// Options that loosen a guard against deletion: a run that deletes more than usual says so itself.
const DELETION: &str = "it decides which entries are deleted, so it must be typed for each run";
/// Options that choose the work of one run, or name its files.
const RUN: &str = "it is for one run: give it on the command line";

/// The options, the commands that they are refused for (none: all), and why.
const OPTIONS: [(&str, &[&str], &str); 4] = [
    (
        "force-delete ignore-errors max-delete delete delete-excluded filter cvs-exclude exclude-if-present \
         exclude-caches remove-source-files incomplete any force",
        &[],
        DELETION,
    ),
    ("recursive min-size max-size min-age max-age", &["rm"], DELETION),
    ("min-size max-size min-age max-age summarize", &["ls"], RUN),
    (
        "dry-run list-only help version archive files-from index manifest manifest-format sign failed stop-at doctor \
         quick probe unfit parts part-size part-files lists length fifo-dir fifo-streams resume method from into \
         unpack member members merge",
        &[],
        RUN,
    ),
];

/// Why settings cannot give this option to a command; `None` if they can.
pub(crate) fn typed_only(command: &str, long: &str) -> Option<&'static str> {
    let row = |(names, commands, _): &&(&str, &[&str], &str)| {
        names.split(' ').any(|name| name == long) && (commands.is_empty() || commands.contains(&command))
    };
    OPTIONS.iter().find(row).map(|(.., why)| *why)
}
