//! The id of a run, which each object carries as metadata.

/// The metadata key of the id. It identifies an object of this run when the answer to its creation was lost.
pub const RUN: &str = "haul-run";

/// A fresh id as metadata.
#[must_use]
pub fn run_metadata() -> (String, String) {
    (RUN.to_owned(), run_name())
}

/// A unique id.
#[must_use]
pub fn run_name() -> String {
    let mut bytes = [0; 16];
    // Without a random source, the time and the process id are unique enough.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let number = now.as_nanos() ^ (u128::from(std::process::id()) << 96);
        bytes = number.to_le_bytes();
    }
    haul_core::digest::hex(&bytes)
}
