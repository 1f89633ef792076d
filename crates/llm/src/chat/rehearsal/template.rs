//! Templates `{{…}}` in the texts and inputs of a script, which insert values of the conversation.

use emergent_domain::foreign_json;
use serde_json::Value;

use super::{
    conversation::{ConversationView, display_value},
    script::Rule,
};

const FORMS: &str = "`{{input}}`, `{{context.PATH}}`, `{{last}}`, `{{agent}}`, `{{result.PATH}}` and `{{results.TOOL.PATH}}` are known";

pub struct Renderer<'a> {
    pub scene: &'a ConversationView<'a>,
    pub rule: &'a Rule,
    pub agent: &'a str,
}

impl Renderer<'_> {
    pub fn render_text(&self, template: &str) -> Result<String, String> {
        let mut whole = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, name, after)) = next_placeholder(rest)? {
            whole.push_str(before);
            whole.push_str(&display_value(&self.value(name)?));
            rest = after;
        }
        whole.push_str(rest);
        Ok(whole)
    }

    /// Fills all texts in `template`. A text that consists of a single template becomes the value itself,
    /// so that numbers, lists and objects keep their type.
    pub fn render_json(&self, template: &Value) -> Result<Value, String> {
        Ok(match template {
            Value::String(text) => match next_placeholder(text)? {
                Some(("", name, "")) => self.value(name)?,
                _ => Value::String(self.render_text(text)?),
            },
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.render_json(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let filled = fields.iter().map(|(key, value)| Ok((key.clone(), self.render_json(value)?)));
                Value::Object(filled.collect::<Result<_, String>>()?)
            }
            other => other.clone(),
        })
    }

    fn value(&self, name: &str) -> Result<Value, String> {
        let missing = || format!("`{{{{{name}}}}}` has no value here");
        match name {
            "input" => return Ok(Value::String(self.scene.first_user_text())),
            "last" => return Ok(Value::String(self.scene.last_text())),
            "agent" => return Ok(Value::String(self.agent.to_owned())),
            _ => {}
        }
        if let Some(path) = strip_root(name, "context") {
            return parse_context(&self.scene.first_user_text())
                .and_then(|context| value_at(&context, path))
                .ok_or_else(missing);
        }
        if let Some(path) = strip_root(name, "result") {
            let result = self.scene.result(self.rule).ok_or_else(missing)?;
            return value_at(&result.output, path).ok_or_else(missing);
        }
        if let Some(rest) = strip_root(name, "results") {
            // Tool names may contain dots, so the results in the conversation decide where the name ends.
            let mut results = self.scene.results().filter_map(|result| {
                let path = strip_root(rest, &result.name)?;
                Some(value_at(&result.output, path))
            });
            return results.next().flatten().ok_or_else(missing);
        }
        Err(format!("`{{{{{name}}}}}` is no template; {FORMS}"))
    }
}

/// Returns the context of a run: JSON at the end of the first message. JSON contains no blank lines, so
/// the last heading is the right one.
fn parse_context(input: &str) -> Option<Value> {
    let (_, json) = input.rsplit_once("\n\nContext:\n")?;
    foreign_json::from_str(json).ok()
}

/// Returns the text before the next template, its name, and the text after it.
fn next_placeholder(text: &str) -> Result<Option<(&str, &str, &str)>, String> {
    let Some((before, rest)) = text.split_once("{{") else { return Ok(None) };
    match rest.split_once("}}") {
        Some((name, after)) => Ok(Some((before, name.trim(), after))),
        None => Err(format!("`{{{{{rest}` has no `}}}}`")),
    }
}

/// Returns the path after `root` and a dot in `name`; empty for `root` itself.
fn strip_root<'a>(name: &'a str, root: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(root)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('.') }
}

fn value_at(output: &Value, path: &str) -> Option<Value> {
    if path.is_empty() {
        return Some(output.clone());
    }
    // Tools of external servers return JSON inside a text.
    let parsed = output.as_str().and_then(|text| foreign_json::from_str::<Value>(text).ok());
    let start = parsed.as_ref().unwrap_or(output);
    path.split('.')
        .try_fold(start, |value, step| match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            Value::Object(fields) => fields.get(step),
            _ => None,
        })
        .cloned()
}

#[cfg(test)]
mod tests {
    use emergent_domain::{
        chat::{ToolResult, Turn},
        ids::ToolCallId,
    };
    use serde_json::json;

    use super::*;
    use crate::{ChatRequest, RequestMeta};

    fn result(name: &str, output: Value) -> Turn {
        Turn::results([ToolResult { id: ToolCallId::new(), name: name.into(), output, is_error: false }])
    }

    fn fill(template: Value) -> Result<Value, String> {
        let turns = [
            Turn::user("find tagging"),
            result("jira.search", json!(r#"{"issues": [{"key": "A-1"}]}"#)),
            result("entities_create", json!({ "objects": [{ "id": "o1", "n": 2 }] })),
        ];
        let about = RequestMeta { agent: "ada", step: 3, run: None };
        let (temperature, max_tokens, output_schema) = (None, None, None);
        let request = ChatRequest {
            model: "m",
            system: "",
            turns: &turns,
            tools: &[],
            temperature,
            max_tokens,
            output_schema,
            cache: None,
            meta: about,
        };
        let rule = Rule::default();
        Renderer { scene: &ConversationView::new(request), rule: &rule, agent: "ada" }.render_json(&template)
    }

    #[test]
    fn the_context_of_a_run_can_be_reached_into() {
        let input = "Read it.\n\nContext:\n{}\n\nContext:\n{\n  \"document\": { \"id\": \"d1\" }\n}";
        assert_eq!(
            parse_context(input).and_then(|context| value_at(&context, "document.id")),
            Some(json!("d1"))
        );
        assert_eq!(parse_context("Read it."), None);
        assert_eq!(fill(json!("{{context.id}}")), Err("`{{context.id}}` has no value here".to_owned()));
    }

    #[test]
    fn a_text_takes_values_and_a_lone_template_keeps_its_type() {
        let filled = fill(json!({
            "said": "You asked: {{input}} ({{ result.objects.0.n }})",
            "id": "{{result.objects.0.id}}",
            "n": "{{result.objects.0.n}}",
            "all": ["{{result.objects}}", 7],
            "by": "{{agent}}",
        }));
        let expected = json!({
            "said": "You asked: find tagging (2)", "id": "o1", "n": 2,
            "all": [[{ "id": "o1", "n": 2 }], 7], "by": "ada",
        });
        assert_eq!(filled.unwrap(), expected);
    }

    #[test]
    fn an_earlier_result_is_found_by_its_tool_and_json_in_a_text_is_read() {
        assert_eq!(fill(json!("{{results.jira.search.issues.0.key}}")).unwrap(), "A-1");
    }

    #[test]
    fn a_template_without_a_value_is_an_error_that_names_it() {
        assert!(fill(json!("{{result.objects.9.id}}")).unwrap_err().contains("{{result.objects.9.id}}"));
        assert!(fill(json!("{{results.nobody.id}}")).unwrap_err().contains("nobody"));
        assert!(fill(json!("{{imput}}")).unwrap_err().contains("is no template"));
        assert!(fill(json!("{{input")).unwrap_err().contains("{{input"));
    }
}
