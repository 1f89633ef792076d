use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::{author::Author, ids::ProjectId, json::JsonObject, time::Timestamp};

fn map(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn new(key: Option<&str>, properties: Value) -> NewObject {
    NewObject {
        type_: "Person".into(),
        key: key.map(str::to_owned),
        properties: map(properties),
        ..NewObject::default()
    }
}

fn object(key: Option<&str>, properties: Value) -> Object {
    let new = new(key, properties);
    Object {
        id: ObjectId::new(),
        project: ProjectId::new(),
        type_: new.type_,
        key: new.key,
        status: None,
        labels: Vec::new(),
        properties: JsonObject::from_map(&new.properties),
        version: 1,
        created_at: Timestamp::from_micros(0),
        updated_at: Timestamp::from_micros(0),
        deleted_at: None,
        author: Author::System,
        reason: None,
    }
}

/// Checks which object is chosen, by its index, and which rule matched it.
fn chosen(new: &NewObject, objects: &[(&Object, MatchedBy)]) -> Option<(usize, &'static str)> {
    let candidates: Vec<Candidate<'_>> =
        objects.iter().map(|(object, by)| Candidate { object, by: *by }).collect();
    let (id, by) = choose_match(new, &candidates)?;
    Some((objects.iter().position(|(object, _)| object.id == id).expect("one of them"), by.as_str()))
}

#[test]
fn the_key_decides_before_the_name_and_the_name_before_similarity() {
    let by_key = object(Some("ada"), json!({ "name": "Countess" }));
    let by_name = object(Some("ada-lovelace"), json!({ "name": "ada  LOVELACE" }));
    let alike = object(None, json!({ "name": "Ada Lovelaces" }));
    let candidates =
        [(&alike, MatchedBy::Similar(0.99)), (&by_name, MatchedBy::Name), (&by_key, MatchedBy::Key)];
    assert_eq!(chosen(&new(Some("ada"), json!({ "name": "Ada Lovelace" })), &candidates), Some((2, "key")));
    assert_eq!(
        chosen(&new(Some("other"), json!({ "name": "Ada-Lovelace" })), &candidates),
        Some((1, "name"))
    );
    assert_eq!(
        chosen(&new(Some("other"), json!({ "name": "Ada Lovelac" })), &candidates),
        Some((0, "similarity"))
    );
    assert_eq!(
        chosen(&new(None, json!({ "name": "Ada Lovelace" })), &candidates),
        Some((1, "key")),
        "by its name's key"
    );
    assert_eq!(chosen(&new(Some("x"), json!({})), &candidates[1..]), None);
}

#[test]
fn similarity_needs_nearness_and_distance_to_the_next() {
    let (one, two) = (object(None, json!({ "name": "One" })), object(None, json!({ "name": "Two" })));
    let offered = new(None, json!({ "name": "Three" }));
    let by =
        |a: f64, b: f64| chosen(&offered, &[(&one, MatchedBy::Similar(a)), (&two, MatchedBy::Similar(b))]);
    assert_eq!(by(0.92, 0.5), Some((0, "similarity")));
    assert_eq!(by(0.5, 0.95), Some((1, "similarity")));
    assert_eq!(by(0.919, 0.5), None, "not near enough");
    assert_eq!(by(0.95, 0.93), None, "two fit");
    assert_eq!(by(0.95, 0.92 - 0.001), Some((0, "similarity")));
    assert_eq!(chosen(&offered, &[(&one, MatchedBy::Similar(0.93))]), Some((0, "similarity")));
}

#[test]
fn what_is_counted_differently_or_named_twice_or_of_another_type_is_not_the_same() {
    let meeting = object(None, json!({ "name": "Meeting 2023" }));
    let offered = new(None, json!({ "name": "Meeting 2024" }));
    assert_eq!(chosen(&offered, &[(&meeting, MatchedBy::Similar(0.99))]), None);
    let (one, two) = (object(None, json!({ "name": "Ada" })), object(None, json!({ "name": "ADA" })));
    let offered = new(Some("k"), json!({ "name": "Ada" }));
    assert_eq!(
        chosen(&offered, &[(&one, MatchedBy::Name), (&two, MatchedBy::Name)]),
        None,
        "two have the name"
    );
    let other_type = Object { type_: "Place".into(), ..one.clone() };
    assert_eq!(
        chosen(&offered, &[(&other_type, MatchedBy::Name), (&other_type, MatchedBy::Similar(1.0))]),
        None
    );
}

#[test]
fn names_are_one_up_to_case_spaces_and_hyphens_and_make_keys() {
    for (name, normal) in [
        ("  Ada   Lovelace ", "ada lovelace"),
        ("ADA-LOVELACE", "ada lovelace"),
        ("O’Neill, J.", "o neill j"),
        ("Łódź", "łódź"),
        ("C++", "c++"),
        ("C#", "c#"),
        ("...", ""),
    ] {
        assert_eq!(normalized_name(name), normal, "{name}");
    }
    assert_eq!(merge_key(&new(None, json!({ "name": "Ada Lovelace" }))).as_deref(), Some("ada-lovelace"));
    assert_eq!(merge_key(&new(None, json!({ "title": "C++" }))).as_deref(), Some("c++"));
    assert_eq!(merge_key(&new(Some("k"), json!({ "name": "x" }))).as_deref(), Some("k"));
    for nameless in
        [json!({}), json!({ "name": "-" }), json!({ "name": 7 }), json!({ "name": "x".repeat(600) })]
    {
        assert_eq!(merge_key(&new(None, nameless.clone())), None, "{nameless}");
    }
}

#[test]
fn gaps_are_filled_lists_united_and_no_value_is_replaced() {
    let mut before = object(
        None,
        json!({
            "name": "Ada", "born": 1815, "aliases": ["Augusta"], "gone": null,
            "home": { "city": "London" }, "works": "one",
        }),
    );
    before.labels = vec!["person".into()];
    let mut offered = new(
        Some("ada"),
        json!({
            "name": "Ada", "born": 1815.0, "role": "mathematician", "aliases": ["Augusta", "A.A.L."], "gone": 1,
            "home": { "city": "Ockham", "country": "England" }, "works": ["one"], "nothing": null,
        }),
    );
    offered.status = Some("known".into());
    offered.labels = vec!["british".into()];
    let MergeResult { patch, conflicts, .. } = merge_object(&before, &offered, &[]);
    let patch = patch.expect("something is new");
    assert_eq!((&patch.key, &patch.status), (&Some(Some("ada".into())), &Some(Some("known".into()))));
    assert_eq!(patch.labels, Some(vec!["british".into(), "person".into()]));
    assert_eq!(
        Value::Object(patch.properties.clone().expect("properties change")),
        json!({
            "role": "mathematician", "aliases": ["Augusta", "A.A.L."], "gone": 1,
            "home": { "city": "London", "country": "England" },
        })
    );
    let reported: Vec<(&str, &Value, &Value)> = conflicts
        .iter()
        .map(|conflict| (conflict.field.as_str(), &conflict.kept, &conflict.offered))
        .collect();
    assert_eq!(
        reported,
        [
            ("properties.home.city", &json!("London"), &json!("Ockham")),
            ("properties.works", &json!("one"), &json!(["one"])),
        ]
    );

    // The same values are offered again, so nothing changes.
    let after = patch.apply(&before).expect("it changes");
    let after = Object {
        key: after.key,
        status: after.status,
        labels: after.labels,
        properties: JsonObject::from_map(&after.properties),
        ..before
    };
    let again = merge_object(&after, &offered, &[]);
    assert_eq!((again.patch, again.conflicts), (None, conflicts));
}

#[test]
fn a_key_or_status_that_differs_stays_and_is_told() {
    let mut before = object(Some("ada"), json!({}));
    before.status = Some("known".into());
    let mut offered = new(Some("lovelace"), json!({}));
    offered.status = Some("new".into());
    let MergeResult { patch, conflicts, .. } = merge_object(&before, &offered, &[]);
    assert_eq!(patch, None);
    assert_eq!(
        conflicts.iter().map(|conflict| conflict.field.as_str()).collect::<Vec<_>>(),
        ["key", "status"]
    );
}

fn source() -> Source {
    Source {
        chunk: "0198c1f0-7e0a-7000-8000-000000000001".parse().expect("an id"),
        document: "0198c1f0-7e0a-7000-8000-000000000002".parse().expect("an id"),
        title: "Notes".into(),
        index: 3,
        heading: None,
        deleted: false,
        message: None,
        conversation: None,
        run: None,
    }
}

#[test]
fn a_reason_says_by_what_from_where_and_what_was_kept() {
    let conflicts = [
        MergeConflict { field: "status".into(), kept: json!("known"), offered: json!("new") },
        MergeConflict { field: "properties.born".into(), kept: json!(1815), offered: json!(1816) },
    ];
    assert_eq!(
        merge_reason(MatchedBy::Key, "ada", Some(&source()), &[], &conflicts),
        "merged by key `ada`, from document `Notes` (0198c1f0-7e0a-7000-8000-000000000002), chunk 3 \
         (0198c1f0-7e0a-7000-8000-000000000001); kept status `known` instead of `new`, properties.born `1815` \
         instead of `1816`"
    );
    assert_eq!(merge_reason(MatchedBy::Name, "Ada", None, &[], &[]), "merged by equal name `Ada`");
    assert_eq!(
        merge_reason(MatchedBy::Similar(0.9347), "Ada", None, &[], &[]),
        "merged by similarity 0.935 with `Ada`"
    );
    assert!(relationship_merge_reason(Some(&source()), &[]).contains("chunk 3"));
}

#[test]
fn a_reason_stays_short_whatever_was_kept() {
    let long = "é".repeat(5_000);
    let conflict =
        MergeConflict { field: format!("properties.{long}"), kept: json!(long), offered: json!([long]) };
    let conflicts = vec![conflict; 500];
    let source = Source { title: long.clone(), ..source() };
    let text = merge_reason(MatchedBy::Name, &long, Some(&source), &[], &conflicts);
    assert!(text.len() <= MAX_REASON_BYTES, "{} bytes", text.len());
    assert!(text.contains("; kept properties.é") && text.ends_with("more"), "{text}");
}

#[test]
fn a_superseded_value_is_replaced_and_all_others_stay() {
    let before = object(
        Some("grace"),
        json!({ "role": "professor", "born": 1906, "posts": ["Vassar"], "home": { "city": "New York" } }),
    );
    let offered = new(
        Some("grace"),
        json!({ "role": "officer", "born": 1907, "posts": ["Navy"], "home": { "city": "Arlington" }, "rank": "captain" }),
    );
    let superseded = ["role", "posts", "home", "rank", "role", "absent"].map(str::to_owned);
    let MergeResult { patch, replaced, conflicts } = merge_object(&before, &offered, &superseded);
    let patch = patch.expect("something is new");
    assert_eq!(
        Value::Object(patch.properties.expect("properties change")),
        json!({ "role": "officer", "posts": ["Navy"], "home": { "city": "Arlington" }, "rank": "captain" })
    );
    let fields: Vec<&str> = replaced.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(fields, ["properties.role", "properties.posts", "properties.home"]);
    assert_eq!((&replaced[0].before, &replaced[0].after), (&json!("professor"), &json!("officer")));
    assert_eq!(conflicts.iter().map(|one| one.field.as_str()).collect::<Vec<_>>(), ["properties.born"]);
    assert_eq!(
        merge_reason(MatchedBy::Key, "grace", None, &replaced[..1], &conflicts),
        "merged by key `grace`; replaced properties.role `professor` by `officer`; kept properties.born `1906` instead \
         of `1907`"
    );

    // The same text again changes nothing.
    let same = new(Some("grace"), json!({ "role": "professor" }));
    let again = merge_object(&before, &same, &["role".to_owned()]);
    assert_eq!((again.patch, again.replaced, again.conflicts), (None, Vec::new(), Vec::new()));
    assert!(ended_reason(&source()).starts_with("ended, from document `Notes`"));
}

/// How long a merge may take on a busy machine. One that compares all names or items with all others takes minutes for
/// these sizes.
const QUICK: Duration = Duration::from_secs(30);

#[test]
fn many_properties_and_many_superseded_names_are_merged_quickly() {
    let with = |value: i64| -> Value { (0..60_000).map(|n| (format!("p{n}"), json!(value))).collect() };
    let (before, offered) = (object(None, with(1)), new(None, with(2)));
    let superseded: Vec<String> = (0..60_000).filter(|n| n % 2 == 0).map(|n| format!("p{n}")).collect();
    let started = Instant::now();
    let MergeResult { patch, replaced, conflicts } = merge_object(&before, &offered, &superseded);
    assert!(started.elapsed() < QUICK, "{:?}", started.elapsed());
    assert_eq!((replaced.len(), conflicts.len()), (30_000, 30_000));
    assert_eq!(patch.and_then(|patch| patch.properties).map(|properties| properties.len()), Some(30_000));
}

#[test]
fn long_lists_are_united_quickly() {
    let list = |from: i64| json!({ "list": (from..from + 100_000).collect::<Vec<i64>>() });
    let started = Instant::now();
    let merged = merge_object(&object(None, list(0)), &new(None, list(50_000)), &[]);
    assert!(started.elapsed() < QUICK, "{:?}", started.elapsed());
    let properties = merged.patch.and_then(|patch| patch.properties).expect("the list grows");
    let list = properties["list"].as_array().expect("a list");
    assert_eq!((list.len(), &list[0], &list[149_999]), (150_000, &json!(0), &json!(149_999)));
}

#[test]
fn many_conflicts_below_a_long_name_do_not_repeat_it() {
    let name = "n".repeat(500_000);
    let below = |value: i64| -> Value {
        let values: Value = (0..40_000).map(|n| (n.to_string(), json!(value))).collect();
        json!({ "p": Value::from_iter([(name.clone(), values)]) })
    };
    let (before, offered) = (object(None, below(1)), new(None, below(2)));
    let started = Instant::now();
    let MergeResult { patch, conflicts, .. } = merge_object(&before, &offered, &[]);
    assert!(started.elapsed() < QUICK, "{:?}", started.elapsed());
    assert_eq!((patch, conflicts.len()), (None, 40_000));
    assert!(conflicts.iter().all(|one| one.field.len() <= MAX_FIELD_BYTES && one.field.ends_with('…')));
}
