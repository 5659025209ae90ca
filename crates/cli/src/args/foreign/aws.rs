//! Words of the AWS CLI, s5cmd and mc for object stores.

use super::word::Tool::{Aws, Mc, Rclone, S5cmd, Xbcloud};
use super::word::Verdict::{Default, DefaultValue, Hint, Same};
use super::word::{ALL, OBJECTS, READS, STORES, TREES, Word, word};

const NO_ATTRIBUTES: &str = "haul has no attributes for trees, because files have none; `haul put --header NAME:VALUE` sets one for an object";
const HEADERS: &[&str] = &[
    "--content-type",
    "--cache-control",
    "--content-disposition",
    "--content-encoding",
    "--content-language",
    "--expires",
    "--website-redirect",
];
const SECRETS: &str = "haul reads credentials from the environment or the configuration files of the provider's tools, never from the command line";
const RIGHTS: &str = "haul has no such request: it uses the rights and the keys of the bucket";
const DIRECTIVE: &str = "haul has no such choice: it always keeps the metadata of files";
const DIGEST: &str = "haul always verifies with BLAKE3, and with a checksum of the store: omit it";
const REGION: &str = "haul learns the region of each bucket from the store: omit it, or use --region";
const VERSIONS: &str = "haul has no access to old versions: it reads and writes the current one";
const TEXT: &str = "haul prints plain text, or JSON Lines with --json";
const PAGER: &str = "haul has no pager and no prompt: omit it (`haul completions bash` prints completions)";

pub(super) const WORDS: &[Word] = &[
    // Accepted.
    word(&["--dryrun"], &[Aws], &["copy", "sync", "put", "rm"], Same("--dry-run")),
    word(&["--dryrun"], &[Aws], &["verify"], Default),
    word(
        &["--only-show-errors"],
        &[Aws],
        &["copy", "sync", "verify", "hash", "put", "get", "rm"],
        Same("--quiet"),
    ),
    word(&["--exact-timestamps", "--no-guess-mime-type"], &[Aws], TREES, Default),
    word(&["--checksum-mode"], &[Aws], &["copy", "sync", "get"], DefaultValue(&["ENABLED"])),
    word(&["--follow-symlinks"], &[Aws], READS, Same("--copy-links")),
    word(&["--no-overwrite"], &[Aws], TREES, Same("--ignore-existing")),
    word(&["--no-clobber"], &[S5cmd], TREES, Same("--ignore-existing")),
    word(&["--if-size-differ"], &[S5cmd], TREES, Same("--size-only")),
    word(&["--raw"], &[S5cmd], &["copy", "sync", "ls", "rm"], Default),
    word(&["--overwrite", "--preserve"], &[Mc], TREES, Default),
    word(&["--force", "-f"], &[Mc], &["rm"], Default),
    word(&["--humanize"], &[S5cmd], &["ls"], Same("--human-readable")),
    word(&["--expires-in"], &[Aws], &["presign"], Same("--expires")),
    word(&["--expire"], &[S5cmd, Mc], &["presign"], Same("--expires")),
    word(&["-E"], &[Mc], &["presign"], Same("--expires")),
    // Refused.
    word(
        &["--with-lock", "--with-versioning", "-l"],
        &[Mc],
        &["mb"],
        Hint("haul makes plain buckets: set locks and versions with the tools of the provider"),
    ),
    word(&["--recursive", "-r"], &[Mc], &["stat"], Hint("use `haul ls -r --json LOCATION`")),
    word(&["--no-list"], &[Mc], &["stat"], Hint("haul lists only if no object has that very name: omit it")),
    word(&["--s3-profile"], &[Rclone], STORES, Same("--profile")),
    word(&["--credentials-file"], &[S5cmd], STORES, Hint("set AWS_SHARED_CREDENTIALS_FILE")),
    word(&["--s3-access-key-id", "--s3-secret-access-key"], &[Rclone], STORES, Hint(SECRETS)),
    word(&["--s3-session-token"], &[Rclone, Xbcloud], STORES, Hint(SECRETS)),
    word(
        &[
            "--s3-access-key",
            "--s3-secret-key",
            "--google-access-key",
            "--google-secret-key",
            "--azure-access-key",
            "--azure-storage-account",
        ],
        &[Xbcloud],
        STORES,
        Hint(SECRETS),
    ),
    word(&["--access-key", "--secret-key"], &[Mc], STORES, Hint(SECRETS)),
    word(&["--if-source-newer"], &[S5cmd], TREES, Hint("use -u, which skips files that are newer at DST")),
    word(
        &["--flatten"],
        &[S5cmd],
        TREES,
        Hint("haul has no such mode: it keeps paths, so that names cannot collide"),
    ),
    word(&["--acl", "--request-payer"], &[Aws, S5cmd], STORES, Hint(RIGHTS)),
    word(&["--grants", "--sse-c", "--sse-c-key", "--sse-c-copy-source"], &[Aws], STORES, Hint(RIGHTS)),
    word(&["--enc-c"], &[Mc], STORES, Hint(RIGHTS)),
    word(
        &["--enc-s3", "--enc-kms"],
        &[Mc],
        &["copy", "sync", "put"],
        Hint("use --sse AES256, or --sse aws:kms with --sse-kms-key-id KEY"),
    ),
    word(HEADERS, &[Aws, S5cmd], TREES, Hint(NO_ATTRIBUTES)),
    word(HEADERS, &[Aws, S5cmd], &["put"], Hint("use --header, as in --header 'Content-Type: text/plain'")),
    word(&["--attr", "--tags"], &[Mc], TREES, Hint(NO_ATTRIBUTES)),
    word(
        &["--attr", "--tags"],
        &[Mc],
        &["put"],
        Hint("use --metadata NAME=VALUE, --header NAME:VALUE and --tag NAME=VALUE"),
    ),
    word(&["--no-overwrite"], &[Aws], &["put"], Hint("use --no-clobber, which fails if the object exists")),
    word(&["--metadata-directive"], &[Aws, S5cmd], &["copy", "sync", "put"], Hint(DIRECTIVE)),
    word(&["--copy-props"], &[Aws], &["copy", "sync", "put"], Hint(DIRECTIVE)),
    word(&["--checksum-algorithm"], &[Aws], &["copy", "sync", "put", "get"], Hint(DIGEST)),
    word(&["--md5"], &[Mc, Xbcloud], &["copy", "sync", "put", "get"], Hint(DIGEST)),
    word(&["--source-region"], &[Aws, S5cmd], TREES, Hint(REGION)),
    word(&["--destination-region"], &[S5cmd], TREES, Hint(REGION)),
    word(
        &["--ignore-glacier-warnings", "--force-glacier-transfer"],
        &[Aws, S5cmd],
        READS,
        Hint("haul has no restoring of archived objects: restore them first, with the provider's tools"),
    ),
    word(
        &["--long", "-l", "--etag", "--storage-class", "--show-fullpath"],
        &[S5cmd],
        &["ls"],
        Hint("haul lists size, time and name; --json has the ETag and the class too"),
    ),
    word(
        &["-a", "--all", "-1"],
        &[S5cmd],
        &["ls"],
        Hint("haul always lists the size, time and name of every object: omit it"),
    ),
    word(&["--all-versions", "--version-id"], &[S5cmd], STORES, Hint(VERSIONS)),
    word(&["--versions", "--rewind", "--vid", "--zip"], &[Mc], STORES, Hint(VERSIONS)),
    word(
        &["--page-size", "--max-items", "--no-paginate", "--starting-token"],
        &[Aws],
        &["ls", "rm"],
        Hint("haul lists in pages itself: omit it"),
    ),
    word(
        &["--use-list-objects-v1", "--addressing-style"],
        &[S5cmd],
        STORES,
        Hint("haul learns this from the store: omit it"),
    ),
    word(
        &["--output", "--query", "--color", "--cli-binary-format"],
        &[Aws],
        &["copy", "sync", "verify", "put", "get", "ls"],
        Hint(TEXT),
    ),
    word(&["--no-color"], &[Mc], &["copy", "sync", "verify", "put", "get", "ls"], Hint(TEXT)),
    word(&["--no-cli-pager", "--no-cli-auto-prompt"], &[Aws], ALL, Hint(PAGER)),
    word(&["--install-completion"], &[S5cmd], ALL, Hint(PAGER)),
    word(
        &["--watch", "--active-active", "--monitor", "--monitoring-address"],
        &[Mc],
        TREES,
        Hint(
            "haul has no watching: repeat the command with cron or a systemd timer; it copies only what changed",
        ),
    ),
    word(&["--summary"], &[Mc], TREES, Hint("haul always prints a summary: omit it")),
    word(
        &["--dangerous", "--bypass", "--stdin", "--non-current"],
        &[Mc],
        &["rm"],
        Hint(
            "haul has no such mode: it removes the named objects, or with -r a prefix, never a whole bucket",
        ),
    ),
    word(
        &["--exclude-storageclass", "--exclude-bucket"],
        &[Mc],
        TREES,
        Hint("haul has no such rule: --exclude matches names"),
    ),
    word(&["--parents"], &[S5cmd], OBJECTS, Hint("haul creates what is missing: omit it")),
];
