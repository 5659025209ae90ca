//! HTTP requests and their answers: [`HttpCall`] before it is sent, [`Http`] sends it and reads the answer,
//! `Recognition` decides whether a store has answered.

mod call;
mod exchange;
mod pacing;
mod recognition;
mod tls;

pub(crate) use call::{HttpCall, ResponseHead, Signed, Signer};
pub(crate) use exchange::Http;
