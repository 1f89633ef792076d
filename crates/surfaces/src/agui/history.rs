//! The messages of a request as what was said before, and what is asked now.

use emergent_domain::{conversation::HistoryTurn, invalid::Invalid};
use serde_json::Value;

/// Stands for the message of a user where a conversation begins with the assistant.
const NO_QUESTION: &str = "(The assistant began the conversation.)";

/// What the messages of a request say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    /// The last messages of the user.
    pub input: String,
    pub history: Vec<HistoryTurn>,
    /// The messages of the roles `system` and `developer`.
    pub instructions: Vec<String>,
}

/// Reads the messages of a request. Calls of tools, their results, reasoning and activities of earlier runs are left
/// out: the client shows them, and the answer of the agent has what came of them.
pub fn conversation(messages: &[Value]) -> Result<Conversation, Invalid> {
    let mut read = Conversation::default();
    let (mut questions, mut answers) = (Vec::new(), Vec::new());
    for (index, message) in messages.iter().enumerate() {
        let text = message_text(message, index)?;
        match message["role"].as_str() {
            Some("system" | "developer") => read.instructions.extend(text),
            Some("user") => {
                if !answers.is_empty() {
                    read.history.push(turn(&mut questions, &mut answers));
                }
                questions.extend(text);
            }
            Some("assistant") => answers.extend(text),
            Some("tool" | "activity" | "reasoning") => {}
            _ => {
                let reason =
                    "must be `user`, `assistant`, `system`, `developer`, `tool`, `activity` or `reasoning`";
                return Err(Invalid::new(format!("messages[{index}].role"), reason));
            }
        }
    }
    read.input = questions.join("\n\n");
    if read.input.is_empty() || !answers.is_empty() {
        return Err(Invalid::new("messages", "must end with a message of the user, which says what to do"));
    }
    Ok(read)
}

fn turn(questions: &mut Vec<String>, answers: &mut Vec<String>) -> HistoryTurn {
    let question = match questions.is_empty() {
        true => NO_QUESTION.to_owned(),
        false => questions.join("\n\n"),
    };
    let answer = answers.join("\n\n");
    questions.clear();
    answers.clear();
    HistoryTurn { question, answer }
}

/// The text of a message of a role whose text the agent reads; `None` if it has none.
fn message_text(message: &Value, index: usize) -> Result<Option<String>, Invalid> {
    if !matches!(message["role"].as_str(), Some("system" | "developer" | "user" | "assistant")) {
        return Ok(None);
    }
    let text = content_text(message, index)?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// The text of the content of a message, whole or in parts.
pub(super) fn content_text(message: &Value, index: usize) -> Result<String, Invalid> {
    let field = |name: &str| format!("messages[{index}].{name}");
    let text = match &message["content"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let mut texts = Vec::new();
            for (number, part) in parts.iter().enumerate() {
                match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("text"), Some(text)) => texts.push(text),
                    _ => {
                        let reason = "must be `text`: agents read only text";
                        return Err(Invalid::new(field(&format!("content[{number}].type")), reason));
                    }
                }
            }
            texts.join("\n")
        }
        _ => return Err(Invalid::new(field("content"), "must be a text, or a list of parts")),
    };
    if text.contains('\0') {
        return Err(Invalid::new(field("content"), "has a NUL character"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(messages: Value) -> Result<Conversation, Invalid> {
        conversation(messages.as_array().unwrap())
    }

    #[test]
    fn the_last_messages_of_the_user_are_the_input() {
        let read = read(json!([
            { "id": "0", "role": "system", "content": "Be brief." },
            { "id": "1", "role": "assistant", "content": "Hello!" },
            { "id": "2", "role": "user", "content": "Which colour?" },
            { "id": "3", "role": "reasoning", "content": "Hm." },
            { "id": "4", "role": "assistant", "toolCalls": [{ "id": "c", "type": "function",
                "function": { "name": "look", "arguments": "{}" } }] },
            { "id": "5", "role": "tool", "toolCallId": "c", "content": "blue" },
            { "id": "6", "role": "assistant", "content": "Blue." },
            { "id": "7", "role": "user", "content": [{ "type": "text", "text": "Why?" }] },
            { "id": "8", "role": "user", "content": "Tell me." },
        ]))
        .unwrap();
        assert_eq!(
            (read.input.as_str(), &read.instructions),
            ("Why?\n\nTell me.", &vec!["Be brief.".to_owned()])
        );
        let turns: Vec<(&str, &str)> =
            read.history.iter().map(|turn| (turn.question.as_str(), turn.answer.as_str())).collect();
        assert_eq!(turns, [(NO_QUESTION, "Hello!"), ("Which colour?", "Blue.")]);
    }

    #[test]
    fn an_answer_of_tool_calls_alone_leaves_its_question_to_the_next_turn() {
        let read = read(json!([
            { "role": "user", "content": "Look." },
            { "role": "assistant", "toolCalls": [] },
            { "role": "user", "content": "Go on." },
        ]))
        .unwrap();
        assert_eq!((read.input.as_str(), read.history.len()), ("Look.\n\nGo on.", 0));
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_its_field() {
        let refused = |messages| read(messages).unwrap_err().problems[0].field.clone();
        assert_eq!(refused(json!([])), "messages");
        assert_eq!(
            refused(json!([{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }])),
            "messages"
        );
        assert_eq!(refused(json!([{ "role": "user", "content": " " }])), "messages");
        assert_eq!(refused(json!([{ "role": "robot", "content": "a" }])), "messages[0].role");
        assert_eq!(refused(json!(["text"])), "messages[0].role");
        assert_eq!(refused(json!([{ "role": "user", "content": 3 }])), "messages[0].content");
        assert_eq!(refused(json!([{ "role": "user", "content": "a\0" }])), "messages[0].content");
        let image = json!([{ "role": "user", "content": [{ "type": "image", "source": {} }] }]);
        assert_eq!(refused(image), "messages[0].content[0].type");
    }
}
