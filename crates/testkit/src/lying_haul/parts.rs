//! The parts of an encoded message: every number, text, list and choice in it, with its place in the bytes.
//!
//! A tracer decodes the message as its own type, so that it finds new fields too.

use std::fmt;
use std::ops::Range;

use serde::de::value::{Error, U32Deserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageField {
    /// Where it is in the message, without the numbers of elements: `Response.Lookup[].Ok.mtime.sec`.
    pub(crate) key: String,
    /// Its bytes.
    pub(crate) at: Range<usize>,
    /// Its type.
    pub(crate) shape: PartShape,
}

/// The type of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartShape {
    /// `false` or `true`.
    Bool,
    /// A byte as it is.
    Byte,
    /// A number of so many bits, as it is encoded: below zero in zigzag.
    Number {
        /// 16 to 128.
        bits: u32,
        /// Whether it may be below zero.
        signed: bool,
        /// Its value; that of the zigzag where it is signed.
        value: u128,
    },
    /// Text or bytes after their length, which takes `head` bytes.
    Text {
        /// Bytes of the length.
        head: usize,
    },
    /// Elements after their number.
    List {
        /// Where each of them is.
        elements: Vec<Range<usize>>,
    },
    /// Something or nothing.
    Option {
        /// Whether it is something.
        some: bool,
    },
    /// One of several variants.
    Choice {
        /// Their names.
        variants: &'static [&'static str],
        /// Which it is.
        chosen: u32,
    },
}

/// The parts of a message of type `T`, the outer after the inner; `None` if the bytes are no such message.
#[must_use]
pub(crate) fn parts<'de, T: Deserialize<'de>>(name: &str, body: &'de [u8]) -> Option<Vec<MessageField>> {
    let mut tracer = Tracer { input: body, at: 0, key: name.to_owned(), parts: Vec::new() };
    T::deserialize(&mut tracer).ok()?;
    (tracer.at == body.len()).then_some(tracer.parts)
}

/// A number in groups of seven bits.
#[must_use]
pub(crate) fn varint(mut value: u128) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

struct Tracer<'de> {
    input: &'de [u8],
    at: usize,
    key: String,
    parts: Vec<MessageField>,
}

impl<'de> Tracer<'de> {
    fn take(&mut self, len: usize) -> Result<&'de [u8], Error> {
        let end = self.at.checked_add(len).ok_or_else(|| Error::custom("too long"))?;
        let bytes = self.input.get(self.at..end).ok_or_else(|| Error::custom("it ends early"))?;
        self.at = end;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u128, Error> {
        let mut value = 0;
        for shift in (0..133).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::custom("a number without an end"))
    }

    fn len(&mut self) -> Result<usize, Error> {
        usize::try_from(self.number()?).map_err(Error::custom)
    }

    fn add(&mut self, from: usize, shape: PartShape) {
        self.parts.push(MessageField { key: self.key.clone(), at: from..self.at, shape });
    }

    /// Decodes the parts inside, with `word` added to the key.
    fn inside<T>(
        &mut self,
        word: fmt::Arguments<'_>,
        inner: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let len = self.key.len();
        fmt::write(&mut self.key, word).map_err(Error::custom)?;
        let result = inner(self);
        self.key.truncate(len);
        result
    }

    fn text(&mut self) -> Result<&'de [u8], Error> {
        let from = self.at;
        let len = self.len()?;
        let head = self.at - from;
        let bytes = self.take(len)?;
        self.add(from, PartShape::Text { head });
        Ok(bytes)
    }
}

macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty, $bits:literal;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let from = self.at;
            let value = self.number()?;
            self.add(from, PartShape::Number { bits: $bits, signed: false, value });
            visitor.$visit(<$type>::try_from(value).map_err(Error::custom)?)
        })*
    };
}

macro_rules! signed_numbers {
    ($($method:ident $visit:ident $type:ty, $bits:literal;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let from = self.at;
            let value = self.number()?;
            self.add(from, PartShape::Number { bits: $bits, signed: true, value });
            let plain = (value >> 1) as i128 ^ -((value & 1) as i128);
            visitor.$visit(<$type>::try_from(plain).map_err(Error::custom)?)
        })*
    };
}

macro_rules! unknown {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("no message has this"))
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Tracer<'de> {
    type Error = Error;

    numbers! {
        deserialize_u16 visit_u16 u16, 16;
        deserialize_u32 visit_u32 u32, 32;
        deserialize_u64 visit_u64 u64, 64;
        deserialize_u128 visit_u128 u128, 128;
    }
    signed_numbers! {
        deserialize_i16 visit_i16 i16, 16;
        deserialize_i32 visit_i32 i32, 32;
        deserialize_i64 visit_i64 i64, 64;
        deserialize_i128 visit_i128 i128, 128;
    }
    unknown! {
        deserialize_any deserialize_f32 deserialize_f64 deserialize_char deserialize_identifier
        deserialize_ignored_any
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let from = self.at;
        let byte = self.take(1)?[0];
        self.add(from, PartShape::Bool);
        visitor.visit_bool(byte == 1)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let from = self.at;
        let byte = self.take(1)?[0];
        self.add(from, PartShape::Byte);
        visitor.visit_u8(byte)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let from = self.at;
        let byte = self.take(1)?[0];
        self.add(from, PartShape::Byte);
        visitor.visit_i8(byte as i8)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let text = std::str::from_utf8(self.text()?).map_err(Error::custom)?;
        visitor.visit_borrowed_str(text)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_bytes(self.text()?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let from = self.at;
        let some = self.take(1)?[0] == 1;
        let value = if some { visitor.visit_some(&mut *self) } else { visitor.visit_none() }?;
        self.add(from, PartShape::Option { some });
        Ok(value)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let from = self.at;
        let left = self.len()?;
        let mut list = Elements { tracer: self, left, names: ElementKeys::Same, places: Vec::new() };
        let value = visitor.visit_seq(&mut list)?;
        let elements = list.places;
        self.add(from, PartShape::List { elements });
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        // Long ones are digests, which are bytes of one kind.
        let names = if len > 4 { ElementKeys::Same } else { ElementKeys::Numbers };
        visitor.visit_seq(&mut Elements { tracer: self, left: len, names, places: Vec::new() })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let from = self.at;
        let left = self.len()?;
        let mut list = Elements { tracer: self, left, names: ElementKeys::Same, places: Vec::new() };
        let value = visitor.visit_map(&mut list)?;
        let elements = list.places;
        self.add(from, PartShape::List { elements });
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let names = ElementKeys::Fields(fields);
        visitor.visit_seq(&mut Elements { tracer: self, left: fields.len(), names, places: Vec::new() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let from = self.at;
        let chosen = u32::try_from(self.number()?).map_err(Error::custom)?;
        let name = variants.get(chosen as usize).ok_or_else(|| Error::custom("no such variant"))?;
        let value = self
            .inside(format_args!(".{name}"), |tracer| visitor.visit_enum(ChosenVariant { tracer, chosen }))?;
        self.add(from, PartShape::Choice { variants, chosen });
        Ok(value)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// How elements are told from each other in keys.
#[derive(Clone, Copy)]
enum ElementKeys {
    Same,
    Numbers,
    Fields(&'static [&'static str]),
}

struct Elements<'a, 'de> {
    tracer: &'a mut Tracer<'de>,
    left: usize,
    names: ElementKeys,
    places: Vec<Range<usize>>,
}

impl<'de> Elements<'_, 'de> {
    fn element<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (from, number) = (self.tracer.at, self.places.len());
        let word = match self.names {
            ElementKeys::Same => "[]".to_owned(),
            ElementKeys::Numbers => format!(".{number}"),
            ElementKeys::Fields(fields) => format!(".{}", fields[number]),
        };
        let value = self.tracer.inside(format_args!("{word}"), |tracer| seed.deserialize(tracer))?;
        self.places.push(from..self.tracer.at);
        Ok(value)
    }
}

impl<'de> SeqAccess<'de> for &mut Elements<'_, 'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.element(seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        match self.names {
            ElementKeys::Same => None,
            _ => Some(self.left),
        }
    }
}

impl<'de> MapAccess<'de> for &mut Elements<'_, 'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.element(seed).map(Some)
    }

    /// The value belongs to the place of its key.
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let value = self.tracer.inside(format_args!("[].value"), |tracer| seed.deserialize(tracer))?;
        if let Some(place) = self.places.last_mut() {
            place.end = self.tracer.at;
        }
        Ok(value)
    }
}

struct ChosenVariant<'a, 'de> {
    tracer: &'a mut Tracer<'de>,
    chosen: u32,
}

impl<'de> EnumAccess<'de> for ChosenVariant<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Error> {
        let number: U32Deserializer<Error> = self.chosen.into_deserializer();
        Ok((seed.deserialize(number)?, self))
    }
}

impl<'de> VariantAccess<'de> for ChosenVariant<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.tracer)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.tracer.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.tracer.deserialize_struct("", fields, visitor)
    }
}
