//! What a refused write tells somebody who may write but not read. A pack judges the stored content together with what
//! the request changes, so its problems would show what is stored. Only those remain that concern what the request itself
//! has sent.

pub(crate) mod limits;

use std::{borrow::Cow, collections::BTreeSet};

use emergent_domain::{
    author::Author,
    invalid::{Invalid, Problem},
    object::ObjectPatch,
    token::Scope,
};
use emergent_store::{Tx, agents, runs, tokens};
use serde_json::{Map, Value};

use crate::{Error, WriteContext, error::Result};

const PROPERTIES: &str = "properties";
/// Longer names of fields are shortened, so that it would not be certain which property they are about.
const MAX_FIELD: usize = 250;

/// Whether the author of a write may read what it changes. A run reads with the tools that it was given.
pub(crate) fn may_read(tx: &mut Tx<'_>, ctx: &WriteContext) -> Result<bool> {
    let Author::Token { id } = ctx.author else { return Ok(true) };
    Ok(tokens::get(tx, id)?.is_some_and(|token| token.scopes.contains(&Scope::GraphRead)))
}

/// What the rules about a change compare it with. To an author who may not read, each property that a request sends is a
/// change, also one that equals what is stored: the answers would otherwise tell which is the stored one.
pub(crate) struct Compared<'a> {
    pub(crate) may_read: bool,
    pub(crate) properties: Cow<'a, Map<String, Value>>,
}

impl<'a> Compared<'a> {
    /// `stored` has the properties before the change.
    pub(crate) fn load(
        tx: &mut Tx<'_>,
        ctx: &WriteContext,
        stored: &'a Map<String, Value>,
        patch: &ObjectPatch,
    ) -> Result<Self> {
        if may_read(tx, ctx)? {
            return Ok(Self { may_read: true, properties: Cow::Borrowed(stored) });
        }
        let mut properties = stored.clone();
        for (name, value) in patch.properties.iter().flatten() {
            match value {
                Value::Null => properties.insert(name.clone(), Value::Bool(true)),
                _ => properties.remove(name),
            };
        }
        Ok(Self { may_read: false, properties: Cow::Owned(properties) })
    }
}

/// Returns the error about stored content and what a request changes of it, as its author may see it. `before` has the
/// stored properties and `sent` those of the request.
pub(crate) fn refusal_of_change(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    before: &Map<String, Value>,
    sent: Option<&Map<String, Value>>,
    error: Error,
) -> Error {
    let Error::Invalid(invalid) = error else { return error };
    match may_read(tx, ctx) {
        Ok(true) => Error::Invalid(invalid),
        // Content that was merged, or that comes from an earlier version, was not sent.
        Ok(false) if ctx.writes_stored_content => Error::Invalid(withhold(invalid, before, &Map::new())),
        Ok(false) => Error::Invalid(withhold(invalid, before, sent.unwrap_or(&Map::new()))),
        Err(failure) => failure,
    }
}

/// Returns the error about something that is stored and that the request does not name: only `shown` if its author may
/// not read.
pub(crate) fn refusal_of_stored(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    error: Error,
    shown: impl FnOnce() -> Invalid,
) -> Error {
    let Error::Invalid(invalid) = error else { return error };
    match may_read(tx, ctx) {
        Ok(true) => Error::Invalid(invalid),
        Ok(false) => Error::Invalid(shown()),
        Err(failure) => failure,
    }
}

/// Returns the error about a relationship between objects of two types. Those are stored, and the request need not name
/// them.
pub(crate) fn refusal_of_ends(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    type_: &str,
    (from, to): (&str, &str),
    error: Error,
) -> Error {
    if ctx.packs.allows_ends(type_, from, to) {
        return error;
    }
    refusal_of_stored(tx, ctx, error, || {
        let reason = format!(
            "`{type_}` does not connect objects of these types, which are shown with the scope `{}` only",
            Scope::GraphRead
        );
        Invalid::new("type", reason)
    })
}

fn withhold(invalid: Invalid, before: &Map<String, Value>, sent: &Map<String, Value>) -> Invalid {
    let unsent: Vec<&str> =
        before.keys().map(String::as_str).filter(|name| !sent.contains_key(*name)).collect();
    let is_shown = |problem: &Problem| match problem.field.strip_prefix(PROPERTIES) {
        None => true,
        Some(rest) => rest.strip_prefix('.').is_some_and(|path| is_sent(path, &unsent, sent)),
    };
    let (mut problems, withheld): (Vec<_>, Vec<_>) = invalid.problems.into_iter().partition(is_shown);
    if !withheld.is_empty() {
        let reason = format!(
            "with this change the properties would not conform to the packs of the project; those that the request did \
             not send are shown with the scope `{}` only",
            Scope::GraphRead
        );
        problems.push(Problem::new(PROPERTIES, reason));
    }
    Invalid { problems }
}

/// Whether a path leads to a property that the request sent, whatever dots and brackets the names of others contain.
fn is_sent(path: &str, unsent: &[&str], sent: &Map<String, Value>) -> bool {
    let is_below = |path: &str, name: &str| {
        path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    path.len() <= MAX_FIELD
        && sent.keys().any(|name| is_below(path, name) && !unsent.iter().any(|other| is_below(other, name)))
        && !unsent.iter().any(|other| is_below(path, other))
}

/// Refuses to change which packs apply to the writes of a project, unless the author may also read. Each write of an
/// object answers whether its content matches a pack, so an own pack would read it bit by bit.
pub(crate) fn check_may_choose_packs(tx: &mut Tx<'_>, ctx: &WriteContext) -> Result<()> {
    let scopes = match ctx.author {
        Author::System => return Ok(()),
        Author::Token { id } => scopes_of(tx, id)?,
        Author::Run { run_id, .. } => match runs::get(tx, ctx.project.id, run_id)? {
            Some(run) => match agents::definition_author(tx, run.agent, run.agent_version)? {
                Some(Author::System) => return Ok(()),
                Some(Author::Token { id }) => scopes_of(tx, id)?,
                Some(Author::Run { .. }) | None => BTreeSet::new(),
            },
            // A run writes when its row is there, so this is nobody's run.
            None => BTreeSet::new(),
        },
    };
    match scopes.contains(&Scope::GraphRead) {
        true => Ok(()),
        false => Err(Error::NeedsScope {
            what: format!("assigning packs, besides `{}`,", Scope::GraphWrite),
            scope: Scope::GraphRead,
        }),
    }
}

fn scopes_of(tx: &mut Tx<'_>, id: emergent_domain::ids::TokenId) -> Result<BTreeSet<Scope>> {
    Ok(tokens::get(tx, id)?.map(|token| token.scopes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    /// The fields that are shown of problems in these fields.
    fn shown(before: Value, sent: Value, fields: &[&str]) -> Vec<String> {
        let problems = fields.iter().map(|field| Problem::new(*field, "secret")).collect();
        let left = withhold(Invalid { problems }, &map(before), &map(sent)).problems;
        left.into_iter().filter(|problem| problem.reason == "secret").map(|problem| problem.field).collect()
    }

    #[test]
    fn only_what_the_request_sent_is_shown() {
        let fields = [
            "type",
            "properties",
            "properties.a",
            "properties.z",
            "properties.z.y",
            "properties.z[0]",
            "properties.zz",
        ];
        let left = shown(json!({ "a": 1, "zz": 2 }), json!({ "z": 3 }), &fields);
        assert_eq!(left, ["type", "properties.z", "properties.z.y", "properties.z[0]"]);
    }

    #[test]
    fn names_with_dots_show_nothing_of_others() {
        // The property `a` is stored, and what the field names may be in it.
        assert_eq!(shown(json!({ "a": { "b": 1 } }), json!({ "a.b": 1 }), &["properties.a.b"]), [""; 0]);
        assert_eq!(
            shown(json!({ "z.secret": 1 }), json!({ "z": 1 }), &["properties.z.secret", "properties.z"]),
            [""; 0]
        );
        assert_eq!(shown(json!({ "z[0]": 1 }), json!({ "z": 1 }), &["properties.z[0]"]), [""; 0]);
    }

    #[test]
    fn that_something_is_withheld_is_said_once() {
        let problems = vec![
            Problem::new("properties.a", "\"SECRET\" is no number"),
            Problem::new("properties.b", "is required"),
        ];
        let left = withhold(Invalid { problems }, &map(json!({ "a": "SECRET" })), &Map::new()).to_string();
        assert!(
            left.contains("graph:read")
                && !left.contains("SECRET")
                && !left.contains("`b`")
                && !left.contains("; `"),
            "{left}"
        );
    }
}
