//! [`ObjectRef`], how a request or the input of a tool names an object: by its id, or as `Type/key`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    ids::{InvalidId, ObjectId},
    object::{check_chars, check_type},
};

/// Names an object. The type ends at the first slash, since its name has none; a key may contain slashes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ObjectRef {
    Id(ObjectId),
    Key { type_: String, key: String },
}

impl FromStr for ObjectRef {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        check_chars("", text).map_err(|invalid| invalid.to_string())?;
        match text.split_once('/') {
            Some((type_, key)) if check_type(type_).is_ok() && !key.is_empty() => {
                Ok(Self::Key { type_: type_.to_owned(), key: key.to_owned() })
            }
            _ => Err(format!("{InvalidId}, or have the form `Type/key`")),
        }
    }
}

impl TryFrom<String> for ObjectRef {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ObjectId> for ObjectRef {
    fn from(id: ObjectId) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Key { type_, key } => write!(f, "{type_}/{key}"),
        }
    }
}

impl Serialize for ObjectRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_by_its_id_or_by_type_and_key_only() {
        let id = ObjectId::new();
        assert_eq!(id.to_string().parse(), Ok(ObjectRef::Id(id)));
        let key = |type_: &str, key: &str| ObjectRef::Key { type_: type_.to_owned(), key: key.to_owned() };
        assert_eq!("Task/login".parse(), Ok(key("Task", "login")));
        assert_eq!("File/src/main.rs".parse(), Ok(key("File", "src/main.rs")));
        for wrong in ["", "login", "/login", "Task/", "Task/a\0b", "../etc"] {
            assert!(wrong.parse::<ObjectRef>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_reference_is_written_as_it_is_read() {
        for text in ["File/src/main.rs", "0199f0aa-0000-7000-8000-000000000001"] {
            let reference: ObjectRef = text.parse().unwrap();
            assert_eq!(serde_json::to_value(&reference).unwrap(), text);
        }
    }
}
