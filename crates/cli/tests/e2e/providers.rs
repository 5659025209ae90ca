//! Promises of `put`, `get`, `ls` and `rm` at each provider: S3, Google's XML API (a proxy that translates it for
//! SeaweedFS, because no emulator of Google's supports multipart uploads), Azure (Azurite). Functions that Google's
//! emulator supports are tested with it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use haul_testkit::needs::tool;
use haul_testkit::process::{kill, wait_until};
use haul_testkit::store::{AZURE_ACCOUNT, AZURE_KEY, endpoint, fake_gcs};
use haul_testkit::{Need, ProxyTrouble};
use serde_json::Value;

use crate::provider::{ALL, Provider, ProviderBucket, sas};
use crate::scene::{events, summary};
use crate::store::{TestBucket, requests};
use crate::{TestCase, cases};

pub(crate) fn cases() -> Vec<TestCase> {
    let mut all = cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("azurite-blob");
        streams_go_to_each_provider_and_come_back,
        a_failure_makes_and_replaces_nothing_at_any_provider,
        a_killed_put_goes_on_at_each_provider,
        a_flipped_byte_is_sent_again_at_each_provider,
        objects_are_listed_and_removed_at_each_provider,
        options_that_a_provider_lacks_are_refused,
        azure_is_asked_by_key_signature_or_connection_string,
        google_is_asked_with_a_token,
        a_profile_gets_its_credentials_by_sso_and_by_a_role,
        a_named_profile_counts_alone,
        public_objects_need_no_credentials,
    ];
    all.extend(cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("curl");
        certificates_are_read_from_a_file,
    ]);
    all.extend(cases![
        Need::Program("weed"), Need::Program("rclone"), Need::Program("fake-gcs-server");
        objects_of_others_at_google_are_read_listed_and_removed,
    ]);
    all
}

fn streams_go_to_each_provider_and_come_back() {
    for provider in ALL {
        let at = ProviderBucket::new(provider);
        let (file, bytes) = at.bucket.file("content", 20_000_001);
        let run = at.haul("put").args(["--json", "--metadata", "host=db1", &at.at("small")]);
        let run = run.args(["--header", "Content-Type: text/x-dump"]).input("hello").finish();
        let summary = summary(&run.expect_success());
        // Azurite does not know the first checksum.
        let puts = if provider == Provider::Azure { 2 } else { 1 };
        assert_eq!((requests(&summary.0, "put"), requests(&summary.0, "get")), (puts, 0), "{provider:?}");
        let run = at.haul("put").args([&at.at("a b/long+%"), "--", "cat"]).arg(&file).finish();
        let _ = run.expect_success();
        // Azurite does not know the checksum: there each part may be sent again with another one.
        let seen = at.proxy.seen();
        let parts: HashSet<_> =
            seen.iter().filter(|request| request.writes_part()).map(|part| &part.query).collect();
        assert_eq!(parts.len(), 3, "{provider:?}");
        assert_eq!(at.read("small"), b"hello");
        assert!(at.read("a b/long+%") == bytes, "{provider:?}");
        let sidecar: Value = serde_json::from_slice(&at.read("a b/long+%.haul")).unwrap();
        assert_eq!(sidecar["length"], bytes.len());
        for (key, expected) in [("small", &b"hello"[..]), ("a b/long+%", &bytes)] {
            let run = at.haul("get").arg(at.at(key)).finish().expect_success();
            assert!(run.stdout == expected, "{provider:?} {key}");
            assert!(!run.err().contains("no digest is recorded"), "{run}");
        }
        let noted = at.proxy.seen().iter().any(|request| {
            request.headers.iter().any(|(name, value)| name.ends_with("-meta-host") && value == "db1")
                && request
                    .headers
                    .iter()
                    .any(|(name, value)| name.ends_with("content-type") && value == "text/x-dump")
        });
        assert!(noted, "{provider:?}");
    }
}

fn a_failure_makes_and_replaces_nothing_at_any_provider() {
    for provider in ALL {
        let at = ProviderBucket::new(provider);
        let put = |key: &str, words: &[&str]| at.haul("put").arg(at.at(key)).args(words);
        let _ = put("old", &[]).input("old").finish().expect_success();
        for key in ["old", "new"] {
            let run = put(key, &["--", "head -c 20000000 /dev/zero; exit 3"]).finish().expect_code(1);
            assert!(run.err().contains("it exited with code 3"), "{run}");
        }
        for len in [3, 20_000_000] {
            let run = put("old", &["--no-clobber"]).input(vec![1; len]).finish().expect_code(1);
            assert!(run.err().contains("--no-clobber"), "{provider:?} {run}");
        }
        let _ = put("other", &["--no-clobber"]).input("other").finish().expect_success();
        assert_eq!((at.names(), at.read("old")), (vec!["old".into(), "other".into()], b"old".to_vec()));
    }
}

fn a_killed_put_goes_on_at_each_provider() {
    for provider in ALL {
        let at = ProviderBucket::new(provider);
        let (file, bytes) = at.bucket.file("content", 40_000_000);
        let stalled = format!("head -c 30000000 {}; sleep 300", file.display());
        let mut run = at.haul("put").args([&at.at("x"), "--", "sh", "-c", &stalled]).start();
        run.wait_until("parts are sent", || {
            at.proxy.done(haul_testkit::store::HttpRequest::writes_part) == 3
        });
        kill(run.pid());
        assert!(run.finish().was_killed());
        assert!(at.names().is_empty(), "{provider:?}");
        let run = at.haul("put").args(["--json", "--resume", &at.at("x"), "--", "cat"]).arg(&file).finish();
        let summary = summary(&run.expect_success());
        let parts = summary.of("resumed_bytes") / (8 << 20);
        assert_eq!(parts, 3, "{provider:?} {}", summary.0);
        assert!(at.read("x") == bytes, "{provider:?}");
        // Its command outlives it: nobody told it to end.
        haul_testkit::process::tagged(at.bucket.scene.tag()).into_iter().for_each(kill);
    }
}

fn a_flipped_byte_is_sent_again_at_each_provider() {
    for provider in ALL {
        let at = ProviderBucket::with(provider, |part| part.then_some(ProxyTrouble::FlipContent(12_345)));
        let (file, bytes) = at.bucket.file("content", 20_000_000);
        let run = at.haul("put").args(["--json", &at.at("x"), "--", "cat"]).arg(&file).finish();
        let summary = summary(&run.expect_success());
        // Azurite refuses the first checksum before it looks at the content.
        let retried = requests(&summary.0, "retried");
        assert!(retried >= 3 || provider == Provider::Azure, "{provider:?} {}", summary.0);
        assert!(at.read("x") == bytes, "{provider:?}");
    }
}

fn objects_are_listed_and_removed_at_each_provider() {
    for provider in ALL {
        let at = ProviderBucket::new(provider);
        for key in ["a/one", "a/b/two", "a/b/thr ee+%", "c"] {
            let _ = at.haul("put").arg(at.at(key)).input(key).finish().expect_success();
        }
        let list = |words: &[&str]| {
            let run = at.haul("ls").arg("--json").args(words).finish().expect_success();
            let name = |event: &Value| event["key"].as_str().or(event["prefix"].as_str()).unwrap().to_owned();
            let mut names = events(&run).iter().map(name).collect::<Vec<_>>();
            names.sort();
            names
        };
        assert_eq!(list(&[&at.at("")]), ["a/", "c"], "{provider:?}");
        assert_eq!(list(&["-r", &at.at("a/")]), ["a/b/thr ee+%", "a/b/two", "a/one"], "{provider:?}");
        let _ = at.haul("rm").args(["-r", &at.at("a/b/")]).finish().expect_success();
        let _ = at.haul("rm").arg(at.at("c")).finish().expect_success();
        assert_eq!(at.names(), ["a/one"], "{provider:?}");
        let _ = at.haul("rm").arg(at.at("c")).finish().expect_code(1);
        let run = at.haul("get").arg(at.at("c")).finish().expect_code(1);
        assert!(run.err().contains("there is no such object"), "{run}");
    }
}

fn options_that_a_provider_lacks_are_refused() {
    for (provider, words) in [
        (Provider::Google, &["--tag", "a=b"][..]),
        (Provider::Google, &["--sse", "AES256"]),
        (Provider::Azure, &["--sse", "AES256"]),
        (Provider::Azure, &["--metadata", "a-b=c"]),
        (Provider::Azure, &["--header", "expires: 1"]),
    ] {
        let at = ProviderBucket::new(provider);
        let run = at.haul("put").args(words).arg(at.at("x")).input("x").finish().expect_code(2);
        assert!(run.err().contains("Azure") || run.err().contains("Google"), "{run}");
        assert!(at.names().is_empty());
    }
    let at = ProviderBucket::new(Provider::Azure);
    let run = at.haul("rm").args(["--incomplete", &at.at("")]).finish().expect_code(2);
    assert!(run.err().contains("for a week"), "{run}");
    let tagged = at.haul("put").args(["--tag", "a b=c", "--storage-class", "Cool", &at.at("x")]);
    let _ = tagged.input("x").finish().expect_success();
    let is = |name: &str, value: &str| at.proxy.count(|request| request.header(name) == Some(value)) > 0;
    assert!(is("x-ms-tags", "a%20b=c") && is("x-ms-access-tier", "Cool"));
}

fn azure_is_asked_by_key_signature_or_connection_string() {
    let at = ProviderBucket::new(Provider::Azure);
    let url = format!("{}/{AZURE_ACCOUNT}", at.proxy.endpoint());
    let string = format!("AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};BlobEndpoint={url}");
    let with = |pairs: &[(&str, &str)]| {
        let run = pairs.iter().fold(at.bucket.scene.haul("put"), |run, (name, value)| run.env(name, value));
        run.args(["--timeout", "5", &at.at("x")]).input("x").finish()
    };
    let address = ("AZURE_STORAGE_ENDPOINT", &url[..]);
    let _ = with(&[("AZURE_STORAGE_CONNECTION_STRING", &string)]).expect_success();
    let _ = with(&[address, ("AZURE_STORAGE_SAS_TOKEN", sas())]).expect_success();
    let wrong = AZURE_KEY.replace("Eby8", "Abcd");
    let run = with(&[address, ("AZURE_STORAGE_KEY", &wrong)]).expect_code(4);
    assert!(run.err().contains("hint: credentials come from AZURE_STORAGE"), "{run}");
    let run = with(&[]).expect_code(4);
    assert!(run.err().contains("AZURE_STORAGE_ACCOUNT"), "{run}");
}

fn google_is_asked_with_a_token() {
    let at = ProviderBucket::new(Provider::Google);
    let key = at.bucket.scene.join("key.pem");
    tool(Command::new("openssl").args(["genpkey", "-algorithm", "RSA", "-out"]).arg(&key));
    let account = serde_json::json!({
        "type": "service_account",
        "client_email": "backup@project.iam.gserviceaccount.com",
        "private_key_id": "1",
        "private_key": std::fs::read_to_string(&key).unwrap(),
    });
    let file = at.bucket.scene.join("account.json");
    std::fs::write(&file, account.to_string()).unwrap();
    let put = || at.haul("put").arg(at.at("x")).input("x").env("GOOGLE_APPLICATION_CREDENTIALS", &file);
    let _ = put().finish().expect_success();
    let _ = put().env("CLOUDSDK_AUTH_ACCESS_TOKEN", "from-gcloud").finish().expect_success();
    let tokens: Vec<String> = at
        .proxy
        .seen()
        .iter()
        .filter_map(|request| request.header("authorization").map(str::to_owned))
        .collect();
    // A JSON web token that the key of the account has signed.
    assert!(tokens[0].starts_with("Bearer eyJ") && tokens[0].split('.').count() == 3, "{tokens:?}");
    assert_eq!(tokens[1], "Bearer from-gcloud");
    std::fs::write(&file, r#"{"type":"external_account"}"#).unwrap();
    let run = put().finish().expect_code(4);
    assert!(run.err().contains("external_account") && run.err().contains("gcloud auth"), "{run}");
}

fn objects_of_others_at_google_are_read_listed_and_removed() {
    let bucket = TestBucket::new();
    let (name, server) = (bucket.name(), format!("http://{}", fake_gcs()));
    let body = format!("{{\"name\":\"{name}\"}}");
    let url = format!("{server}/storage/v1/b");
    tool(Command::new("curl").args(["-sf", "-H", "Content-Type: application/json", "-d", &body, &url]));
    let (file, bytes) = bucket.file("content", 20_000_000);
    let remote = format!(":gcs,anonymous=true,endpoint='{server}/storage/v1/':{name}/dir/theirs");
    let mut rclone = Command::new("rclone");
    rclone.args(["--config", "/dev/null", "copyto", "--ignore-checksum"]).arg(&file).arg(&remote);
    tool(&mut rclone);
    let haul = |word: &str| bucket.scene.haul(word).env("STORAGE_EMULATOR_HOST", &server);
    let at = format!("gs://{name}/dir/theirs");
    let run = haul("get").arg(&at).finish().expect_success();
    assert!(run.stdout == bytes);
    assert!(!run.err().contains("no digest is recorded"), "{run}");
    let run = haul("ls").args(["--json", "-r", &format!("gs://{name}/dir/")]).finish().expect_success();
    assert_eq!(
        (events(&run)[0]["key"].as_str(), events(&run)[0]["len"].as_u64()),
        (Some("dir/theirs"), Some(20_000_000))
    );
    let _ = haul("rm").arg(&at).finish().expect_success();
    let _ = haul("get").arg(&at).finish().expect_code(1);
}

/// Answers every request with `content`, and records the requests.
fn answering(content: String) -> (String, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked: std::sync::Arc<std::sync::Mutex<Vec<String>>> = std::sync::Arc::default();
    let noted = std::sync::Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let len = client.read(&mut head).unwrap_or(0);
            noted.lock().unwrap().push(String::from_utf8_lossy(&head[..len]).into_owned());
            let len = content.len();
            let _ = write!(
                client,
                "HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{content}"
            );
        }
    });
    (address, asked)
}

fn a_named_profile_counts_alone() {
    let bucket = TestBucket::new();
    let (key, secret) = (haul_testkit::store::ACCESS_KEY, haul_testkit::store::SECRET_KEY);
    let home = bucket.scene.join("login");
    std::fs::create_dir_all(home.join(".aws")).unwrap();
    let config =
        format!("[good]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n[empty]\nx = y\n");
    std::fs::write(home.join(".aws/credentials"), config).unwrap();
    let put = |profile: &str| {
        let run = bucket
            .scene
            .haul("put")
            .env("HOME", &home)
            .env("AWS_ENDPOINT_URL", format!("http://{}", endpoint()));
        // The keys in the environment are wrong.
        let run = run.env("AWS_ACCESS_KEY_ID", "wrong").env("AWS_SECRET_ACCESS_KEY", "wrong");
        run.args(["--profile", profile]).arg(bucket.at("x")).input("x").finish()
    };
    let _ = put("good").expect_success();
    for (profile, why) in [("empty", "has no credentials"), ("none", "there is no profile `none`")] {
        let run = put(profile).expect_code(4);
        assert!(run.err().contains(why), "{run}");
    }
    let run = bucket.scene.haul("ls").args(["--profile", "p", "gs://b/"]).finish().expect_code(2);
    assert!(run.err().contains("only s3:// has profiles"), "{run}");
}

fn public_objects_need_no_credentials() {
    let bucket = TestBucket::new();
    bucket.haul("put").arg(bucket.at("public")).input("content").finish().expect_success();
    let home = bucket.scene.join("login");
    let get = |words: &[&str], at: &str| {
        let run = bucket.scene.haul("get").env("HOME", &home).env("AWS_EC2_METADATA_DISABLED", "true");
        let run = run.env("AWS_ENDPOINT_URL", format!("http://{}", endpoint()));
        run.args(words).arg(bucket.at(at)).finish()
    };
    let run = get(&["--no-sign-request"], "public").expect_success();
    assert_eq!(run.out(), "content");
    for url in ["s3://b/k", "gs://b/k", "az://b/k"] {
        let (fake, asked) = answering("content".to_owned());
        for (words, is_signed) in [(&["--no-sign-request"][..], false), (&[], true)] {
            let run = bucket.scene.haul("get").args(words).args(["--endpoint", &fake, "--timeout=3s", url]);
            let run = run.env("AWS_ACCESS_KEY_ID", "k").env("AWS_SECRET_ACCESS_KEY", "s");
            let run = run.env("CLOUDSDK_AUTH_ACCESS_TOKEN", "t").env("AZURE_STORAGE_ACCOUNT", "a");
            let _ = run.env("AZURE_STORAGE_KEY", "c2VjcmV0").finish();
            let asked = std::mem::take(&mut *asked.lock().unwrap());
            assert!(!asked.is_empty(), "{url}");
            for head in asked {
                assert_eq!(head.to_lowercase().contains("\nauthorization:"), is_signed, "{url} {head}");
            }
        }
    }
}

fn certificates_are_read_from_a_file() {
    let bucket = TestBucket::new();
    let broken = bucket.scene.join("broken.pem");
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").unwrap();
    for url in ["s3://b/k", "gs://b/k", "az://b/k"] {
        for file in [&broken, &bucket.scene.join("missing.pem")] {
            let run = bucket.scene.haul("get").env("AZURE_STORAGE_ACCOUNT", "a").arg("--ca-cert").arg(file);
            let run = run.arg(url).finish().expect_code(2);
            assert!(run.err().contains(&file.display().to_string()), "{run}");
        }
    }
    // That of a server, and that of an authority, as openssl makes it.
    servers_certificate_is_trusted(&bucket, &["-addext", "basicConstraints=CA:FALSE"]);
    servers_certificate_is_trusted(&bucket, &[]);
}

/// A server that never answers, behind a certificate that no system trusts.
fn servers_certificate_is_trusted(bucket: &TestBucket, extension: &[&str]) {
    let (key, certificate) = (bucket.scene.join("key.pem"), bucket.scene.join("certificate.pem"));
    let names = ["-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1"];
    let mut make = Command::new("openssl");
    make.args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "rsa:2048", "-keyout"]).arg(&key);
    tool(make.arg("-out").arg(&certificate).args(names).args(extension));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new("openssl");
    server
        .args(["s_server", "-quiet", "-accept", &format!("127.0.0.1:{port}"), "-key"])
        .arg(&key)
        .arg("-cert");
    let mut server = server.arg(&certificate).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("openssl listens", Duration::from_secs(20), || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let get = |words: &[&OsStr]| {
        let run = bucket.scene.haul("get").env("AWS_ACCESS_KEY_ID", "k").env("AWS_SECRET_ACCESS_KEY", "s");
        let run = run.args(words).arg(format!("--endpoint=https://127.0.0.1:{port}"));
        run.args(["--timeout=2s", "s3://b/k"]).finish().expect_code(4)
    };
    let (refused, trusted) = (get(&[]), get(&[OsStr::new("--ca-cert"), certificate.as_os_str()]));
    let file = certificate.display().to_string();
    let curl = bucket.program("curl").args(["-sS", "--max-time", "2", "--cacert", &file]);
    // It waits for the answer too.
    let _ = curl.arg(format!("https://127.0.0.1:{port}/")).finish().expect_code(28);
    server.kill().and_then(|()| server.wait()).unwrap();
    assert!(
        refused.err().contains("is not trusted") && refused.err().contains("--ca-cert FILE"),
        "{refused}"
    );
    assert!(!trusted.err().contains("certificate") && trusted.err().contains("nothing"), "{trusted}");
}

fn a_profile_gets_its_credentials_by_sso_and_by_a_role() {
    let bucket = TestBucket::new();
    let (key, secret) = (haul_testkit::store::ACCESS_KEY, haul_testkit::store::SECRET_KEY);
    let (portal, asked_portal) = answering(format!(
        r#"{{"roleCredentials":{{"accessKeyId":"{key}","secretAccessKey":"{secret}","sessionToken":"","expiration":4102444800000}}}}"#
    ));
    let (sts, asked_sts) = answering(format!(
        "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}\
         </SecretAccessKey><SessionToken></SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>\
         </AssumeRoleResult></AssumeRoleResponse>"
    ));
    let home = bucket.scene.join("login");
    std::fs::create_dir_all(home.join(".aws/sso/cache")).unwrap();
    let config = "[sso-session corp]\nsso_start_url = https://corp.awsapps.com/start\nsso_region = eu-west-1\n\
        [profile person]\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Backup\n\
        [profile role]\nrole_arn = arn:aws:iam::1:role/backup\nsource_profile = person\nexternal_id = x y\n\
        [profile mfa]\nrole_arn = arn:aws:iam::1:role/backup\nsource_profile = person\nmfa_serial = m\n";
    std::fs::write(home.join(".aws/config"), config).unwrap();
    let token = |until: &str| {
        let text = format!(
            r#"{{"startUrl":"https://corp.awsapps.com/start","accessToken":"secret-token","expiresAt":"{until}"}}"#
        );
        std::fs::write(home.join(".aws/sso/cache/0.json"), text).unwrap();
    };
    let put = |profile: &str| {
        let endpoint = format!("http://{}", endpoint());
        let run = bucket.scene.haul("put").env("HOME", &home).env("AWS_PROFILE", profile);
        let run = run.env("AWS_ENDPOINT_URL", endpoint).env("AWS_ENDPOINT_URL_SSO", &portal);
        run.env("AWS_ENDPOINT_URL_STS", &sts).arg(bucket.at("x")).input("x").finish()
    };
    token("2099-01-01T00:00:00Z");
    let _ = put("person").expect_success();
    let asked = asked_portal.lock().unwrap()[0].to_lowercase();
    assert!(asked.contains("account_id=123456789012&role_name=backup"), "{asked}");
    assert!(asked.contains("x-amz-sso_bearer_token: secret-token"), "{asked}");
    let _ = put("role").expect_success();
    let asked = asked_sts.lock().unwrap()[0].clone();
    assert!(asked.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fbackup"), "{asked}");
    assert!(
        asked.contains("ExternalId=x%20y") && asked.to_lowercase().contains("/sts/aws4_request"),
        "{asked}"
    );
    let run = put("mfa").expect_code(4);
    assert!(run.err().contains("mfa_serial") && run.err().contains("export-credentials"), "{run}");
    token("2020-01-01T00:00:00Z");
    let run = put("person").expect_code(4);
    assert!(run.err().contains("aws sso login --profile person"), "{run}");
}
