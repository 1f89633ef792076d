//! How an external agent is described to callers from outside.

use serde::{Deserialize, Serialize};

use super::string_enum;

const MAX_DISPLAY_NAME_CHARS: usize = 200;
const MAX_CARD_DESCRIPTION_CHARS: usize = 4_000;
const MAX_CARD_ENTRIES: usize = 50;
const MAX_CARD_ENTRY_CHARS: usize = 200;

string_enum! {
    /// What a caller of A2A gets when the agent has completed its work.
    #[derive(Default)]
    AnswerAs {
        /// The task, with the answer as an artifact.
        #[default]
        Task = "task",
        /// Only what the agent says, as a message.
        Message = "message",
    }
}

impl AnswerAs {
    /// Whether it is the default, which is not written.
    pub fn is_task(&self) -> bool {
        *self == Self::Task
    }
}

/// The content of the agent card, which describes an externally visible agent to callers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcpConfig {
    pub display_name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub capabilities: Vec<String>,
    #[serde(default)]
    pub input_modes: Vec<String>,
    #[serde(default)]
    pub output_modes: Vec<String>,
    #[serde(default, skip_serializing_if = "AnswerAs::is_task")]
    pub answer_as: AnswerAs,
}

impl AcpConfig {
    /// Anybody may ask for a card, so it is short.
    pub(super) fn check(&self, add_problem: &mut impl FnMut(&str, String)) {
        let texts = [
            ("acp.displayName", &self.display_name, MAX_DISPLAY_NAME_CHARS),
            ("acp.description", &self.description, MAX_CARD_DESCRIPTION_CHARS),
        ];
        for (field, text, max) in texts {
            if text.chars().count() > max {
                add_problem(field, format!("is longer than {max} characters"));
            }
        }
        let lists = [
            ("acp.capabilities", &self.capabilities),
            ("acp.inputModes", &self.input_modes),
            ("acp.outputModes", &self.output_modes),
        ];
        for (field, entries) in lists {
            if entries.len() > MAX_CARD_ENTRIES {
                add_problem(field, format!("has more than {MAX_CARD_ENTRIES} entries"));
            }
            if entries.iter().any(|entry| entry.chars().count() > MAX_CARD_ENTRY_CHARS) {
                add_problem(field, format!("has an entry of more than {MAX_CARD_ENTRY_CHARS} characters"));
            }
        }
    }
}
