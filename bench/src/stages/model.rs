//! Predicts the rate of a copy from the stages.
//!
//! Assumptions:
//!
//! * Every byte passes every stage of its end once: read, hash, seal and send at the source; receive, open, hash and
//!   write at the destination. Nothing is compressed.
//! * The stages of an end share its cores without loss, and a core is as fast with 32 of its kind as with those here.
//!   So memory must grow with the cores: each byte is copied or read about ten times at each end.
//! * One thread of the destination receives, opens, hashes and writes the content of a connection. There are as many
//!   connections as cores, 4 at least and 32 at most.
//! * The disks take and give as much as the cores can, many files are in transfer, and the network card spreads its
//!   interrupts over the cores.

use anyhow::{Context, Result};
use serde_json::Value;

use super::figures::StageFigures;

/// Fewest and most connections.
const CONNECTIONS: [u32; 2] = [4, 32];
/// The machines and links that are predicted: cores, Gbit/s.
const CORES: [u32; 3] = [2, 8, 32];
const LINKS: [f64; 3] = [10.0, 25.0, 100.0];
/// The case whose runs are compared with the model, and its tool.
const CASE: &str = "lan";
const TOOL: &str = "haul --compress none";

/// The cost of a byte at each end, in nanoseconds of one core.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoreModel {
    pub(super) source: f64,
    pub(super) destination: f64,
}

impl CoreModel {
    pub(super) fn of(figures: &StageFigures) -> Self {
        let sum = |names: &[&str]| names.iter().map(|name| figures.of(name)).sum();
        Self {
            source: sum(&["read", "hash", "seal and send"]),
            destination: sum(&["receive and open", "hash", "write"]),
        }
    }

    /// The rate in GB/s with so many cores at each end and a link of so many Gbit/s, and the limit.
    pub(super) fn rate(&self, cores: u32, link: f64) -> (f64, &'static str) {
        let connections = cores.clamp(CONNECTIONS[0], CONNECTIONS[1]);
        let limits = [
            (link / 8.0, "link"),
            (f64::from(cores) / self.source, "cores of the source"),
            (f64::from(cores) / self.destination, "cores of the destination"),
            (f64::from(connections) / self.destination, "connections"),
        ];
        limits.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
    }

    pub(super) fn table(&self, threads: usize) -> String {
        let Self { source, destination } = self;
        let mut table = format!(
            "A byte takes {source:.2} ns of a core at the source and {destination:.2} at the destination ({threads} \
             cores at work).\n\n| cores of each end | link, Gbit/s | GB/s | share of the link | limit |\n|--:|--:|--:|--:|---|\n"
        );
        for cores in CORES {
            for link in LINKS {
                let (rate, limit) = self.rate(cores, link);
                let share = rate * 8.0 / link * 100.0;
                table.push_str(&format!("| {cores} | {link} | {rate:.2} | {share:.0} % | {limit} |\n"));
            }
        }
        table
    }

    /// Compares the CPU time of the ends with that of real runs, from the results of `haul-bench run --json`.
    pub(super) fn check(&self, record: &Value) -> Result<String> {
        let named = |of: &Value, key: &str, name: &str| of[key].as_str() == Some(name);
        let cases = record["cases"].as_array().context("no results of haul-bench")?;
        let case = cases.iter().find(|case| named(case, "case", CASE));
        let case = case.with_context(|| format!("no case `{CASE}` in the results"))?;
        let bytes = case["extent"]["bytes"].as_f64().context("no size of the data")?;
        let tools = case["tools"].as_array().context("no tools in the results")?;
        let tool = tools.iter().find(|tool| named(tool, "tool", TOOL));
        let tool = tool.with_context(|| format!("no tool `{TOOL}` in the results"))?;
        let runs = tool["runs"].as_array().context("no runs in the results")?;
        let measured = |end: &str| {
            // Without ssh, which only logs in.
            let of = |run: &Value| {
                let seconds = |key: &str| run[end][key].as_f64();
                Some(seconds("user_seconds")? + seconds("system_seconds")? - seconds("ssh_seconds")?)
            };
            let mut seconds: Vec<f64> = runs.iter().filter_map(of).collect();
            seconds.sort_by(f64::total_cmp);
            seconds.get(seconds.len() / 2).copied().with_context(|| format!("no CPU time of `{end}`"))
        };
        let mut table = format!(
            "`{TOOL}`, case `{CASE}`, {:.0} MB, CPU seconds:\n\n| end | model | measured | model / measured |\n|---|--:|--:|--:|\n",
            bytes / 1e6
        );
        for (end, per_byte) in [("near", self.source), ("far", self.destination)] {
            let (model, real) = (per_byte * bytes / 1e9, measured(end)?);
            table.push_str(&format!("| {end} | {model:.2} | {real:.2} | {:.2} |\n", model / real));
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MODEL: CoreModel = CoreModel { source: 1.0, destination: 2.0 };

    #[test]
    fn the_smallest_rate_is_the_limit() {
        assert_eq!(MODEL.rate(2, 100.0), (1.0, "cores of the destination"));
        assert_eq!(MODEL.rate(32, 10.0), (1.25, "link"));
        assert_eq!(MODEL.rate(64, 1000.0), (16.0, "connections"));
        assert_eq!(CoreModel { source: 4.0, destination: 2.0 }.rate(8, 100.0), (2.0, "cores of the source"));
    }

    #[test]
    fn the_model_is_compared_with_the_median_of_runs() {
        let end = |cpu: f64| json!({"user_seconds": cpu, "system_seconds": 1.5, "ssh_seconds": 1.5});
        let run = |near: f64, far: f64| json!({"near": end(near), "far": end(far)});
        let tool = json!({"tool": TOOL, "runs": [run(9.0, 4.0), run(1.0, 5.0), run(2.0, 3.0)]});
        let record = json!({"cases": [{"case": "lan", "extent": {"bytes": 2e9}, "tools": [tool]}]});
        let table = MODEL.check(&record).unwrap();
        assert!(table.contains("| near | 2.00 | 2.00 | 1.00 |"), "{table}");
        assert!(table.contains("| far | 4.00 | 4.00 | 1.00 |"), "{table}");
        assert!(MODEL.check(&json!({"cases": []})).is_err());
    }
}
