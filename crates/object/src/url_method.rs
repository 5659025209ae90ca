//! The request that a signed URL allows.

/// The request that a signed URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlMethod {
    /// Read the object.
    Get,
    /// Write the object.
    Put,
}

impl UrlMethod {
    /// The method of HTTP.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
        }
    }
}
