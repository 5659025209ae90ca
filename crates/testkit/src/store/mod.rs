//! An object store for tests: a real one, and something in front of it that makes trouble.

mod google;
mod http;
mod proxy;
mod server;

pub use http::Request;
pub use proxy::{Proxy, Trouble};
pub use server::{ACCESS_KEY, AZURE_ACCOUNT, AZURE_KEY, SECRET_KEY, azurite, endpoint, fake_gcs};
