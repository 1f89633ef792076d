//! A JSON schema that stands alone, and values that are validated against it. Schema and values may come from
//! untrusted sources: both the work and the length of the messages are limited.

use serde_json::Value;

use super::{
    gate::{self, PatternLimit},
    limits, messages,
    schema::{self, CompiledSchema},
};
use crate::invalid::{Invalid, Problem};

const MAX_PROBLEMS: usize = 20;
/// Up to this many steps, all errors are collected to report the first ones.
const MAX_ERROR_STEPS: u64 = 100_000;

/// A compiled schema for values of any type.
#[derive(Debug)]
pub struct ValueSchema(CompiledSchema);

impl ValueSchema {
    /// Compiles a schema. The problems name the place in the schema.
    pub fn compile(schema: &Value) -> Result<Self, Invalid> {
        schema::compile_within(schema, PatternLimit::Alone).map(Self)
    }

    /// Checks whether a schema may be compiled, in time proportional to its size. A transaction may call it.
    pub fn check_bounds(schema: &Value) -> Result<(), Invalid> {
        gate::check(schema, PatternLimit::Alone).map(drop)
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Returns the schema as it was compiled.
    pub fn as_value(&self) -> &Value {
        &self.0.schema
    }

    /// Validates a value. At most 20 problems are reported, each of them once, and at least one.
    pub fn check(&self, value: &Value) -> Result<(), Invalid> {
        let Ok(needed) = self.0.count_steps(value, limits::ANSWER_STEPS) else {
            return Err(Invalid::new(
                "",
                format!(
                    "takes too long to validate, more than {} steps: make it smaller, or use fewer and simpler \
                     patterns in the schema",
                    limits::ANSWER_STEPS
                ),
            ));
        };
        let validator = &self.0.validator;
        if validator.is_valid(value) {
            return Ok(());
        }
        let mut problems: Vec<Problem> = Vec::new();
        if needed.total <= MAX_ERROR_STEPS {
            let errors = validator.iter_errors(value).take(MAX_PROBLEMS);
            for problem in errors.flat_map(|error| messages::problems(&error, value)) {
                if problems.len() < MAX_PROBLEMS && !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        } else if needed.in_alternatives <= MAX_ERROR_STEPS
            && let Err(error) = validator.validate(value)
        {
            problems = messages::problems(&error, value);
        }
        if problems.is_empty() {
            problems.push(Problem::new("", "does not match the schema"));
        }
        Err(Invalid { problems })
    }
}
