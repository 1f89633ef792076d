//! New objects, validated and prepared before the transaction starts.

use emergent_domain::{
    author::Author,
    ids::ObjectId,
    indexed_text::{IndexedText, indexed_text},
    invalid::Invalid,
    json::JsonObject,
    object::{NewObject, Object, ObjectPatch},
};

use serde_json::{Map, Value};

use crate::{
    WriteContext, tasks,
    validation::{RulesStamp, Validated},
};

/// A validated new object, with everything that can be computed outside of a transaction.
#[derive(Debug, Clone)]
pub struct ObjectDraft {
    id: Option<ObjectId>,
    pub(super) new: NewObject,
    properties: JsonObject,
    pub(super) text: IndexedText,
    imported: bool,
    author: Option<Author>,
    pub(super) embed: bool,
    /// The outcome of a validation before the transaction.
    validated: Option<Validated>,
}

impl ObjectDraft {
    pub fn new(new: NewObject) -> Result<Self, Invalid> {
        Ok(Self::of_checked(new.check()?))
    }

    /// The content of a stored object with a change, whose names were checked when they were sent.
    pub(super) fn of_stored(after: NewObject) -> Result<Self, Invalid> {
        Ok(Self::of_checked(after.check_stored()?))
    }

    fn of_checked(mut new: NewObject) -> Self {
        tasks::fill_defaults(&mut new);
        let properties = JsonObject::from_map(&new.properties);
        let text = indexed_text(&new.type_, new.key.as_deref(), &new.labels, &new.properties);
        Self { id: None, new, properties, text, imported: false, author: None, embed: true, validated: None }
    }

    /// Sets the id. It must be unused.
    #[must_use]
    pub fn with_id(mut self, id: ObjectId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets an author other than that of the write context.
    #[must_use]
    pub fn with_author(mut self, author: Author) -> Self {
        self.author = Some(author);
        self
    }

    /// Excludes the object from embedding, so that only text search finds it.
    #[must_use]
    pub fn without_vector(mut self) -> Self {
        self.embed = false;
        self
    }

    /// Returns a modified copy, which is validated again.
    pub(crate) fn modified(&self, change: impl FnOnce(&mut NewObject)) -> Result<Self, Invalid> {
        let mut new = self.new.clone();
        change(&mut new);
        let Self { id, imported, author, embed: has_vector, .. } = *self;
        Ok(Self { id, imported, author, embed: has_vector, ..Self::new(new)? })
    }

    /// Marks the draft as imported. An imported task may have any status, because the file
    /// describes its state.
    #[must_use]
    pub(crate) fn mark_imported(mut self) -> Self {
        self.imported = true;
        self
    }

    pub(crate) fn is_imported(&self) -> bool {
        self.imported
    }

    pub(crate) fn properties(&self) -> &Map<String, Value> {
        &self.new.properties
    }

    pub fn type_(&self) -> &str {
        &self.new.type_
    }

    pub fn key(&self) -> Option<&str> {
        self.new.key.as_deref()
    }

    pub(crate) fn set_validated(&mut self, validated: Validated) {
        self.validated = Some(validated);
    }

    /// Validates the properties. If they were validated before the transaction against the same packs, uses
    /// that outcome.
    pub(super) fn check(&self, ctx: &WriteContext) -> crate::Result<()> {
        match self.validated.as_deref() {
            Some((stamp, outcome)) if *stamp == RulesStamp::for_project(&ctx.project) => Ok(outcome.clone()?),
            _ => ctx.check_object(&self.new.type_, &self.new.properties),
        }
    }

    pub(super) fn to_object(&self, ctx: &WriteContext) -> Object {
        Object {
            id: self.id.unwrap_or_else(ObjectId::new),
            project: ctx.project.id,
            type_: self.new.type_.clone(),
            key: self.new.key.clone(),
            status: self.new.status.clone(),
            labels: self.new.labels.clone(),
            properties: self.properties.clone(),
            version: 1,
            created_at: ctx.now,
            updated_at: ctx.now,
            deleted_at: None,
            author: self.author.unwrap_or(ctx.author),
            reason: ctx.reason.clone(),
        }
    }
}

/// An object to create under its key, or to update with a patch if the key exists.
#[derive(Debug, Clone)]
pub struct Upsert {
    pub(super) draft: ObjectDraft,
    pub(super) key: String,
    pub(super) patch: ObjectPatch,
}

impl Upsert {
    /// Creates an upsert. A status or labels that are absent leave the existing values unchanged.
    pub fn new(new: NewObject) -> Result<Self, Invalid> {
        let Some(key) = new.key.clone() else { return Err(Invalid::new("key", "is required")) };
        let properties = new.properties.clone();
        let draft = ObjectDraft::new(new)?;
        let labels = &draft.new.labels;
        let patch = ObjectPatch {
            status: draft.new.status.clone().map(Some),
            labels: if labels.is_empty() { None } else { Some(labels.clone()) },
            properties: Some(properties),
            ..ObjectPatch::default()
        };
        Ok(Self { draft, key, patch })
    }
}
