//! Words of robocopy. They look like paths, so none is accepted.

use super::word::Tool::Robocopy;
use super::word::Verdict::Hint;
use super::word::{TREES, Word, word};

const TOOL: &[super::word::Tool] = &[Robocopy];
const ALWAYS: &str = "haul always does that: omit it";

pub(super) const WORDS: &[Word] = &[
    word(
        &["/E", "/S", "/DCOPY", "/COPY", "/COPYALL", "/SEC", "/SECFIX", "/TIMFIX", "/IM"],
        TOOL,
        TREES,
        Hint("haul always copies all directories, with their metadata: omit it"),
    ),
    word(
        &["/Z", "/ZB", "/TBD", "/R", "/W", "/REG"],
        TOOL,
        TREES,
        Hint("the same command resumes, and haul retries until --timeout seconds pass: omit it"),
    ),
    word(&["/B", "/EFSRAW"], TOOL, TREES, Hint("haul has no backup mode: run it as root")),
    word(&["/MIR", "/PURGE"], TOOL, &["copy"], Hint("`haul copy` never deletes; `haul sync` does")),
    word(&["/MIR", "/PURGE"], TOOL, &["sync"], Hint(ALWAYS)),
    word(
        &["/MT", "/J", "/COMPRESS", "/NOOFFLOAD", "/IOMAXSIZE", "/IORATE", "/THRESHOLD"],
        TOOL,
        TREES,
        Hint("haul adapts this itself: omit it (--streams and --max-memory are the upper bounds)"),
    ),
    word(&["/L"], TOOL, TREES, Hint("use -n")),
    word(
        &["/XF", "/XD", "/IF"],
        TOOL,
        TREES,
        Hint("use --exclude PATTERN or --include PATTERN, once for each"),
    ),
    word(&["/MAX"], TOOL, TREES, Hint("use --max-size SIZE")),
    word(&["/MIN"], TOOL, TREES, Hint("use --min-size SIZE")),
    word(&["/XO"], TOOL, TREES, Hint("use -u, which skips files that are newer at DST")),
    word(
        &["/XC", "/XN"],
        TOOL,
        TREES,
        Hint("use --ignore-existing, which skips every file that exists at DST"),
    ),
    word(&["/XL"], TOOL, TREES, Hint("use --existing, which creates no files that DST lacks")),
    word(&["/XX"], TOOL, &["copy"], Hint(ALWAYS)),
    word(&["/XX"], TOOL, &["sync"], Hint("use `haul copy SRC DST`, which never deletes")),
    word(
        &["/IS", "/IT"],
        TOOL,
        TREES,
        Hint("haul skips files of the same size and time; -c compares their content"),
    ),
    word(
        &["/XJ", "/XJD", "/XJF", "/SL", "/SJ"],
        TOOL,
        TREES,
        Hint("haul copies links as links: omit it (-L copies what they point to, as robocopy without /SL)"),
    ),
    word(
        &["/FFT", "/DST"],
        TOOL,
        TREES,
        Hint("haul compares times with the precision of DST: omit it (--modify-window N sets another)"),
    ),
    word(&["/MAXAGE", "/MINAGE"], TOOL, TREES, Hint("use --max-age AGE and --min-age AGE (7d, 2024-05-01)")),
    word(
        &["/MAXLAD", "/MINLAD", "/A", "/M", "/IA", "/XA", "/A+", "/A-"],
        TOOL,
        TREES,
        Hint(
            "haul cannot select by access time or attribute: use `find ... -print0 | haul copy -0 --files-from -`",
        ),
    ),
    word(&["/LEV"], TOOL, TREES, Hint("use --exclude, for depth 1 as in --exclude '/*/*'")),
    word(
        &["/MOV", "/MOVE"],
        TOOL,
        TREES,
        Hint("use `haul mv SRC DST`, which removes the files and leaves the directories"),
    ),
    word(&["/IPG"], TOOL, TREES, Hint("use --bwlimit RATE")),
    word(&["/RH", "/PF"], TOOL, TREES, Hint("use a schedule, as in --bwlimit '08:00,10M 19:00,off'")),
    word(
        &["/MON", "/MOT"],
        TOOL,
        TREES,
        Hint(
            "haul has no watching: repeat the command with cron or a systemd timer; it copies only what changed",
        ),
    ),
    word(
        &["/LOG", "/LOG+", "/UNILOG", "/UNILOG+", "/TEE"],
        TOOL,
        TREES,
        Hint("use --log-file FILE, which appends; -i also lists each change on standard output"),
    ),
    word(&["/NP"], TOOL, TREES, Hint("use --no-progress")),
    word(&["/V", "/TS", "/FP", "/X"], TOOL, TREES, Hint("use -v, which lists each entry")),
    word(&["/ETA", "/BYTES"], TOOL, TREES, Hint("haul shows the time left, and --json has bytes: omit it")),
    word(
        &["/NS", "/NC", "/NFL", "/NDL", "/NJH", "/NJS", "/UNICODE"],
        TOOL,
        TREES,
        Hint("haul lists entries only with -v: omit it (-q prints errors only)"),
    ),
    word(&["/SPARSE"], TOOL, TREES, Hint(ALWAYS)),
    word(
        &["/JOB", "/SAVE", "/QUIT", "/NOSD", "/NODD", "/SD", "/DD"],
        TOOL,
        TREES,
        Hint("haul has no job files: write the command into a script; `haul jobs` lists what ran"),
    ),
    word(
        &["/CREATE", "/FAT", "/256", "/NOCOPY", "/NODCOPY"],
        TOOL,
        TREES,
        Hint("haul has no such mode: it copies names, content and metadata of each entry"),
    ),
];
