//! The tables of hosts.

use super::document::NamedTable;
use super::entry::{OptionValue, Value};
use crate::args::{HostOptions, similar};

const KEYS: [&str; 5] = ["port", "rsh", "remote-haul", "bootstrap", "streams"];

/// The options of a host. An error is one line.
pub(super) fn host(named: &NamedTable) -> Result<HostOptions, String> {
    let name = &named.name;
    if name.is_empty() || name.contains(['/', ':']) || name.starts_with('-') {
        return Err(named.origin.says(format!("`{name}` is not a host: write HOST or USER@HOST")));
    }
    let mut host = HostOptions { host: name.clone(), ..HostOptions::default() };
    for entry in &named.entries {
        match entry.name.as_str() {
            "port" => host.port = Some(number(entry, 65_535)?),
            "streams" => host.streams = Some(number(entry, 512)?),
            "rsh" | "ssh" => host.rsh = Some(text(entry)?),
            "remote-haul" => host.remote_haul = Some(text(entry)?),
            "bootstrap" => match entry.value {
                Value::Flag(on) => host.bootstrap = Some(on),
                _ => return Err(entry.origin.says("`bootstrap` takes true or false, without quotes")),
            },
            other => {
                let known = KEYS.map(str::to_owned);
                let meant = similar(other, &known).map(|meant| format!("; a similar one is `{meant}`"));
                let keys = KEYS.join(", ");
                return Err(entry.origin.says(format!(
                    "`{other}` is not an option of a host, which are {keys}{}",
                    meant.unwrap_or_default()
                )));
            }
        }
    }
    Ok(host)
}

fn text(entry: &OptionValue) -> Result<String, String> {
    match &entry.value {
        Value::Text(text) if !text.trim().is_empty() => Ok(text.clone()),
        _ => Err(entry.origin.says(format!("`{}` takes one string that is not empty", entry.name))),
    }
}

fn number<T: TryFrom<u32>>(entry: &OptionValue, most: u32) -> Result<T, String> {
    let found = match &entry.value {
        Value::Text(text) => text.parse().ok(),
        Value::Flag(_) | Value::List(_) | Value::Untyped(_) => None,
    };
    let valid =
        found.filter(|number| (1..=most).contains(number)).and_then(|number| T::try_from(number).ok());
    valid.ok_or_else(|| entry.origin.says(format!("`{}` takes a number from 1 to {most}", entry.name)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::document::parse;

    fn read(text: &str) -> Result<HostOptions, String> {
        host(&parse(Path::new("/c"), text)?.hosts[0])
    }

    #[test]
    fn hosts_have_their_own_options() {
        let found =
            read("[hosts.\"me@db1\"]\nport = 22\nrsh = 'ssh -4'\nbootstrap = true\nstreams = 8\n").unwrap();
        assert_eq!(
            (found.host.as_str(), found.port, found.rsh.as_deref()),
            ("me@db1", Some(22), Some("ssh -4"))
        );
        assert_eq!((found.bootstrap, found.streams, found.remote_haul), (Some(true), Some(8), None));
        for (text, line) in [
            ("[hosts.db1]\nport = 70000", 2),
            ("[hosts.db1]\nport = 'x'", 2),
            ("[hosts.db1]\nstreams = 0", 2),
            ("[hosts.db1]\nrsh = ''", 2),
            ("[hosts.db1]\nbootstrap = 'yes'", 2),
            ("[hosts.db1]\nremote_haul = '/x'", 2),
            ("[hosts.\"db1:\"]\nport = 1", 1),
            ("[hosts.\"-oProxyCommand=x\"]\nport = 1", 1),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(&format!("/c:{line}: ")), "{error}");
        }
    }
}
