//! Commands of other tools.

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

/// Whether a command is `copy --remove-source-files`.
pub(crate) fn moves(typed: &str) -> bool {
    matches!(typed, "mv" | "move")
}

/// Whether a command is `ls -r --summarize` without the list.
pub(crate) fn sums(typed: &str) -> bool {
    typed == "du"
}

/// Commands that haul refuses, and what to run instead.
pub(super) const COMMANDS: &[(&[&str], &str)] = &[
    (&["scp", "copyto", "xcopy", "copyurl"], "use `haul copy SRC DST`"),
    (&["rsync", "robocopy"], "use `haul copy SRC DST`, or `haul sync SRC DST` to delete too"),
    (
        &["rclone", "mscp", "fpsync", "s5cmd", "aws", "s3", "s3api", "mc", "xbcloud"],
        "haul takes the options of that tool, not its name: use `haul copy SRC DST`",
    ),
    (
        &["moveto", "rename"],
        "use `haul mv SRC DST`, which copies, verifies and then removes the source files",
    ),
    (&["cmp", "diff", "compare", "cryptcheck"], "use `haul verify SRC DST`"),
    (&["download", "select"], "use `haul get SRC`"),
    (&["head"], "use `haul stat LOCATION`, or `haul get SRC | head` for the first lines"),
    (&["rcat", "upload", "pipe"], "use `haul put DST`"),
    (&["doctor"], "use `haul probe --doctor SRC DST`"),
    (&["version"], "use `haul --version`"),
    (
        &["size", "ncdu", "tree", "analyze", "analyse", "about"],
        "use `haul ls LOCATION` or `haul du LOCATION`, and `haul plan SRC` to analyse a tree",
    ),
    (&["list", "dir", "lsl", "lsf", "lsd", "lsjson"], "use `haul ls LOCATION`"),
    (&["del", "delete", "remove", "purge", "deletefile", "unlink", "rmdir", "rmdirs"], "use `haul rm URL`"),
    (&["cleanup"], "use `haul rm --incomplete URL`"),
    (&["b3sum", "md5sum", "sha1sum", "sha256sum", "hashsum", "checksum"], "use `haul hash SRC`"),
    (&["status", "ps", "history"], "use `haul jobs`"),
    (
        &["configure", "alias", "listremotes"],
        "write named locations in ~/.config/haul/config.toml: `haul help config` explains it",
    ),
    (&["fpart", "partition", "split"], "use `haul plan --parts N SRC`"),
    (&["bench", "benchmark", "speed", "speedtest"], "use `haul probe SRC DST`"),
    (&["mkdir"], "haul creates directories as needed; `haul mb URL` makes a bucket"),
    (&["share", "link", "publiclink"], "use `haul presign URL`"),
    (
        &["website", "tag", "retention", "legalhold", "ilm", "bucket-version"],
        "haul only copies, lists and removes objects: use the provider's tools",
    ),
    (&["run", "batch"], "haul has no command files: use a shell or xargs"),
    (&["watch"], "haul has no watching: repeat the command with cron or a systemd timer"),
    (&["bisync", "dedupe", "mount", "serve"], "haul copies in one direction only: use rclone"),
];
