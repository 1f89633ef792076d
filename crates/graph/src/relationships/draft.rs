//! New relationships, checked and prepared before a transaction begins.

use std::collections::HashMap;

use emergent_domain::{
    author::Author,
    ids::{ObjectId, RelationshipId},
    invalid::{Invalid, Problem},
    json::JsonObject,
    relationship::{NewRelationship, Relationship},
};
use emergent_store::objects::EndObject;

use crate::WriteContext;

/// A new relationship that was checked, with everything that can be made of it outside a
/// transaction.
#[derive(Debug, Clone)]
pub struct RelationshipDraft {
    id: Option<RelationshipId>,
    pub(super) new: NewRelationship,
    properties: JsonObject,
    author: Option<Author>,
}

/// The living objects that edges are to join.
pub(crate) type EndObjects = HashMap<ObjectId, EndObject>;

impl RelationshipDraft {
    pub fn new(new: NewRelationship) -> Result<Self, Invalid> {
        let new = new.check()?;
        let properties = JsonObject::from_map(&new.properties);
        Ok(Self { id: None, new, properties, author: None })
    }

    /// With an id that nobody has, instead of a new one.
    #[must_use]
    pub fn with_id(mut self, id: RelationshipId) -> Self {
        self.id = Some(id);
        self
    }

    /// Written by somebody else than the writer.
    #[must_use]
    pub fn with_author(mut self, author: Author) -> Self {
        self.author = Some(author);
        self
    }

    /// The same between other ends.
    pub(crate) fn with_ends(&self, from: ObjectId, to: ObjectId) -> Self {
        Self { new: NewRelationship { from, to, ..self.new.clone() }, ..self.clone() }
    }

    pub(crate) fn type_(&self) -> &str {
        &self.new.type_
    }

    pub(super) fn to_relationship(
        &self,
        writer: &WriteContext,
        ends: &EndObjects,
    ) -> Result<Relationship, Invalid> {
        let (from, to) = match (ends.get(&self.new.from), ends.get(&self.new.to)) {
            (Some(from), Some(to)) => (from, to),
            (from, to) => return Err(missing_ends(from.is_none(), to.is_none())),
        };
        let new = &self.new;
        writer.packs.check_relationship(
            &new.type_,
            &from.type_,
            &to.type_,
            &new.properties,
            writer.project.strict,
        )?;
        // Never before its ends, or the past would show an edge that leads nowhere.
        let now = writer.now.max(from.updated_at).max(to.updated_at);
        Ok(Relationship {
            id: self.id.unwrap_or_else(RelationshipId::new),
            project: writer.project.id,
            type_: new.type_.clone(),
            from: new.from,
            to: new.to,
            properties: self.properties.clone(),
            weight: new.weight,
            version: 1,
            created_at: now,
            updated_at: now,
            deleted_at: None,
            deleted_with: None,
            author: self.author.unwrap_or(writer.author),
            reason: writer.reason.clone(),
        })
    }
}

fn missing_ends(from: bool, to: bool) -> Invalid {
    let problems = [("fromId", from), ("toId", to)]
        .into_iter()
        .filter(|(_, missing)| *missing)
        .map(|(field, _)| Problem::new(field, "no object with this id in this project"))
        .collect();
    Invalid { problems }
}
