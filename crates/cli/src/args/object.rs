//! Options for object stores and for the objects that are written.

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};

use crate::values::{parse_pair, parse_size, parse_timeout};

/// The values of `--sse`.
const SSE: [&str; 4] = ["AES256", "aws:kms", "aws:kms:dsse", "kms"];

/// The address of a store.
#[derive(Clone, Debug, Args)]
pub(crate) struct AddressArgs {
    /// Address of a store other than the provider's: https://HOST or http://HOST:PORT
    ///
    /// Default: for s3:// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL and `endpoint_url` in ~/.aws/config; for gs://
    /// STORAGE_EMULATOR_HOST; for az:// AZURE_STORAGE_ENDPOINT and the connection string. With an own address haul uses
    /// path-style requests unless the store requires virtual-host style.
    #[arg(long, value_name = "URL", help_heading = "Object stores")]
    pub(crate) endpoint: Option<String>,
    /// Region [default: AWS_REGION, AWS_DEFAULT_REGION, ~/.aws/config, or as the store reports]
    #[arg(long, value_name = "NAME", help_heading = "Object stores")]
    pub(crate) region: Option<String>,
    /// Profile of ~/.aws/config and ~/.aws/credentials [default: AWS_PROFILE]; only its credentials count then
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), help_heading = "Object stores")]
    pub(crate) profile: Option<String>,
    /// Send requests without credentials, to public buckets
    #[arg(long, conflicts_with = "profile", help_heading = "Object stores")]
    pub(crate) no_sign_request: bool,
    /// Also trust the certificates in FILE (PEM): of authorities, or of the server itself [default: AWS_CA_BUNDLE for s3://]
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new(), help_heading = "Object stores")]
    pub(crate) ca_cert: Option<String>,
    /// Send bearer tokens to other hosts over http://
    ///
    /// Anyone on the network path can read them. By default haul sends Google's and Azure's tokens and shared access
    /// signatures only to https:// addresses and to this host. Requests to s3:// are signed and carry no secret.
    #[arg(long, help_heading = "Object stores")]
    pub(crate) insecure_http: bool,
}

/// Options of commands that use object stores only.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    pub(crate) address: AddressArgs,
    /// Retry failed requests until TIME passes without progress
    #[arg(long, alias = "store-timeout", value_name = "TIME", default_value = "120s", value_parser = parse_timeout, help_heading = "Object stores")]
    pub(crate) timeout: u32,
}

/// Options of commands that use hosts too: there `--timeout` is that of the host.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreEndArgs {
    #[command(flatten)]
    pub(crate) address: AddressArgs,
    /// Retry failed requests until TIME passes without progress
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_timeout, help_heading = "Object stores")]
    pub(crate) store_timeout: u32,
}

/// Memory of commands that use object stores only.
#[derive(Clone, Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Total memory of the process
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = parse_size,
          help_heading = "Limits")]
    pub(crate) max_memory: u64,
}

/// Attributes of all objects that a run writes.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoredArgs {
    /// Storage class, by the store's name for it: STANDARD_IA, GLACIER_IR, ...; Azure: Hot, Cool, Cold, Archive
    #[arg(long, value_name = "CLASS", value_parser = NonEmptyStringValueParser::new(),
          help_heading = "Object stores")]
    pub(crate) storage_class: Option<String>,
    /// Server-side encryption: AES256, aws:kms or aws:kms:dsse; Google: kms
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(SSE), hide_possible_values = true,
          help_heading = "Object stores")]
    pub(crate) sse: Option<String>,
    /// Key for --sse
    #[arg(long, value_name = "KEY", requires = "sse", value_parser = NonEmptyStringValueParser::new(),
          help_heading = "Object stores")]
    pub(crate) sse_kms_key_id: Option<String>,
}

/// Attributes of a single object.
#[derive(Clone, Debug, Args)]
pub(crate) struct ObjectArgs {
    #[command(flatten)]
    pub(crate) stored: StoredArgs,
    /// HTTP header to store, as in 'Content-Type: application/zstd'; may be repeated
    #[arg(long, value_name = "NAME:VALUE", value_parser = |text: &str| parse_pair(text, ':'),
          help_heading = "Object attributes")]
    pub(crate) header: Vec<(String, String)>,
    /// User metadata; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = |text: &str| parse_pair(text, '='),
          help_heading = "Object attributes")]
    pub(crate) metadata: Vec<(String, String)>,
    /// Object tag; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = |text: &str| parse_pair(text, '='),
          help_heading = "Object attributes")]
    pub(crate) tag: Vec<(String, String)>,
}
