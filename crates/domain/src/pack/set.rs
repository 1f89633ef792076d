//! The packs of a project, compiled for the validation of writes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    EndTypes, RelationshipTypeSchema, TemplatePack,
    gate::PatternLimit,
    limits, messages, nearest_name,
    schema::{self, CompiledSchema},
    steps::Steps,
};
use crate::invalid::{Invalid, Problem};

const MAX_PROBLEMS: usize = 20;
/// Up to this many steps, all errors are collected to report the first ones. The validator cannot stop at
/// an error and continue later.
const MAX_ERROR_STEPS: u64 = 100_000;

/// The combined rules of all packs of a project. Compiling is expensive and validating is cheap, so
/// callers cache the set in an `Arc` until the packs of the project change.
#[derive(Debug, Default)]
pub struct PackSet {
    objects: BTreeMap<String, Vec<SchemaRule>>,
    relationships: BTreeMap<String, Vec<RelationshipRule>>,
}

/// The schema of a type in one pack.
#[derive(Debug)]
struct SchemaRule {
    /// The name of the pack.
    pack: String,
    /// The error says why the schema cannot be used. An earlier version may have stored such a schema.
    schema: Result<CompiledSchema, Invalid>,
}

/// The description of a relationship type by one pack.
#[derive(Debug)]
struct RelationshipRule {
    from: EndTypes,
    to: EndTypes,
    properties: Option<SchemaRule>,
}

/// A type whose schema cannot be used.
#[derive(Debug, Clone, PartialEq)]
pub struct UnusableType {
    /// The name of the pack.
    pub pack: String,
    pub type_: String,
    /// Where the schema is in the pack.
    pub path: String,
    pub problem: Invalid,
}

/// Why a value was not accepted.
#[derive(Debug, Clone, PartialEq)]
pub enum Refusal {
    Invalid(Invalid),
    /// The validation would take more steps than the budget allows. Nothing is known about the value.
    OutOfSteps {
        type_: String,
        pack: String,
    },
}

impl Refusal {
    /// Returns the refusal as an error for the caller, who used the whole budget of one value.
    pub fn into_invalid(self) -> Invalid {
        match self {
            Refusal::Invalid(invalid) => invalid,
            Refusal::OutOfSteps { type_, pack } => Invalid::new(
                "properties",
                format!(
                    "are too expensive to validate: the schema of `{type_}` in the pack `{pack}` would take more \
                     than the limit of {} steps; send a smaller value, or use fewer and shorter patterns in the schema",
                    limits::STEPS
                ),
            ),
        }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Refusal::Invalid(invalid)
    }
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

    /// Compiles one schema that stands alone, such as that of the inputs of a tool, under the name of an object type.
    /// It has the limits of such schemas, which are lower than those of packs.
    pub fn compile_alone(name: &str, object_type: &str, schema: &Value) -> Result<Self, Invalid> {
        let schema = schema::compile_within(schema, PatternLimit::Alone)?;
        let rule = SchemaRule { pack: name.to_owned(), schema: Ok(schema) };
        Ok(Self {
            objects: BTreeMap::from([(object_type.to_owned(), vec![rule])]),
            relationships: BTreeMap::new(),
        })
    }

    /// Compiles packs that are stored. A schema that cannot be used, because an earlier version stored it, refuses the
    /// writes of its type and no others.
    pub fn compile_stored<'a>(packs: impl IntoIterator<Item = &'a TemplatePack>) -> Self {
        let mut set = Self::default();
        packs.into_iter().for_each(|pack| set.add_usable(pack));
        set
    }

    fn add(&mut self, pack: &TemplatePack) -> Result<(), Invalid> {
        let mut added = Self::default();
        added.add_usable(pack);
        if let Some(unusable) = added.unusable_types().into_iter().next() {
            return Err(unusable.problem.prefixed(&unusable.path));
        }
        for (name, rules) in added.objects {
            self.objects.entry(name).or_default().extend(rules);
        }
        for (name, rules) in added.relationships {
            self.relationships.entry(name).or_default().extend(rules);
        }
        Ok(())
    }

    fn add_usable(&mut self, pack: &TemplatePack) {
        for (name, written) in &pack.object_type_schemas {
            let rule = SchemaRule { pack: pack.name.clone(), schema: schema::compile(written) };
            self.objects.entry(name.clone()).or_default().push(rule);
        }
        for (name, described) in &pack.relationship_type_schemas {
            let rule = RelationshipRule::compile(&pack.name, described);
            self.relationships.entry(name.clone()).or_default().push(rule);
        }
    }

    /// Returns the types whose schema cannot be used.
    pub fn unusable_types(&self) -> Vec<UnusableType> {
        let objects = self.objects.iter().flat_map(|(name, rules)| {
            rules.iter().map(move |rule| (name, format!("objectTypeSchemas.{name}"), rule))
        });
        let relationships = self.relationships.iter().flat_map(|(name, rules)| {
            let rules = rules.iter().filter_map(|rule| rule.properties.as_ref());
            rules.map(move |rule| (name, format!("relationshipTypeSchemas.{name}.properties"), rule))
        });
        let unusable = objects.chain(relationships).filter_map(|(name, path, rule)| {
            let problem = rule.schema.as_ref().err()?.clone();
            Some(UnusableType { pack: rule.pack.clone(), type_: name.clone(), path, problem })
        });
        unusable.collect()
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn bytes(&self) -> u64 {
        let objects = self.objects.values().flatten();
        let relationships = self.relationships.values().flatten().filter_map(|rule| rule.properties.as_ref());
        let compiled = objects.chain(relationships).filter_map(|rule| rule.schema.as_ref().ok());
        compiled.map(CompiledSchema::bytes).sum()
    }

    pub fn describes_object(&self, object_type: &str) -> bool {
        self.objects.contains_key(object_type)
    }

    pub fn describes_relationship(&self, relationship_type: &str) -> bool {
        self.relationships.contains_key(relationship_type)
    }

    /// Whether relationships of a type may connect objects of these types, as far as the packs say so.
    pub fn allows_ends(&self, relationship_type: &str, from_type: &str, to_type: &str) -> bool {
        let fits = |rule: &RelationshipRule| rule.from.accepts(from_type) && rule.to.accepts(to_type);
        self.relationships.get(relationship_type).is_none_or(|described| described.iter().any(fits))
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
        let mut steps = limits::STEPS;
        self.check_object_within(object_type, properties, strict, &mut steps).map_err(Refusal::into_invalid)
    }

    /// Works like [`PackSet::check_object`], and takes no more than `steps`. What was taken is subtracted.
    pub fn check_object_within(
        &self,
        object_type: &str,
        properties: &Map<String, Value>,
        strict: bool,
        steps: &mut u64,
    ) -> Result<(), Refusal> {
        match self.objects.get(object_type) {
            Some(rules) => check_properties(object_type, rules, properties, steps),
            None if strict => Err(unknown_type("object", object_type, self.object_types()).into()),
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
        let (ends, mut steps) = ((from_type, to_type), limits::STEPS);
        self.check_relationship_within(relationship_type, ends, properties, strict, &mut steps)
            .map_err(Refusal::into_invalid)
    }

    /// Works like [`PackSet::check_relationship`], and takes no more than `steps`. What was taken is
    /// subtracted.
    pub fn check_relationship_within(
        &self,
        relationship_type: &str,
        (from_type, to_type): (&str, &str),
        properties: &Map<String, Value>,
        strict: bool,
        steps: &mut u64,
    ) -> Result<(), Refusal> {
        let Some(described) = self.relationships.get(relationship_type) else {
            return if strict {
                let described = self.relationship_types();
                Err(unknown_type("relationship", relationship_type, described).into())
            } else {
                Ok(())
            };
        };
        let fitting: Vec<&RelationshipRule> = described
            .iter()
            .filter(|rule| rule.from.accepts(from_type) && rule.to.accepts(to_type))
            .collect();
        if fitting.is_empty() {
            return Err(wrong_ends(relationship_type, from_type, to_type, described).into());
        }
        let rules = fitting.into_iter().filter_map(|rule| rule.properties.as_ref());
        check_properties(relationship_type, rules, properties, steps)
    }
}

impl RelationshipRule {
    fn compile(pack: &str, described: &RelationshipTypeSchema) -> Self {
        let schema = described.properties.as_ref().map(schema::compile_properties);
        Self {
            from: described.from.clone(),
            to: described.to.clone(),
            properties: schema.map(|schema| SchemaRule { pack: pack.to_owned(), schema }),
        }
    }
}

fn check_properties<'a>(
    type_: &str,
    rules: impl IntoIterator<Item = &'a SchemaRule>,
    properties: &Map<String, Value>,
    steps: &mut u64,
) -> Result<(), Refusal> {
    let mut rules = rules.into_iter().peekable();
    if rules.peek().is_none() {
        return Ok(());
    }
    let instance = Value::Object(properties.clone());
    let mut problems: Vec<Problem> = Vec::new();
    for rule in rules {
        let schema = rule.schema.as_ref().map_err(|problem| unusable_schema(type_, &rule.pack, problem))?;
        let Ok(needed) = schema.count_steps(&instance, *steps) else {
            return Err(Refusal::OutOfSteps { type_: type_.to_owned(), pack: rule.pack.clone() });
        };
        *steps = steps.saturating_sub(needed.total);
        if schema.validator.is_valid(&instance) {
            continue;
        }
        for problem in rule_problems(&rule.pack, schema, &instance, needed) {
            if problems.len() < MAX_PROBLEMS && !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    Ok(Invalid::if_any(problems).map_err(|invalid| invalid.prefixed("properties"))?)
}

/// The error of a write of a type whose schema cannot be used. It names the pack and what to do.
fn unusable_schema(type_: &str, pack: &str, problem: &Invalid) -> Invalid {
    let reason = format!(
        "`{type_}` cannot be written, because this version refuses its schema in the assigned pack `{pack}`: {problem}"
    );
    let remedy = format!(
        "Unassign the pack with `emergent pack unassign {pack}`, or assign a version of it with another schema"
    );
    Invalid::new("type", crate::text::append(&reason, ". ", &remedy))
}

/// Returns the problems of a value that is not valid: the first ones if collecting all of them is cheap, one
/// if at least that is cheap, and otherwise only that there are some.
fn rule_problems(pack: &str, schema: &CompiledSchema, instance: &Value, needed: Steps) -> Vec<Problem> {
    let validator = &schema.validator;
    if needed.total <= MAX_ERROR_STEPS {
        let errors = validator.iter_errors(instance).take(MAX_PROBLEMS);
        return errors.flat_map(|error| messages::problems(&error, instance)).collect();
    }
    if needed.in_alternatives <= MAX_ERROR_STEPS
        && let Err(error) = validator.validate(instance)
    {
        return messages::problems(&error, instance);
    }
    let reason = format!(
        "do not match the schema of the pack `{pack}`; the value is too large to say where: send a part of it"
    );
    vec![Problem::new("", reason)]
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
