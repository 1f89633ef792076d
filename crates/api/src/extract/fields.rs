//! A JSON object and nothing else. Serde's structs also read lists, field by field, which would
//! let `["Task", "key"]` pass for an object.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};

pub(crate) struct Fields<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fields<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(OnlyMap(PhantomData))
    }
}

struct OnlyMap<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyMap<T> {
    type Value = Fields<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Fields<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Fields)
    }
}

/// For `#[serde(deserialize_with)]`: a list of objects.
pub(crate) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<Fields<T>>::deserialize(from)?.into_iter().map(|one| one.0).collect())
}

/// For `#[serde(deserialize_with)]`: a list of objects, or null.
pub(crate) fn optional_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let list = Option::<Vec<Fields<T>>>::deserialize(from)?;
    Ok(list.map(|list| list.into_iter().map(|one| one.0).collect()))
}

/// For `#[serde(deserialize_with)]`: an object, or null.
pub(crate) fn optional<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<Fields<T>>::deserialize(from)?.map(|one| one.0))
}

/// For `#[serde(deserialize_with)]`: objects by name.
pub(crate) fn named<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    Ok(BTreeMap::<String, Fields<T>>::deserialize(from)?
        .into_iter()
        .map(|(name, one)| (name, one.0))
        .collect())
}
