//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::kinds::KINDS;

/// The parsed command line.
pub(crate) struct Args {
    pub(crate) time: Duration,
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    only: Vec<String>,
    pub(crate) haul: PathBuf,
    /// Keep the directory of a failed round.
    pub(crate) keep: bool,
}

const USAGE: &str =
    "usage: haul-campaign [--minutes N] [--rounds N] [--seed S] [--only KIND]... [--haul PATH] [--keep]";

impl Args {
    pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut args = Self {
            time: Duration::from_secs(120),
            rounds: u64::MAX,
            seed: haul_testkit::Random::any_seed(),
            only: Vec::new(),
            haul: PathBuf::from("target/debug/haul"),
            keep: false,
        };
        let mut words = words.map(|word| word.to_string_lossy().into_owned());
        while let Some(word) = words.next() {
            if word == "--keep" {
                args.keep = true;
                continue;
            }
            let known = ["--minutes", "--rounds", "--seed", "--only", "--haul"].contains(&word.as_str());
            let (true, Some(value)) = (known, words.next()) else {
                return Err(format!("{USAGE}\nkinds: {}", names()));
            };
            let number = || value.parse::<u64>().map_err(|_| format!("{word} takes a number, not {value:?}"));
            match word.as_str() {
                "--minutes" => {
                    let minutes: f64 =
                        value.parse().map_err(|_| format!("--minutes takes a number, not {value:?}"))?;
                    args.time = Duration::try_from_secs_f64(minutes * 60.0)
                        .map_err(|_| format!("--minutes cannot be {value}"))?;
                }
                "--rounds" => {
                    args.rounds = number()?;
                    args.time = Duration::MAX;
                }
                "--seed" => args.seed = number()?,
                "--haul" => args.haul = PathBuf::from(&value),
                _ if KINDS.iter().any(|kind| kind.name == value) => args.only.push(value),
                _ => return Err(format!("unknown kind {value:?}; kinds: {}", names())),
            }
        }
        args.haul = std::fs::canonicalize(&args.haul).map_err(|error| format!("{:?}: {error}", args.haul))?;
        Ok(args)
    }

    pub(crate) fn wants(&self, kind: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == kind)
    }
}

fn names() -> String {
    KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(" ")
}
