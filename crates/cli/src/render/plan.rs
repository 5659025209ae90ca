//! An analysed tree as text.

use std::fmt::Write;

use haul_plan::{Plan, RankedEntry, Reason, SizeBucket, Unfit};
use haul_probe::model::Estimate;
use indicatif::HumanCount;

use super::probe::{stage_words, table};
use super::wording::{bytes, count, duration, entries, shown};

/// Number of parts shown.
const PARTS: usize = 50;

/// An analysed tree, and the plan for it.
pub(crate) struct Planned {
    /// The analysis.
    pub(crate) plan: Plan,
    /// The value of `--target-kind`.
    pub(crate) target: Option<String>,
    /// The files of the parts, in order; empty if none were written.
    pub(crate) lists: Vec<String>,
    /// The duration of the scan, in seconds.
    pub(crate) scan_seconds: f64,
    /// The predicted time of a copy.
    pub(crate) estimate: Option<Estimated>,
}

/// A predicted time, and the source of its figures.
pub(crate) struct Estimated {
    /// The estimate.
    pub(crate) estimate: Estimate,
    /// The file with the figures.
    pub(crate) from: String,
}

impl Planned {
    /// The text, ending in a newline.
    pub(super) fn text(&self) -> String {
        let mut text = self.counts();
        let Plan {
            histogram,
            largest_files,
            largest_directories,
            widest_directories,
            deepest_directories,
            ..
        } = &self.plan;
        section(&mut text, "files by size", &histogram_rows(histogram));
        section(&mut text, "largest files", &ranked(largest_files, bytes));
        let largest = largest_directories.iter().filter(|directory| directory.bytes > 0);
        let largest: Vec<_> = largest
            .map(|directory| {
                [bytes(directory.bytes), entries(directory.entries), shown(directory.path.as_bytes())]
            })
            .collect();
        section(&mut text, "largest directories, including subdirectories", &largest);
        section(&mut text, "directories with most entries", &ranked(widest_directories, entries));
        section(
            &mut text,
            "deepest directories",
            &ranked(deepest_directories, |depth| count(depth, "level", "levels")),
        );
        section(
            &mut text,
            "hard links that save the most space",
            &ranked(&self.plan.hard_links.largest, bytes),
        );
        self.unfit(&mut text);
        self.parts(&mut text);
        if let Some(Estimated { estimate, from }) = &self.estimate {
            let (low, high) = (duration(estimate.low_seconds), duration(estimate.high_seconds));
            let limit = estimate.limit.map(|stage| format!(", limited by {}", stage_words(stage)));
            let limit = limit.unwrap_or_default();
            let _ = writeln!(text, "\na copy will take {low} to {high}{limit} (predicted from {from})");
        }
        text
    }

    fn counts(&self) -> String {
        let tally = &self.plan.tally;
        let mut parts = vec![
            format!("{} with {}", count(tally.files, "file", "files"), bytes(tally.bytes)),
            count(tally.directories, "directory", "directories"),
        ];
        for (number, one, many) in [
            (tally.symlinks, "symbolic link", "symbolic links"),
            (tally.specials, "special file", "special files"),
        ] {
            if number > 0 {
                parts.push(count(number, one, many));
            }
        }
        let time = duration(self.scan_seconds);
        let mut text = format!("{}: {} (scanned in {time})\n", entries(tally.entries), parts.join(", "));
        let links = &self.plan.hard_links;
        if tally.sparse_files > 0 {
            let files = count(tally.sparse_files, "sparse file", "sparse files");
            let _ = writeln!(text, "  {files} with {} of holes", bytes(tally.hole_bytes));
        }
        if links.files > 0 {
            let files = count(links.files, "hard-linked file", "hard-linked files");
            let names = HumanCount(links.names);
            let saved = bytes(links.saved_bytes);
            let _ = writeln!(text, "  {files} with {names} names: {saved} more without hard links");
        }
        if links.outside > 0 {
            let files = count(links.outside, "file has", "files have");
            let _ = writeln!(text, "  {files} hard links outside of the tree, which a copy does not keep");
        }
        if tally.excluded > 0 {
            let _ = writeln!(text, "  excluded: {}", entries(tally.excluded));
        }
        for (what, longest) in [("name", &self.plan.longest_name), ("path", &self.plan.longest_path)] {
            if let Some(RankedEntry { path, figure }) = longest {
                let _ = writeln!(text, "  longest {what}: {figure} bytes, {}", shown(path.as_bytes()));
            }
        }
        text
    }

    fn unfit(&self, text: &mut String) {
        let Some(target) = &self.target else { return };
        let all: u64 = self.plan.unfit.iter().map(|unfit| unfit.count).sum();
        if all == 0 {
            let _ = writeln!(text, "\nall names are valid on {target}");
            return;
        }
        let _ = writeln!(text, "\ninvalid on {target}: {}", entries(all));
        for Unfit { reason, count, examples } in &self.plan.unfit {
            let _ = writeln!(text, "  {} ({})", reason_words(*reason), entries(*count));
            for path in examples {
                let _ = writeln!(text, "    {}", shown(path.as_bytes()));
            }
            let more = count.saturating_sub(examples.len() as u64);
            if more > 0 {
                let _ = writeln!(text, "    … and {} more", HumanCount(more));
            }
        }
    }

    fn parts(&self, text: &mut String) {
        let parts = &self.plan.parts;
        let rows = parts.iter().enumerate().take(PARTS).map(|(at, part)| {
            let list = self.lists.get(at).cloned().unwrap_or_default();
            [(at + 1).to_string(), entries(part.entries), bytes(part.bytes), list]
        });
        section(text, "parts", &rows.collect::<Vec<_>>());
        if parts.len() > PARTS {
            let _ = writeln!(text, "  … and {} more", HumanCount((parts.len() - PARTS) as u64));
        }
    }
}

/// A heading with rows; nothing if there are no rows.
fn section<const N: usize>(text: &mut String, heading: &str, rows: &[[String; N]]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{heading}");
    for line in table(rows) {
        let _ = write!(text, "  {line}");
    }
}

fn histogram_rows(histogram: &[SizeBucket]) -> Vec<[String; 3]> {
    let row = |bucket: &SizeBucket| {
        let size = match bucket.up_to {
            0 => "empty".to_owned(),
            u64::MAX => "more".to_owned(),
            up_to => format!("to {}", bytes(up_to)),
        };
        [size, count(bucket.files, "file", "files"), bytes(bucket.bytes)]
    };
    histogram.iter().map(row).collect()
}

fn ranked(ranked: &[RankedEntry], figure: fn(u64) -> String) -> Vec<[String; 2]> {
    let something = ranked.iter().filter(|one| one.figure > 0);
    something.map(|one| [figure(one.figure), shown(one.path.as_bytes())]).collect()
}

fn reason_words(reason: Reason) -> &'static str {
    match reason {
        Reason::TooLong => "the name is too long",
        Reason::NotText => "the name is not valid UTF-8",
        Reason::Character => "a character is not allowed",
        Reason::Ending => "the last character of the name is not allowed",
        Reason::Reserved => "the name is reserved",
        Reason::Clash => "names that differ only in case or in Unicode form",
        Reason::TooLarge => "the file is too large",
        Reason::Kind => "the type of the entry is not supported",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_core::RelPath;
    use haul_plan::{Partition, Tally};

    #[test]
    fn an_analysed_tree_is_printed() {
        let path = |name: &str| RelPath::new(name.as_bytes()).unwrap();
        let tally = Tally { entries: 3, files: 2, bytes: 5000, directories: 1, ..Tally::default() };
        let plan = Plan {
            tally,
            histogram: vec![SizeBucket { up_to: 4096, files: 1, bytes: 4000 }, SizeBucket::default()],
            largest_files: vec![RankedEntry { path: path("a\nb"), figure: 4000 }],
            unfit: vec![Unfit { reason: Reason::Character, count: 2, examples: vec![path("a\nb")] }],
            parts: vec![Partition { entries: 1, bytes: 4000 }, Partition { entries: 1, bytes: 1000 }],
            ..Plan::default()
        };
        let planned = Planned {
            plan,
            target: Some("ntfs".to_owned()),
            lists: vec!["p.0001".to_owned(), "p.0002".to_owned()],
            scan_seconds: 0.5,
            estimate: None,
        };
        let expected = "\
3 entries: 2 files with 4.88 KiB, 1 directory (scanned in 0.5 s)

files by size
  to 4.00 KiB  1 file   3.91 KiB
  empty        0 files  0 B

largest files
  3.91 KiB  a\\x0ab

invalid on ntfs: 2 entries
  a character is not allowed (2 entries)
    a\\x0ab
    … and 1 more

parts
  1  1 entry  3.91 KiB  p.0001
  2  1 entry  1000 B    p.0002
";
        assert_eq!(planned.text(), expected);
    }
}
