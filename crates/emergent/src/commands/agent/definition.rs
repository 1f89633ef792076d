//! Reads agent definitions from files, and writes them as text for an editor.

use std::{io::Read, path::Path};

use emergent_domain::foreign_json::{self, ForeignValue};
use emergent_wire::agent::AgentView;
use serde_json::{Map, Value, json};

use crate::{
    commands::agent::with_api_fields,
    error::{Error, Result},
    messages,
};

/// The fields of a definition in the order in which an editor shows them, with what each is when it is absent.
fn defaults() -> [(&'static str, Value); 16] {
    [
        ("name", Value::Null),
        ("description", json!("")),
        ("model", Value::Null),
        ("tools", json!([])),
        ("approvals", json!([])),
        ("trigger", Value::Null),
        ("flowType", json!("single")),
        ("flowConfig", Value::Null),
        ("isDefault", json!(false)),
        ("maxSteps", Value::Null),
        ("defaultTimeout", Value::Null),
        ("visibility", json!("project")),
        ("acp", Value::Null),
        ("outputSchema", Value::Null),
        ("config", json!({})),
        ("systemPrompt", json!("")),
    ]
}

/// Reads a definition from a file of JSON, TOML or YAML; `-` is standard input.
pub fn read(path: &Path) -> Result<Map<String, Value>> {
    let failed = |source| Error::input_file(path, source);
    let mut content = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().read_to_string(&mut content).map_err(failed)?;
    } else {
        content = std::fs::read_to_string(path).map_err(failed)?;
    }
    messages::remember_file(path);
    parse(&content, path)
        .map_err(|error| Error::Usage(format!("`{}` cannot be read: {error}", path.display())))
}

/// Parses a definition. The ending of the path decides how; without one, JSON is tried before YAML.
fn parse(content: &str, path: &Path) -> std::result::Result<Map<String, Value>, String> {
    let yaml = || {
        let parsed = serde_saphyr::from_str(content).map_err(|error| error.to_string());
        parsed.map(|ForeignValue(value)| value)
    };
    let parsed: Value = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => toml::from_str::<ForeignValue>(content).map_err(|error| error.to_string())?.0,
        Some("yaml" | "yml") => yaml()?,
        Some("json") => foreign_json::from_str(content).map_err(|error| error.to_string())?,
        _ => match foreign_json::from_str(content) {
            Ok(parsed) => parsed,
            Err(error) if content.trim_start().starts_with('{') => return Err(error.to_string()),
            Err(_) => yaml()?,
        },
    };
    match with_api_fields(parsed) {
        Value::Object(definition) => Ok(definition),
        _ => Err("it does not hold the fields of an agent".to_owned()),
    }
}

/// The name that a definition gives the agent.
pub fn name<'a>(definition: &'a Map<String, Value>, path: &Path) -> Result<&'a str> {
    definition.get("name").and_then(Value::as_str).ok_or_else(|| {
        Error::Usage(format!("`{}` has no `name`, which says which agent it defines", path.display()))
    })
}

/// The change that makes an agent what the definition says: fields that it leaves out get their default.
pub fn replacement(definition: &Map<String, Value>) -> Map<String, Value> {
    let mut body: Map<String, Value> = defaults()
        .into_iter()
        .filter(|(name, _)| *name != "name")
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    body.extend(definition.clone());
    body
}

/// The definition of an agent as JSON, without what is absent or has its default.
pub fn from_view(agent: &AgentView) -> Map<String, Value> {
    let fields = match serde_json::to_value(agent) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    compact(fields)
}

/// The fields of a definition, without what is absent or has its default.
pub fn compact(mut fields: Map<String, Value>) -> Map<String, Value> {
    let known = defaults().into_iter();
    known
        .filter_map(|(name, default)| {
            let value = fields.remove(name)?;
            // Null has a meaning in a schema: `"const": null`.
            let cleaned = |value| if name == "outputSchema" { value } else { without_nulls(value) };
            (!value.is_null() && value != default).then(|| (name.to_owned(), cleaned(value)))
        })
        .collect()
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name, without_nulls(value)))
                .collect(),
        ),
        other => other,
    }
}

/// The definition as YAML. Texts with several lines are blocks, so that a prompt can be edited as it is; other
/// values are JSON, which is YAML too.
pub fn to_yaml(definition: &Map<String, Value>) -> String {
    let mut text = String::new();
    for (name, _) in defaults() {
        let Some(value) = definition.get(name) else { continue };
        match value {
            Value::String(block) if is_block(block) => {
                let ending = if block.ends_with('\n') { "" } else { "-" };
                text.push_str(&format!("{name}: |2{ending}\n"));
                for line in block.strip_suffix('\n').unwrap_or(block).split('\n') {
                    text.push_str(if line.is_empty() { "" } else { "  " });
                    text.push_str(line);
                    text.push('\n');
                }
            }
            other => text.push_str(&format!("{name}: {other}\n")),
        }
    }
    text
}

/// Whether a text is written as a block: it has several lines, and nothing that a block cannot hold.
fn is_block(text: &str) -> bool {
    text.trim_end_matches('\n').contains('\n')
        && !text.ends_with("\n\n")
        && text.chars().all(|char| char == '\n' || char == '\t' || !char.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(fields) => fields,
            other => panic!("{other} is not an object"),
        }
    }

    #[test]
    fn the_text_for_an_editor_reads_back_as_the_same_definition() {
        for prompt in [
            "one line",
            "two\nlines",
            "  indented\n\n\tand more: {x}\n",
            "odd\r\nending",
            "many\n\n\n",
            "# not a comment\n- nor a list",
        ] {
            let written = definition(json!({ "name": "writer", "tools": ["graph_*"], "systemPrompt": prompt,
                "model": { "provider": "ollama", "name": "qwen3:8b" }, "config": { "allow_delegation": true } }));
            let text = to_yaml(&written);
            assert_eq!(parse(&text, Path::new("a.yaml")), Ok(written), "{text}");
        }
    }

    #[test]
    fn a_file_may_be_json_toml_or_yaml() {
        let expected =
            definition(json!({ "name": "a", "systemPrompt": "p", "config": { "allow_delegation": true } }));
        for (path, text) in [
            ("a.json", r#"{ "name": "a", "system_prompt": "p", "config": { "allow_delegation": true } }"#),
            ("a.toml", "name = \"a\"\nsystem_prompt = \"p\"\n[config]\nallow_delegation = true\n"),
            ("a.yaml", "name: a\nsystemPrompt: p\nconfig: { allow_delegation: true }\n"),
            ("-", "name: a\nsystem_prompt: p\nconfig: { allow_delegation: true }\n"),
        ] {
            assert_eq!(parse(text, Path::new(path)), Ok(expected.clone()), "{path}");
        }
        assert!(parse("just words", Path::new("-")).is_err());
        assert!(parse("{ broken", Path::new("-")).is_err());
    }

    #[test]
    fn what_a_file_leaves_out_gets_its_default() {
        let body = replacement(&definition(json!({ "name": "a", "maxSteps": 3 })));
        assert_eq!(
            (&body["maxSteps"], &body["model"], &body["tools"]),
            (&json!(3), &Value::Null, &json!([]))
        );
        assert_eq!(compact(body), definition(json!({ "name": "a", "maxSteps": 3 })));
    }
}
