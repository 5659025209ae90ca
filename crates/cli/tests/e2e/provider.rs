//! A bucket at each provider: S3 (SeaweedFS), Google's XML API (a proxy that translates it for SeaweedFS, because no
//! emulator of Google's supports multipart uploads), Azure (Azurite).

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::OnceLock;

use haul_testkit::needs::tool;
use haul_testkit::store::{AZURE_ACCOUNT, AZURE_KEY, HttpRequest, azurite, endpoint};
use haul_testkit::{CommandRun, Proxy, ProxyTrouble};

use crate::store::TestBucket;

/// Who runs a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    S3,
    Google,
    Azure,
}

/// All of them.
pub(crate) const ALL: [Provider; 3] = [Provider::S3, Provider::Google, Provider::Azure];

/// A bucket of its own at a provider, behind a proxy.
pub(crate) struct ProviderBucket {
    pub(crate) provider: Provider,
    pub(crate) bucket: Rc<TestBucket>,
    pub(crate) proxy: Proxy,
}

impl ProviderBucket {
    pub(crate) fn new(provider: Provider) -> Self {
        Self::with(provider, |_| None)
    }

    /// One that is there before anything is written to it.
    pub(crate) fn made(
        provider: Provider,
        plan: impl Fn(&HttpRequest) -> Option<ProxyTrouble> + Send + Sync + 'static,
    ) -> Self {
        let bucket = if provider == Provider::Azure { TestBucket::missing() } else { TestBucket::new() };
        Self::over(provider, bucket, move |request, _| plan(request))
    }

    /// Parts whose first try `trouble` befalls.
    pub(crate) fn with(
        provider: Provider,
        trouble: impl Fn(bool) -> Option<ProxyTrouble> + Send + Sync + 'static,
    ) -> Self {
        let plan = move |request: &HttpRequest, before: usize| {
            if before > 0 { None } else { trouble(request.writes_part()) }
        };
        Self::over(provider, TestBucket::new(), plan)
    }

    fn over(
        provider: Provider,
        bucket: TestBucket,
        plan: impl Fn(&HttpRequest, usize) -> Option<ProxyTrouble> + Send + Sync + 'static,
    ) -> Self {
        let proxy = proxy(provider, plan);
        if provider == Provider::Azure {
            make_container(bucket.name());
        }
        Self { provider, bucket: Rc::new(bucket), proxy }
    }

    /// The same bucket behind another proxy, which makes no trouble.
    pub(crate) fn again(at: &Self) -> Self {
        Self { provider: at.provider, bucket: Rc::clone(&at.bucket), proxy: proxy(at.provider, |_, _| None) }
    }

    /// The location of an object.
    pub(crate) fn at(&self, key: &str) -> String {
        let scheme = match self.provider {
            Provider::S3 => "s3",
            Provider::Google => "gs",
            Provider::Azure => "az",
        };
        format!("{scheme}://{}/{key}", self.bucket.name())
    }

    /// The program with its first word, which knows this provider.
    pub(crate) fn haul(&self, word: &str) -> CommandRun {
        self.reach(self.bucket.haul(word))
    }

    /// The same run, which knows this provider too.
    pub(crate) fn reach(&self, run: CommandRun) -> CommandRun {
        let endpoint = self.proxy.endpoint();
        match self.provider {
            Provider::S3 => run.env("AWS_ENDPOINT_URL", endpoint),
            Provider::Google => run.env("STORAGE_EMULATOR_HOST", endpoint),
            Provider::Azure => {
                let endpoint = format!("{endpoint}/{AZURE_ACCOUNT}");
                run.env("AZURE_STORAGE_ENDPOINT", endpoint).env("AZURE_STORAGE_KEY", AZURE_KEY)
            }
        }
    }

    /// As another client reads it.
    pub(crate) fn read(&self, key: &str) -> Vec<u8> {
        match self.provider {
            Provider::Azure => rclone_azure(&["cat"], self.bucket.name(), key),
            _ => self.bucket.read(key),
        }
    }

    /// As another client lists them, which reads the names of files as haul does.
    pub(crate) fn names(&self) -> Vec<String> {
        match self.provider {
            Provider::Azure => {
                let text = rclone_azure(&["lsf", "-R", "--files-only"], self.bucket.name(), "");
                String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
            }
            _ => self.bucket.names(),
        }
    }
}

fn proxy(
    provider: Provider,
    plan: impl Fn(&HttpRequest, usize) -> Option<ProxyTrouble> + Send + Sync + 'static,
) -> Proxy {
    match provider {
        Provider::S3 => Proxy::start(endpoint(), plan),
        Provider::Google => Proxy::google(endpoint(), plan),
        Provider::Azure => Proxy::start(azurite(), plan),
    }
}

/// Makes a container at Azure.
pub(crate) fn make_container(name: &str) {
    let url = format!("{}?restype=container&{}", azure_url(name), sas());
    tool(Command::new("curl").args(["-sf", "-X", "PUT", "-H", "Content-Length: 0", &url]));
}

fn azure_url(container: &str) -> String {
    format!("http://{}/{AZURE_ACCOUNT}/{container}", azurite())
}

/// A shared access signature for the whole account: `az` and a person make the same.
pub(crate) fn sas() -> &'static str {
    static SAS: OnceLock<String> = OnceLock::new();
    SAS.get_or_init(|| {
        // https://learn.microsoft.com/rest/api/storageservices/create-account-sas
        let script = "import sys,hmac,hashlib,base64,urllib.parse as u
a,k=sys.argv[1:]
f=dict(sp='rwdlactf',ss='b',srt='sco',se='2099-01-01T00:00:00Z',spr='https,http',sv='2021-06-08')
t='\\n'.join([a,f['sp'],f['ss'],f['srt'],'',f['se'],'',f['spr'],f['sv'],'',''])
f['sig']=base64.b64encode(hmac.new(base64.b64decode(k),t.encode(),hashlib.sha256).digest()).decode()
print(u.urlencode(f))";
        tool(Command::new("python3").args(["-c", script, AZURE_ACCOUNT, AZURE_KEY])).trim().to_owned()
    })
}

/// Another client at Azure, which prints something.
pub(crate) fn rclone_azure(words: &[&str], container: &str, key: &str) -> Vec<u8> {
    let mut ends: Vec<&str> = words.to_vec();
    let remote = remote(container, key);
    ends.push(&remote);
    rclone(&ends)
}

/// Another client copies a directory to Azure.
pub(crate) fn rclone_azure_up(dir: &Path, container: &str, key: &str) {
    let _ = rclone(&["copy", &dir.display().to_string(), &remote(container, key)]);
}

fn remote(container: &str, key: &str) -> String {
    format!(":azureblob,sas_url='{}?{}':{container}/{key}", azure_url(container), sas())
}

fn rclone(words: &[&str]) -> Vec<u8> {
    let mut rclone = Command::new("rclone");
    let output = rclone.args(["--config", "/dev/null", "--retries", "1"]).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
