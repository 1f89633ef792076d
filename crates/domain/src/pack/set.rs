//! The packs of a project, compiled for the validation of writes.

use std::collections::BTreeMap;

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::{EndTypes, RelationshipTypeSchema, TemplatePack, messages, nearest_name, schema};
use crate::invalid::{Invalid, Problem};

const MAX_PROBLEMS: usize = 20;

/// The combined rules of all packs of a project. Compiling is expensive and validating is cheap, so
/// callers cache the set in an `Arc` until the packs of the project change.
#[derive(Debug, Default)]
pub struct PackSet {
    objects: BTreeMap<String, Vec<Validator>>,
    relationships: BTreeMap<String, Vec<RelationshipRule>>,
}

/// The description of a relationship type by one pack.
#[derive(Debug)]
struct RelationshipRule {
    from: EndTypes,
    to: EndTypes,
    properties: Option<Validator>,
}

impl PackSet {
    /// Compiles the packs. An invalid schema fails with the same error as in
    /// [`TemplatePack::check`], prefixed with the index of the pack:
    /// `packs[1].objectTypeSchemas.Tag`. Nothing else is validated again.
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

    /// Returns the described object types, sorted by name.
    pub fn object_types(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(String::as_str)
    }

    /// Returns the described relationship types, sorted by name.
    pub fn relationship_types(&self) -> impl Iterator<Item = &str> {
        self.relationships.keys().map(String::as_str)
    }

    /// Validates an object. If several packs describe its type, the object must satisfy all of
    /// them. A type that no pack describes is rejected if `strict` is set, and accepted otherwise.
    ///
    /// At most 20 problems are reported, each of them once.
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

    /// Validates a relationship. If several packs describe its type, each of them adds allowed
    /// ends. The properties must satisfy every description whose ends match.
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
                let described = self.relationship_types();
                Err(unknown_type("relationship", relationship_type, described))
            } else {
                Ok(())
            };
        };
        let fitting: Vec<&RelationshipRule> = described
            .iter()
            .filter(|rule| rule.from.accepts(from_type) && rule.to.accepts(to_type))
            .collect();
        if fitting.is_empty() {
            return Err(wrong_ends(relationship_type, from_type, to_type, described));
        }
        let validators = fitting.into_iter().filter_map(|rule| rule.properties.as_ref());
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
    let problems_found = validators
        .flat_map(|validator| validator.iter_errors(&instance).take(MAX_PROBLEMS))
        .flat_map(|error| messages::problems(&error, &instance));
    for problem in problems_found {
        if problems.len() == MAX_PROBLEMS {
            break;
        }
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    Invalid::if_any(problems).map_err(|invalid| invalid.prefixed("properties"))
}

fn unknown_type<'a>(kind: &str, name: &str, described: impl Iterator<Item = &'a str>) -> Invalid {
    let hint = match nearest_name(name, described) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    };
    Invalid::new("type", format!("no template pack of this project describes the {kind} type `{name}`{hint}"))
}

fn wrong_ends(name: &str, from: &str, to: &str, described: &[RelationshipRule]) -> Invalid {
    let allowed: Vec<String> = described
        .iter()
        .map(|rule| format!("{} to {}", describe_end_types(&rule.from), describe_end_types(&rule.to)))
        .collect();
    Invalid::new("type", format!("`{name}` connects {}, not {from} to {to}", allowed.join(", or ")))
}

fn describe_end_types(ends: &EndTypes) -> String {
    match ends {
        EndTypes::Any => "anything".to_owned(),
        EndTypes::Only(types) => types.join(" or "),
    }
}
