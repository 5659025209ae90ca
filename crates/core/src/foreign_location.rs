//! Recognizes locations in the notation of other tools, and advises the user about the notation of haul.

use std::path::Path;

/// URL schemes of other tools, and the advice for each. `{}` stands for the text after `://`.
const SCHEMES: [(&[&str], &str); 11] = [
    (&["s3a", "s3n"], "write s3://{}"),
    (&["gcs"], "write gs://{}"),
    (&["azure", "azblob", "azureblob", "wasb", "wasbs", "abfs", "abfss"], "write az://CONTAINER/KEY"),
    (
        &["b2", "r2", "minio", "oss", "cos", "obs", "swift", "wasabi"],
        "write s3://{} and give the address of the store's S3 interface with --endpoint",
    ),
    (&["scp", "fish", "shell"], "write ssh://{}"),
    (&["rsync"], "haul does not speak the rsync protocol: use host:PATH, over ssh"),
    (&["cifs"], "write smb://{}"),
    (&["nfs", "afp"], "haul has no locations of this kind: mount the share and give its path"),
    (
        &["http", "https", "ftp", "ftps", "dav", "davs", "webdav"],
        "haul does not copy from web and FTP servers: use curl or rclone, or sftp://host/PATH",
    ),
    (&["hdfs", "gdrive", "dropbox", "onedrive"], "haul has no locations of this kind: use rclone"),
    (&["file"], "write the path itself, as in {}"),
];

/// Names that users of rclone give to stores: the scheme of haul, and whether the store needs --endpoint. No scheme
/// means that haul has no end of this kind.
const REMOTES: [(&[&str], &str, bool); 6] = [
    (&["s3"], "s3", false),
    (&["gs", "gcs"], "gs", false),
    (&["az", "azureblob"], "az", false),
    (&["b2", "r2"], "s3", true),
    (&["smb", "cifs"], "smb", false),
    (&["gdrive", "dropbox", "onedrive"], "", false),
];

/// The advice for a location in the notation of another tool; `None` if it has none of these notations.
pub(crate) fn advice(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    of_store(&text)
        .or_else(|| of_url(&text))
        .or_else(|| of_windows(&text))
        .or_else(|| of_daemon(&text))
        .or_else(|| of_scheme(&text))
        .or_else(|| of_remote(&text))
        .or_else(|| of_port(&text))
}

/// Other names of objects: `https://bucket.s3.amazonaws.com/key`, `arn:aws:s3:::bucket/key`, and the slips
/// `s3:/bucket/key` and `s3//bucket/key`. The last one is also a local path, if there is one.
fn of_store(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) {
        return of_web_address(rest).map(|url| format!("write {url}"));
    }
    if let Some((_, rest)) = text.strip_prefix("arn:aws").and_then(|rest| rest.split_once(":s3:::")) {
        return Some(format!("write s3://{rest}"));
    }
    let (scheme, slashes) = text.split_at_checked(2).filter(|(name, _)| ["s3", "gs", "az"].contains(name))?;
    if let Some(path) = slashes.strip_prefix(":/").filter(|path| !path.starts_with('/')) {
        return Some(format!(
            "write {scheme}://{path} (for a host named {scheme}, write ssh://{scheme}/{path})"
        ));
    }
    let path = slashes.strip_prefix("//").filter(|_| !Path::new(scheme).exists())?;
    Some(format!("write {scheme}://{path}, or for a local path {scheme}/{path}"))
}

/// The location of an object whose address at its provider is `https://{rest}`.
fn of_web_address(rest: &str) -> Option<String> {
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.split(['?', '#']).next().unwrap_or(path);
    if let Some(account) = host.strip_suffix(".blob.core.windows.net") {
        return Some(format!("az://{path} and set AZURE_STORAGE_ACCOUNT={account}"));
    }
    let in_google = || {
        let bucket = host.strip_suffix("storage.googleapis.com")?;
        (bucket.is_empty() || bucket.ends_with('.')).then_some(("gs", bucket))
    };
    let in_amazon = || {
        let host = host.strip_suffix(".cn").unwrap_or(host).strip_suffix(".amazonaws.com")?;
        let dots = host.match_indices('.').map(|(at, _)| at + 1);
        let at = std::iter::once(0).chain(dots).find(|at| is_s3(&host[*at..]))?;
        Some(("s3", &host[..at]))
    };
    let (scheme, bucket) = in_google().or_else(in_amazon)?;
    let bucket = bucket.strip_suffix('.').unwrap_or(bucket);
    Some(if bucket.is_empty() { format!("{scheme}://{path}") } else { format!("{scheme}://{bucket}/{path}") })
}

/// Whether this is the part of a host name of Amazon behind the bucket: `s3`, `s3.eu-west-1`, `s3-us-west-2`,
/// `s3.dualstack.eu-west-1`.
fn is_s3(host: &str) -> bool {
    host.strip_prefix("s3").is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

fn of_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let starts = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    if !starts || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c)) {
        return None;
    }
    let lower = scheme.to_ascii_lowercase();
    if lower != scheme && ["ssh", "sftp", "smb", "s3", "gs", "az"].contains(&lower.as_str()) {
        return Some(format!("write the scheme in lower case: {lower}://{rest}"));
    }
    let known = SCHEMES.iter().find(|(names, _)| names.contains(&lower.as_str()));
    Some(match known {
        Some((_, advice)) => advice.replace("{}", if rest.is_empty() { "..." } else { rest }),
        None => format!(
            "haul has no locations of this kind, only ssh://, sftp://, smb://, s3://, gs:// and az://; a local file is ./{text}"
        ),
    })
}

fn of_windows(text: &str) -> Option<String> {
    let mut chars = text.chars();
    let (first, second, third) = (chars.next()?, chars.next()?, chars.next());
    if let Some(share) = text.strip_prefix("//") {
        return of_share(share);
    }
    if first == '\\' && second == '\\' && third.is_some_and(char::is_alphanumeric) && text[2..].contains('\\')
    {
        return Some(format!("write smb:{}", text.replace('\\', "/")));
    }
    if second != ':' || !first.is_ascii_alphabetic() {
        return None;
    }
    match third {
        Some('\\') => Some("haul does not run on Windows: mount the drive and give its path".to_owned()),
        Some('/') if first.is_ascii_uppercase() => Some(format!(
            "haul does not run on Windows: mount the drive and give its path (for a host named {first}, write \
             ssh://{first}{})",
            &text[2..]
        )),
        _ => None,
    }
}

/// `//server/share`, as mount.cifs(8) and smbclient(1) have it. It is also a local path, if there is one.
fn of_share(share: &str) -> Option<String> {
    let (server, path) = share.split_once('/')?;
    let is_share = server.starts_with(|c: char| c.is_ascii_alphanumeric()) && !path.is_empty();
    (is_share && !Path::new("/").join(server).exists())
        .then(|| format!("write smb://{share}, or for a local path /{share}"))
}

/// `host::module`, and IPv6 addresses without brackets, which look alike.
fn of_daemon(text: &str) -> Option<String> {
    let (host, _) = text.split('/').next()?.split_once("::")?;
    if host.contains([':', '[']) || (host.is_empty() && !text.starts_with("::")) {
        return None;
    }
    let address = text.split('/').next()?.trim_end_matches(':');
    let address = address.rsplit_once('@').map_or(address, |(_, address)| address);
    if address.matches(':').count() > 1 && address.chars().all(|c| c.is_ascii_hexdigit() || c == ':') {
        return Some(format!("write an IPv6 address in brackets: [{address}]:PATH"));
    }
    (!host.is_empty()).then(|| {
        format!(
            "haul does not speak the rsync protocol: use {host}:PATH, over ssh, with the path of the module"
        )
    })
}

/// A scheme of haul without the rest, as in `s3:`.
fn of_scheme(text: &str) -> Option<String> {
    let name = text.strip_suffix(':')?;
    let url = match name {
        "s3" | "gs" | "az" => format!("{name}://BUCKET/KEY, or {name}:// for the list of all buckets"),
        "ssh" | "sftp" => format!("{name}://HOST/PATH"),
        "smb" => "smb://HOST/SHARE/PATH".to_owned(),
        _ => return None,
    };
    Some(format!("write {url} (for a host named {name}, write ssh://{name}/~)"))
}

/// `s3:bucket/key` and `:s3:bucket/key`.
fn of_remote(text: &str) -> Option<String> {
    let inline = text.strip_prefix(':');
    let (name, path) = inline.unwrap_or(text).split_once(':')?;
    let name = name.split(',').next().unwrap_or(name);
    if path.is_empty() || (inline.is_none() && path.starts_with(['/', '~', '.'])) {
        return None;
    }
    let (_, scheme, endpoint) = REMOTES.iter().find(|(names, ..)| names.contains(&name))?;
    let url = format!("{scheme}://{}", path.trim_start_matches('/'));
    let instead = match (scheme.is_empty(), endpoint) {
        (true, _) => "haul has no locations of this kind: use rclone".to_owned(),
        (false, true) => {
            format!("write {url} and give the address of the store's S3 interface with --endpoint")
        }
        (false, false) => format!("write {url}"),
    };
    Some(format!("{instead} (for a host named {name}, write ssh://{name}/~/{path})"))
}

/// `host:22022:/path`.
fn of_port(text: &str) -> Option<String> {
    let (host, rest) = text.split_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'))?;
    let (port, path) = rest.split_once(':')?;
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0) && port.chars().all(|c| c.is_ascii_digit());
    let home = if path.starts_with('/') { "" } else { "/~/" };
    is_port.then(|| {
        format!("write ssh://{host}:{port}{home}{path} (for a file named {port}:{path}, write ssh://{host}/~/{rest})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_of_other_tools_are_recognized() {
        for (text, instead) in [
            ("http://example.org/x", "curl"),
            ("https://b.s3.amazonaws.com/x/y", "write s3://b/x/y"),
            ("https://a.b.s3.eu-west-1.amazonaws.com/x", "write s3://a.b/x"),
            ("https://s3.eu-west-1.amazonaws.com/b/x?versionId=1", "write s3://b/x"),
            ("https://s3.amazonaws.com/b/", "write s3://b/"),
            ("https://b.s3-us-west-2.amazonaws.com", "write s3://b/"),
            ("https://b.s3.cn-north-1.amazonaws.com.cn/x", "write s3://b/x"),
            ("https://storage.googleapis.com/b/x", "write gs://b/x"),
            ("https://b.storage.googleapis.com/x", "write gs://b/x"),
            ("https://acc.blob.core.windows.net/box/x", "write az://box/x and set AZURE_STORAGE_ACCOUNT=acc"),
            ("https://ec2.amazonaws.com/x", "curl"),
            ("arn:aws:s3:::b/x", "write s3://b/x"),
            ("arn:aws-cn:s3:::b", "write s3://b"),
            ("s3:/b/x", "write s3://b/x (for a host named s3, write ssh://s3/b/x)"),
            ("s3//b/x", "write s3://b/x, or for a local path s3/b/x"),
            ("gs//b/", "write gs://b/"),
            ("ftp://h/x", "curl"),
            ("gcs://bucket/key", "write gs://bucket/key"),
            ("azure://box/key", "az://CONTAINER/KEY"),
            ("s3a://bucket/key", "write s3://bucket/key"),
            ("b2://bucket/key", "--endpoint"),
            ("file:///srv/x", "as in /srv/x"),
            ("rsync://h/module/x", "use host:PATH"),
            ("cifs://h/share", "write smb://h/share"),
            ("nfs://h/share", "mount the share"),
            ("scp://me@h/x", "write ssh://me@h/x"),
            ("S3://bucket/key", "lower case: s3://bucket/key"),
            ("word://x", "only ssh://, sftp://, smb://, s3://, gs:// and az://"),
            ("C:\\Users\\x", "mount the drive"),
            ("c:\\x", "mount the drive"),
            ("D:/Users/x", "ssh://D/Users/x"),
            ("\\\\server\\share\\x", "write smb://server/share/x"),
            ("//server/share/x", "write smb://server/share/x"),
            ("smb:nas/share", "write smb://nas/share"),
            ("host::module/x", "use host:PATH"),
            ("me@host::module", "use me@host:PATH"),
            ("fe80::1:/x", "[fe80::1]:PATH"),
            ("::1:/x", "[::1]:PATH"),
            ("s3:bucket/key", "write s3://bucket/key (for a host named s3, write ssh://s3/~/bucket/key)"),
            (":s3:bucket/key", "write s3://bucket/key"),
            (":s3,provider=Minio:bucket", "write s3://bucket"),
            ("gs:bucket", "write gs://bucket"),
            ("gcs:bucket", "write gs://bucket"),
            ("b2:bucket/x", "--endpoint"),
            (
                "s3:",
                "write s3://BUCKET/KEY, or s3:// for the list of all buckets (for a host named s3, write ssh://s3/~)",
            ),
            ("gs:", "write gs://BUCKET/KEY"),
            ("sftp:", "write sftp://HOST/PATH (for a host named sftp"),
            ("smb:", "write smb://HOST/SHARE/PATH"),
            ("gdrive:docs", "use rclone"),
            ("me@h:2222:/srv/x", "write ssh://me@h:2222/srv/x (for a file named 2222:/srv/x"),
            ("h:2222:x", "write ssh://h:2222/~/x"),
        ] {
            let said = advice(text.as_bytes());
            let fits =
                said.as_deref().is_some_and(|said| said.contains(instead) && !said.contains(['\n', '`']));
            assert!(fits, "{text}: {said:?}");
        }
    }

    #[test]
    fn locations_of_haul_are_left_alone() {
        for text in [
            "/a b/c",
            "./s3:x",
            "./http://x",
            "a/http://x",
            "c:/srv/x",
            "a:/x",
            "db1:/var/lib/mysql/",
            "me@db1:",
            "db1:~/x:y",
            "db1:a::b/c",
            "db1:x/a::b",
            "[::1]:/x",
            "me@[fe80::1]:x",
            "s3/srv/x",
            "./s3//x",
            "s3x//b",
            "arn:x",
            "s3:~/x",
            "me@s3:",
            "s3a:",
            "sftp:/srv/x",
            "backup:bucket/key",
            "1://x",
            "a b://x",
            "x\\y",
            "::",
            ":/x",
        ] {
            assert_eq!(advice(text.as_bytes()), None, "{text}");
        }
    }
}
