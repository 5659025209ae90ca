//! A store inside the test process, and the program with the options to reach it.

use haul_testkit::store::{Habits, SmallStore};
use haul_testkit::{CommandRun, Finished, Proxy};

use crate::scene::Scene;

/// A store of its own, and the program that reaches it.
pub(crate) struct StoreOfTest {
    pub(crate) scene: Scene,
    pub(crate) store: SmallStore,
}

impl StoreOfTest {
    pub(crate) fn new() -> Self {
        Self::with(Habits::default())
    }

    /// A store that is as `habits` say.
    pub(crate) fn with(habits: Habits) -> Self {
        Self { scene: Scene::new(), store: SmallStore::start(habits) }
    }

    /// The program with its first word.
    pub(crate) fn haul(&self, word: &str) -> CommandRun {
        self.reaching(self.scene.haul(word), &self.store.endpoint())
    }

    /// The same, with the store behind a proxy.
    pub(crate) fn behind(&self, proxy: &Proxy, word: &str) -> CommandRun {
        self.reaching(self.scene.haul(word), &proxy.endpoint())
    }

    fn reaching(&self, run: CommandRun, endpoint: &str) -> CommandRun {
        run.env("AWS_ENDPOINT_URL", endpoint)
            .env("AWS_ACCESS_KEY_ID", "x")
            .env("AWS_SECRET_ACCESS_KEY", "x")
            .env("TMPDIR", self.scene.path())
    }

    /// Puts bytes there.
    pub(crate) fn put(&self, words: &[&str], key: &str, plain: &[u8]) -> Finished {
        self.haul("put").args(words).arg(at(key)).input(plain).finish().expect_success()
    }

    /// Gets an object.
    pub(crate) fn get(&self, words: &[&str], key: &str) -> Finished {
        self.haul("get").args(words).arg(at(key)).finish()
    }

    /// The stored content.
    pub(crate) fn stored(&self, key: &str) -> Vec<u8> {
        self.store.content(&format!("/bucket/{key}")).unwrap_or_default()
    }
}

/// The location of an object.
pub(crate) fn at(key: &str) -> String {
    format!("s3://bucket/{key}")
}
