//! The messages of a request as turns: questions with their answers. What was done with tools is a part of the answer.

use std::collections::HashMap;

use emergent_domain::{conversation::HistoryTurn, invalid::Invalid};
use serde_json::Value;

/// Stands for the message of a user where a conversation begins with the assistant.
const NO_QUESTION: &str = "(The assistant began the conversation.)";
/// Stands for an answer that has no text.
const NO_ANSWER: &str = "(no answer)";
const DONE_SO_FAR: &str = "What you did so far to answer this:";

/// Joins messages to questions with their answers. Messages of one role in a row are one message.
#[derive(Default)]
pub(super) struct Turns {
    complete: Vec<HistoryTurn>,
    question: Option<String>,
    answer: Option<String>,
    /// The names of the tools that were called, by the ids of the calls.
    tools: HashMap<String, String>,
    /// Whether the newest message is the result of a tool.
    ends_in_result: bool,
}

impl Turns {
    pub fn push_user(&mut self, text: String) {
        self.complete_turn();
        self.ends_in_result = false;
        join(&mut self.question, text);
    }

    pub fn push_assistant(&mut self, text: String) {
        self.ends_in_result = false;
        join(&mut self.answer, text);
    }

    /// Adds a call of a tool to the answer.
    pub fn push_call(&mut self, call: &Value) {
        let function = &call["function"];
        let name = function["name"].as_str().unwrap_or("a tool");
        if let Some(id) = call["id"].as_str() {
            self.tools.insert(id.to_owned(), name.to_owned());
        }
        let arguments = function["arguments"].as_str().unwrap_or("{}");
        self.push_assistant(format!("[Called `{name}` with {arguments}]"));
    }

    /// Adds the result of a call to the answer.
    pub fn push_result(&mut self, id: &str, text: &str) {
        let name = self.tools.get(id).map_or("a tool", String::as_str);
        let note = format!("[`{name}` returned: {text}]");
        join(&mut self.answer, note);
        self.ends_in_result = true;
    }

    /// Ends a turn that has an answer.
    fn complete_turn(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        let question = with_text(self.question.take().unwrap_or_default(), NO_QUESTION);
        self.complete.push(HistoryTurn { question, answer: with_text(answer, NO_ANSWER) });
    }

    /// Returns what the agent is asked, and what was said before. If the conversation ends with results of tools that
    /// this server did not ask for, the agent goes on with them.
    pub fn finish(self) -> Result<(String, Vec<HistoryTurn>), Invalid> {
        let question = self.question.filter(|text| !text.trim().is_empty());
        match (question, self.answer) {
            (Some(input), None) => Ok((input, self.complete)),
            (Some(question), Some(done)) if self.ends_in_result => {
                Ok((format!("{question}\n\n{DONE_SO_FAR}\n\n{done}"), self.complete))
            }
            _ => {
                let reason = "must end with a message of the user, which says what to do, or with the results of tools";
                Err(Invalid::new("messages", reason))
            }
        }
    }
}

fn with_text(text: String, empty: &str) -> String {
    match text.trim().is_empty() {
        true => empty.to_owned(),
        false => text,
    }
}

fn join(text: &mut Option<String>, more: String) {
    match text {
        Some(text) => {
            text.push_str("\n\n");
            text.push_str(&more);
        }
        None => *text = Some(more),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_tools_did_is_a_part_of_the_answer() {
        let mut turns = Turns::default();
        turns.push_user("Weather?".to_owned());
        turns.push_call(
            &json!({ "id": "toolu_1", "function": { "name": "look", "arguments": "{\"city\":\"Oslo\"}" } }),
        );
        turns.push_result("toolu_1", "sun");
        turns.push_assistant("Sunny.".to_owned());
        turns.push_user("And Rome?".to_owned());
        turns.push_call(&json!({ "id": "toolu_2", "function": { "name": "look", "arguments": "{}" } }));
        turns.push_result("toolu_2", "rain");
        let (input, history) = turns.finish().unwrap();
        let answer = "[Called `look` with {\"city\":\"Oslo\"}]\n\n[`look` returned: sun]\n\nSunny.";
        assert_eq!((history.len(), history[0].answer.as_str()), (1, answer));
        let expected =
            format!("And Rome?\n\n{DONE_SO_FAR}\n\n[Called `look` with {{}}]\n\n[`look` returned: rain]");
        assert_eq!(input, expected);
    }

    #[test]
    fn an_answer_without_its_question_and_without_text_has_a_place_holder() {
        let mut turns = Turns::default();
        turns.push_assistant("Hello.".to_owned());
        turns.push_user("a".to_owned());
        turns.push_assistant(" ".to_owned());
        turns.push_user("b".to_owned());
        let (input, history) = turns.finish().unwrap();
        assert_eq!((history[0].question.as_str(), history[1].answer.as_str()), (NO_QUESTION, NO_ANSWER));
        assert_eq!(input, "b");
    }
}
