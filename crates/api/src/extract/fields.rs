//! Deserialises JSON objects only. Serde's structs also accept arrays, so `["Task", "key"]` would pass
//! for an object.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

pub(crate) struct JsonMap<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonMap<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(OnlyMap(PhantomData))
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
pub(crate) fn map_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<JsonMap<T>>::deserialize(from)?.into_iter().map(|map| map.0).collect())
}

/// For `#[serde(deserialize_with)]`: a list of objects, or null.
pub(crate) fn optional_map_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list = Option::<Vec<JsonMap<T>>>::deserialize(from)?;
    Ok(list.map(|list| list.into_iter().map(|map| map.0).collect()))
}

/// For `#[serde(deserialize_with)]`: an object, or null.
pub(crate) fn optional_map<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<JsonMap<T>>::deserialize(from)?.map(|map| map.0))
}

/// For `#[serde(deserialize_with)]`: objects by name.
pub(crate) fn map_by_name<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    Ok(BTreeMap::<String, JsonMap<T>>::deserialize(from)?
        .into_iter()
        .map(|(name, map)| (name, map.0))
        .collect())
}
