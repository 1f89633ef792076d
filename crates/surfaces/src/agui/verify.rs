//! Checks a stream against the rules that clients of AG-UI enforce.

use std::collections::HashSet;

use super::event::{Event, Outcome};

/// Returns the first rule that a stream breaks.
pub(super) fn verify(events: &[Event]) -> Result<(), String> {
    let mut open: HashSet<(&str, String)> = HashSet::new();
    let mut has_ended = false;
    for (index, event) in events.iter().enumerate() {
        let mut start = |kind, id: &String| match open.insert((kind, id.clone())) {
            true => Ok(()),
            false => Err(format!("{index}: {kind} `{id}` is started twice")),
        };
        if has_ended {
            return Err(format!("{index}: {event:?} follows the end"));
        }
        if (index == 0) != matches!(event, Event::RunStarted { .. }) {
            return Err(format!("{index}: a stream has one RUN_STARTED, the first: {event:?}"));
        }
        match event {
            Event::StepStarted { step_name } => start("step", step_name)?,
            Event::TextMessageStart { message_id, .. } => start("text", message_id)?,
            Event::ReasoningStart { message_id } => start("reasoning", message_id)?,
            Event::ReasoningMessageStart { message_id, .. } => start("reasoning message", message_id)?,
            Event::ToolCallStart { tool_call_id, .. } => start("call", tool_call_id)?,
            _ => {}
        }
        let content = |kind, id: &String| match open.contains(&(kind, id.clone())) {
            true => Ok(()),
            false => Err(format!("{index}: {kind} `{id}` is not open")),
        };
        match event {
            Event::TextMessageContent { message_id, delta } => {
                content("text", message_id)?;
                if delta.is_empty() {
                    return Err(format!("{index}: text without a character"));
                }
            }
            Event::ReasoningMessageContent { message_id, .. } => content("reasoning message", message_id)?,
            Event::ToolCallArgs { tool_call_id, .. } => content("call", tool_call_id)?,
            _ => {}
        }
        let mut end = |kind, id: &String| match open.remove(&(kind, id.clone())) {
            true => Ok(()),
            false => Err(format!("{index}: {kind} `{id}` ends and was not started")),
        };
        match event {
            Event::StepFinished { step_name } => end("step", step_name)?,
            Event::TextMessageEnd { message_id } => end("text", message_id)?,
            Event::ReasoningEnd { message_id } => end("reasoning", message_id)?,
            Event::ReasoningMessageEnd { message_id } => end("reasoning message", message_id)?,
            Event::ToolCallEnd { tool_call_id } => end("call", tool_call_id)?,
            Event::RunFinished { outcome, .. } => {
                if matches!(outcome, Outcome::Interrupt { interrupts } if interrupts.is_empty()) {
                    return Err(format!("{index}: an interrupt without interrupts"));
                }
                has_ended = true;
            }
            Event::RunError { .. } => has_ended = true,
            _ => {}
        }
        if has_ended && !open.is_empty() {
            return Err(format!("{index}: at the end are open: {open:?}"));
        }
        let text = serde_json::to_string(event).map_err(|error| error.to_string())?;
        // The state and the messages of the client are its own.
        let is_own = !matches!(
            event,
            Event::StateSnapshot { .. } | Event::MessagesSnapshot { .. } | Event::Custom { .. }
        );
        if is_own && text.contains(":null") {
            return Err(format!("{index}: null in {text}"));
        }
    }
    if has_ended { Ok(()) } else { Err("the stream has no end".to_owned()) }
}
