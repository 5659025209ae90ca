//! An object store for tests: a real one, and something in front of it that makes trouble.

mod http;
mod proxy;
mod server;

pub use http::Request;
pub use proxy::{Proxy, Trouble};
pub use server::{ACCESS_KEY, SECRET_KEY, endpoint};
