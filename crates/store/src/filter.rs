//! An [`ObjectFilter`] as SQL.
//!
//! What the conditions mean is said once, by `emergent_domain::filter`; the two renderings here
//! must give the same answer as `Condition::matches` for every object, and a randomised test holds
//! them to it.

use std::fmt::Write;

use emergent_domain::{
    filter::{Bound, Comparison, Condition, Path, Scalar},
    query::ObjectFilter,
};

use crate::{engine::Engine, value::Param};

/// The conditions on `alias` (a row with the columns of `graph_objects`), as ` AND … AND …`, and
/// their parameters, numbered from `first_param`. Empty when the filter asks for nothing.
pub fn object_conditions(
    engine: Engine,
    filter: &ObjectFilter,
    alias: &str,
    first_param: usize,
) -> (String, Vec<Param<'static>>) {
    let mut sql = Conditions { engine, alias, first_param, text: String::new(), params: Vec::new() };
    sql.add(filter);
    (sql.text, sql.params)
}

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
        for (column, wanted) in [("status", &filter.status), ("key", &filter.key)] {
            if let Some(wanted) = wanted {
                let wanted = self.param(wanted.clone());
                self.and(&format!("{alias}.{column} = {wanted}"));
            }
        }
        for label in &filter.labels {
            let label = self.param(label.clone());
            let has = match self.engine {
                Engine::Sqlite => {
                    format!(
                        "EXISTS (SELECT 1 FROM json_each({alias}.labels) AS has WHERE has.value = {label})"
                    )
                }
                Engine::Postgres => format!("{alias}.labels ? {label}"),
            };
            self.and(&has);
        }
        for filter in &filter.filters {
            let condition = match filter.check() {
                Ok(condition) => self.condition(&condition),
                // As `Filter::matches` says of a filter that does not pass.
                Err(_) => "FALSE".to_owned(),
            };
            self.and(&condition);
        }
    }

    fn and(&mut self, condition: &str) {
        let _ = write!(self.text, " AND ({condition})");
    }

    /// Keeps a value and returns its place in the statement.
    fn param(&mut self, value: impl Into<Param<'static>>) -> String {
        self.params.push(value.into());
        format!("${}", self.first_param + self.params.len() - 1)
    }

    fn condition(&mut self, condition: &Condition) -> String {
        let place = JsonLocation::property(self.engine, self.alias, &condition.path);
        match &condition.comparison {
            Comparison::Eq(scalar) => self.equals(&place, scalar),
            // True wherever `eq` is false or unknown.
            Comparison::Ne(scalar) => format!("({}) IS NOT TRUE", self.equals(&place, scalar)),
            Comparison::Lt(bound) => self.compares(&place, "<", bound),
            Comparison::Lte(bound) => self.compares(&place, "<=", bound),
            Comparison::Gt(bound) => self.compares(&place, ">", bound),
            Comparison::Gte(bound) => self.compares(&place, ">=", bound),
            Comparison::In(scalars) => {
                let any: Vec<String> = scalars.iter().map(|scalar| self.equals(&place, scalar)).collect();
                any.join(" OR ")
            }
            Comparison::Contains(scalar) => self.contains(&place, scalar),
            Comparison::Exists(true) => place.exists(),
            Comparison::Exists(false) => format!("NOT ({})", place.exists()),
        }
    }

    fn equals(&mut self, place: &JsonLocation, scalar: &Scalar) -> String {
        match scalar {
            Scalar::Text(text) => self.compares_text(place, "=", text),
            Scalar::Number(number) => self.compares_number(place, "=", *number),
            Scalar::Bool(flag) => place.is_bool(*flag),
        }
    }

    fn compares(&mut self, place: &JsonLocation, order: &str, bound: &Bound) -> String {
        match bound {
            Bound::Text(text) => self.compares_text(place, order, text),
            Bound::Number(number) => self.compares_number(place, order, *number),
        }
    }

    fn compares_text(&mut self, place: &JsonLocation, order: &str, text: &str) -> String {
        let bound = self.param(text.to_owned());
        format!("({} AND {} {order} {bound})", place.is_text(), place.text)
    }

    fn compares_number(&mut self, place: &JsonLocation, order: &str, number: f64) -> String {
        let bound = self.param(number);
        // CASE, not AND: PostgreSQL may look at the second half first, and a text is no number.
        format!("(CASE WHEN {} THEN {} {order} {bound} ELSE FALSE END)", place.is_number(), place.number)
    }

    fn contains(&mut self, place: &JsonLocation, scalar: &Scalar) -> String {
        let element = JsonLocation::element(self.engine);
        let in_list = format!(
            "EXISTS (SELECT 1 FROM {} AS element WHERE {})",
            place.elements,
            self.equals(&element, scalar)
        );
        let Scalar::Text(text) = scalar else { return in_list };
        let part = self.param(text.clone());
        let find = match self.engine {
            Engine::Sqlite => "instr",
            Engine::Postgres => "strpos",
        };
        format!("({} AND {find}({}, {part}) > 0) OR {in_list}", place.is_text(), place.text)
    }
}

/// Where a JSON value is and how it is looked at: a property of an object, or an element of a
/// list.
struct JsonLocation {
    engine: Engine,
    /// The name of its JSON type, or SQL's NULL when it is missing.
    kind: String,
    /// As text, ordered by code points.
    text: String,
    /// As a 64-bit float; only looked at when it is a number.
    number: String,
    /// Its elements as a table; empty when it is no list.
    elements: String,
}

impl JsonLocation {
    fn property(engine: Engine, alias: &str, path: &Path) -> Self {
        match engine {
            Engine::Sqlite => {
                // Quoted, a segment of digits is a key and never an index.
                let path: String = path.segments().iter().map(|key| format!(".\"{key}\"")).collect();
                let whole = format!("{alias}.properties, '${path}'");
                let value = format!("json_extract({whole})");
                Self {
                    engine,
                    kind: format!("json_type({whole})"),
                    number: format!("CAST({value} AS REAL)"),
                    // Of an object, json_each would give the values.
                    elements: format!(
                        "json_each(CASE json_type({whole}) WHEN 'array' THEN {value} ELSE '[]' END)"
                    ),
                    text: value,
                }
            }
            Engine::Postgres => {
                // `->` with a text takes keys only; `#>` would take digits for an index.
                let steps: String = path.segments().iter().map(|key| format!(" -> '{key}'::text")).collect();
                Self::jsonb(&format!("({alias}.properties{steps})"))
            }
        }
    }

    /// The row of `elements`.
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
