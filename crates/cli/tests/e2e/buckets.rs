//! `haul mb`, `haul rb` and `haul ls s3://`: buckets are made, removed and listed as by other clients.

use haul_testkit::store::{ACCESS_KEY, SECRET_KEY, endpoint};
use haul_testkit::{CommandRun, Finished, Need};
use serde_json::Value;

use crate::provider::{ALL, Provider, ProviderBucket};
use crate::store::TestBucket;
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("aws"), Need::Program("s5cmd");
        buckets_are_made_and_removed_as_by_others,
        a_bucket_with_objects_stays,
        buckets_are_listed_as_by_the_aws_client,
    ];
    all.extend(cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("azurite-blob");
        containers_of_azure_are_made_and_removed,
        buckets_of_each_provider_are_listed,
    ]);
    all
}

/// Another client, on the store.
fn theirs(bucket: &TestBucket, words: &[&str]) -> Finished {
    let run: CommandRun = bucket.program(words[0]).args(&words[1..]).env("AWS_REGION", "us-east-1");
    let run = run.env("AWS_ENDPOINT_URL", format!("http://{}", endpoint()));
    let run = run.env("S3_ENDPOINT_URL", format!("http://{}", endpoint()));
    run.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET_KEY).finish()
}

/// Whether another client sees the bucket.
fn is_there(bucket: &TestBucket) -> bool {
    theirs(bucket, &["aws", "s3api", "head-bucket", "--bucket", bucket.name()]).code() == Some(0)
}

fn buckets_are_made_and_removed_as_by_others() {
    let bucket = TestBucket::missing();
    let url = bucket.at("");
    let run = |word: &str, words: &[&str]| bucket.haul(word).args(words).arg(&url).finish();
    assert_eq!(run("mb", &[]).expect_success().out(), format!("made     {url}\n"));
    assert!(is_there(&bucket));
    let again = run("mb", &[]).expect_code(1);
    assert!(again.err().contains("there is a bucket of this name already"), "{again}");
    assert_eq!(theirs(&bucket, &["aws", "s3", "mb", &url]).code(), Some(1));
    assert_eq!(run("mb", &["-p"]).expect_success().out(), format!("exists   {url}\n"));
    let _ = run("rb", &["-n"]).expect_success();
    assert!(is_there(&bucket));
    assert_eq!(run("rb", &[]).expect_success().out(), format!("removed  {url}\n"));
    assert!(!is_there(&bucket));
    let run = run("rb", &[]).expect_code(1);
    assert!(run.err().contains("bucket"), "{run}");
    // One that another client made.
    let _ = theirs(&bucket, &["s5cmd", "mb", url.trim_end_matches('/')]).expect_success();
    let _ = bucket.haul("rb").args(["-q", &url]).finish().expect_success();
    assert!(!is_there(&bucket));
    let run = bucket.haul("mb").arg(bucket.at("key")).finish().expect_code(2);
    assert!(run.err().contains("a bucket is expected"), "{run}");
    let run = bucket.haul("mb").args(["-q", "--region", "eu-west-1", &url]).finish();
    let _ = run.expect_success();
    assert!(is_there(&bucket));
}

fn a_bucket_with_objects_stays() {
    let bucket = TestBucket::new();
    for key in ["a", "d/b", "d/ c"] {
        let _ = bucket.put(key, b"x");
    }
    let url = bucket.at("");
    for words in [&[][..], &["-n"]] {
        let run = bucket.haul("rb").args(words).arg(&url).finish().expect_code(1);
        assert!(run.err().contains("the bucket is not empty") && run.err().contains("--force"), "{run}");
    }
    // This server would remove the bucket with its objects, as Azure does.
    let dry = bucket.haul("rb").args(["-n", "--force", &url]).finish().expect_success();
    assert_eq!(dry.out().lines().count(), 4, "{dry}");
    assert_eq!(bucket.names().len(), 3);
    let run = bucket.haul("rb").args(["--force", &url]).finish().expect_success();
    assert_eq!(run.out().lines().filter(|line| line.starts_with("removed ")).count(), 4, "{run}");
    assert!(!is_there(&bucket));
}

fn buckets_are_listed_as_by_the_aws_client() {
    let bucket = TestBucket::new();
    // Other tests make and remove buckets meanwhile.
    let ours = |text: String| text.lines().find(|line| line.ends_with(bucket.name())).map(str::to_owned);
    let expected = ours(theirs(&bucket, &["aws", "s3", "ls"]).expect_success().out()).unwrap();
    let (time, name) = expected.rsplit_once(' ').unwrap();
    for place in ["s3://", "s3:///"] {
        let run = bucket.haul("ls").arg(place).env("TZ", "UTC").finish().expect_success();
        assert_eq!(ours(run.out()), Some(format!("{time}  {name}")), "{run}");
    }
    let run = bucket.haul("ls").args(["--json", "s3://"]).finish().expect_success();
    let lines =
        run.out().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>();
    let line = lines.iter().find(|line| line["name"] == name).unwrap();
    assert_eq!(line["type"], "bucket");
    assert_eq!(line["created"].as_str().unwrap()[..19].replace('T', " "), time, "{line}");
    let run = bucket.haul("ls").args(["-r", "s3://"]).finish().expect_code(2);
    assert!(run.err().contains("name one bucket, as in s3://BUCKET/"), "{run}");
    let both = bucket.haul("ls").args(["s3://", &bucket.at("")]).finish().expect_success();
    assert!(
        both.out().starts_with("s3://:\n") && both.out().ends_with(&format!("\n{}:\n", bucket.at(""))),
        "{both}"
    );
}

fn buckets_of_each_provider_are_listed() {
    for provider in ALL {
        let at = ProviderBucket::made(provider, |_| None);
        let scheme = format!("{}://", at.at("").split(':').next().unwrap_or_default());
        let run = at.haul("ls").arg(&scheme).finish().expect_success();
        let line = run.out().lines().find(|line| line.ends_with(at.bucket.name())).map(str::to_owned);
        let time = line.unwrap_or_else(|| panic!("{run}"))[..19].replace(' ', "T") + "Z";
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    }
}

fn containers_of_azure_are_made_and_removed() {
    let at = ProviderBucket::new(Provider::Azure);
    let url = at.at("").replace(at.bucket.name(), &format!("{}2", at.bucket.name()));
    let run = |word: &str, words: &[&str]| at.haul(word).args(words).arg(&url).finish();
    let _ = run("mb", &[]).expect_success();
    let _ = run("mb", &[]).expect_code(1);
    assert!(run("mb", &["--ignore-existing"]).expect_success().out().starts_with("exists"));
    let _ = at.haul("put").args(["-q", &format!("{url}k")]).input("x").finish().expect_success();
    let refused = run("rb", &[]).expect_code(1);
    assert!(refused.err().contains("the bucket is not empty"), "{refused}");
    assert_eq!(at.haul("get").args(["-q", &format!("{url}k")]).finish().expect_success().out(), "x");
    let _ = run("rb", &["--force"]).expect_success();
    let _ = run("rb", &[]).expect_code(1);
}
