//! New relationships, validated and prepared before the transaction starts.

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

/// A validated new relationship, with everything that can be computed outside of a transaction.
#[derive(Debug, Clone)]
pub struct RelationshipDraft {
    id: Option<RelationshipId>,
    pub(super) new: NewRelationship,
    properties: JsonObject,
    author: Option<Author>,
}

/// The live objects that edges connect, by id.
pub(crate) type EndObjects = HashMap<ObjectId, EndObject>;

impl RelationshipDraft {
    pub fn new(new: NewRelationship) -> Result<Self, Invalid> {
        let new = new.check()?;
        let properties = JsonObject::from_map(&new.properties);
        Ok(Self { id: None, new, properties, author: None })
    }

    /// Sets the id. It must be unused.
    #[must_use]
    pub fn with_id(mut self, id: RelationshipId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets an author other than that of the write context.
    #[must_use]
    pub fn with_author(mut self, author: Author) -> Self {
        self.author = Some(author);
        self
    }

    /// Returns a copy with other ends.
    pub(crate) fn with_ends(&self, from: ObjectId, to: ObjectId) -> Self {
        Self { new: NewRelationship { from, to, ..self.new.clone() }, ..self.clone() }
    }

    pub(crate) fn type_(&self) -> &str {
        &self.new.type_
    }

    pub(super) fn to_relationship(
        &self,
        ctx: &WriteContext,
        ends: &EndObjects,
    ) -> crate::Result<Relationship> {
        let (from, to) = match (ends.get(&self.new.from), ends.get(&self.new.to)) {
            (Some(from), Some(to)) => (from, to),
            (from, to) => return Err(missing_ends(from.is_none(), to.is_none()).into()),
        };
        let new = &self.new;
        ctx.check_relationship(&new.type_, (&from.type_, &to.type_), &new.properties)?;
        // An edge is never older than its ends. Otherwise a query of the past would show an edge
        // without one of its ends.
        let now = ctx.now.max(from.updated_at).max(to.updated_at);
        Ok(Relationship {
            id: self.id.unwrap_or_else(RelationshipId::new),
            project: ctx.project.id,
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
            author: self.author.unwrap_or(ctx.author),
            reason: ctx.reason.clone(),
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
