//! `haul presign`: curl reads and writes with the URL, and nothing but standard output has it.

use std::process::Command;

use haul_testkit::needs::tool;
use haul_testkit::store::endpoint;
use haul_testkit::{Finished, Need};
use serde_json::json;

use crate::provider::{Provider, ProviderBucket};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("curl"), Need::Program("aws");
        a_url_reads_or_writes_one_object,
        the_url_is_signed_as_by_the_aws_client,
        wrong_times_are_refused,
    ];
    all.extend(cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("azurite-blob"), Need::Program("curl");
        a_url_of_azure_reads_or_writes_one_object,
        google_signs_with_a_private_key,
    ]);
    all
}

/// curl with a URL; returns the status and the content.
fn curl(words: &[&str], url: &str) -> (String, Vec<u8>) {
    let output =
        Command::new("curl").args(["-s", "-w", "%{stderr}%{http_code}"]).args(words).arg(url).output();
    let output = output.unwrap();
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.stdout)
}

/// The URL that a run prints, alone.
fn url_of(run: Finished) -> String {
    let run = run.expect_success();
    let url = run.out().trim().to_owned();
    assert!(run.out().lines().count() == 1 && url.starts_with("http://"), "{run}");
    let secret = url.rsplit('=').next().unwrap();
    assert!(!run.err().contains(secret), "{run}");
    url
}

/// That a URL reads this object, and another one writes a second.
fn check(get: &str, put: &str, headers: &[&str]) {
    assert_eq!(curl(&[], get), ("200".to_owned(), b"hello".to_vec()), "{get}");
    let denied = |status: &str| ["401", "403", "405"].contains(&status);
    let changed = curl(&[&["-X", "PUT", "-d", "x"], headers].concat(), get).0;
    assert!(denied(&changed), "a URL to read does not write: {changed}");
    let (status, _) = curl(&[&["-T", "/proc/self/cmdline"], headers].concat(), put);
    assert!(["200", "201"].contains(&&status[..]), "{put}: {status}");
    let broken = format!("{get}0");
    assert!(denied(&curl(&[], &broken).0), "{broken}");
}

fn a_url_reads_or_writes_one_object() {
    let bucket = TestBucket::new();
    let key = "a b/é+k";
    let _ = bucket.haul("put").args(["-q", &bucket.at(key)]).input("hello").finish().expect_success();
    let sign =
        |words: &[&str], key: &str| url_of(bucket.haul("presign").args(words).arg(bucket.at(key)).finish());
    check(&sign(&[], key), &sign(&["--method", "PUT", "--expires", "90s"], "new"), &[]);
    assert!(bucket.names().contains(&"new".to_owned()));
    let run = bucket.haul("presign").arg(bucket.at("none")).finish().expect_success();
    assert!(run.err().contains("no such object yet"), "{run}");
    let run = bucket.haul("presign").args(["--no-sign-request", &bucket.at(key)]).finish().expect_code(2);
    assert!(run.err().contains("a secret key") && run.stdout.is_empty(), "{run}");
}

fn the_url_is_signed_as_by_the_aws_client() {
    let bucket = TestBucket::new();
    let _ = bucket.haul("put").args(["-q", &bucket.at("k")]).input("hello").finish().expect_success();
    let ours = url_of(bucket.haul("presign").args(["--expires-in", "120", &bucket.at("k")]).finish());
    // For addresses other than its own, the first version of the client signs as before 2014.
    let config = bucket.scene.join("aws-config");
    std::fs::write(&config, "[default]\ns3 =\n    signature_version = s3v4\n").unwrap();
    let aws = bucket.program("aws").env("AWS_CONFIG_FILE", &config).env("AWS_REGION", "us-east-1").args([
        "s3",
        "presign",
        "--expires-in",
        "120",
    ]);
    let aws = aws.env("AWS_ENDPOINT_URL", format!("http://{}", endpoint())).arg(bucket.at("k")).finish();
    let theirs = aws.expect_success().out().trim().to_owned();
    // All but the time and the signature.
    let same = |url: &str| {
        let (head, query) = url.split_once('?').unwrap();
        let mut pairs: Vec<&str> = query.split('&').collect();
        pairs.retain(|pair| !pair.starts_with("X-Amz-Date") && !pair.starts_with("X-Amz-Signature"));
        pairs.sort_unstable();
        format!("{head} {}", pairs.join(" "))
    };
    assert_eq!(same(&ours), same(&theirs));
    assert_eq!(curl(&[], &theirs).1, b"hello");
}

fn wrong_times_are_refused() {
    let bucket = TestBucket::new();
    for time in ["8d", "0", "604801", "soon", "-1"] {
        let run =
            bucket.haul("presign").args(["--expires", time]).arg(bucket.at("k")).finish().expect_code(2);
        assert!(run.err().contains("7d") && run.err().lines().count() == 1, "{run}");
    }
    for url in [bucket.at(""), bucket.at("a/"), "/tmp/x".to_owned()] {
        let _ = bucket.haul("presign").arg(url).finish().expect_code(2);
    }
}

fn a_url_of_azure_reads_or_writes_one_object() {
    let at = ProviderBucket::new(Provider::Azure);
    let key = "a b/k+1";
    let _ = at.haul("put").args(["-q", &at.at(key)]).input("hello").finish().expect_success();
    let sign = |words: &[&str], key: &str| url_of(at.haul("presign").args(words).arg(at.at(key)).finish());
    check(&sign(&[], key), &sign(&["--method", "put"], "new"), &["-H", "x-ms-blob-type: BlockBlob"]);
    assert!(at.names().contains(&"new".to_owned()));
}

/// Checks the signature of a URL with a public key, by the rules that Google documents.
const CHECK: &str = "import sys,hashlib,subprocess,urllib.parse as u
url,key,dir=sys.argv[1:]
p=u.urlsplit(url)
q,s=p.query.rsplit('&X-Goog-Signature=',1)
f=u.parse_qs(q)
assert f['X-Goog-Expires']==['3600'] and f['X-Goog-SignedHeaders']==['host'],f
r='\\n'.join(['GET',p.path,'&'.join(sorted(q.split('&'))),'host:'+p.netloc,'','host','UNSIGNED-PAYLOAD'])
scope=f['X-Goog-Credential'][0].split('/',1)
assert scope[0]=='me@x.iam',scope
t='\\n'.join(['GOOG4-RSA-SHA256',f['X-Goog-Date'][0],scope[1],hashlib.sha256(r.encode()).hexdigest()])
open(dir+'/text','w').write(t)
open(dir+'/sig','wb').write(bytes.fromhex(s))
subprocess.run(['openssl','dgst','-sha256','-verify',key,'-signature',dir+'/sig',dir+'/text'],check=True)";

fn google_signs_with_a_private_key() {
    let at = ProviderBucket::new(Provider::Google);
    let run = at.haul("presign").arg(at.at("k")).finish().expect_code(2);
    assert!(run.err().contains("the private key of a service account"), "{run}");
    let dir = at.bucket.scene.tree("keys");
    let path = |name: &str| dir.join(name).display().to_string();
    tool(Command::new("openssl").args(["genpkey", "-quiet", "-algorithm", "RSA", "-out", &path("key")]));
    tool(Command::new("openssl").args(["pkey", "-in", &path("key"), "-pubout", "-out", &path("public")]));
    let key = std::fs::read_to_string(path("key")).unwrap();
    let account = json!({ "type": "service_account", "client_email": "me@x.iam", "private_key": key });
    dir.text("account", account.to_string());
    let run = at.haul("presign").env("GOOGLE_APPLICATION_CREDENTIALS", path("account"));
    // The request that looks for the object has another login: nothing here gives tokens for the account.
    let run = run.env("CLOUDSDK_AUTH_ACCESS_TOKEN", "t").arg(at.at("a b/k")).finish();
    let url = url_of(run);
    tool(Command::new("python3").args(["-c", CHECK, &url, &path("public"), &path("")]));
}
