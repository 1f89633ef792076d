//! The packs of a project, compiled to be asked about every write.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::{EndTypes, RelationshipTypeSchema, TemplatePack, messages, nearest_name, schema};
use crate::invalid::{Invalid, Problem};

const MAX_PROBLEMS: usize = 20;

/// What the packs of one project say, together. Costly to make and cheap to ask: keep it in an
/// `Arc` for as long as the project's packs stay the same.
#[derive(Debug, Default)]
pub struct PackSet {
    objects: BTreeMap<String, Vec<Validator>>,
    relationships: BTreeMap<String, Vec<RelationshipRule>>,
}

/// One pack's description of a relationship type.
#[derive(Debug)]
struct RelationshipRule {
    from: EndTypes,
    to: EndTypes,
    properties: Option<Validator>,
}

impl PackSet {
    /// Fails as [`TemplatePack::check`] would on a schema, with the pack's place in the list:
    /// `packs[1].objectTypeSchemas.Tag`. Nothing else is checked again.
    pub fn compile<'a>(packs: impl IntoIterator<Item = &'a TemplatePack>) -> Result<Self, Invalid> {
        let mut set = Self::default();
        for (index, pack) in packs.into_iter().enumerate() {
            set.add(pack).map_err(|invalid| invalid.prefixed(&format!("packs[{index}]")))?;
        }
        Ok(set)
    }

    fn add(&mut self, pack: &TemplatePack) -> Result<(), Invalid> {
        for (name, written) in &pack.object_type_schemas {
            let validator = schema::compile(written)
                .map_err(|invalid| invalid.prefixed(&format!("objectTypeSchemas.{name}")))?;
            self.objects.entry(name.clone()).or_default().push(validator);
        }
        for (name, described) in &pack.relationship_type_schemas {
            let relationship = RelationshipRule::compile(described)
                .map_err(|invalid| invalid.prefixed(&format!("relationshipTypeSchemas.{name}.properties")))?;
            self.relationships.entry(name.clone()).or_default().push(relationship);
        }
        Ok(())
    }

    pub fn describes_object(&self, object_type: &str) -> bool {
        self.objects.contains_key(object_type)
    }

    pub fn describes_relationship(&self, relationship_type: &str) -> bool {
        self.relationships.contains_key(relationship_type)
    }

    /// The object types that are described, in the order of their names.
    pub fn object_types(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(String::as_str)
    }

    /// The relationship types that are described, in the order of their names.
    pub fn relationship_types(&self) -> impl Iterator<Item = &str> {
        self.relationships.keys().map(String::as_str)
    }

    /// Whether an object may be written. Where several packs describe its type, it must satisfy
    /// all of them. A type that none describes is refused when `strict`, and free otherwise.
    ///
    /// At most 20 problems are told, each once.
    pub fn check_object(
        &self,
        object_type: &str,
        properties: &Map<String, Value>,
        strict: bool,
    ) -> Result<(), Invalid> {
        match self.objects.get(object_type) {
            Some(validators) => check_properties(validators, properties),
            None if strict => Err(unknown_type("object", object_type, self.object_types())),
            None => Ok(()),
        }
    }

    /// Whether a relationship may be written. Where several packs describe its type, each adds
    /// what it may join; the properties must satisfy every description whose ends fit.
    pub fn check_relationship(
        &self,
        relationship_type: &str,
        from_type: &str,
        to_type: &str,
        properties: &Map<String, Value>,
        strict: bool,
    ) -> Result<(), Invalid> {
        let Some(described) = self.relationships.get(relationship_type) else {
            return if strict {
                let known = self.relationship_types();
                Err(unknown_type("relationship", relationship_type, known))
            } else {
                Ok(())
            };
        };
        let fitting: Vec<&RelationshipRule> =
            described.iter().filter(|one| one.from.accepts(from_type) && one.to.accepts(to_type)).collect();
        if fitting.is_empty() {
            return Err(wrong_ends(relationship_type, from_type, to_type, described));
        }
        let validators = fitting.into_iter().filter_map(|one| one.properties.as_ref());
        check_properties(validators, properties)
    }
}

impl RelationshipRule {
    fn compile(described: &RelationshipTypeSchema) -> Result<Self, Invalid> {
        Ok(Self {
            from: described.from.clone(),
            to: described.to.clone(),
            properties: described.properties.as_ref().map(schema::compile_properties).transpose()?,
        })
    }
}

fn check_properties<'a>(
    validators: impl IntoIterator<Item = &'a Validator>,
    properties: &Map<String, Value>,
) -> Result<(), Invalid> {
    let mut validators = validators.into_iter().peekable();
    if validators.peek().is_none() {
        return Ok(());
    }
    let instance = Value::Object(properties.clone());
    let mut problems: Vec<Problem> = Vec::new();
    let said = validators
        .flat_map(|validator| validator.iter_errors(&instance).take(MAX_PROBLEMS))
        .flat_map(|error| messages::problems(&error, &instance));
    for problem in said {
        if problems.len() == MAX_PROBLEMS {
            break;
        }
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    Invalid::if_any(problems).map_err(|invalid| invalid.prefixed("properties"))
}

fn unknown_type<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Invalid {
    let hint = match nearest_name(name, known) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None => String::new(),
    };
    Invalid::new("type", format!("no template pack of this project describes the {what} type `{name}`{hint}"))
}

fn wrong_ends(name: &str, from: &str, to: &str, described: &[RelationshipRule]) -> Invalid {
    let allowed: Vec<String> = described
        .iter()
        .map(|one| format!("from {} to {}", describe_end_types(&one.from), describe_end_types(&one.to)))
        .collect();
    Invalid::new("type", format!("`{name}` goes {}, and not from {from} to {to}", allowed.join(", or ")))
}

fn describe_end_types(ends: &EndTypes) -> String {
    match ends {
        EndTypes::Any => "anything".to_owned(),
        EndTypes::Only(types) => types.join(" or "),
    }
}
