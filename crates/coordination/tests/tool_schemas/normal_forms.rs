//! Approval rules judge an input as its tool reads it: what a tool reads in several ways has a normal form.

use emergent_domain::approval::is_normalised;
use emergent_tools::builtin;
use serde_json::Value;

/// How descriptions of fields say that leaving them out means something of the caller.
const OWN: [&str; 3] = ["default: yours", "default: your own", "default: your "];

/// The schema itself, or the one to which it refers.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let pointer = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

/// Whether a value may be a text or an object.
fn has_short_form(root: &Value, schema: &Value) -> bool {
    let options = ["anyOf", "oneOf"].into_iter().find_map(|keyword| schema[keyword].as_array());
    let is = |kind: &str| {
        options.is_some_and(|options| options.iter().any(|option| resolved(root, option)["type"] == kind))
    };
    is("string") && is("object")
}

/// Why the same call can be written in another way.
fn other_form(root: &Value, field: &Value) -> Option<&'static str> {
    let description = field["description"].as_str().unwrap_or_default().to_lowercase();
    let items = resolved(root, &field["items"]);
    if OWN.iter().any(|own| description.contains(own)) {
        Some("it can be left out")
    } else if has_short_form(root, items) {
        Some("its items have a short form")
    } else if items["type"] == "object" && description.contains("instead of one") {
        Some("one item can be written without the list")
    } else if field.get("described_in").is_some() {
        Some("it is one more item of a list")
    } else {
        None
    }
}

#[test]
fn every_input_that_can_be_written_in_another_way_has_a_normal_form() {
    let mut found = 0;
    for tool in builtin::tools().into_iter().chain(emergent_coordination::tools::tools()) {
        let (name, schema) = (&tool.info().name, tool.checked_schema().as_value());
        for (field, field_schema) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(why) = other_form(schema, field_schema) {
                found += 1;
                assert!(
                    is_normalised(name, field),
                    "rules do not know `{field}` of `{name}`, although {why}: see `approval/normal_form.rs`"
                );
            }
        }
    }
    // Without this, a change of the schemas would let the test find nothing.
    assert!(found >= 12, "only {found} fields were found");
}
