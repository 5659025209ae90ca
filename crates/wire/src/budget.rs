//! Decoding within a memory budget.
//!
//! The length of a body is limited, but the decoded message may be many times larger: two bytes encode an empty
//! attribute of 48 bytes. Decoding therefore counts the memory of each element, structure and text, and stops at a
//! limit that no honest message reaches.

use std::cell::Cell;
use std::fmt;
use std::mem::size_of;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

use crate::error::FrameError;

/// The memory that one message may take. The largest honest messages hold entries with many small attributes.
pub const MAX_DECODED: usize = 12 * 1024 * 1024;

/// The memory of a text or byte string in addition to its length.
const TEXT: usize = 32;

/// Decodes a message, which must fill `body`.
///
/// # Errors
/// [`FrameError::Rule`] if it takes too much memory, [`FrameError::Body`] if it is not a message.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    let left = Cell::new(MAX_DECODED);
    let mut input = postcard::Deserializer::from_bytes(body);
    let decoded = T::deserialize(Budgeted { inner: &mut input, left: &left });
    match (decoded, input.finalize()) {
        _ if left.get() == 0 => Err(FrameError::Rule("a message that takes more memory than one may")),
        (Ok(message), Ok([])) => Ok(message),
        _ => Err(FrameError::Body),
    }
}

/// Takes `bytes` from the budget. At 0 decoding stops.
fn charge<E: Error>(left: &Cell<usize>, bytes: usize) -> Result<(), E> {
    left.set(left.get().saturating_sub(bytes));
    if left.get() == 0 { Err(E::custom("too much")) } else { Ok(()) }
}

/// A serde object together with the budget.
struct Budgeted<'a, T> {
    inner: T,
    left: &'a Cell<usize>,
}

/// A serde visitor together with the budget; `list`: whether each element is on the heap.
struct Visit<'a, V> {
    inner: V,
    left: &'a Cell<usize>,
    list: bool,
}

impl<'a, T> Budgeted<'a, T> {
    fn visit<V>(&self, inner: V, list: bool) -> Visit<'a, V> {
        Visit { inner, left: self.left, list }
    }
}

/// Forwards to the inner object, with a visitor of which each element is on the heap or not.
macro_rules! forward {
    ($error:ty, $list:literal: $($method:ident($($arg:ident: $type:ty),*))*) => {
        $(fn $method<V: Visitor<'de>>(self, $($arg: $type,)* visitor: V) -> Result<V::Value, $error> {
            let visit = self.visit(visitor, $list);
            self.inner.$method($($arg,)* visit)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Budgeted<'_, D> {
    type Error = D::Error;

    forward! { D::Error, true:
        deserialize_any() deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64()
        deserialize_i128() deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
        deserialize_f32() deserialize_f64() deserialize_char() deserialize_str() deserialize_string()
        deserialize_bytes() deserialize_byte_buf() deserialize_option() deserialize_unit() deserialize_seq()
        deserialize_map() deserialize_identifier() deserialize_ignored_any()
    }

    forward! { D::Error, false:
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        // It may be boxed.
        charge(self.left, size_of::<V::Value>())?;
        let visit = self.visit(visitor, false);
        self.inner.deserialize_struct(name, fields, visit)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! values {
    ($($method:ident: $type:ty,)*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        })*
    };
}

macro_rules! texts {
    ($($method:ident: $type:ty,)*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            charge(self.left, TEXT + value.len())?;
            self.inner.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Visit<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    values! {
        visit_bool: bool, visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128, visit_f32: f32,
        visit_f64: f64, visit_char: char,
    }
    texts! {
        visit_str: &str, visit_borrowed_str: &'de str, visit_string: String, visit_bytes: &[u8],
        visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Budgeted { inner, left: self.left })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Budgeted { inner, left: self.left })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Visit { inner, left: self.left, list: self.list })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Budgeted { inner, left: self.left })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Budgeted { inner, left: self.left })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Budgeted<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Budgeted { inner, left: self.left })
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Visit<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, inner: T) -> Result<Option<T::Value>, A::Error> {
        if self.list {
            charge(self.left, size_of::<T::Value>())?;
        }
        self.inner.next_element_seed(Budgeted { inner, left: self.left })
    }

    fn size_hint(&self) -> Option<usize> {
        // A list grows with the elements that have arrived, not with the announced number.
        if self.list { None } else { self.inner.size_hint() }
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Budgeted<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, inner: K) -> Result<Option<K::Value>, A::Error> {
        charge(self.left, TEXT + size_of::<K::Value>())?;
        self.inner.next_key_seed(Budgeted { inner, left: self.left })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, inner: T) -> Result<T::Value, A::Error> {
        charge(self.left, size_of::<T::Value>())?;
        self.inner.next_value_seed(Budgeted { inner, left: self.left })
    }
}

impl<'a, 'de, A: EnumAccess<'de>> EnumAccess<'de> for Budgeted<'a, A> {
    type Error = A::Error;
    type Variant = Budgeted<'a, A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, inner: T) -> Result<(T::Value, Self::Variant), A::Error> {
        let left = self.left;
        let (value, variant) = self.inner.variant_seed(Budgeted { inner, left })?;
        Ok((value, Budgeted { inner: variant, left }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Budgeted<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, inner: T) -> Result<T::Value, A::Error> {
        self.inner.newtype_variant_seed(Budgeted { inner, left: self.left })
    }

    forward! { A::Error, false:
        tuple_variant(len: usize)
        struct_variant(fields: &'static [&'static str])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_BODY, Response};

    #[test]
    fn few_bytes_cannot_take_much_memory() {
        // A list of so many results that each are one byte: `Removed` with nothing but successes.
        let removed = Response::Removed(vec![Ok(()); 3]);
        let sample = postcard::to_allocvec(&removed).unwrap();
        assert_eq!(decode::<Response>(&sample), Ok(removed));
        let mut body = sample[..1].to_vec();
        body.extend(postcard::to_allocvec(&((MAX_BODY - 8) as u64)).unwrap());
        body.resize(MAX_BODY, 0);
        assert!(matches!(decode::<Response>(&body), Err(FrameError::Rule(_))));
        // Entries that are not there.
        let lookup = Response::Lookup(vec![Ok(None); 200_000]);
        let body = postcard::to_allocvec(&lookup).unwrap();
        assert!(body.len() < MAX_BODY / 8);
        assert!(matches!(decode::<Response>(&body), Err(FrameError::Rule(_))));
    }

    #[test]
    fn as_many_attributes_as_an_entry_of_ours_has_are_taken() {
        let mut entry =
            haul_core::Entry::new(haul_core::RelPath::new(b"a").unwrap(), haul_core::EntryKind::File, 0);
        let pair = |n: u32| (format!("user.{n:06}").into_bytes(), vec![0; 10]);
        entry.xattrs = (0..40_000).map(pair).map(|(n, v)| (n.into(), v.into())).collect();
        assert!(entry.weight() < 3 << 20);
        let root = Response::Root(Some(entry));
        assert_eq!(decode::<Response>(&postcard::to_allocvec(&root).unwrap()), Ok(root));
    }
}
