//! Where providers of this API differ: the names of headers, checksums, conditions.

use crate::http::{Call, Head, Signer};
use crate::payload::Payload;
use crate::store::{Answer, Checksum, PutOptions, Tag, Terms, Whole};

/// What is particular to one provider.
pub(crate) trait Dialect: Signer + Send + Sync {
    /// The header that asks for the checksums of an object, where they are not told anyway.
    const ASKS_FOR_SUMS: Option<(&'static str, &'static str)>;

    /// Whether an upload is completed under the condition that nothing is there; else that is looked at before.
    const COMPLETES_ON_CONDITION: bool;

    /// Whether parts are made of what the store has already.
    const COPIES_PARTS: bool;

    /// What holds for all its stores.
    fn terms(&self) -> &'static Terms;

    /// What a person should know of how requests go.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Whether objects can be written so.
    ///
    /// # Errors
    /// If not.
    fn takes(&self, options: &PutOptions) -> Answer<()>;

    /// Adds how an object is encrypted and tagged.
    fn kept<'a>(&self, call: Call<'a>, options: &PutOptions) -> Call<'a>;

    /// Adds the condition that nothing is there.
    fn if_free<'a>(&self, call: Call<'a>) -> Call<'a>;

    /// Adds the checksum of the body.
    ///
    /// # Errors
    /// If the body cannot be read.
    fn checked<'a>(&self, call: Call<'a>, body: &Payload, check: Checksum) -> Answer<Call<'a>>;

    /// Adds how the parts of an upload will be checked.
    fn announced<'a>(&self, call: Call<'a>, check: Checksum) -> Call<'a>;

    /// Adds what is known of the object that is made of parts.
    fn whole<'a>(&self, call: Call<'a>, whole: Whole) -> Call<'a>;

    /// The checksums that an answer tells, without a mark.
    fn sums(&self, head: &Head) -> Tag;

    /// Whether the mark of an object is that of encrypted content, and no MD5 even if it looks like one.
    fn is_keyed(&self, head: &Head) -> bool;
}
