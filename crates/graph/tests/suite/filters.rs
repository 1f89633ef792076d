//! Filters have the same meaning in SQL as in `emergent_domain::filter`, for every object and every
//! filter.

use std::collections::BTreeSet;

use emergent_domain::{
    cursor::Page,
    filter::{Filter, Op},
    ids::ObjectId,
    object::Object,
    query::ObjectFilter,
};
use emergent_testkit::both_engines;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Value, json};

use crate::support;
use support::{Harness, new};

both_engines! {
    async fn random_filters_find_exactly_what_they_match(db: TestDb) {
        let seed = std::env::var("TEST_SEED").map_or_else(|_| rand::rng().random(), |seed| seed.parse().unwrap());
        println!("TEST_SEED={seed}");
        let mut dice = StdRng::seed_from_u64(seed);
        let harness = Harness::new(&db).await;
        let objects = (0..90).map(|_| {
            let mut object = new(["A", "B"].choose(&mut dice).unwrap(), "", Value::Object(properties(&mut dice, 3)));
            object.labels = ["red", "green", "a\"b"].choose_multiple(&mut dice, 2).map(|label| (*label).to_owned()).collect();
            object.status = Some((*["open", "done"].choose(&mut dice).unwrap()).to_owned());
            object
        });
        let objects: Vec<_> = objects.collect();
        let made = harness.graph.bulk_create_objects(harness.actor, objects, true).await.unwrap();
        let made: Vec<Object> = made.into_iter().map(|object| object.unwrap()).collect();
        for _ in 0..1_500 {
            let filter = random_filter(&mut dice);
            let expected: BTreeSet<ObjectId> =
                made.iter().filter(|object| matches(&filter, object)).map(|object| object.id).collect();
            let found = harness.graph.list_objects(harness.project(), filter.clone(), Page::first(100)).await;
            let found = found.unwrap_or_else(|error| panic!("{error:?}: {filter:?}"));
            let found: BTreeSet<ObjectId> = found.items.iter().map(|object| object.id).collect();
            if let Some(id) = found.symmetric_difference(&expected).next() {
                let object = made.iter().find(|object| object.id == *id).unwrap();
                panic!("{filter:?} is wrong about {}", object.properties.as_str());
            }
        }
    }
}

fn matches(filter: &ObjectFilter, object: &Object) -> bool {
    (filter.types.is_empty() || filter.types.contains(&object.type_))
        && filter.labels.iter().all(|label| object.labels.contains(label))
        && (filter.status.is_none() || filter.status == object.status)
        && filter.filters.iter().all(|filter| filter.matches(&object.properties.to_map()))
}

const KEYS: [&str; 6] = ["a", "b", "0", "x-y", "A", "null"];

fn scalar(dice: &mut StdRng) -> Value {
    match dice.random_range(0..12) {
        0 => json!(dice.random_range(-3..4)),
        1 => json!(f64::from(dice.random_range(-6..7)) / 2.0),
        2 => json!(dice.random_bool(0.5)),
        3 => json!(9_007_199_254_740_993_i64 - dice.random_range(0..3)),
        4 => json!(*[u64::MAX, 1 << 63, i64::MAX as u64].choose(dice).unwrap()),
        5 => json!(dice.random::<f64>() * 1e-300),
        6 => json!(*[0.1, 1e21, -0.0, 5e-324, 1.797_693_134_862_315_7e308].choose(dice).unwrap()),
        7 => json!(*["true", "1", "null", "", "1.0"].choose(dice).unwrap()),
        8 => json!(
            *["ä", "z", "Z", "\u{ff5e}", "😀", "%", "a_b", "\\", "'", "\"", "a\nb"].choose(dice).unwrap()
        ),
        _ => json!(*["banana", "Banana", "ana", "ban", "bananas"].choose(dice).unwrap()),
    }
}

fn value(dice: &mut StdRng, depth: usize) -> Value {
    match dice.random_range(0..8) {
        0 => Value::Null,
        1 if depth > 0 => Value::Object(properties(dice, depth - 1)),
        2 | 3 if depth > 0 => (0..dice.random_range(0..4)).map(|_| value(dice, depth - 1)).collect(),
        _ => scalar(dice),
    }
}

fn properties(dice: &mut StdRng, depth: usize) -> Map<String, Value> {
    (0..dice.random_range(0..6))
        .map(|_| ((*KEYS.choose(dice).unwrap()).to_owned(), value(dice, depth)))
        .collect()
}

fn random_filter(dice: &mut StdRng) -> ObjectFilter {
    let mut filter = ObjectFilter::default();
    if dice.random_bool(0.2) {
        filter.types = vec!["A".to_owned()];
    }
    if dice.random_bool(0.2) {
        filter.labels = vec![(*["red", "green", "a\"b", "blue"].choose(dice).unwrap()).to_owned()];
    }
    if dice.random_bool(0.2) {
        filter.status = Some("open".to_owned());
    }
    for _ in 0..dice.random_range(0..3) {
        let path: Vec<&str> = (0..dice.random_range(1..4)).map(|_| *KEYS.choose(dice).unwrap()).collect();
        let op = *[Op::Eq, Op::Ne, Op::Lt, Op::Lte, Op::Gt, Op::Gte, Op::In, Op::Contains, Op::Exists]
            .choose(dice)
            .unwrap();
        let value = match op {
            Op::Exists => json!(dice.random_bool(0.5)),
            Op::In => (0..dice.random_range(1..4)).map(|_| scalar(dice)).collect(),
            _ => scalar(dice),
        };
        let candidate = Filter { path: path.join("."), op, value: Some(value) };
        // An invalid filter, such as an order of booleans, never reaches the store.
        filter.filters.extend(candidate.check().is_ok().then_some(candidate));
    }
    filter
}
