//! HTTP requests and their answers: [`Call`] before it is sent, [`Http`] sends it and reads the answer, `Recognition`
//! decides whether a store has answered.

mod call;
mod exchange;
mod recognition;

pub(crate) use call::{Call, Head, Signed, Signer};
pub(crate) use exchange::Http;
