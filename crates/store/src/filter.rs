//! Translates an [`ObjectFilter`] to SQL.
//!
//! `emergent_domain::filter` defines what the conditions mean. For every object, the SQL of both engines must
//! give the same result as `Condition::matches`; a randomised test in `crates/graph/tests/filters.rs` checks
//! this.

use std::fmt::Write;

use emergent_domain::{
    filter::{Bound, Comparison, Condition, Path, Scalar},
    query::ObjectFilter,
};

use crate::{engine::Engine, value::Param};

/// The conditions of a filter, as ` AND … AND …`, and their parameters, numbered from `first_param`. `alias`
/// names a table with the columns of `graph_objects`. The text is empty for a filter without conditions.
pub fn object_conditions(
    engine: Engine,
    filter: &ObjectFilter,
    alias: &str,
    first_param: usize,
) -> (String, Vec<Param<'static>>) {
    let mut conditions = Conditions { engine, alias, first_param, text: String::new(), params: Vec::new() };
    conditions.add(filter);
    (conditions.text, conditions.params)
}

/// Builds the text and the parameters of [`object_conditions`].
struct Conditions<'a> {
    engine: Engine,
    alias: &'a str,
    first_param: usize,
    text: String,
    params: Vec<Param<'static>>,
}

impl Conditions<'_> {
    fn add(&mut self, filter: &ObjectFilter) {
        let alias = self.alias;
        if !filter.types.is_empty() {
            let types: Vec<String> = filter.types.iter().map(|type_| self.param(type_.clone())).collect();
            self.and(&format!("{alias}.type IN ({})", types.join(", ")));
        }
        if !filter.excluded_types.is_empty() {
            let types: Vec<String> =
                filter.excluded_types.iter().map(|type_| self.param(type_.clone())).collect();
            self.and(&format!("{alias}.type NOT IN ({})", types.join(", ")));
        }
        for (column, value) in [("status", &filter.status), ("key", &filter.key)] {
            if let Some(value) = value {
                let placeholder = self.param(value.clone());
                self.and(&format!("{alias}.{column} = {placeholder}"));
            }
        }
        for label in &filter.labels {
            let label = self.param(label.clone());
            let has_label = match self.engine {
                Engine::Sqlite => {
                    format!(
                        "EXISTS (SELECT 1 FROM json_each({alias}.labels) AS has WHERE has.value = {label})"
                    )
                }
                Engine::Postgres => format!("{alias}.labels ? {label}"),
            };
            self.and(&has_label);
        }
        for filter in &filter.filters {
            let condition = match filter.check() {
                Ok(condition) => self.condition(&condition),
                // An invalid filter matches nothing, as in `Filter::matches`.
                Err(_) => "FALSE".to_owned(),
            };
            self.and(&condition);
        }
    }

    fn and(&mut self, condition: &str) {
        let _ = write!(self.text, " AND ({condition})");
    }

    /// Adds a parameter and returns its placeholder, such as `$3`.
    fn param(&mut self, value: impl Into<Param<'static>>) -> String {
        self.params.push(value.into());
        format!("${}", self.first_param + self.params.len() - 1)
    }

    fn condition(&mut self, condition: &Condition) -> String {
        let location = JsonLocation::property(self.engine, self.alias, &condition.path);
        match &condition.comparison {
            Comparison::Eq(scalar) => self.equals(&location, scalar),
            // True when `eq` is false or NULL.
            Comparison::Ne(scalar) => format!("({}) IS NOT TRUE", self.equals(&location, scalar)),
            Comparison::Lt(bound) => self.compares(&location, "<", bound),
            Comparison::Lte(bound) => self.compares(&location, "<=", bound),
            Comparison::Gt(bound) => self.compares(&location, ">", bound),
            Comparison::Gte(bound) => self.compares(&location, ">=", bound),
            Comparison::In(scalars) => {
                let alternatives: Vec<String> =
                    scalars.iter().map(|scalar| self.equals(&location, scalar)).collect();
                alternatives.join(" OR ")
            }
            Comparison::Contains(scalar) => self.contains(&location, scalar),
            Comparison::Exists(true) => location.exists(),
            Comparison::Exists(false) => format!("NOT ({})", location.exists()),
        }
    }

    fn equals(&mut self, location: &JsonLocation, scalar: &Scalar) -> String {
        match scalar {
            Scalar::Text(text) => self.compares_text(location, "=", text),
            Scalar::Number(number) => self.compares_number(location, "=", *number),
            Scalar::Bool(flag) => location.is_bool(*flag),
        }
    }

    fn compares(&mut self, location: &JsonLocation, operator: &str, bound: &Bound) -> String {
        match bound {
            Bound::Text(text) => self.compares_text(location, operator, text),
            Bound::Number(number) => self.compares_number(location, operator, *number),
        }
    }

    fn compares_text(&mut self, location: &JsonLocation, operator: &str, text: &str) -> String {
        let bound = self.param(text.to_owned());
        format!("({} AND {} {operator} {bound})", location.is_text(), location.text)
    }

    fn compares_number(&mut self, location: &JsonLocation, operator: &str, number: f64) -> String {
        let bound = self.param(number);
        // CASE and not AND: PostgreSQL may evaluate the operands of AND in any order, and the cast of a text
        // to a number fails.
        format!(
            "(CASE WHEN {} THEN {} {operator} {bound} ELSE FALSE END)",
            location.is_number(),
            location.number
        )
    }

    fn contains(&mut self, location: &JsonLocation, scalar: &Scalar) -> String {
        let element = JsonLocation::element(self.engine);
        let list_contains = format!(
            "EXISTS (SELECT 1 FROM {} AS element WHERE {})",
            location.elements,
            self.equals(&element, scalar)
        );
        let Scalar::Text(text) = scalar else { return list_contains };
        let substring = self.param(text.clone());
        let find_function = match self.engine {
            Engine::Sqlite => "instr",
            Engine::Postgres => "strpos",
        };
        format!(
            "({} AND {find_function}({}, {substring}) > 0) OR {list_contains}",
            location.is_text(),
            location.text
        )
    }
}

/// The SQL expressions that read one JSON value: a property of an object, or an element of a list.
struct JsonLocation {
    engine: Engine,
    /// The name of the JSON type, or NULL when the value is missing.
    kind: String,
    /// The value as text, which is compared by code points.
    text: String,
    /// The value as a 64-bit float; evaluated only when it is a number.
    number: String,
    /// The elements of the value as a table, which is empty when the value is not a list. The expression is
    /// unused, and may be empty, for an element of a list.
    elements: String,
}

impl JsonLocation {
    /// A property of the object in the row `alias`.
    fn property(engine: Engine, alias: &str, path: &Path) -> Self {
        match engine {
            Engine::Sqlite => {
                // In quotes, a segment of digits is a key and never an index of a list.
                let path: String = path.segments().iter().map(|key| format!(".\"{key}\"")).collect();
                let arguments = format!("{alias}.properties, '${path}'");
                let value = format!("json_extract({arguments})");
                Self {
                    engine,
                    kind: format!("json_type({arguments})"),
                    number: format!("CAST({value} AS REAL)"),
                    // Without the CASE, json_each would return the values of an object.
                    elements: format!(
                        "json_each(CASE json_type({arguments}) WHEN 'array' THEN {value} ELSE '[]' END)"
                    ),
                    text: value,
                }
            }
            Engine::Postgres => {
                // `->` with a text takes it as a key. `#>` would take digits as an index of a list.
                let steps: String = path.segments().iter().map(|key| format!(" -> '{key}'::text")).collect();
                Self::jsonb(&format!("({alias}.properties{steps})"))
            }
        }
    }

    /// The current row of the table `elements`, which has the alias `element`.
    fn element(engine: Engine) -> Self {
        match engine {
            Engine::Sqlite => Self {
                engine,
                kind: "element.type".to_owned(),
                text: "element.value".to_owned(),
                number: "CAST(element.value AS REAL)".to_owned(),
                elements: String::new(),
            },
            Engine::Postgres => Self::jsonb("element.value"),
        }
    }

    /// The `jsonb` value of an expression in PostgreSQL.
    fn jsonb(value: &str) -> Self {
        Self {
            engine: Engine::Postgres,
            kind: format!("jsonb_typeof({value})"),
            text: format!("({value} #>> '{{}}') COLLATE \"C\""),
            number: format!("({value})::double precision"),
            elements: format!(
                "jsonb_array_elements(CASE jsonb_typeof({value}) WHEN 'array' THEN {value} ELSE '[]'::jsonb END)"
            ),
        }
    }

    fn exists(&self) -> String {
        format!("coalesce({}, 'null') <> 'null'", self.kind)
    }

    fn is_text(&self) -> String {
        match self.engine {
            Engine::Sqlite => format!("{} = 'text'", self.kind),
            Engine::Postgres => format!("{} = 'string'", self.kind),
        }
    }

    fn is_number(&self) -> String {
        match self.engine {
            Engine::Sqlite => format!("{} IN ('integer', 'real')", self.kind),
            Engine::Postgres => format!("{} = 'number'", self.kind),
        }
    }

    fn is_bool(&self, flag: bool) -> String {
        match self.engine {
            Engine::Sqlite => format!("{} = '{flag}'", self.kind),
            Engine::Postgres => {
                format!("({} = 'boolean' AND {} = '{flag}')", self.kind, self.text)
            }
        }
    }
}
