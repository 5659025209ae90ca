//! A remote haul that lies: a remote shell for `-e` that runs the real remote end and changes what it says.
//!
//! Each frame from the remote end is decoded with the wire crate. One part of one message, or the frame itself, is changed
//! to something that the remote end did not say; it is encoded again with right checksums and passed on. What there is to
//! change comes from the messages themselves: [`lies`] lists, for messages that were recorded, every part with everything
//! that it can become. So a field or a kind of message that is new has its lies at once.
//!
//! A [`Lie`] and what became of it are in a folder that the shell is given.

mod changes;
mod frame;
mod judge;
mod parts;
mod samples;
mod shell;
mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use haul_wire::{Response, Welcome};

pub use judge::{believed, problems, withholds};
use parts::{Part, Shape};
pub use shell::relay;
pub use stage::{Ended, SCENES, Scene, Stage, scene};

/// The first argument that makes a test program this shell.
pub const LIAR_SHELL: &str = "--liar-shell";

/// What is told instead of the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lie {
    /// Which part of which message: `Response.Scan.found.entries[].mode`, or `Frame.Response.Scan` for the frame itself.
    pub key: String,
    /// What it becomes, by name.
    pub change: String,
    /// Which of them on a connection, from 0: only one is changed in a run. `None`: all of them are.
    pub at: Option<u64>,
}

impl std::fmt::Display for Lie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.at.map_or_else(|| "*".to_owned(), |at| at.to_string());
        write!(f, "{} {} {at}", self.key, self.change)
    }
}

impl std::str::FromStr for Lie {
    type Err = String;

    /// Reads what its display writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("not a lie: {text:?}");
        let mut words = text.split_whitespace();
        let mut word = || words.next().ok_or_else(bad).map(str::to_owned);
        let (key, change, at) = (word()?, word()?, word()?);
        let at = if at == "*" { None } else { Some(at.parse().map_err(|_| bad())?) };
        Ok(Self { key, change, at })
    }
}

/// The folder of one run: the lie, what was recorded, and whether it was told.
#[derive(Clone, Debug)]
pub struct LiarPlan {
    dir: PathBuf,
}

impl LiarPlan {
    /// A plan in the new folder `dir`: everything passes as it is and is recorded.
    #[must_use]
    pub fn recording(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    /// A plan in the new folder `dir` in which this is told.
    #[must_use]
    pub fn telling(dir: impl Into<PathBuf>, lie: &Lie) -> Self {
        let plan = Self::recording(dir);
        fs::write(plan.dir.join("lie"), lie.to_string()).unwrap();
        plan
    }

    /// The words for `-e`, where `program` calls [`relay`] for [`LIAR_SHELL`].
    #[must_use]
    pub fn shell(&self, program: &Path) -> String {
        format!("{} {LIAR_SHELL} {}", program.display(), self.dir.display())
    }

    /// Whether the lie was told.
    #[must_use]
    pub fn was_told(&self) -> bool {
        self.dir.join("told").exists()
    }

    /// The messages of the remote end that were recorded.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let bytes = fs::read(self.dir.join("messages")).unwrap_or_default();
        let mut rest = &bytes[..];
        let mut all = Vec::new();
        while let [kind, a, b, c, d, more @ ..] = rest {
            let len = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
            let (body, after) = more.split_at(len);
            all.push(Message { welcome: *kind == 2, body: body.to_vec() });
            rest = after;
        }
        all
    }
}

/// A message that was recorded.
#[derive(Clone, Debug)]
pub struct Message {
    welcome: bool,
    body: Vec<u8>,
}

impl Message {
    fn parts(&self) -> Vec<Part> {
        parts_of(self.welcome, &self.body)
    }
}

fn parts_of(welcome: bool, body: &[u8]) -> Vec<Part> {
    let parts = if welcome {
        parts::parts::<Welcome>("Welcome", body)
    } else {
        parts::parts::<Response>("Response", body)
    };
    parts.unwrap_or_default()
}

/// The kind of a message: `Welcome`, `Response.Scan` …
fn name_of(welcome: bool, parts: &[Part]) -> String {
    match parts.last().map(|part| &part.shape) {
        Some(Shape::Choice { variants, chosen }) if !welcome => {
            format!("Response.{}", variants[*chosen as usize])
        }
        _ => "Welcome".to_owned(),
    }
}

/// All lies about parts of one kind.
#[derive(Clone, Debug, Default)]
pub struct Lies {
    /// What it can become.
    pub changes: BTreeSet<String>,
    /// How often it was there in the recording.
    pub count: u64,
}

/// What can be changed in the messages that were recorded, by its key.
#[must_use]
pub fn lies(messages: &[Message]) -> BTreeMap<String, Lies> {
    let mut all: BTreeMap<String, Lies> = BTreeMap::new();
    for message in messages {
        let parts = message.parts();
        let frame = all.entry(format!("Frame.{}", name_of(message.welcome, &parts))).or_default();
        frame.count += 1;
        frame.changes.extend(frame::CHANGES.iter().map(|name| (*name).to_owned()));
        if !message.welcome && name_of(false, &parts) == "Response.Write" {
            let claims = all.entry("Claim.Write".to_owned()).or_default();
            claims.count += 1;
            claims.changes.extend(shell::CLAIMS.iter().map(|name| (*name).to_owned()));
        }
        for part in &parts {
            let lies = all.entry(part.key.clone()).or_default();
            lies.count += 1;
            // Later ones can become the same.
            if lies.count <= 8 {
                lies.changes.extend(changes::changes(part, &message.body).into_iter().map(|(name, _)| name));
            }
        }
    }
    all.retain(|_, lies| !lies.changes.is_empty());
    all
}

/// The kinds of response that there are, by the wire crate.
#[must_use]
pub fn kinds() -> Vec<&'static str> {
    let samples = samples::all();
    let last = samples.iter().filter_map(|(_, parts)| parts.last());
    let all = last.filter(|part| part.key == "Response").find_map(|part| match &part.shape {
        Shape::Choice { variants, .. } => Some(variants.to_vec()),
        _ => None,
    });
    all.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_response_has_a_sample() {
        let samples = samples::all();
        let named: BTreeSet<String> =
            samples.iter().map(|(_, parts)| name_of(parts[0].key.starts_with("Welcome"), parts)).collect();
        for kind in kinds() {
            assert!(named.contains(&format!("Response.{kind}")), "{kind}");
        }
    }

    #[test]
    fn every_part_of_a_sample_can_become_something_else_of_its_own_place_only() {
        let mut count = 0;
        for (body, parts) in samples::all() {
            for part in &parts {
                let all = changes::changes(part, &body);
                assert!(!all.is_empty() || part.at.is_empty(), "{}", part.key);
                for (name, bytes) in all {
                    let told = changes::replaced(&body, &part.at, &bytes);
                    assert!(told != body, "{} {name}", part.key);
                    count += 1;
                }
            }
        }
        assert!(count > 2000, "{count}");
    }

    #[test]
    fn a_lie_is_read_as_it_was_written() {
        for at in [None, Some(7)] {
            let lie = Lie { key: "Response.Scan.last".to_owned(), change: "other".to_owned(), at };
            assert_eq!(lie.to_string().parse(), Ok(lie));
        }
    }
}
