//! How object stores are reached, and what is asked of them about an object that is written.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::settings::{DAY, number, parse_pair, parse_size};

/// Where a store is.
#[derive(Clone, Debug, Args)]
pub(crate) struct AddressArgs {
    /// The address of the store, if it is not the provider's: https://HOST or http://HOST:PORT
    ///
    /// Without it AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL and `endpoint_url` in ~/.aws/config count for s3://,
    /// STORAGE_EMULATOR_HOST for gs://, AZURE_STORAGE_ENDPOINT and the connection string for az://. The bucket is then
    /// in the path of each request, unless the store wants it in the name of the host.
    #[arg(long, value_name = "URL", help_heading = "Object stores")]
    pub(crate) endpoint: Option<String>,
    /// The region [default: AWS_REGION, AWS_DEFAULT_REGION, ~/.aws/config, or what the store says]
    #[arg(long, value_name = "NAME", help_heading = "Object stores")]
    pub(crate) region: Option<String>,
    /// Let tokens that give access by themselves go to another machine over http://
    ///
    /// Everybody on the way can read them there. Without it, Google's and Azure's tokens and shared access signatures go to
    /// https:// addresses and to this machine only. Requests to s3:// are signed and carry no secret.
    #[arg(long, help_heading = "Object stores")]
    pub(crate) insecure_http: bool,
}

/// How a store is reached by what moves single objects.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    pub(crate) address: AddressArgs,
    /// Fail when nothing has gone through to or from a store for so long; until then each request is tried again
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = |text: &str| number::<u32>(text, "seconds", 1, DAY), help_heading = "Object stores")]
    pub(crate) timeout: u32,
}

/// How a store is reached where the other end may be a machine, to which `--timeout` belongs.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreEndArgs {
    #[command(flatten)]
    pub(crate) address: AddressArgs,
    /// Fail when nothing has gone through to or from a store for so long; until then each request is tried again
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = |text: &str| number::<u32>(text, "seconds", 1, DAY), help_heading = "Object stores")]
    pub(crate) store_timeout: u32,
}

/// How much memory a stream takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Memory that the process takes, content and all else
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = parse_size,
          help_heading = "Limits")]
    pub(crate) max_memory: u64,
}

/// What all objects of a run are written with.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoredArgs {
    /// The storage class, as the store calls it: STANDARD_IA, GLACIER_IR …; at Azure Hot, Cool, Cold, Archive
    #[arg(long, value_name = "CLASS", value_parser = NonEmptyStringValueParser::new(),
          help_heading = "Object stores")]
    pub(crate) storage_class: Option<String>,
    /// How the store encrypts it: AES256, aws:kms or aws:kms:dsse; at Google kms
    #[arg(long, value_name = "HOW", value_parser = NonEmptyStringValueParser::new(),
          help_heading = "Object stores")]
    pub(crate) sse: Option<String>,
    /// The key that it is encrypted with
    #[arg(long, value_name = "KEY", requires = "sse", value_parser = NonEmptyStringValueParser::new(),
          help_heading = "Object stores")]
    pub(crate) sse_kms_key_id: Option<String>,
}

/// What one object is written with.
#[derive(Clone, Debug, Args)]
pub(crate) struct ObjectArgs {
    #[command(flatten)]
    pub(crate) stored: StoredArgs,
    /// A header to keep with it: 'Content-Type: application/zstd'; may be repeated
    #[arg(long, value_name = "NAME:VALUE", value_parser = |text: &str| parse_pair(text, ':'),
          help_heading = "The object")]
    pub(crate) header: Vec<(String, String)>,
    /// Something to note with it; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = |text: &str| parse_pair(text, '='),
          help_heading = "The object")]
    pub(crate) metadata: Vec<(String, String)>,
    /// A tag; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = |text: &str| parse_pair(text, '='),
          help_heading = "The object")]
    pub(crate) tag: Vec<(String, String)>,
}
