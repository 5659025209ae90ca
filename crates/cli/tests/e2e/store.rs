//! A bucket for one test, and the program with the options to reach it.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use haul_testkit::store::{ACCESS_KEY, SECRET_KEY, endpoint};
use haul_testkit::{CommandRun, Finished, Proxy, content};
use serde_json::Value;

use crate::scene::Scene;

/// A bucket of its own in the store of the tests.
pub(crate) struct TestBucket {
    pub(crate) scene: Scene,
    name: String,
}

impl TestBucket {
    /// It is made at once: SeaweedFS makes a missing one at the first upload, but a request that looked for it in the
    /// meantime has the others refused for half a minute (NoSuchBucket).
    pub(crate) fn new() -> Self {
        let bucket = Self::missing();
        Self::make(&bucket.name);
        bucket
    }

    /// One that is not made.
    pub(crate) fn missing() -> Self {
        let scene = Scene::new();
        let directory = scene.path().file_name().unwrap_or_default().as_bytes().to_vec();
        let name = String::from_utf8(directory).unwrap().to_lowercase().replace("haul-test-", "bucket-");
        Self { scene, name: name.replace('_', "-x") + "0" }
    }

    /// Makes a bucket of this name.
    pub(crate) fn make(name: &str) {
        drop(Self::rclone(&["mkdir", name]));
    }

    /// The name of the bucket.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The location of an object.
    pub(crate) fn at(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.name)
    }

    /// The program with its first word, and the store itself as endpoint.
    pub(crate) fn haul(&self, word: &str) -> CommandRun {
        self.with(word, &format!("http://{}", endpoint()))
    }

    /// The program with its first word, and the store behind a proxy.
    pub(crate) fn through(&self, proxy: &Proxy, word: &str) -> CommandRun {
        self.with(word, &proxy.endpoint())
    }

    /// Another program, which may start haul with the store itself as endpoint.
    pub(crate) fn program(&self, name: &str) -> CommandRun {
        self.reaching(CommandRun::new(name, self.scene.tag()), &format!("http://{}", endpoint()))
            .env("HOME", self.scene.home())
    }

    fn with(&self, word: &str, endpoint: &str) -> CommandRun {
        self.reaching(self.scene.haul(word), endpoint)
    }

    fn reaching(&self, run: CommandRun, endpoint: &str) -> CommandRun {
        run.env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .env("AWS_ENDPOINT_URL", endpoint)
            .env("TMPDIR", self.scene.path())
    }

    /// Puts bytes there.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) -> Finished {
        self.haul("put").arg(self.at(key)).input(bytes).finish().expect_success()
    }

    /// The bytes of an object, as another client reads them.
    pub(crate) fn read(&self, key: &str) -> Vec<u8> {
        let path = format!("{}/{key}", self.name);
        Self::rclone(&["cat", &path])
    }

    /// The names of all objects, as another client lists them.
    pub(crate) fn names(&self) -> Vec<String> {
        let text = String::from_utf8(Self::rclone(&["lsf", "-R", "--files-only", &self.name])).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn rclone(words: &[&str]) -> Vec<u8> {
        let (last, words) = words.split_last().unwrap();
        Self::run_rclone(words, &[&remote(last)])
    }

    fn rclone_from(words: &[&str], path: &str, to: &str) {
        drop(Self::run_rclone(words, &[&remote(path), to]));
    }

    fn run_rclone(words: &[&str], ends: &[&str]) -> Vec<u8> {
        let output = Command::new("rclone")
            .args(["--config", "/dev/null"])
            .args(words)
            .args(ends)
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            // rclone takes no certificates of its own beside those of the system.
            .env_remove("AWS_CA_BUNDLE")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?} {ends:?}: {said}");
        output.stdout
    }

    /// Another client copies a directory there, or the objects below a prefix to a directory.
    pub(crate) fn rclone_copy(&self, up: bool, dir: &Path, prefix: &str) {
        let (dir, path) = (dir.display().to_string(), format!("{}/{prefix}", self.name));
        if up {
            Self::rclone(&["copy", "--metadata", &dir, &path]);
        } else {
            // Sidecars and indexes of haul are left out.
            Self::rclone_from(&["copy", "--metadata", "--exclude", "*.haul"], &path, &dir);
        }
    }

    /// Another client writes a file there.
    pub(crate) fn upload(&self, file: &Path, key: &str) {
        let path = format!("{}/{key}", self.name);
        Self::rclone(&["copyto", &file.display().to_string(), &path]);
    }

    /// Uploads that are not complete, as haul lists them.
    pub(crate) fn incomplete(&self) -> Vec<String> {
        let run = self.haul("rm").args(["-n", "--any", "--incomplete", &self.at("")]).finish();
        run.expect_success().out().lines().map(str::to_owned).collect()
    }

    /// A file with content of its own, and that content.
    pub(crate) fn file(&self, name: &str, len: usize) -> (PathBuf, Vec<u8>) {
        let mut bytes = vec![0; len];
        content::fill(len as u64, 0, &mut bytes);
        let path = self.scene.join(name);
        fs::write(&path, &bytes).unwrap();
        (path, bytes)
    }
}

/// The number of requests of a kind that the run reports.
#[track_caller]
pub(crate) fn requests(summary: &Value, kind: &str) -> u64 {
    summary["requests"][kind].as_u64().unwrap_or_else(|| panic!("no {kind} in {summary}"))
}

/// A place in the store, as rclone names it.
fn remote(path: &str) -> String {
    format!(":s3,provider=Other,env_auth=true,endpoint='http://{}':{path}", endpoint())
}
