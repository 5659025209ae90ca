//! The directory of one run.

use std::fs;
use std::path::{Path, PathBuf};

use super::lie::MessageLie;
use super::message::Message;

/// The first argument that makes a test program this shell.
pub const LIAR_SHELL: &str = "--liar-shell";

/// The directory of one run: the lie, the recorded messages, and whether the lie was told.
#[derive(Clone, Debug)]
pub struct LiarPlan {
    dir: PathBuf,
}

impl LiarPlan {
    /// A plan in the new directory `dir`: everything passes as it is and is recorded.
    #[must_use]
    pub fn recording(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    /// A plan in the new directory `dir` in which this is told.
    #[must_use]
    pub fn telling(dir: impl Into<PathBuf>, lie: &MessageLie) -> Self {
        let plan = Self::recording(dir);
        fs::write(plan.dir.join("lie"), lie.to_string()).unwrap();
        plan
    }

    /// The words for `-e`, where `program` calls [`relay`](super::relay) for [`LIAR_SHELL`].
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
