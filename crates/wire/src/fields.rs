//! Deserialisers that accept a JSON object for a struct and nothing else. Serde would also accept a list as a
//! struct, field by field, so that `["Task", "key"]` would count as an object.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

/// A value that is deserialised only from a JSON object.
pub struct JsonMap<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OnlyMap(PhantomData))
    }
}

struct OnlyMap<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyMap<T> {
    type Value = JsonMap<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JsonMap<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(JsonMap)
    }
}

/// For `#[serde(deserialize_with)]`: a list of objects.
pub fn map_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<JsonMap<T>>::deserialize(deserializer)?.into_iter().map(|map| map.0).collect())
}

/// For `#[serde(deserialize_with)]`: a list of objects, or null.
pub fn optional_map_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list = Option::<Vec<JsonMap<T>>>::deserialize(deserializer)?;
    Ok(list.map(|list| list.into_iter().map(|map| map.0).collect()))
}

/// For `#[serde(deserialize_with)]`: an object, or null.
pub fn optional_map<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<JsonMap<T>>::deserialize(deserializer)?.map(|map| map.0))
}

/// For `#[serde(deserialize_with)]`: objects by name.
pub fn map_by_name<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    Ok(BTreeMap::<String, JsonMap<T>>::deserialize(deserializer)?
        .into_iter()
        .map(|(name, map)| (name, map.0))
        .collect())
}

/// Distinguishes a field that is absent (`None`) from one that is null (`Some(None)`).
pub fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// Like [`nullable`], for an object.
pub fn nullable_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    optional_map(deserializer).map(Some)
}

/// For `#[serde(deserialize_with)]`: the version that a caller has read. Versions start at 1.
pub fn expected_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    match Option::<i64>::deserialize(deserializer)? {
        Some(version) if version < 1 => Err(serde::de::Error::custom("must be 1 or more")),
        version => Ok(version),
    }
}
