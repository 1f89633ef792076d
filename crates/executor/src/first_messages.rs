//! The messages that a run is admitted with, and the text around the input of a resumption.

use emergent_domain::{
    agent::Agent,
    chat::Part,
    ids::MessageId,
    run::{MessageRole, Run},
    run_event::{MessageContent, RecordedMessage},
    run_input::RESUME_PREFIX,
};

use crate::{output_schema, start_options::StartOptions};

/// Returns the messages that a run is admitted with: the system prompt, what was said before in its conversation, and
/// the input. The `seq` of the returned run is the one of the last message. What was said before has step 0, as the
/// system prompt: no model of this run said it.
pub(crate) fn first_messages(
    mut run: Run,
    agent: &Agent,
    resumed: Option<&Run>,
    start: &StartOptions,
) -> (Run, Vec<RecordedMessage>) {
    let recorded = |seq, role, step, content| RecordedMessage {
        id: MessageId::new(),
        seq,
        role,
        step,
        content,
        usage: None,
        cost: None,
        at: run.created_at,
    };
    let message =
        |seq, role, step, text| recorded(seq, role, step, MessageContent::Text { text, injected: None });
    let mut messages = Vec::with_capacity(2 + 2 * start.history.len());
    // A resumed conversation contains the system prompt already, unless the agent has changed since.
    if resumed.is_none_or(|earlier| earlier.agent_version != agent.version) {
        let prompt = output_schema::system_prompt(&run, &agent.definition).into_owned();
        messages.push(message(1, MessageRole::System, 0, prompt));
    }
    let mut seq = i64::try_from(messages.len()).unwrap_or(0) + 1;
    for turn in &start.history {
        messages.push(message(seq, MessageRole::User, 0, turn.question.clone()));
        let answer = MessageContent::Parts(vec![Part::text(turn.answer.clone())]);
        messages.push(recorded(seq + 1, MessageRole::Assistant, 0, answer));
        seq += 2;
    }
    let text = match resumed {
        None => user_message(start),
        Some(_) if start.input.is_empty() => "Continue your work.".to_owned(),
        Some(_) => resume_message(&user_message(start)),
    };
    messages.push(message(seq, MessageRole::User, run.steps_before + 1, text));
    run.seq = seq;
    (run, messages)
}

fn user_message(start: &StartOptions) -> String {
    match &start.context {
        None => start.input.clone(),
        Some(context) => format!(
            "{}\n\nContext:\n{}",
            start.input,
            serde_json::to_string_pretty(context).unwrap_or_default()
        ),
    }
}

/// Returns the first message of a resumed run that was given an input.
fn resume_message(input: &str) -> String {
    format!("{RESUME_PREFIX}{input}")
}

/// Returns the input of a resumption from the message it became; empty if there was none.
pub(crate) fn resume_input(message: &str) -> &str {
    message.strip_prefix(RESUME_PREFIX).unwrap_or_default()
}
