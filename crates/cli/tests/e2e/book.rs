//! The book: the commands of each page are run in their order, on machines with the names of the page.

mod machines;
mod page;

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use haul_slowfs::{MountOptions, SlowMount};
use haul_testkit::Need;

use crate::databases::{Tables, fill};
use crate::provider::make_container;
use crate::store::TestBucket;
use crate::{TestCase, cases};
use machines::{HERE, Machines, OUTPUT};
use page::PageBlock;

/// The pages with commands. Each has a test below.
const PAGES: [&str; 16] = [
    "README.md",
    "docs/install.md",
    "docs/quick-start.md",
    "docs/recipes/mariadb-restore.md",
    "docs/recipes/backup-stream.md",
    "docs/recipes/restore-table.md",
    "docs/recipes/pipe-backup.md",
    "docs/recipes/nfs.md",
    "docs/recipes/smb.md",
    "docs/recipes/robocopy.md",
    "docs/recipes/nightly-sync.md",
    "docs/recipes/buckets.md",
    "docs/recipes/seed-disk.md",
    "docs/settings.md",
    "docs/troubleshooting.md",
    "docs/RESTRICTED-AGENT.md",
];

/// Commands that a page may show without running them, as they change the machine itself.
const NOT_RUN: [&str; 8] = [
    "sudo dpkg -i ",
    "sudo rpm -i ",
    "sudo install -D",
    "tar -xzf ",
    "skopeo copy ",
    "cargo install ",
    "git clone ",
    "scripts/",
];

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        each_page_with_commands_is_run,
        blocks_that_are_not_run_are_installations,
        each_bucket_belongs_to_one_page,
        the_figure_shows_measured_times,
    ];
    all.extend(cases![
        Need::Root, Need::Fuse, Need::Program("weed"), Need::Program("rclone"), Need::Program("azurite-blob");
        readme, install, quick_start, nfs, smb, robocopy, nightly_sync, buckets, seed_disk, settings, troubleshooting, restricted_agent,
    ]);
    all.extend(cases![
        Need::Root, Need::Program("weed"), Need::Program("rclone"), Need::Program("azurite-blob"),
        Need::Program("mariadbd"), Need::Program("mariadb-install-db"), Need::Program("mariadb-backup");
        mariadb_restore, backup_stream, restore_table, pipe_backup,
    ]);
    all
}

fn each_page_with_commands_is_run() {
    let pages = page::pages();
    assert!(pages.len() > 10, "{pages:?}");
    for page in &pages {
        let blocks = page::blocks(&page::text(page));
        let runs = blocks.iter().any(|block| matches!(block, PageBlock::Shell(_)));
        assert_eq!(runs, PAGES.contains(&page.as_str()), "{page}: PAGES lists the pages with commands");
        for block in blocks {
            let known = ["text", "json", "jsonc", "ini", "mermaid"];
            if let PageBlock::Other(mark) = block {
                assert!(known.contains(&mark.as_str()), "{page}: a block with the mark `{mark}`");
            }
        }
    }
    for page in PAGES {
        assert!(pages.iter().any(|other| other == page), "{page} is not in book/SUMMARY.md");
    }
}

fn blocks_that_are_not_run_are_installations() {
    for page in page::pages() {
        for block in page::blocks(&page::text(&page)) {
            let PageBlock::Ignored { reason, text } = block else { continue };
            assert!(!reason.is_empty(), "{page}: no `<!-- not run: REASON -->` before\n{text}");
            for line in text.lines().filter(|line| !line.is_empty()) {
                let allowed = NOT_RUN.iter().any(|start| line.starts_with(start));
                assert!(allowed, "{page}: can be run: {line}");
            }
        }
    }
}

/// The pages run at the same time, on one store.
fn each_bucket_belongs_to_one_page() {
    let mut owners: HashMap<String, &str> = HashMap::new();
    for page in PAGES {
        let text = page::text(page);
        for (at, _) in text.match_indices("://") {
            let scheme = text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
            let name = text[at + 3..].split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next();
            let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
            if ["s3", "gs", "az"].contains(&scheme) {
                let owner = *owners.entry(format!("{scheme}://{name}")).or_insert(page);
                assert_eq!(owner, page, "both use {scheme}://{name}");
            }
        }
    }
    assert!(owners.len() > 5, "{owners:?}");
}

fn the_figure_shows_measured_times() {
    let (figure, measured) = (page::text("docs/pictures/seconds.svg"), page::text("docs/BENCH.md"));
    let bars: Vec<&str> =
        figure.lines().filter_map(|line| line.strip_suffix(" s</text>")?.rsplit('>').next()).collect();
    assert_eq!(bars.len(), 3);
    for seconds in bars {
        assert!(measured.contains(&format!("| {seconds} |")), "{seconds}");
        assert!(page::text("README.md").contains(&format!("{seconds} s")), "{seconds}");
    }
}

/// Runs the commands of a page. Fails unless all of them succeed with the output that the page shows.
fn follow(page: &str, machines: &Machines) {
    assert!(PAGES.contains(&page), "{page}");
    let blocks = page::blocks(&page::text(page));
    let run = machines.run(&page::script(&blocks, OUTPUT));
    let printed = |number: usize| {
        let text = fs::read_to_string(machines.at(HERE, OUTPUT).join(number.to_string()));
        text.ok().map(|text| (number, text))
    };
    let told: Vec<(usize, String)> = (0..blocks.len()).filter_map(printed).collect();
    if std::env::var_os("BOOK_SHOW").is_some_and(|value| value == "1") {
        for (number, printed) in &told {
            eprintln!("{page}: {:?} printed\n{printed}", blocks[*number]);
        }
    }
    let (last, end) = told.last().expect("a block was run");
    assert!(run.code() == Some(0), "{page}: {run}\n{:?}\nprinted:\n{end}", blocks[*last]);
    for (number, block) in blocks.iter().enumerate() {
        let PageBlock::Output(shown) = block else { continue };
        let (_, printed) = told.iter().rfind(|(before, _)| *before < number).expect("commands before it");
        if let Some(line) = page::missing(shown, printed) {
            panic!("{page}: haul does not print\n{line}\nbut\n{printed}");
        }
    }
}

fn readme() {
    let machines = Machines::new(&["db1", "nas"]);
    TestBucket::make("bucket");
    follow("README.md", &machines);
}

fn install() {
    let machines = Machines::new(&["db1"]);
    fs::remove_file(machines.at("db1", "/opt/haul/bin/haul")).unwrap();
    follow("docs/install.md", &machines);
}

fn quick_start() {
    follow("docs/quick-start.md", &Machines::new(&["nas"]));
}

const TABLES: &Tables = &[("orders", 20_000), ("customers", 500)];

/// Makes the directory of a database server at a machine, and keeps the checksums of its tables for the page.
fn database(machines: &Machines, host: &str, parent: &str) {
    fs::create_dir_all(machines.at(host, parent)).unwrap();
    let checksums = fill(&machines.at(host, parent).join("mysql"), TABLES);
    fs::write(machines.at(HERE, "/tmp/checksums"), checksums).unwrap();
}

fn mariadb_restore() {
    let machines = Machines::new(&["db1"]);
    database(&machines, "db1", "/mnt/snapshot");
    let link = machines.far_away("db1");
    follow("docs/recipes/mariadb-restore.md", &machines);
    assert!(link.connections() > 4, "one for each command and for the bytes: {}", link.connections());
}

fn backup_stream() {
    let machines = Machines::new(&[]);
    database(&machines, HERE, "/var/lib");
    TestBucket::make("backups");
    make_container("backups-dr");
    follow("docs/recipes/backup-stream.md", &machines);
}

fn restore_table() {
    let machines = Machines::new(&[]);
    database(&machines, HERE, "/var/lib");
    TestBucket::make("nightly");
    follow("docs/recipes/restore-table.md", &machines);
}

fn pipe_backup() {
    let machines = Machines::new(&["db2"]);
    database(&machines, HERE, "/var/lib");
    let link = machines.far_away("db2");
    follow("docs/recipes/pipe-backup.md", &machines);
    assert!(link.connections() > 4, "one for each command and for the bytes: {}", link.connections());
}

/// A slow file system in the place of a server's, at `at` of the machine [`HERE`]. It shows `/opt/haul/behind`, where a page can
/// judge without its delays.
fn slow(machines: &Machines, at: &str, options: MountOptions) -> SlowMount {
    let behind = machines.at(HERE, "/opt/haul/behind");
    fs::create_dir_all(&behind).unwrap();
    fs::create_dir_all(machines.at(HERE, at)).unwrap();
    SlowMount::new(&behind, &machines.at(HERE, at), options).unwrap()
}

fn nfs() {
    let machines = Machines::new(&[]);
    let _mount = slow(&machines, "/mnt/efs", MountOptions::nfs(Duration::from_millis(2)));
    follow("docs/recipes/nfs.md", &machines);
}

fn smb() {
    let machines = Machines::new(&[]);
    let delay = Duration::from_millis(1);
    let share = MountOptions { folds_case: true, time_unit: 100, ..MountOptions::nfs(delay) };
    let _mount = slow(&machines, "/mnt/share", share);
    follow("docs/recipes/smb.md", &machines);
}

fn robocopy() {
    follow("docs/recipes/robocopy.md", &Machines::new(&[]));
}

fn nightly_sync() {
    follow("docs/recipes/nightly-sync.md", &Machines::new(&["nas"]));
}

fn buckets() {
    let machines = Machines::new(&[]);
    ["images", "images-copy"].into_iter().for_each(TestBucket::make);
    make_container("images");
    follow("docs/recipes/buckets.md", &machines);
}

fn settings() {
    let machines = Machines::new(&["nas"]);
    TestBucket::make("dumps");
    follow("docs/settings.md", &machines);
}

fn seed_disk() {
    follow("docs/recipes/seed-disk.md", &Machines::new(&["nas"]));
}

fn troubleshooting() {
    let machines = Machines::new(&["nas", "db2"]);
    fs::remove_file(machines.at("db2", "/opt/haul/bin/haul")).unwrap();
    follow("docs/troubleshooting.md", &machines);
}

fn restricted_agent() {
    let machines = Machines::new(&["vault"]);
    machines.force("vault", "haul agent --root /srv/backup/db1 --append-only");
    follow("docs/RESTRICTED-AGENT.md", &machines);
}
