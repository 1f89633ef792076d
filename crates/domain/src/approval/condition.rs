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

use std::{borrow::Cow, cell::RefCell, cmp::Ordering, collections::HashMap};

use serde_json::{Map, Value};

use super::{
    Action,
    names::{
        ObjectNames, canonical, canonical_text, leads_to_content, leads_to_reference, may_be_task_key,
        other_field,
    },
    normal_form::NormalInput,
    steps::Steps,
};
use crate::{
    filter::{Bound, Comparison, Condition, Filter, Path, Scalar},
    ids::ObjectId,
    invalid::Invalid,
};

type Object = Map<String, Value>;
/// The names of the objects that each text of the input may name.
type Names = HashMap<String, Vec<ObjectNames>>;

/// What the conditions of all rules are compared with.
pub(super) struct Call<'a> {
    input: &'a NormalInput<'a>,
    /// `None` for an input that is no object.
    object: Option<Written<'a>>,
    /// The objects in the lists of the input.
    items: Vec<Written<'a>>,
    /// The names of the objects in the input.
    names: &'a Names,
    /// The steps that the comparisons may still take. When they do not suffice, what is found is of no use.
    pub steps: &'a Steps,
    /// What was found out about conditions, since many rules have the same ones.
    of_input: RefCell<HashMap<(bool, String), OfInput>>,
}

impl<'a> Call<'a> {
    pub fn new(input: &'a NormalInput<'a>, names: &'a Names, steps: &'a Steps) -> Self {
        let object = match (input.completed(), input.written()) {
            (Value::Object(completed), Value::Object(written)) => Some(Written { completed, written }),
            _ => None,
        };
        let items = object.map(|input| items(input, steps)).unwrap_or_default();
        Self { input, object, items, names, steps, of_input: RefCell::default() }
    }
}

/// A condition of a rule.
struct RuleCondition<'a> {
    condition: Condition,
    call: &'a Call<'a>,
    /// The condition as its rule has it.
    text: String,
    /// About how many bytes its values have, and how many there are.
    bytes: usize,
    value_count: usize,
    /// Whether a key can satisfy it.
    is_about_keys: bool,
    /// Whether the condition is about content, in which an id is a text like any other.
    is_about_content: bool,
    /// The names of the objects, if the condition is about references to objects.
    names: Option<&'a Names>,
    /// The other field by which the same tools name objects.
    other: Option<Path>,
}

/// Whether all conditions of a rule hold for the input of a call.
pub(super) fn hold(when: &[Filter], action: Action, call: &Call<'_>) -> bool {
    if when.is_empty() {
        return true;
    }
    let Some(input) = call.object else { return action != Action::Allow };
    // Only a definition that was saved around the checks has an invalid filter.
    let Ok(conditions) =
        when.iter().map(|filter| RuleCondition::new(filter, call)).collect::<Result<Vec<_>, _>>()
    else {
        return action != Action::Allow;
    };
    match action {
        Action::Allow => certainly_hold(&conditions, input, &call.items),
        Action::Ask | Action::Deny => may_hold(&conditions, input, &call.items),
    }
}

/// An input, or one of its items: with what is left out of it, and without.
#[derive(Clone, Copy)]
struct Written<'a> {
    completed: &'a Object,
    written: &'a Object,
}

impl<'a> RuleCondition<'a> {
    fn new(filter: &Filter, call: &'a Call<'a>) -> Result<Self, Invalid> {
        let condition = filter.check()?;
        let text = serde_json::json!(filter).to_string();
        let bytes = condition.bytes();
        call.steps.take_comparisons(1, bytes);
        let value_count = match &condition.comparison {
            Comparison::In(scalars) => scalars.len(),
            _ => 1,
        };
        let condition = match call.input.path_in_short(&condition.path) {
            Some(path) => Condition { path, ..condition },
            None => condition,
        };
        let found = |condition: Condition, is_about_content, names, other| Self {
            is_about_keys: is_about_keys(&condition.comparison),
            condition,
            call,
            text,
            bytes,
            value_count,
            is_about_content,
            names,
            other,
        };
        if leads_to_content(&condition.path) {
            return Ok(found(condition, true, None, None));
        }
        let Condition { path, comparison } = condition;
        let other = other_field(&path);
        let names = leads_to_reference(&path).then_some(call.names);
        let comparison = match comparison {
            Comparison::Eq(scalar) => Comparison::Eq(canonical(scalar)),
            Comparison::Ne(scalar) => Comparison::Ne(canonical(scalar)),
            Comparison::In(scalars) => Comparison::In(scalars.into_iter().map(canonical).collect()),
            Comparison::Contains(scalar) => Comparison::Contains(canonical(scalar)),
            other => other,
        };
        Ok(found(Condition { path, comparison }, false, names, other))
    }

    /// What the condition looks at: `exists` at what is written, and any other one also at what is left out.
    fn view<'v>(&self, object: Written<'v>) -> &'v Object {
        match self.condition.comparison {
            Comparison::Exists(_) => object.written,
            _ => object.completed,
        }
    }

    /// What the condition says about the input itself.
    fn of_input(&self, is_certain: bool, find: impl FnOnce() -> OfInput) -> OfInput {
        let key = (is_certain, self.text.clone());
        if let Some(known) = self.call.of_input.borrow().get(&key) {
            return *known;
        }
        let found = find();
        self.call.of_input.borrow_mut().insert(key, found);
        found
    }

    /// Takes the steps of a comparison with a value; false if they do not suffice.
    fn take(&self, value: &Value) -> bool {
        let steps = self.call.steps;
        match (&self.condition.comparison, value) {
            (Comparison::Contains(_), Value::String(text)) => steps.take_search(text.len() + self.bytes),
            (Comparison::Contains(_), Value::Array(items)) => steps.take(items.len()),
            _ => steps.take_comparisons(self.value_count, self.bytes),
        }
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
            for value in self.values_at(path, object, Nulls::Absent) {
                match value {
                    Value::Array(items) => found.extend(items),
                    value => found.push(value),
                }
            }
        }
        self.call.steps.take(found.len());
        found
    }

    /// The values at a path, also those inside lists on the way.
    fn values_at<'v>(&self, path: &Path, object: &'v Object, nulls: Nulls) -> Vec<&'v Value> {
        let mut found = Vec::new();
        self.call.steps.take(1);
        if let Some((first, rest)) = path.segments().split_first()
            && let Some(value) = object.get(first)
        {
            collect(value, rest, self.call.steps, &mut found);
        }
        found.retain(|value| nulls == Nulls::Values || !value.is_null());
        found
    }

    /// Whether the field of the condition is written in an object, also as `null` where that makes a difference.
    fn is_in(&self, object: Written<'_>) -> bool {
        let object = self.view(object);
        self.call.steps.take(1);
        let Condition { path, comparison } = &self.condition;
        let is_null = || !self.values_at(path, object, Nulls::Values).is_empty();
        path.find(object).is_some()
            || matches!(comparison, Comparison::Exists(_)) && is_null()
            || !self.other_values(object).is_empty()
    }

    /// Whether an object certainly satisfies the condition.
    fn matches(&self, object: Written<'_>) -> bool {
        let object = self.view(object);
        self.call.steps.take(1);
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
            (Comparison::Exists(false), None) => self.values_at(path, object, Nulls::Values).is_empty(),
            (_, None) => comparison.matches(None),
        }
    }

    /// Whether a value satisfies the comparison by all names of all objects that it may name.
    fn certainly_matches(&self, comparison: &Comparison, value: &Value) -> bool {
        let matches = |value: &Value| self.take(value) && comparison.matches(Some(value));
        let is_certain = |object: &ObjectNames| {
            if object.has_unknown_keys() && self.is_about_keys {
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
        let differs = |scalar: &Scalar, value: &Value| !self.take(value) || !scalar.equals(value);
        match &self.condition.comparison {
            Comparison::Ne(scalar) => match (self.candidates(value), scalar) {
                ([], _) => differs(scalar, &self.canonical_value(value)),
                (objects, Scalar::Text(text)) => objects.iter().any(|object| {
                    object.has_unknown_keys() && self.is_about_keys
                        || object.like(text, true).iter().any(|name| differs(scalar, name))
                }),
                _ => differs(scalar, value),
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
                _ if !self.call.steps.take(1) => true,
                Value::String(_) if !matches!(scalar, Scalar::Text(_)) => false,
                Value::String(_) | Value::Array(_) | Value::Object(_) => self.may_contain(scalar, item),
                _ => scalar.equals(item),
            }),
            _ => true,
        }
    }

    /// Whether a value, or a name of an object that it may name, passes a test.
    fn any_name(&self, value: &Value, test: impl Fn(&Value) -> bool) -> bool {
        let test = |name: &Value| !self.take(name) || test(name);
        let of_object =
            |object: &ObjectNames| object.has_unknown_keys() && self.is_about_keys || object.all().any(&test);
        let canonical = self.canonical_value(value);
        let is_written_otherwise = || matches!(&canonical, Cow::Owned(canonical) if test(canonical));
        test(value) || is_written_otherwise() || self.candidates(value).iter().any(of_object)
    }

    /// The values that an object has for the condition of a rule that asks or denies.
    fn values_in<'v>(&self, object: Written<'v>) -> Vec<&'v Value> {
        let object = self.view(object);
        let Condition { path, comparison } = &self.condition;
        match comparison {
            Comparison::Exists(false) => self.values_at(path, object, Nulls::Values),
            Comparison::Exists(true) => {
                let mut found = self.values_at(path, object, Nulls::Values);
                found.extend(self.other_values(object));
                found
            }
            _ => {
                let mut found = self.values_at(path, object, Nulls::Absent);
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
fn items<'a>(input: Written<'a>, steps: &Steps) -> Vec<Written<'a>> {
    let mut found = Vec::new();
    for (field, list) in input.completed {
        let Value::Array(list) = list else { continue };
        if !steps.take(list.len()) {
            break;
        }
        let written = input.written.get(field).and_then(Value::as_array);
        for (place, item) in list.iter().enumerate() {
            let Value::Object(completed) = item else { continue };
            // Only what is completed has a single item in a list.
            let written = written.and_then(|items| items.get(place)?.as_object()).unwrap_or(completed);
            found.push(Written { completed, written });
        }
    }
    found
}

/// What a condition says about the input itself. It is the same for all items, and an input can have many of them.
#[derive(Clone, Copy)]
struct OfInput {
    is_present: bool,
    holds: bool,
}

/// Whether every item of the input satisfies all conditions. An item without a property has the one of the input.
fn certainly_hold(conditions: &[RuleCondition<'_>], input: Written<'_>, items: &[Written<'_>]) -> bool {
    let of_input: Vec<OfInput> = conditions
        .iter()
        .map(|condition| {
            let find = || OfInput { is_present: condition.is_in(input), holds: condition.matches(input) };
            condition.of_input(true, find)
        })
        .collect();
    // The properties of the input apply to all its items, but an item cannot hide one of them.
    if of_input.iter().any(|own| own.is_present && !own.holds) {
        return false;
    }
    let holds_for = |item: &Written<'_>| {
        conditions
            .iter()
            .zip(&of_input)
            .all(|(condition, own)| !condition.is_in(*item) && own.holds || condition.matches(*item))
    };
    match items {
        [] => of_input.iter().all(|own| own.holds),
        items => items.iter().all(holds_for),
    }
}

/// Whether the input or one of its items could satisfy all conditions.
fn may_hold(conditions: &[RuleCondition<'_>], input: Written<'_>, items: &[Written<'_>]) -> bool {
    let find = |condition: &RuleCondition<'_>| {
        let holds = match condition.values_in(input).as_slice() {
            [] => is_satisfied_by_absence(&condition.condition.comparison),
            values => values.iter().any(|value| condition.may_match(value)),
        };
        // What is left out of a call for several items does not make it a call about itself.
        let written = Written { completed: input.written, ..input };
        OfInput { is_present: !condition.values_in(written).is_empty(), holds }
    };
    let of_input: Vec<OfInput> =
        conditions.iter().map(|condition| condition.of_input(false, || find(condition))).collect();
    let only_input = items.is_empty();
    // The input of a call for several items lacks the properties of the items. `ne` would always match it.
    if (only_input || of_input.iter().any(|own| own.is_present)) && of_input.iter().all(|own| own.holds) {
        return true;
    }
    items.iter().any(|item| {
        conditions.iter().zip(&of_input).all(|(condition, own)| match condition.values_in(*item).as_slice() {
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

fn collect<'a>(value: &'a Value, path: &[String], steps: &Steps, found: &mut Vec<&'a Value>) {
    if !steps.take(1) {
        return;
    }
    match (value, path.split_first()) {
        (value, None) => found.push(value),
        (Value::Object(object), Some((key, rest))) => {
            object.get(key).into_iter().for_each(|value| collect(value, rest, steps, found));
        }
        (Value::Array(items), Some((key, rest))) => match key.parse::<usize>() {
            Ok(index) => items.get(index).into_iter().for_each(|item| collect(item, rest, steps, found)),
            Err(_) => items.iter().for_each(|item| collect(item, path, steps, found)),
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
