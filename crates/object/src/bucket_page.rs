//! The buckets that the credentials may see.

/// A bucket, as a store lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBucket {
    /// Its name.
    pub name: String,
    /// When it was made, in RFC 3339; empty if the store does not say.
    pub created: String,
    /// When its properties were changed, where the store reports this and not when it was made.
    pub modified: Option<String>,
}

/// A page of a list of buckets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketPage {
    /// Buckets, in the order of the store.
    pub(crate) buckets: Vec<ListedBucket>,
    /// The token of the next page; `None` after the last.
    pub(crate) next: Option<String>,
}
