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

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::Action;
use crate::filter::{Comparison, Condition, Filter, Scalar};

type Object = Map<String, Value>;

/// Whether all conditions of a rule hold for the input of a call.
pub(super) fn hold(when: &[Filter], action: Action, input: &Value) -> bool {
    if when.is_empty() {
        return true;
    }
    let Some(input) = input.as_object() else { return action != Action::Allow };
    // Only a definition that was saved around the checks has an invalid filter.
    let Ok(conditions) = when.iter().map(Filter::check).collect::<Result<Vec<_>, _>>() else {
        return action != Action::Allow;
    };
    match action {
        Action::Allow => certainly_hold(&conditions, input),
        Action::Ask | Action::Deny => may_hold(&conditions, input),
    }
}

/// Returns the objects in the lists of the input.
fn items(input: &Object) -> impl Iterator<Item = &Object> {
    input.values().filter_map(Value::as_array).flatten().filter_map(Value::as_object)
}

/// Whether every item of the input satisfies all conditions. An item without a property has the one of the input.
fn certainly_hold(conditions: &[Condition], input: &Object) -> bool {
    let all = |item: &Object| {
        conditions.iter().all(|condition| {
            // The properties of the input apply to all its items, but an item cannot hide one of them.
            let own = condition.path.find(input).is_none() || condition.matches(input);
            own && (condition.path.find(item).is_none() && condition.matches(input)
                || condition.matches(item))
        })
    };
    match items(input).next() {
        None => all(input),
        Some(_) => items(input).all(all),
    }
}

/// Whether the input or one of its items could satisfy all conditions.
fn may_hold(conditions: &[Condition], input: &Object) -> bool {
    let has_any_path = conditions.iter().any(|condition| !values_at(condition, input).is_empty());
    let only_input = items(input).next().is_none();
    // The input of a call for several items lacks the properties of the items. `ne` would always match it.
    let input_itself = (has_any_path || only_input).then_some(input);
    input_itself.into_iter().chain(items(input)).any(|candidate| {
        conditions.iter().all(|condition| {
            let mut values = values_at(condition, candidate);
            if values.is_empty() {
                values = values_at(condition, input);
            }
            match values.as_slice() {
                [] => is_satisfied_by_absence(&condition.comparison),
                values => values.iter().any(|value| may_match(&condition.comparison, value)),
            }
        })
    })
}

/// Returns the values at the path of a condition, also those inside lists on the way.
fn values_at<'a>(condition: &Condition, object: &'a Object) -> Vec<&'a Value> {
    let mut found = Vec::new();
    if let Some((first, rest)) = condition.path.segments().split_first()
        && let Some(value) = object.get(first)
    {
        collect(value, rest, &mut found);
    }
    found
}

fn collect<'a>(value: &'a Value, path: &[String], found: &mut Vec<&'a Value>) {
    match (value, path.split_first()) {
        (Value::Null, _) => {}
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

/// Whether a value satisfies the comparison, or cannot be compared.
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
        Comparison::Contains(scalar) => may_contain(scalar, value),
        Comparison::Exists(expected) => *expected,
    }
}

fn equals_or_differs_in_kind(scalar: &Scalar, value: &Value) -> bool {
    scalar.equals(value) || !scalar.is_same_kind(value)
}

/// Whether a text contains the scalar, or any element of a list does. Anything else cannot be searched.
fn may_contain(scalar: &Scalar, value: &Value) -> bool {
    match (scalar, value) {
        (Scalar::Text(_), Value::String(_)) => scalar.is_within(value),
        (_, Value::Array(items)) => items.iter().any(|item| match item {
            Value::String(_) if matches!(scalar, Scalar::Text(_)) => scalar.is_within(item),
            Value::Array(_) | Value::Object(_) => may_contain(scalar, item),
            _ => scalar.equals(item),
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(action: Action, when: Value, input: Value) -> bool {
        hold(&serde_json::from_value::<Vec<Filter>>(when).unwrap(), action, &input)
    }

    #[test]
    fn a_value_of_another_kind_is_held_and_never_allowed() {
        let cases = [
            (json!({ "op": "gt", "value": 100 }), json!(["500", [500], { "v": 500 }, true])),
            (json!({ "op": "eq", "value": 1000 }), json!(["1000", [1000], {}])),
            (json!({ "op": "in", "value": [1, 2] }), json!(["1", [1]])),
            (json!({ "op": "contains", "value": "secret" }), json!([["my secret"], 7, { "a": "secret" }])),
            (json!({ "op": "lt", "value": "m" }), json!([5])),
        ];
        for (condition, values) in cases {
            let mut when = condition.clone();
            when["path"] = json!("properties.amount");
            for value in values.as_array().unwrap() {
                let input = json!({ "properties": { "amount": value } });
                assert!(holds(Action::Deny, json!([when]), input.clone()), "{condition} {value}");
                assert!(holds(Action::Ask, json!([when]), input.clone()), "{condition} {value}");
                assert!(!holds(Action::Allow, json!([when]), input), "{condition} {value}");
            }
        }
    }

    #[test]
    fn values_of_the_same_kind_are_compared() {
        let when = json!([{ "path": "amount", "op": "gt", "value": 100 }]);
        assert!(!holds(Action::Ask, when.clone(), json!({ "amount": 50 })));
        assert!(holds(Action::Ask, when.clone(), json!({ "amount": 500 })));
        assert!(!holds(Action::Ask, when.clone(), json!({})), "an absent value is not above the limit");
        assert!(!holds(Action::Ask, when, json!({ "amount": null })));
    }

    #[test]
    fn conditions_apply_to_each_item_of_a_list() {
        let when = json!([{ "path": "type", "op": "eq", "value": "Payment" }]);
        let batch = json!({ "objects": [{ "type": "Note" }, { "type": "Payment" }] });
        assert!(holds(Action::Ask, when.clone(), batch.clone()));
        assert!(!holds(Action::Allow, when.clone(), batch));
        let payments = json!({ "objects": [{ "type": "Payment" }, { "type": "Payment" }] });
        assert!(holds(Action::Allow, when.clone(), payments));
        let notes = json!({ "objects": [{ "type": "Note" }] });
        assert!(!holds(Action::Ask, when.clone(), notes));
        // An item does not hide what the input itself says.
        let hidden = json!({ "type": "Payment", "tags": [{ "type": "x" }] });
        assert!(holds(Action::Deny, when.clone(), hidden));
        let other = json!({ "type": "Note", "objects": [{ "type": "Payment" }] });
        assert!(!holds(Action::Allow, when, other));
    }

    #[test]
    fn all_conditions_have_to_hold_for_the_same_item() {
        let when = json!([
            { "path": "type", "op": "eq", "value": "Payment" },
            { "path": "properties.amount", "op": "gt", "value": 100 },
        ]);
        let separate = json!({ "objects": [
            { "type": "Payment", "properties": { "amount": 1 } },
            { "type": "Note", "properties": { "amount": 500 } },
        ] });
        assert!(!holds(Action::Ask, when.clone(), separate));
        let together = json!({ "objects": [{ "type": "Payment", "properties": { "amount": 500 } }] });
        assert!(holds(Action::Ask, when, together));
    }

    #[test]
    fn ne_looks_at_the_items_and_not_at_the_call_around_them() {
        let when = json!([{ "path": "properties.reviewed", "op": "ne", "value": true }]);
        let reviewed = json!({ "objects": [{ "properties": { "reviewed": true } }] });
        assert!(!holds(Action::Ask, when.clone(), reviewed));
        let mixed = json!({ "objects": [{ "properties": { "reviewed": true } }, { "properties": {} }] });
        assert!(holds(Action::Ask, when.clone(), mixed));
        assert!(holds(Action::Ask, when, json!({})));
    }

    #[test]
    fn a_path_crosses_lists() {
        let named = json!([{ "path": "objects.type", "op": "eq", "value": "Payment" }]);
        let numbered = json!([{ "path": "objects.0.type", "op": "eq", "value": "Payment" }]);
        let batch = json!({ "objects": [{ "type": "Payment" }] });
        assert!(holds(Action::Ask, named, batch.clone()));
        assert!(holds(Action::Ask, numbered, batch));
    }

    #[test]
    fn an_input_that_is_no_object_is_held() {
        let when = json!([{ "path": "a", "op": "exists" }]);
        assert!(holds(Action::Deny, when.clone(), json!("text")));
        assert!(!holds(Action::Allow, when, json!("text")));
        assert!(
            holds(Action::Allow, json!([]), json!("text")),
            "a rule without conditions matches any input"
        );
    }
}
