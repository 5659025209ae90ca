//! `MC_HOST_NAME=https://KEY:SECRET@HOST[:PORT]`: the aliases of mc in the environment, as named locations.

use haul_object::AccessKeys;

use super::origin::Origin;
use super::quote::quoted;
use super::sources::{MC_HOST, Sources};
use crate::args::{NamedLocation, StoreOptions};

/// The aliases with these names. An error is one line, without the value: it has a secret in it.
pub(super) fn aliases(sources: &Sources, names: &[String]) -> Result<Vec<NamedLocation>, String> {
    let wanted = sources.mc_hosts.iter().filter(|(name, _)| names.contains(name));
    let alias = |(name, value): &(String, std::ffi::OsString)| {
        value.to_str().and_then(|value| alias(name, value)).ok_or_else(|| {
            let form = "it is not like https://KEY:SECRET@HOST:PORT";
            Origin::Variable(format!("{MC_HOST}{name}")).says(form)
        })
    };
    wanted.map(alias).collect()
}

/// The lines of `haul config show`, without keys.
pub(super) fn shown(sources: &Sources) -> Vec<(String, String, Origin)> {
    let mut all = Vec::new();
    for (name, value) in &sources.mc_hosts {
        let Some(NamedLocation { location, store, .. }) = value.to_str().and_then(|value| alias(name, value))
        else {
            continue;
        };
        let mut add = |option: &str, value: String| {
            let origin = Origin::Variable(format!("{MC_HOST}{name}"));
            all.push((format!("locations.{}.{option}", quoted(name)), value, origin));
        };
        add("location", quoted(&location));
        add("endpoint", quoted(&store.endpoint.unwrap_or_default()));
        if store.keys.is_some() {
            add("keys", "(not shown)".to_owned());
        }
    }
    all
}

fn alias(name: &str, value: &str) -> Option<NamedLocation> {
    let (scheme, rest) = value.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))?;
    // A key may have any character.
    let (keys, address) = rest.rsplit_once('@').map_or((None, rest), |(keys, address)| (Some(keys), address));
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    if host.is_empty() {
        return None;
    }
    let keys = match keys {
        None | Some(":") => None,
        Some(keys) => {
            let mut parts = keys.splitn(3, ':').map(str::to_owned);
            let (key_id, secret_key, token) = (parts.next()?, parts.next()?, parts.next());
            (!key_id.is_empty() && !secret_key.is_empty()).then_some(())?;
            Some(AccessKeys { key_id, secret_key, token })
        }
    };
    let store = StoreOptions {
        endpoint: Some(format!("{scheme}://{host}")),
        no_sign_request: Some(keys.is_none()),
        keys,
        ..StoreOptions::default()
    };
    Some(NamedLocation { name: name.to_owned(), location: format!("s3://{path}"), store })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_read_as_mc_reads_them() {
        let of = |value: &str| {
            let NamedLocation { location, store, .. } = alias("m", value)?;
            let keys = store
                .keys
                .map(|keys| [keys.key_id, keys.secret_key, keys.token.unwrap_or_default()].join(" "));
            Some(format!("{location} {} {}", store.endpoint?, keys.unwrap_or_default()))
        };
        let is = |value: &str, expected: &str| assert_eq!(of(value).as_deref(), Some(expected), "{value}");
        is("https://key:se/c@ret+@host:9000", "s3:// https://host:9000 key se/c@ret+ ");
        is("http://k:s:token@h/", "s3:// http://h k s token");
        is("https://play.example", "s3:// https://play.example ");
        is("https://k:s@h/bucket/p", "s3://bucket/p https://h k s ");
        for bad in ["", "host", "ftp://k:s@h", "https://k@h", "https://:s@h", "https://k:s@", "https://k:@h"]
        {
            assert_eq!(of(bad), None, "{bad}");
        }
        let keys = AccessKeys { key_id: "k".to_owned(), secret_key: "hidden".to_owned(), token: None };
        assert!(!format!("{keys:?}").contains("hidden"));
    }
}
