//! Messages: what an agent is asked by those of a client, and the recorded ones of a run as those of a history.

use emergent_domain::{
    chat::join_text,
    invalid::Invalid,
    run::MessageRole,
    run_event::{MessageContent, RecordedMessage},
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    error::{A2aError, ErrorKind},
    types::{Message, Part, Role},
};

/// The maximum size of the text of a message.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
const MAX_PARTS: usize = 1_000;

/// Returns the text that the agent is asked, and the value of a message that consists of one value. A value is passed on
/// as JSON. Files are refused.
pub(super) fn input_text(parts: &[Part]) -> Result<(String, Option<Value>), A2aError> {
    if parts.is_empty() || parts.len() > MAX_PARTS {
        return Err(Invalid::new("message.parts", format!("must have 1 to {MAX_PARTS} parts")).into());
    }
    let mut texts = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        texts.push(part_text(&format!("message.parts[{index}]"), part)?);
    }
    let text = texts.join("\n\n");
    let reason = match &text {
        text if text.trim().is_empty() => "have no text: say what the agent is to do".to_owned(),
        text if text.len() > MAX_TEXT_BYTES => format!("have more than {MAX_TEXT_BYTES} bytes of text"),
        text if text.contains('\0') => "have a NUL character".to_owned(),
        _ => {
            let data = match parts {
                [part] if part.text.is_none() => part.data.clone(),
                _ => None,
            };
            return Ok((text, data));
        }
    };
    Err(Invalid::new("message.parts", reason).into())
}

fn part_text(field: &str, part: &Part) -> Result<String, A2aError> {
    let media_type = part.media_type.as_deref().unwrap_or_default().to_ascii_lowercase();
    let is_json = media_type.starts_with("application/json");
    // Some clients write `null` for what is not set.
    let has_other = part.text.is_some() || part.raw.is_some() || part.url.is_some();
    let without_data = Part { data: None, ..part.clone() };
    let part = if has_other && part.data == Some(Value::Null) { &without_data } else { part };
    let (text, is_supported) = match part {
        Part { text: Some(text), raw: None, url: None, data: None, .. } => {
            (text.clone(), media_type.is_empty() || media_type.starts_with("text/") || is_json)
        }
        Part { data: Some(data), text: None, raw: None, url: None, .. } => {
            (data.to_string(), media_type.is_empty() || is_json)
        }
        Part { text: None, data: None, raw, url, .. } if raw.is_some() != url.is_some() => {
            (String::new(), false)
        }
        _ => {
            let reason = "must have exactly one of `text`, `data`, `raw` and `url`";
            return Err(Invalid::new(field, reason).into());
        }
    };
    if is_supported {
        return Ok(text);
    }
    let message = format!("`{field}` cannot be used: agents take parts with `text` or with JSON `data`");
    Err(A2aError::new(ErrorKind::ContentTypeNotSupported, message).with("field", field))
}

/// Returns a message of a task.
pub(super) fn agent_message(id: String, task: Uuid, context: &str, text: impl Into<String>) -> Message {
    message(id, task, context, Role::Agent, text.into())
}

fn message(id: String, task: Uuid, context: &str, role: Role, text: String) -> Message {
    Message {
        message_id: id,
        context_id: Some(context.to_owned()),
        task_id: Some(task.to_string()),
        role,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: None,
        reference_task_ids: None,
    }
}

/// Returns the recorded messages that a client sees, in their order: what users and the agent said. The system prompt,
/// what was said before the run, and what the system itself added belong to the project.
pub fn history(recorded: &[RecordedMessage], task: Uuid, context: &str) -> Vec<Message> {
    let visible = recorded.iter().filter(|message| message.step > 0).filter_map(|recorded| {
        let (role, text) = visible_text(recorded)?;
        Some(message(recorded.id.to_string(), task, context, role, text))
    });
    visible.collect()
}

/// The text of a message that a client sees, and who said it.
pub(super) fn visible_text(recorded: &RecordedMessage) -> Option<(Role, String)> {
    let (role, text) = match (recorded.role, &recorded.content) {
        (MessageRole::User, MessageContent::Text { text, injected: None }) => (Role::User, text.clone()),
        (MessageRole::Assistant, MessageContent::Parts(parts)) => (Role::Agent, join_text(parts)),
        _ => return None,
    };
    (!text.trim().is_empty()).then_some((role, text))
}

#[cfg(test)]
mod tests {
    use emergent_domain::run::Reason;
    use serde_json::json;

    use super::*;
    use crate::samples;

    fn text(parts: Value) -> Result<(String, Option<Value>), i64> {
        let parts: Vec<Part> = serde_json::from_value(parts).expect("parts");
        input_text(&parts).map_err(|error| error.jsonrpc_error().code)
    }

    #[test]
    fn texts_and_values_are_what_the_agent_is_asked() {
        let found = text(json!([{ "text": "Sum this." }, { "data": { "a": 1 } }]));
        assert_eq!(found, Ok(("Sum this.\n\n{\"a\":1}".to_owned(), None)));
        assert_eq!(
            text(json!([{ "data": { "a": 1 } }])),
            Ok(("{\"a\":1}".to_owned(), Some(json!({ "a": 1 }))))
        );
        assert!(text(json!([{ "text": "# Hello", "mediaType": "text/markdown" }])).is_ok());
        assert_eq!(text(json!([{ "data": null }])), Ok(("null".to_owned(), Some(Value::Null))));
        assert_eq!(text(json!([{ "text": "Go.", "data": null }])), Ok(("Go.".to_owned(), None)));
    }

    #[test]
    fn files_and_unknown_media_types_are_not_supported() {
        for part in [
            json!({ "raw": "aGk=", "mediaType": "text/plain" }),
            json!({ "url": "https://example.com/a.txt" }),
            json!({ "text": "hi", "mediaType": "application/x-unknown" }),
            json!({ "data": {}, "mediaType": "image/png" }),
        ] {
            assert_eq!(text(json!([part])), Err(-32005), "{part}");
        }
    }

    #[test]
    fn a_part_without_content_or_with_two_is_invalid() {
        for parts in [json!([]), json!([{}]), json!([{ "text": "a", "data": 1 }]), json!([{ "text": " " }])] {
            assert_eq!(text(parts.clone()), Err(-32602), "{parts}");
        }
    }

    #[test]
    fn a_history_has_what_users_and_the_agent_said_in_this_task() {
        let injected =
            MessageContent::Text { text: "Finish now.".to_owned(), injected: Some(Reason::StepLimit) };
        let recorded = [
            samples::message(MessageRole::System, 0, "You find."),
            samples::message(MessageRole::User, 0, "An earlier question."),
            samples::message(MessageRole::Assistant, 0, "An earlier answer."),
            samples::message(MessageRole::User, 1, "Find it."),
            samples::message(MessageRole::Assistant, 1, ""),
            RecordedMessage { content: injected, ..samples::message(MessageRole::User, 2, "") },
            samples::message(MessageRole::Assistant, 2, "Found."),
        ];
        let (task, context) = (Uuid::now_v7(), "context");
        let found = history(&recorded, task, context);
        let said: Vec<_> =
            found.iter().map(|message| (message.role, message.parts[0].text.clone())).collect();
        let expected = [(Role::User, Some("Find it.".to_owned())), (Role::Agent, Some("Found.".to_owned()))];
        assert_eq!(said, expected);
        assert_eq!(found[0].task_id, Some(task.to_string()));
        assert_eq!(found[0].context_id, Some(context.to_string()));
    }
}
