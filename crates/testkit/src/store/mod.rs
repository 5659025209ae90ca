//! Object stores for tests: a real one, a small one inside the process, and something in front of them that makes
//! trouble.

mod google;
mod http;
mod listener;
mod proxy;
mod scripted;
mod server;
mod small;

pub use http::HttpRequest;
pub use proxy::{Proxy, ProxyTrouble};
pub use scripted::{Scripted, ScriptedReply};
pub use server::{ACCESS_KEY, AZURE_ACCOUNT, AZURE_KEY, SECRET_KEY, azurite, endpoint, fake_gcs};
pub use small::{Habits, SmallStore};
