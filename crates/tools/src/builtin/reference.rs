//! [`ObjectRef`], how an input names an object: by its id, or as `Type/key`.

use std::{fmt, str::FromStr};

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    object::check_chars,
};
use emergent_graph::{Error, Result};
use emergent_store::{Tx, objects};
use serde::Deserialize;

use crate::ToolContext;

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
            Some((type_, key)) if !type_.is_empty() && !key.is_empty() => {
                Ok(Self::Key { type_: type_.to_owned(), key: key.to_owned() })
            }
            _ => Err(format!("`{text}` is neither an id nor of the form `Type/key`")),
        }
    }
}

impl TryFrom<String> for ObjectRef {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
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

impl ObjectRef {
    /// The id of a live object. An id is returned without a check, so the caller has to look it up in the
    /// project.
    pub fn resolve(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<ObjectId> {
        self.find(tx, project, objects::id_by_key)
    }

    /// Like [`ObjectRef::resolve`], but finds a deleted object if no live one has the key.
    pub fn resolve_any(&self, tx: &mut Tx<'_>, project: ProjectId) -> Result<ObjectId> {
        self.find(tx, project, objects::latest_id_by_key)
    }

    fn find(
        &self,
        tx: &mut Tx<'_>,
        project: ProjectId,
        by_key: fn(&mut Tx<'_>, ProjectId, &str, &str) -> emergent_store::Result<Option<ObjectId>>,
    ) -> Result<ObjectId> {
        match self {
            Self::Id(id) => Ok(*id),
            Self::Key { type_, key } => by_key(tx, project, type_, key)?.ok_or_else(|| self.not_found()),
        }
    }

    /// The error if the object does not exist.
    pub fn not_found(&self) -> Error {
        Error::NotFound { what: "object", id: self.to_string() }
    }

    /// Like [`ObjectRef::resolve`], in a read transaction of its own.
    pub async fn resolve_in_read(&self, context: &ToolContext) -> Result<ObjectId> {
        let (reference, project) = (self.clone(), context.project);
        match self {
            Self::Id(id) => Ok(*id),
            Self::Key { .. } => context.graph.db().read(move |tx| reference.resolve(tx, project)).await,
        }
    }
}

/// Resolves several references in one read, in their order.
pub async fn resolve_all(context: &ToolContext, refs: Vec<ObjectRef>) -> Result<Vec<ObjectId>> {
    let project = context.project;
    let read = move |tx: &mut Tx<'_>| refs.iter().map(|reference| reference.resolve(tx, project)).collect();
    context.graph.db().read(read).await
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
        for wrong in ["", "login", "/login", "Task/", "Task/a\0b"] {
            assert!(wrong.parse::<ObjectRef>().is_err(), "{wrong}");
        }
    }
}
