use serde_json::json;

use super::*;

#[test]
fn references_are_found_in_the_fields_for_them() {
    let id = ObjectId::new();
    let input = json!({
        "id": "Note/old", "startIds": [id, "no reference"], "text": "Note/text", "properties": { "id": "Note/content" },
        "relationships": [{ "fromId": "Note/old", "toId": "Note/gone", "properties": { "toId": "Note/content" } }],
    });
    let written: Vec<String> =
        references(&input).unwrap().objects.into_iter().map(|(text, _)| text).collect();
    // In `id`, a text can also be the key of a task.
    assert_eq!(written, [&id.to_string(), "Note/gone", "Note/old", "Note/old"]);
}

#[test]
fn a_task_is_named_by_its_key_alone_and_content_names_nothing() {
    let input = json!({
        "id": "build", "blockedBy": ["a/b", "SpecTask/c"], "startIds": ["deploy"],
        "output": { "id": "Note/content" }, "data": [{ "ids": ["Note/content"] }], "metadata": { "task": "Note/content" },
    });
    let written = |input: &Value| -> Vec<(String, String)> {
        references(input)
            .unwrap()
            .objects
            .into_iter()
            .map(|(text, named)| (text, named.to_string()))
            .collect()
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(text, named)| ((*text).to_owned(), (*named).to_owned())).collect()
    };
    assert_eq!(
        written(&input),
        pairs(&[
            ("SpecTask/c", "SpecTask/c"),
            ("a/b", "a/b"),
            // The key of a task may have a slash.
            ("a/b", "SpecTask/a/b"),
            ("build", "SpecTask/build")
        ])
    );

    // An entity that is completed is found by its key, or by that which its name gives it.
    let objects = json!([{ "type": "Person", "properties": { "name": "Ada Lovelace" } }, { "type": "Note", "key": "a" }]);
    let merged = json!({ "merge": true, "objects": objects });
    assert_eq!(
        written(&merged),
        pairs(&[("Note/a", "Note/a"), ("Person/ada-lovelace", "Person/ada-lovelace")])
    );
    assert_eq!(written(&json!({ "objects": objects })), []);
    let one = json!({ "merge": true, "type": "Note", "key": "b", "properties": {} });
    assert_eq!(written(&one), pairs(&[("Note/b", "Note/b")]));
}

#[test]
fn the_number_of_references_is_limited() {
    let input = |count: usize| {
        let ids: Vec<String> = (0..count).map(|number| format!("Note/{number}")).collect();
        json!({ "ids": ids, "startIds": ids })
    };
    let count = |input: &Value| references(input).map(|found| found.objects.len());
    assert_eq!(count(&input(MAX_REFERENCES)), Some(MAX_REFERENCES));
    assert_eq!(count(&input(MAX_REFERENCES + 1)), None);
    let earlier = |number: usize| {
        let mut input = input(number);
        input["asOf"] = json!("2026-01-31T08:00:00Z");
        input
    };
    assert_eq!(count(&earlier(MAX_EARLIER_REFERENCES)), Some(MAX_EARLIER_REFERENCES));
    assert_eq!(count(&earlier(MAX_EARLIER_REFERENCES + 1)), None);
}

#[test]
fn the_time_of_which_a_call_reads_has_to_be_known() {
    let input = |as_of: Value| json!({ "id": "Note/a", "asOf": as_of });
    let text = "2026-01-31T08:00:00Z";
    let as_of = |value: Value| references(&input(value)).map(|found| found.as_of);
    assert_eq!(as_of(json!(text)), Some(Some(text.parse().unwrap())));
    assert_eq!(as_of(json!(null)), Some(None));
    for unreadable in [json!("yesterday"), json!(7), json!([text]), json!({ "at": text })] {
        assert_eq!(as_of(unreadable.clone()), None, "{unreadable}");
    }
}

#[test]
fn an_object_is_named_by_its_id_with_each_type_that_it_had() {
    let id = ObjectId::new();
    let texts = |names: &[Value]| -> Vec<String> {
        names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let bare = ObjectNames::new(id, "Junk", Vec::new()).without_key_as(&["Vault".to_owned()]);
    assert_eq!(texts(&bare.with_key), [format!("Junk/{id}"), format!("Vault/{id}")]);
    let keyed = ObjectNames::new(id, "Junk", vec!["Junk/a".to_owned(), "SpecTask/b".to_owned()])
        .without_key_as(&["Vault".to_owned(), "Junk".to_owned()]);
    // It had no key as `Junk` either, and was given one since.
    let typed = [format!("Vault/{id}"), format!("Junk/{id}")];
    assert_eq!(texts(&keyed.with_key), ["Junk/a", "SpecTask/b", &typed[0], &typed[1]]);
    assert_eq!(texts(&keyed.alone), ["Junk/a", "b", &typed[0], &typed[1]]);
    let created = ObjectNames::new(id, "Junk", vec!["Junk/a".to_owned()]);
    assert_eq!(texts(&created.with_key), ["Junk/a"]);
    for type_ in ["Junk", "Vault", "SpecTask"] {
        assert!(keyed.all().any(|name| *name == json!(format!("{type_}/{id}"))), "{type_}");
    }
}

#[test]
fn an_id_is_the_same_in_upper_case() {
    let id = ObjectId::new();
    let upper = id.to_string().to_uppercase();
    assert_eq!(canonical_text(&upper), Some(id.to_string()));
    assert_eq!(canonical_text(&format!("Note/{upper}")), Some(format!("Note/{id}")));
    for other in [id.to_string(), format!("Note/{id}"), "Note/KEY".to_owned(), "KEY".to_owned()] {
        assert_eq!(canonical_text(&other), None);
    }
}

#[test]
fn a_path_leads_to_references_by_the_name_of_its_last_field() {
    let leads = |path: &str| leads_to_reference(&Path::parse(path).unwrap());
    for path in
        ["id", "ids.0", "relationships.fromId", "relationships.0.toId", "task", "blockedBy.1", "verifies"]
    {
        assert!(leads(path), "{path}");
    }
    for path in
        ["text", "properties.id", "relationships.properties.toId", "output.id", "0", "id.text", "chunkId"]
    {
        assert!(!leads(path), "{path}");
    }
}

#[test]
fn id_and_ids_are_the_same_field() {
    let other = |path: &str| other_field(&Path::parse(path).unwrap()).map(|path| path.segments().join("."));
    for (path, expected) in [("id", "ids"), ("ids", "id"), ("ids.0", "id"), ("objects.id", "objects.ids")] {
        assert_eq!(other(path).as_deref(), Some(expected), "{path}");
    }
    for path in ["fromId", "startIds", "properties.id", "task"] {
        assert_eq!(other(path), None, "{path}");
    }
}

#[test]
fn a_task_of_a_workflow_is_named_by_its_key_there() {
    let (id, workflow) = (ObjectId::new(), WorkflowId::new());
    let texts = |names: &[Value]| -> Vec<String> {
        names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let name = format!("SpecTask/{workflow}/review");
    let task = ObjectNames::new(id, "SpecTask", vec![name.clone()]);
    for task in [task.clone(), task.clone().with_key_in_workflow("review")] {
        assert_eq!(texts(task.like("review", true)), ["review"]);
        assert_eq!(texts(task.like(&format!("{workflow}/review"), true)), [format!("{workflow}/review")]);
        assert_eq!(texts(task.like(&name, true)), [name.as_str()]);
    }
    assert_eq!(texts(task.clone().with_key_in_workflow("other").like("review", true)), ["review", "other"]);
    for unusable in ["", "SpecTask/zz", &id.to_string()] {
        assert_eq!(task.clone().with_key_in_workflow(unusable), task, "{unusable:?}");
    }
    // A task that a workflow took over may have no key as an object.
    let taken = ObjectNames::new(id, "SpecTask", Vec::new()).with_key_in_workflow("build");
    assert_eq!(texts(taken.like("build", true)), ["build"]);
    assert_eq!(texts(taken.like(&name, true)), [format!("SpecTask/{id}")]);
}
