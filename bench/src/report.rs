//! The table.

use crate::record::{BenchPass, BenchRecord, CaseRecord, RunOutcome, RunRecord, ToolRecord};
use crate::units::{show_rate, show_seconds};

const HEAD: [&str; 17] = [
    "case",
    "tool",
    "seconds",
    "MB/s",
    "files/s",
    "requests/file",
    "link",
    "MB on the link",
    "vs best peer",
    "CPU s near",
    "CPU s far",
    "CPU s link",
    "MB near",
    "MB far",
    "ssh MB near",
    "ssh MB far",
    "runs",
];

/// Medians of the runs of one tool in one pass.
struct ToolSummary<'a> {
    tool: &'a ToolRecord,
    pass: BenchPass,
    /// The runs that ended well.
    good: Vec<&'a RunRecord>,
    all: Vec<&'a RunRecord>,
}

impl<'a> ToolSummary<'a> {
    fn of(tool: &'a ToolRecord, pass: BenchPass) -> Self {
        let all: Vec<_> = tool.runs.iter().filter(|run| run.pass == pass).collect();
        let good = all.iter().copied().filter(|run| run.outcome == RunOutcome::Ok).collect();
        Self { tool, pass, good, all }
    }

    fn median(&self, value: impl Fn(&RunRecord) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.good.iter().filter_map(|run| value(run)).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            count if count % 2 == 1 => values.get(middle).copied(),
            _ => Some((values[middle - 1] + values[middle]) / 2.0),
        }
    }

    fn seconds(&self) -> Option<f64> {
        self.median(|run| Some(run.seconds))
    }

    /// How often each bad end came.
    fn failures(&self) -> String {
        let count = |f: fn(&RunOutcome) -> bool| self.all.iter().filter(|run| f(&run.outcome)).count();
        let kinds = [
            (count(|o| matches!(o, RunOutcome::Timeout)), "timeout"),
            (count(|o| matches!(o, RunOutcome::Failed(_))), "failed"),
            (count(|o| matches!(o, RunOutcome::Mismatch(_))), "MISMATCH"),
        ];
        let words: Vec<String> = kinds
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        words.join(", ")
    }
}

/// Lines of cells, the head first.
fn rows(record: &BenchRecord) -> Vec<Vec<String>> {
    let mut rows = vec![HEAD.iter().map(|text| (*text).to_owned()).collect()];
    for case in &record.cases {
        for pass in [BenchPass::First, BenchPass::Again] {
            let summaries: Vec<_> = case
                .tools
                .iter()
                .map(|tool| ToolSummary::of(tool, pass))
                .filter(|summary| !summary.all.is_empty())
                .collect();
            for summary in &summaries {
                rows.push(row(case, summary, &summaries));
            }
        }
    }
    rows
}

fn row(case: &CaseRecord, summary: &ToolSummary, others: &[ToolSummary]) -> Vec<String> {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let mega = |value: Option<f64>| number(value.filter(|bytes| *bytes > 0.0).map(|bytes| bytes / 1e6), 0);
    let seconds = summary.seconds();
    let speed = seconds.map(|seconds| case.extent.bytes as f64 / 1e6 / seconds);
    // Nothing is moved when all is there already.
    let moved = speed.filter(|_| summary.pass == BenchPass::First);
    let files = case.extent.files as f64;
    // Of large files nobody asks how many there are in a second.
    let many = seconds.map(|seconds| files / seconds).filter(|_| files >= 100.0);
    let asked = summary.median(|run| Some(run.all_requests()? as f64 / files));
    let share = moved.zip(case.link.as_ref()).map(|(speed, link)| speed * 8e6 / link.rate as f64 * 100.0);
    let best = others
        .iter()
        .filter(|other| other.tool.peer)
        .filter(|other| !case.by_promise || other.tool.durable == summary.tool.durable)
        .filter_map(ToolSummary::seconds)
        .min_by(f64::total_cmp);
    let ratio = best.zip(seconds).map(|(best, seconds)| best / seconds);
    let name = match summary.pass {
        BenchPass::Again => format!("{}, again", case.case),
        BenchPass::First | BenchPass::Prepare => case.case.clone(),
    };
    let mut runs = format!("{}", summary.good.len());
    if summary.good.len() < summary.all.len() {
        runs = format!("{runs} ok, {}", summary.failures());
    }
    vec![
        name,
        summary.tool.tool.clone(),
        seconds.map_or_else(|| summary.failures(), show_seconds),
        number(moved, 0),
        number(many, 0),
        number(asked, 1),
        share.map_or_else(|| "–".to_owned(), |share| format!("{share:.0} %")),
        mega(summary.median(|run| {
            let link = run.link.as_ref()?;
            Some((link.there.bytes + link.back.bytes) as f64)
        })),
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}×")),
        number(summary.median(|run| Some(run.near.cpu_seconds())), 2),
        number(summary.median(|run| Some(run.far?.cpu_seconds())), 2),
        number(summary.median(|run| Some(run.link.as_ref()?.cpu_seconds)), 2),
        mega(summary.median(|run| Some(run.near.tool_rss as f64))),
        mega(summary.median(|run| Some(run.far?.tool_rss as f64))),
        mega(summary.median(|run| Some(run.near.ssh_rss as f64))),
        mega(summary.median(|run| Some(run.far?.ssh_rss as f64))),
        runs,
    ]
}

/// The table in columns for a terminal.
pub(crate) fn plain(record: &BenchRecord) -> String {
    let rows = rows(record);
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                let space = " ".repeat(width - cell.chars().count());
                if column < 2 { format!("{cell}{space}") } else { format!("{space}{cell}") }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text.push_str(&notes(record));
    text
}

/// The table in Markdown.
pub(crate) fn markdown(record: &BenchRecord) -> String {
    let host = &record.host;
    let mut text = String::new();
    for (number, row) in rows(record).iter().enumerate() {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
        if number == 0 {
            let marks: Vec<&str> =
                (0..row.len()).map(|column| if column < 2 { "---" } else { "--:" }).collect();
            text.push_str(&format!("| {} |\n", marks.join(" | ")));
        }
    }
    text.push_str(&format!(
        "\nMedians of {} rounds on {}, {} cores of {}, Linux {}. TCP: {}.\n",
        record.rounds, host.date, host.cores, host.cpu, host.kernel, record.tcp.congestion
    ));
    let mut tools: Vec<String> = Vec::new();
    for tool in record.cases.iter().flat_map(|case| &case.tools) {
        let line = format!("- {}: {}", tool.tool, tool.version);
        if !tools.contains(&line) {
            tools.push(line);
        }
    }
    text.push_str(&format!("\nVersions:\n\n{}\n", tools.join("\n")));
    let notes = notes(record);
    if !notes.is_empty() {
        text.push_str(&format!("\n{}", notes.trim_start()));
    }
    text
}

/// The notes below the figures: data and link of each case, the tools that were left out, and failures.
fn notes(record: &BenchRecord) -> String {
    let mut text = String::from("\n");
    for case in &record.cases {
        let extent = case.extent;
        text.push_str(&format!(
            "{}: {} ({}): {} files, {} directories, {:.1} MB",
            case.case,
            case.about,
            case.way,
            extent.files,
            extent.directories,
            extent.bytes as f64 / 1e6
        ));
        if let (Some(link), Some(queue)) = (&case.link, case.queue_bytes) {
            text.push_str(&format!(
                "; {} of IP packets, queue {:.1} MB",
                show_rate(link.rate),
                queue as f64 / 1e6
            ));
        }
        text.push('\n');
        let left_out: Vec<String> =
            case.skipped.iter().map(|(tool, why)| format!("{tool} ({why})")).collect();
        if !left_out.is_empty() {
            text.push_str(&format!("{}: left out: {}\n", case.case, left_out.join(", ")));
        }
        for tool in &case.tools {
            for run in &tool.runs {
                if let RunOutcome::Failed(why) | RunOutcome::Mismatch(why) = &run.outcome {
                    text.push_str(&format!("{}: {} in round {}: {why}\n", case.case, tool.tool, run.round));
                }
            }
        }
    }
    if record.quick {
        text.push_str("Sizes of a smoke test: no figures to compare.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::TreeSize;
    use crate::link::TcpSpec;
    use crate::record::BenchHost;

    fn tool(name: &str, peer: bool, seconds: &[f64], outcome: &RunOutcome) -> ToolRecord {
        let run = |(index, seconds): (usize, &f64)| {
            RunRecord::new(index + 1, BenchPass::First, outcome.clone(), *seconds)
        };
        ToolRecord::of_runs(name, peer, seconds.iter().enumerate().map(run).collect())
    }

    #[test]
    fn medians_and_ratios() {
        let tools = vec![
            tool("haul", false, &[1.0, 2.0, 9.0], &RunOutcome::Ok),
            tool("cp", true, &[4.0, 5.0], &RunOutcome::Ok),
            tool("slow", true, &[60.0], &RunOutcome::Timeout),
        ];
        let case = CaseRecord {
            case: "c".to_owned(),
            about: String::new(),
            way: String::new(),
            link: None,
            queue_bytes: None,
            directory: String::new(),
            data: String::new(),
            extent: TreeSize { files: 1, directories: 0, bytes: 200_000_000 },
            delay: None,
            by_promise: false,
            tools,
            skipped: Vec::new(),
        };
        let record = BenchRecord {
            host: BenchHost::here(),
            quick: false,
            rounds: 3,
            tcp: TcpSpec::default(),
            cgroups: true,
            cases: vec![case],
        };
        let rows = rows(&record);
        assert_eq!(rows[1][1..9], ["haul", "2.00", "100", "–", "–", "–", "–", "2.25×"].map(str::to_owned));
        assert_eq!(rows[2][2], "4.50");
        assert_eq!(rows[3][2], "1 timeout");
        assert!(markdown(&record).contains("| haul | 2.00 |"));
        assert!(!plain(&record).is_empty());
    }
}
