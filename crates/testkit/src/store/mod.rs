//! Object stores for tests: a real one, a small one inside the process, and something in front of them that makes
//! trouble.

mod http;
mod proxy;
mod server;
mod small;

pub use http::Request;
pub use proxy::{Proxy, Trouble};
pub use server::{ACCESS_KEY, SECRET_KEY, endpoint};
pub use small::{Habits, SmallStore};
