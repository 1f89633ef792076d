//! Deserialises `a=1&b=2&b=3`: each name once, with all its values.

use std::fmt;

use emergent_domain::invalid::Invalid;
use emergent_net::percent;
use serde::{
    de::{self, IntoDeserializer, Visitor, value::MapDeserializer, value::SeqDeserializer},
    forward_to_deserialize_any,
};

/// Returns the names in order of appearance, each with its values.
pub(super) fn parse_params(text: &str) -> Result<Vec<(String, ParamValues)>, Invalid> {
    let mut params: Vec<(String, ParamValues)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name)
            .ok_or_else(|| Invalid::new("", "a parameter's name is not UTF-8 in percent encoding"))?;
        let value = decode(value).ok_or_else(|| Invalid::new(&name, "is not UTF-8 in percent encoding"))?;
        match params.iter_mut().find(|(existing, _)| *existing == name) {
            Some((_, values)) => values.0.push(value),
            None => params.push((name, ParamValues(vec![value]))),
        }
    }
    Ok(params)
}

/// Returns the names of the parameters of an address.
pub(crate) fn parameter_names(text: &str) -> Result<Vec<String>, Invalid> {
    Ok(parse_params(text)?.into_iter().map(|(name, _)| name).collect())
}

pub(super) type ParamDeserializer =
    MapDeserializer<'static, std::vec::IntoIter<(String, ParamValues)>, ParamError>;

pub(super) fn deserializer(params: Vec<(String, ParamValues)>) -> ParamDeserializer {
    MapDeserializer::new(params.into_iter())
}

fn decode(text: &str) -> Option<String> {
    percent::decode(&text.replace('+', " "))
}

/// The values of one name; at least one.
pub(super) struct ParamValues(Vec<String>);

impl ParamValues {
    /// Returns the only value; fails if there are several.
    fn single(mut self) -> Result<String, ParamError> {
        match self.0.len() {
            1 => Ok(self.0.remove(0)),
            count => Err(ParamError(format!("is given {count} times and takes one value"))),
        }
    }

    fn parse<T: std::str::FromStr>(self, expected: &str) -> Result<T, ParamError> {
        self.single()?.parse().map_err(|_| ParamError(format!("must be {expected}")))
    }
}

impl IntoDeserializer<'_, ParamError> for ParamValues {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

/// Implements methods of `Deserializer` that parse a single value.
macro_rules! parsed {
    ($($method:ident $visit:ident $expected:literal),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParamError> {
            visitor.$visit(self.parse($expected)?)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for ParamValues {
    type Error = ParamError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParamError> {
        visitor.visit_string(self.single()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParamError> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParamError> {
        visitor.visit_seq(SeqDeserializer::new(self.0.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ParamError> {
        visitor.visit_enum(self.single()?.into_deserializer())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ParamError> {
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
pub(super) struct ParamError(String);

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParamError {}

impl de::Error for ParamError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}
