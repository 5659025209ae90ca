//! How trees in object stores are reached and written.

use clap::Args;

/// Options for ends in object stores.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreEndArgs {
    /// The address of the store, if it is not the provider's: https://HOST or http://HOST:PORT
    #[arg(long, value_name = "URL", help_heading = "Object stores")]
    pub(crate) endpoint: Option<String>,
    /// The region [default: AWS_REGION, AWS_DEFAULT_REGION, ~/.aws/config, or what the store says]
    #[arg(long, value_name = "NAME", help_heading = "Object stores")]
    pub(crate) region: Option<String>,
    /// Fail when nothing has gone through to or from a store for so long; until then each request is tried again
    #[arg(long, value_name = "SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u32).range(1..=86_400), help_heading = "Object stores")]
    pub(crate) store_timeout: u32,
}

/// What objects of a tree are written with.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoredArgs {
    /// The storage class, as the store calls it: STANDARD_IA, GLACIER_IR …
    #[arg(long, value_name = "CLASS", help_heading = "Object stores")]
    pub(crate) storage_class: Option<String>,
    /// How the store encrypts what is written: AES256, aws:kms or aws:kms:dsse
    #[arg(long, value_name = "HOW", help_heading = "Object stores")]
    pub(crate) sse: Option<String>,
    /// The key that it is encrypted with
    #[arg(long, value_name = "KEY", requires = "sse", help_heading = "Object stores")]
    pub(crate) sse_kms_key_id: Option<String>,
}
