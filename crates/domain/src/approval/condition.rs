//! Evaluates the conditions of an approval rule on the input of a call.
//!
//! A filter that selects objects treats a value of another kind as "no match". In a rule that asks or denies, that
//! would let a call through: a model that writes `"500"` instead of `500` would pass the condition `gt 100`. Here a
//! value that cannot be compared satisfies the conditions of a rule that asks or denies, and never those of a rule
//! that allows.
//!
//! Many tools take one item or a list of items. A condition therefore applies to the input itself and to each object
//! in a list of the input: a rule that asks or denies matches if any of them matches, a rule that allows only if all
//! of them do.
//!
//! A text that names an object is compared with the names of each object that it may name. In a rule that asks or denies,
//! one name of one object is enough; in a rule that allows, all have to match. Two comparisons would then never tell
//! objects apart: every object has a name that differs from a given one, and none has only names that are equal to it. So
//! `ne` of a rule that asks or denies, and what is not `ne` of a rule that allows, look only at the names that are written
//! like the value of the condition: with the id or with a key.
//!
//! `null` removes what is there, so it is neither a value that is missing nor one that is there: a rule that asks or denies
//! takes it for both in `exists`, and a rule that allows for none.

use std::{borrow::Cow, cmp::Ordering, collections::HashMap};

use serde_json::{Map, Value};

use super::{
    Action,
    names::{
        ObjectNames, canonical, canonical_text, leads_to_content, leads_to_reference, may_be_task_key,
        other_field,
    },
};
use crate::{
    filter::{Bound, Comparison, Condition, Filter, Path, Scalar},
    ids::ObjectId,
};

type Object = Map<String, Value>;
/// The names of the objects that each text of the input may name.
type Names = HashMap<String, Vec<ObjectNames>>;

/// A condition of a rule.
struct RuleCondition<'a> {
    condition: Condition,
    /// Whether the condition is about content, in which an id is a text like any other.
    is_about_content: bool,
    /// The names of the objects, if the condition is about references to objects.
    names: Option<&'a Names>,
    /// The other field by which the same tools name objects.
    other: Option<Path>,
}

/// Whether all conditions of a rule hold for the input of a call. `names` has the names of the objects in it.
pub(super) fn hold(when: &[Filter], action: Action, input: &Value, names: &Names) -> bool {
    if when.is_empty() {
        return true;
    }
    let Some(input) = input.as_object() else { return action != Action::Allow };
    // Only a definition that was saved around the checks has an invalid filter.
    let Ok(conditions) = when.iter().map(Filter::check).collect::<Result<Vec<_>, _>>() else {
        return action != Action::Allow;
    };
    let conditions: Vec<_> =
        conditions.into_iter().map(|condition| RuleCondition::new(condition, names)).collect();
    match action {
        Action::Allow => certainly_hold(&conditions, input),
        Action::Ask | Action::Deny => may_hold(&conditions, input),
    }
}

impl<'a> RuleCondition<'a> {
    fn new(condition: Condition, names: &'a Names) -> Self {
        if leads_to_content(&condition.path) {
            return Self { condition, is_about_content: true, names: None, other: None };
        }
        let Condition { path, comparison } = condition;
        let other = other_field(&path);
        let names = leads_to_reference(&path).then_some(names);
        let comparison = match comparison {
            Comparison::Eq(scalar) => Comparison::Eq(canonical(scalar)),
            Comparison::Ne(scalar) => Comparison::Ne(canonical(scalar)),
            Comparison::In(scalars) => Comparison::In(scalars.into_iter().map(canonical).collect()),
            Comparison::Contains(scalar) => Comparison::Contains(canonical(scalar)),
            other => other,
        };
        Self { condition: Condition { path, comparison }, is_about_content: false, names, other }
    }

    /// A value with its id as ids are written in names, so that upper case makes no difference.
    fn canonical_value<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        match value.as_str().filter(|_| !self.is_about_content).and_then(canonical_text) {
            Some(text) => Cow::Owned(text.into()),
            None => Cow::Borrowed(value),
        }
    }

    /// The names of each object that a value may name.
    fn candidates(&self, value: &Value) -> &'a [ObjectNames] {
        let named = |names: &'a Names| names.get(value.as_str()?);
        self.names.and_then(named).map_or(&[], Vec::as_slice)
    }

    /// The values in the other field by which the same tools name objects, each element of a list alone.
    fn other_values<'v>(&self, object: &'v Object) -> Vec<&'v Value> {
        let mut found = Vec::new();
        if let Some(path) = &self.other {
            for value in values_at(path, object, Nulls::Absent) {
                match value {
                    Value::Array(items) => found.extend(items),
                    value => found.push(value),
                }
            }
        }
        found
    }

    /// Whether the field of the condition is written in an object, also as `null` where that makes a difference.
    fn is_in(&self, object: &Object) -> bool {
        let Condition { path, comparison } = &self.condition;
        let is_null = || !values_at(path, object, Nulls::Values).is_empty();
        path.find(object).is_some()
            || matches!(comparison, Comparison::Exists(_)) && is_null()
            || !self.other_values(object).is_empty()
    }

    /// Whether an object certainly satisfies the condition.
    fn matches(&self, object: &Object) -> bool {
        let comparison = &self.condition.comparison;
        let others_match =
            || self.other_values(object).iter().all(|value| self.certainly_matches(comparison, value));
        self.own_matches(object) && others_match()
    }

    /// Like [`RuleCondition::matches`], for the field that the condition names.
    fn own_matches(&self, object: &Object) -> bool {
        let Condition { path, comparison } = &self.condition;
        match (comparison, path.find(object)) {
            (Comparison::Contains(scalar), Some(Value::Array(items))) if !self.is_about_content => {
                let is_equal = Comparison::Eq(scalar.clone());
                let mut elements = items.iter().map(|item| self.certainly_matches(&is_equal, item));
                match self.names {
                    // The call is made for each of these objects, not only for the one that the rule allows.
                    Some(_) => !items.is_empty() && elements.all(|matches| matches),
                    None => elements.any(|matches| matches),
                }
            }
            (_, Some(value)) => self.certainly_matches(comparison, value),
            // What is written as `null` is removed.
            (Comparison::Exists(false), None) => values_at(path, object, Nulls::Values).is_empty(),
            (_, None) => comparison.matches(None),
        }
    }

    /// Whether a value satisfies the comparison by all names of all objects that it may name.
    fn certainly_matches(&self, comparison: &Comparison, value: &Value) -> bool {
        let matches = |value: &Value| comparison.matches(Some(value));
        let is_certain = |object: &ObjectNames| {
            if object.has_unknown_keys() && is_about_keys(comparison) {
                return false;
            }
            match comparison {
                Comparison::Ne(_) => matches(value) && object.all().all(matches),
                Comparison::In(_) => {
                    matches(object.id()) || object.with_key().all(|written| written.into_iter().any(matches))
                }
                Comparison::Eq(Scalar::Text(text)) => object.like(text, true).iter().all(matches),
                Comparison::Contains(Scalar::Text(text))
                | Comparison::Lt(Bound::Text(text))
                | Comparison::Lte(Bound::Text(text))
                | Comparison::Gt(Bound::Text(text))
                | Comparison::Gte(Bound::Text(text)) => {
                    object.like(text, may_be_task_key(value)).iter().all(matches)
                }
                _ => matches(value),
            }
        };
        match self.candidates(value) {
            [] => matches(&self.canonical_value(value)),
            objects => objects.iter().all(is_certain),
        }
    }

    /// Whether a value satisfies the comparison by one name of an object that it may name, or cannot be compared.
    fn may_match(&self, value: &Value) -> bool {
        match &self.condition.comparison {
            Comparison::Ne(scalar) => match (self.candidates(value), scalar) {
                ([], _) => !scalar.equals(&self.canonical_value(value)),
                (objects, Scalar::Text(text)) => objects.iter().any(|object| {
                    object.has_unknown_keys() && is_about_keys(&self.condition.comparison)
                        || object.like(text, true).iter().any(|name| !scalar.equals(name))
                }),
                _ => !scalar.equals(value),
            },
            Comparison::Contains(scalar) => self.may_contain(scalar, value),
            comparison => self.any_name(value, |name| may_match(comparison, name)),
        }
    }

    /// Whether a text contains the scalar, or any element of a list does. Anything else cannot be searched.
    fn may_contain(&self, scalar: &Scalar, value: &Value) -> bool {
        match (scalar, value) {
            (Scalar::Text(_), Value::String(_)) => self.any_name(value, |name| scalar.is_within(name)),
            (_, Value::Array(items)) => items.iter().any(|item| match item {
                Value::String(_) if !matches!(scalar, Scalar::Text(_)) => false,
                Value::String(_) | Value::Array(_) | Value::Object(_) => self.may_contain(scalar, item),
                _ => scalar.equals(item),
            }),
            _ => true,
        }
    }

    /// Whether a value, or a name of an object that it may name, passes a test.
    fn any_name(&self, value: &Value, test: impl Fn(&Value) -> bool) -> bool {
        let of_object = |object: &ObjectNames| {
            object.has_unknown_keys() && is_about_keys(&self.condition.comparison) || object.all().any(&test)
        };
        let canonical = self.canonical_value(value);
        let is_written_otherwise = || matches!(&canonical, Cow::Owned(canonical) if test(canonical));
        test(value) || is_written_otherwise() || self.candidates(value).iter().any(of_object)
    }

    /// The values that an object has for the condition of a rule that asks or denies.
    fn values_in<'v>(&self, object: &'v Object) -> Vec<&'v Value> {
        let Condition { path, comparison } = &self.condition;
        match comparison {
            Comparison::Exists(false) => values_at(path, object, Nulls::Values),
            Comparison::Exists(true) => {
                let mut found = values_at(path, object, Nulls::Values);
                found.extend(self.other_values(object));
                found
            }
            _ => {
                let mut found = values_at(path, object, Nulls::Absent);
                found.extend(self.other_values(object));
                found
            }
        }
    }
}

/// Whether a key can satisfy the comparison. One with ids is about ids only, and every object has names.
fn is_about_keys(comparison: &Comparison) -> bool {
    let is_id = |scalar: &Scalar| matches!(scalar, Scalar::Text(text) if text.parse::<ObjectId>().is_ok());
    match comparison {
        Comparison::Eq(scalar) | Comparison::Ne(scalar) | Comparison::Contains(scalar) => !is_id(scalar),
        Comparison::In(scalars) => !scalars.iter().all(is_id),
        Comparison::Exists(_) => false,
        _ => true,
    }
}

/// Returns the objects in the lists of the input.
fn items(input: &Object) -> impl Iterator<Item = &Object> {
    input.values().filter_map(Value::as_array).flatten().filter_map(Value::as_object)
}

/// What a condition says about the input itself. It is the same for all items, and an input can have many of them.
struct OfInput {
    is_present: bool,
    holds: bool,
}

/// Whether every item of the input satisfies all conditions. An item without a property has the one of the input.
fn certainly_hold(conditions: &[RuleCondition<'_>], input: &Object) -> bool {
    let of_input: Vec<OfInput> = conditions
        .iter()
        .map(|condition| OfInput { is_present: condition.is_in(input), holds: condition.matches(input) })
        .collect();
    // The properties of the input apply to all its items, but an item cannot hide one of them.
    if of_input.iter().any(|own| own.is_present && !own.holds) {
        return false;
    }
    let holds_for = |item: &Object| {
        conditions
            .iter()
            .zip(&of_input)
            .all(|(condition, own)| !condition.is_in(item) && own.holds || condition.matches(item))
    };
    match items(input).next() {
        None => of_input.iter().all(|own| own.holds),
        Some(_) => items(input).all(holds_for),
    }
}

/// Whether the input or one of its items could satisfy all conditions.
fn may_hold(conditions: &[RuleCondition<'_>], input: &Object) -> bool {
    let of_input: Vec<OfInput> = conditions
        .iter()
        .map(|condition| match condition.values_in(input).as_slice() {
            [] => {
                OfInput { is_present: false, holds: is_satisfied_by_absence(&condition.condition.comparison) }
            }
            values => {
                OfInput { is_present: true, holds: values.iter().any(|value| condition.may_match(value)) }
            }
        })
        .collect();
    let only_input = items(input).next().is_none();
    // The input of a call for several items lacks the properties of the items. `ne` would always match it.
    if (only_input || of_input.iter().any(|own| own.is_present)) && of_input.iter().all(|own| own.holds) {
        return true;
    }
    items(input).any(|item| {
        conditions.iter().zip(&of_input).all(|(condition, own)| match condition.values_in(item).as_slice() {
            [] => own.holds,
            values => values.iter().any(|value| condition.may_match(value)),
        })
    })
}

/// What a `null` is taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Values,
    Absent,
}

/// Returns the values at a path, also those inside lists on the way.
fn values_at<'a>(path: &Path, object: &'a Object, nulls: Nulls) -> Vec<&'a Value> {
    let mut found = Vec::new();
    if let Some((first, rest)) = path.segments().split_first()
        && let Some(value) = object.get(first)
    {
        collect(value, rest, &mut found);
    }
    found.retain(|value| nulls == Nulls::Values || !value.is_null());
    found
}

fn collect<'a>(value: &'a Value, path: &[String], found: &mut Vec<&'a Value>) {
    match (value, path.split_first()) {
        (value, None) => found.push(value),
        (Value::Object(object), Some((key, rest))) => {
            object.get(key).into_iter().for_each(|value| collect(value, rest, found));
        }
        (Value::Array(items), Some((key, rest))) => match key.parse::<usize>() {
            Ok(index) => items.get(index).into_iter().for_each(|item| collect(item, rest, found)),
            Err(_) => items.iter().for_each(|item| collect(item, path, found)),
        },
        _ => {}
    }
}

fn is_satisfied_by_absence(comparison: &Comparison) -> bool {
    matches!(comparison, Comparison::Ne(_) | Comparison::Exists(false))
}

/// Whether a value satisfies the comparison, or cannot be compared. What compares with lists is above.
fn may_match(comparison: &Comparison, value: &Value) -> bool {
    match comparison {
        Comparison::Eq(scalar) => equals_or_differs_in_kind(scalar, value),
        Comparison::Ne(scalar) => !scalar.equals(value),
        Comparison::Lt(bound) => bound.order(value).is_none_or(Ordering::is_lt),
        Comparison::Lte(bound) => bound.order(value).is_none_or(Ordering::is_le),
        Comparison::Gt(bound) => bound.order(value).is_none_or(Ordering::is_gt),
        Comparison::Gte(bound) => bound.order(value).is_none_or(Ordering::is_ge),
        Comparison::In(scalars) => {
            scalars.iter().any(|scalar| scalar.equals(value))
                || !scalars.iter().any(|scalar| scalar.is_same_kind(value))
        }
        Comparison::Contains(_) => true,
        // What is `null` may be removed, and is not given either.
        Comparison::Exists(expected) => *expected || value.is_null(),
    }
}

fn equals_or_differs_in_kind(scalar: &Scalar, value: &Value) -> bool {
    scalar.equals(value) || !scalar.is_same_kind(value)
}

#[cfg(test)]
mod tests;
