//! The results as a table.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::kinds::{KINDS, RoundKind};
use crate::round::{Problem, RoundResult};

#[derive(Default)]
struct TableRow {
    rounds: u64,
    faults: u64,
    runs: u64,
    wrong: u64,
    lost: u64,
    /// The seed of each failed round, with the start of its message.
    failures: Vec<(u64, String)>,
    notes: BTreeMap<&'static str, u64>,
}

/// The results of every kind.
#[derive(Default)]
pub(crate) struct ResultTable {
    lines: BTreeMap<&'static str, TableRow>,
    skipped: Vec<(&'static str, String)>,
    time: Duration,
}

impl ResultTable {
    pub(crate) fn skip(&mut self, kind: &'static str, why: String) {
        self.skipped.push((kind, why));
    }

    pub(crate) fn took(&mut self, time: Duration) {
        self.time = time;
    }

    pub(crate) fn add(&mut self, kind: &RoundKind, seed: u64, result: RoundResult) {
        let line = self.lines.entry(kind.name).or_default();
        line.rounds += 1;
        line.faults += result.faults;
        line.runs += result.runs;
        for (note, count) in result.notes {
            *line.notes.entry(note).or_default() += count;
        }
        for problem in result.problems {
            match problem {
                Problem::Wrong(_) => line.wrong += 1,
                Problem::Lost(_) => line.lost += 1,
            }
            let text: String = problem.to_string().lines().next().unwrap_or("").chars().take(160).collect();
            line.failures.push((seed, text));
        }
    }

    /// Whether a round failed, no round ran, or a kind was skipped although `E2E_NO_SKIPS` is set.
    pub(crate) fn failed(&self) -> bool {
        let may_skip = std::env::var_os("E2E_NO_SKIPS").is_none_or(|value| value != "1");
        self.lines.is_empty()
            || self.lines.values().any(|line| !line.failures.is_empty())
            || !may_skip && !self.skipped.is_empty()
    }
}

impl fmt::Display for ResultTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| kind of fault | rounds | faults | runs of haul | wrong results | lost promises |")?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for kind in KINDS {
            let Some(line) = self.lines.get(kind.name) else { continue };
            let TableRow { rounds, faults, runs, wrong, lost, .. } = line;
            writeln!(
                f,
                "| `{}`: {} | {rounds} | {faults} | {runs} | {wrong} | {lost} |",
                kind.name, kind.what
            )?;
        }
        for (name, line) in &self.lines {
            for (note, count) in &line.notes {
                writeln!(f, "{name}: {note}: {count}")?;
            }
        }
        for (name, line) in &self.lines {
            for (seed, why) in &line.failures {
                writeln!(f, "failed: --seed {seed} --only {name} --rounds 1: {why}")?;
            }
        }
        for (kind, why) in &self.skipped {
            writeln!(f, "skipped: {kind}: {why}")?;
        }
        let rounds: u64 = self.lines.values().map(|line| line.rounds).sum();
        let failed = self.lines.values().map(|line| line.failures.len()).sum::<usize>();
        write!(f, "{rounds} rounds, {failed} failures")?;
        if !self.time.is_zero() {
            write!(f, " in {} s", self.time.as_secs())?;
        }
        writeln!(f)
    }
}
