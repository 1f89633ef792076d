//! `a=1&b=2&b=3` for serde: each name once, with every value it was given.

use std::fmt;

use emergent_domain::invalid::Invalid;
use serde::{
    de::{self, IntoDeserializer, Visitor, value::MapDeserializer, value::SeqDeserializer},
    forward_to_deserialize_any,
};

/// Names in the order they appear, each with its values.
pub(super) fn split(text: &str) -> Result<Vec<(String, Words)>, Invalid> {
    let mut all: Vec<(String, Words)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name)
            .ok_or_else(|| Invalid::one("", "a parameter's name is not UTF-8 in percent encoding"))?;
        let value = decode(value).ok_or_else(|| Invalid::one(&name, "is not UTF-8 in percent encoding"))?;
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, words)) => words.0.push(value),
            None => all.push((name, Words(vec![value]))),
        }
    }
    Ok(all)
}

pub(super) type Reader = MapDeserializer<'static, std::vec::IntoIter<(String, Words)>, Wrong>;

pub(super) fn reader(words: Vec<(String, Words)>) -> Reader {
    MapDeserializer::new(words.into_iter())
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The values of one name; at least one.
pub(super) struct Words(Vec<String>);

impl Words {
    fn one(mut self) -> Result<String, Wrong> {
        match self.0.len() {
            1 => Ok(self.0.remove(0)),
            several => Err(Wrong(format!("is given {several} times and takes one value"))),
        }
    }

    fn parse<T: std::str::FromStr>(self, expected: &str) -> Result<T, Wrong> {
        self.one()?.parse().map_err(|_| Wrong(format!("must be {expected}")))
    }
}

impl IntoDeserializer<'_, Wrong> for Words {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $expected:literal),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            visitor.$visit(self.parse($expected)?)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Words {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_string(self.one()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_seq(SeqDeserializer::new(self.0.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_enum(self.one()?.into_deserializer())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    parsed! {
        deserialize_bool visit_bool "true or false",
        deserialize_i64 visit_i64 "a whole number",
        deserialize_u64 visit_u64 "a whole number of 0 or more",
        deserialize_f64 visit_f64 "a number",
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u128 f32 char str string bytes byte_buf unit unit_struct
        tuple tuple_struct map struct identifier ignored_any
    }
}

#[derive(Debug)]
pub(super) struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

impl de::Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}
