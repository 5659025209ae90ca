//! The URLs of a container, and the login settings in the environment.

use crate::url::{append_query, encode, endpoint};

/// The documented account and key of Azurite and of Microsoft's former emulator
/// (<https://learn.microsoft.com/azure/storage/common/storage-connect-azurite>).
const EMULATOR: (&str, &str) = (
    "devstoreaccount1",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
);

/// A container, its account, and a key or signature if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerAddress {
    pub(super) account: String,
    pub(super) container: String,
    /// Scheme, host and the path up to the container.
    base: String,
    pub(super) key: Option<String>,
    pub(super) sas: Option<String>,
}

impl ContainerAddress {
    /// Determines the address from a configured endpoint and the environment; `None` if neither names the account.
    ///
    /// # Errors
    /// A sentence if the account or the endpoint is invalid.
    pub(super) fn find(
        container: &str,
        named: Option<&str>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let first = |names: &[&str]| names.iter().find_map(|name| variable(name));
        let string = first(&["AZURE_STORAGE_CONNECTION_STRING"]).unwrap_or_default();
        let said = |name: &str| {
            let pairs = string.split(';').filter_map(|pair| pair.split_once('='));
            pairs
                .into_iter()
                .find(|(key, _)| key.trim().eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim().to_owned())
        };
        let emulator = said("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let emulated = |value: &str| emulator.then(|| value.to_owned());
        let base = named.map(str::to_owned);
        let base = base.or_else(|| first(&["AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_SERVICE_ENDPOINT"]));
        let base = base.or_else(|| said("BlobEndpoint")).or_else(|| emulated("http://127.0.0.1:10000"));
        let base = base.map(|text| endpoint(&text, true)).transpose()?;
        let account = first(&["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"]);
        let account = account.or_else(|| said("AccountName")).or_else(|| emulated(EMULATOR.0));
        let account = account.or_else(|| base.as_ref().and_then(|(_, rest)| account_in(rest)));
        let Some(account) = account else { return Ok(None) };
        if account.is_empty() || !account.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(format!("`{account}` is no name of a storage account"));
        }
        let base = match base {
            // An IP address or a host without a domain: the account is in the path.
            Some((scheme, host)) if !host.contains('/') && is_bare(&host) => {
                format!("{scheme}://{host}/{account}")
            }
            Some((scheme, rest)) => format!("{scheme}://{rest}"),
            None => {
                let scheme = said("DefaultEndpointsProtocol").unwrap_or_else(|| "https".to_owned());
                let suffix = said("EndpointSuffix").unwrap_or_else(|| "core.windows.net".to_owned());
                let (scheme, host) = endpoint(&format!("{scheme}://{account}.blob.{suffix}"), false)?;
                format!("{scheme}://{host}")
            }
        };
        let keys = ["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"];
        let key = first(&keys).or_else(|| said("AccountKey")).or_else(|| emulated(EMULATOR.1));
        let sas = first(&["AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"]);
        let sas = sas.or_else(|| said("SharedAccessSignature"));
        Ok(Some(Self { account, container: container.to_owned(), base, key, sas }))
    }

    /// The URL of a blob or, without a key, of the container.
    pub(super) fn url(&self, key: Option<&str>, query: &[(&str, String)]) -> String {
        let mut url = format!("{}/{}", self.base, self.container);
        if let Some(key) = key {
            url.push('/');
            encode(key, true, &mut url);
        }
        append_query(&mut url, query);
        url
    }

    /// The URL of a blob as the source of a copy, with the signature if that is the login.
    pub(super) fn readable(&self, key: &str) -> String {
        let mut url = self.url(Some(key), &[]);
        if let (None, Some(sas)) = (&self.key, &self.sas) {
            url.push('?');
            url.push_str(sas.trim_start_matches('?'));
        }
        url
    }
}

/// The account in `ACCOUNT.blob.…` or `HOST/ACCOUNT`.
fn account_in(rest: &str) -> Option<String> {
    match rest.split_once('/') {
        Some((_, path)) => Some(path.rsplit('/').next()?.to_owned()),
        None if is_bare(rest) => None,
        None => Some(rest.split('.').next()?.to_owned()),
    }
}

/// Whether a host, perhaps with a port, is an IP address or has no domain.
fn is_bare(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.starts_with('[') || !name.contains('.') || name.parse::<std::net::Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(named: Option<&str>, variables: &[(&str, &str)]) -> Result<ContainerAddress, String> {
        let variable = |name: &str| {
            variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
        };
        ContainerAddress::find("c", named, &variable).and_then(|found| found.ok_or_else(String::new))
    }

    #[test]
    fn the_account_is_in_the_host_name_or_the_path() {
        let url = |named, variables: &[_]| find(named, variables).unwrap().url(Some("a b"), &[]);
        let account = ("AZURE_STORAGE_ACCOUNT", "acc");
        assert_eq!(url(None, &[account]), "https://acc.blob.core.windows.net/c/a%20b");
        assert_eq!(url(Some("http://127.0.0.1:10000"), &[account]), "http://127.0.0.1:10000/acc/c/a%20b");
        assert_eq!(url(Some("http://localhost:10000/acc/"), &[]), "http://localhost:10000/acc/c/a%20b");
        assert_eq!(find(Some("http://[::1]:1/acc"), &[]).unwrap().account, "acc");
        let own = ("AZURE_STORAGE_ENDPOINT", "https://acc.blob.core.chinacloudapi.cn");
        assert_eq!(find(None, &[own]).unwrap().account, "acc");
        assert_eq!(url(None, &[own]), "https://acc.blob.core.chinacloudapi.cn/c/a%20b");
        for (named, variables) in [
            (None, vec![]),
            (Some("http://127.0.0.1:1"), vec![]),
            (Some("ftp://h"), vec![account]),
            (None, vec![("AZURE_STORAGE_ACCOUNT", "a/b")]),
        ] {
            assert!(find(named, &variables).is_err(), "{named:?}");
        }
    }

    #[test]
    fn a_connection_string_is_complete() {
        let text = "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5==;EndpointSuffix=core.usgovcloudapi.net";
        let place = find(None, &[("AZURE_STORAGE_CONNECTION_STRING", text)]).unwrap();
        assert_eq!((&place.account[..], place.key.as_deref()), ("acc", Some("a2V5==")));
        assert_eq!(
            place.url(None, &[("comp", "list".into())]),
            "https://acc.blob.core.usgovcloudapi.net/c?comp=list"
        );
        let text = "BlobEndpoint=https://acc.blob.core.windows.net/;SharedAccessSignature=sv=1&sig=x%3D";
        let place = find(None, &[("AZURE_STORAGE_CONNECTION_STRING", text)]).unwrap();
        assert_eq!((&place.account[..], place.sas.as_deref()), ("acc", Some("sv=1&sig=x%3D")));
        let place = find(None, &[("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")]).unwrap();
        assert_eq!(place.url(None, &[]), "http://127.0.0.1:10000/devstoreaccount1/c");
        assert!(place.key.is_some());
    }
}
