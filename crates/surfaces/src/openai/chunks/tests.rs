use emergent_domain::{ids::ApprovalId, ids::ToolCallId, run::Reason};

use super::*;
use crate::samples::{client_tool, message, run, tool_call};
use emergent_domain::run_event::RecordedToolCall;

/// The frames of these events, shortened: content as it is, reasoning in brackets.
fn frames(includes_usage: bool, events: Vec<RunEventBody>) -> Vec<String> {
    frames_of(AnswerForm::Text, includes_usage, events)
}

fn frames_of(form: AnswerForm, includes_usage: bool, events: Vec<RunEventBody>) -> Vec<String> {
    let mut state = ChunkState::new(run(RunStatus::Running), 0, form, includes_usage);
    events.into_iter().for_each(|event| state.on_event(event));
    let shown = |frame: Frame| match frame {
        Frame::Done => "DONE".to_owned(),
        Frame::Error(body) => format!("error {}", body.error.code),
        Frame::Chunk(Chunk { usage: Some(usage), choices, .. }) => {
            assert!(choices.is_empty());
            format!("usage {}+{}", usage.prompt_tokens, usage.completion_tokens)
        }
        Frame::Chunk(chunk) => {
            let ChunkChoice { delta, finish_reason, .. } = &chunk.choices[0];
            match (finish_reason, &delta.reasoning_content, &delta.content) {
                (Some(reason), ..) => format!("{reason:?}"),
                (None, Some(reasoning), _) => format!("[{}]", reasoning.trim_end()),
                (None, None, content) => content.clone().unwrap_or_default(),
            }
        }
    };
    let all: Vec<String> = state.take_frames().map(shown).collect();
    assert_eq!(all[0], "", "the first chunk has the role");
    all[1..].to_vec()
}

fn delta(step: i64, text: &str) -> RunEventBody {
    RunEventBody::TextDelta { step, text: text.to_owned() }
}

fn so_far(step: i64, text: &str, omitted_chars: i64) -> RunEventBody {
    RunEventBody::TextSoFar(TextSoFar { step, text: text.to_owned(), omitted_chars })
}

fn answer(step: i64, text: &str) -> RunEventBody {
    let usage = TokenCounts { input: 10, output: 2, ..TokenCounts::default() };
    let message = message(MessageRole::Assistant, step, text);
    RunEventBody::Message(RecordedMessage { usage: Some(usage), ..message })
}

fn ended(status: RunStatus, summary: &str) -> RunEventBody {
    let (reason, error) = match status {
        RunStatus::Failed => (Some(Reason::DoomLoop), Some("it repeats itself".to_owned())),
        _ => (None, None),
    };
    RunEventBody::Ended { status, reason, summary: summary.to_owned(), output: None, error }
}

#[test]
fn text_is_sent_once_however_it_arrives() {
    let end = || ended(RunStatus::Completed, "One two.");
    let live = vec![delta(1, "One "), delta(1, "two."), answer(1, "One two."), end()];
    assert_eq!(frames(false, live), ["One ", "two.", "Stop", "DONE"]);
    let recorded = vec![answer(1, "One two."), end()];
    assert_eq!(frames(false, recorded), ["One two.", "Stop", "DONE"]);
    let followed = vec![so_far(1, "One ", 0), delta(1, "two."), answer(1, "One two."), end()];
    assert_eq!(frames(false, followed), ["One ", "two.", "Stop", "DONE"]);
    let lost = vec![delta(1, "One "), so_far(1, "One two", 0), answer(1, "One two."), end()];
    assert_eq!(frames(false, lost), ["One ", "two", ".", "Stop", "DONE"]);
    let long = vec![so_far(1, "two", 4), delta(1, "."), answer(1, "One two."), end()];
    assert_eq!(frames(false, long), ["One two.", "Stop", "DONE"]);
    let late = vec![answer(1, "One two."), delta(1, "two."), so_far(1, "One ", 0), end()];
    assert_eq!(frames(false, late), ["One two.", "Stop", "DONE"]);
}

#[test]
fn steps_are_separated_and_tool_calls_are_reasoning() {
    let events = vec![
        delta(1, "Let me look."),
        answer(1, "Let me look."),
        RunEventBody::ToolStarted(tool_call("search", ToolCallStatus::Running)),
        RunEventBody::ToolCompleted(tool_call("search", ToolCallStatus::Completed)),
        RunEventBody::ToolStarted(tool_call("fetch", ToolCallStatus::Running)),
        RunEventBody::ToolCompleted(tool_call("fetch", ToolCallStatus::Error)),
        delta(2, "Three."),
        answer(2, "Three."),
        ended(RunStatus::Completed, "Three."),
    ];
    let expected = [
        "Let me look.",
        "[Calls `search`.]",
        "[Calls `fetch`.]",
        "[`fetch` failed.]",
        "\n\nThree.",
        "Stop",
        "usage 20+4",
        "DONE",
    ];
    assert_eq!(frames(true, events), expected);
}

#[test]
fn an_answer_that_is_begun_again_follows_what_was_sent() {
    let events = vec![
        delta(1, "One "),
        RunEventBody::StepRestarted { step: 1, why: "overloaded".to_owned() },
        delta(1, "Two."),
        answer(1, "Two."),
        ended(RunStatus::Completed, "Two."),
    ];
    let expected = ["One ", "[The model is asked again: overloaded]", "\n\nTwo.", "Stop", "DONE"];
    assert_eq!(frames(false, events), expected);
}

#[test]
fn an_answer_that_begins_again_alike_goes_on_where_it_was() {
    let restart = || RunEventBody::StepRestarted { step: 1, why: "cut".to_owned() };
    let end = || ended(RunStatus::Completed, "One two three.");
    let again = "[The model is asked again: cut]";
    let whole = || answer(1, "One two three.");
    let live = vec![
        delta(1, "One two "),
        restart(),
        delta(1, "One "),
        delta(1, "two th"),
        delta(1, "ree."),
        whole(),
        end(),
    ];
    assert_eq!(frames(false, live), ["One two ", again, "th", "ree.", "Stop", "DONE"]);
    let recorded = vec![delta(1, "One two "), restart(), delta(1, "One"), whole(), end()];
    assert_eq!(frames(false, recorded), ["One two ", again, "three.", "Stop", "DONE"]);
    let twice =
        vec![delta(1, "One two "), restart(), delta(1, "One "), restart(), delta(1, "One two three."), end()];
    assert_eq!(frames(false, twice), ["One two ", again, again, "three.", "Stop", "DONE"]);
    let behind = vec![delta(1, "One two "), so_far(1, "One", 0), delta(1, " two three."), whole(), end()];
    assert_eq!(frames(false, behind), ["One two ", "three.", "Stop", "DONE"]);
}

#[test]
fn the_content_of_a_typed_run_is_its_validated_output() {
    let output = serde_json::json!({ "priority": "high" });
    let end = RunEventBody::Ended {
        status: RunStatus::Completed,
        reason: None,
        summary: "```json\n{ \"priority\": \"high\" }\n```".to_owned(),
        output: Some(output.clone()),
        error: None,
    };
    let events = vec![
        delta(1, "{\"priority\":\"urgent\"}"),
        answer(1, "{\"priority\":\"urgent\"}"),
        RunEventBody::ToolStarted(tool_call("search", ToolCallStatus::Running)),
        so_far(2, "```json", 0),
        answer(2, "```json\n{ \"priority\": \"high\" }\n```"),
        end.clone(),
    ];
    let expected = ["[Calls `search`.]", "{\"priority\":\"high\"}", "Stop", "usage 20+4", "DONE"];
    assert_eq!(frames_of(AnswerForm::Value, true, events), expected);
    let mut state = ChunkState::new(run(RunStatus::Running), 0, AnswerForm::Value, false);
    state.on_event(end);
    let last = state.take_frames().filter_map(|frame| match frame {
        Frame::Chunk(chunk) => chunk.choices.into_iter().next(),
        _ => None,
    });
    assert_eq!(last.last().unwrap().delta.output, Some(output));
    // What is known at a limit is cut, and a refused text is no answer.
    let paused = vec![answer(1, "Half."), ended(RunStatus::Paused, "Half.")];
    assert_eq!(frames_of(AnswerForm::Value, false, paused), ["Half.", "Length", "DONE"]);
    let failed = vec![answer(1, "{}"), ended(RunStatus::Failed, "{}")];
    assert_eq!(frames_of(AnswerForm::Value, false, failed), ["error doom_loop", "DONE"]);
}

#[test]
fn a_run_that_waits_says_so_and_goes_on() {
    let approval = ApprovalId::new();
    let requested = |kind| RunEventBody::ApprovalRequested {
        approval,
        call: ToolCallId::new(),
        tool: "entities_delete".to_owned(),
        kind,
        child: None,
    };
    let events = vec![
        requested(ApprovalKind::Approval),
        RunEventBody::Continued,
        requested(ApprovalKind::Question),
        answer(1, "Done."),
        ended(RunStatus::Completed, "Done."),
    ];
    let expected = [
        format!("[Waits for a person: `entities_delete` has to be approved (`/api/approvals/{approval}`).]"),
        "[Goes on.]".to_owned(),
        format!("[Waits for a person: the agent asks a question (`/api/approvals/{approval}`).]"),
        "Done.".to_owned(),
        "Stop".to_owned(),
        "DONE".to_owned(),
    ];
    assert_eq!(frames(false, events), expected);
}

#[test]
fn calls_of_tools_of_the_caller_end_the_stream() {
    let mut run = run(RunStatus::Running);
    run.terms.client_tools = vec![client_tool("get_weather")];
    let (own, asked) =
        (tool_call("search", ToolCallStatus::Running), tool_call("get_weather", ToolCallStatus::Running));
    let requested = RunEventBody::ApprovalRequested {
        approval: ApprovalId::new(),
        call: asked.id,
        tool: asked.tool.clone(),
        kind: ApprovalKind::ClientTool,
        child: None,
    };
    let mut state = ChunkState::new(run.clone(), 0, AnswerForm::Text, true);
    for event in [
        answer(1, "Let me see."),
        RunEventBody::ToolStarted(own),
        RunEventBody::ToolStarted(asked.clone()),
        requested,
        RunEventBody::Waiting { waiting_for: ApprovalKind::ClientTool },
    ] {
        assert!(!state.has_ended());
        state.on_event(event);
    }
    assert!(state.has_ended());
    let frames: Vec<Frame> = state.take_frames().collect();
    let [_, _, _, Frame::Chunk(call), Frame::Chunk(end), Frame::Chunk(usage), Frame::Done] = &frames[..]
    else {
        panic!("{frames:?}")
    };
    let expected = serde_json::json!({ "tool_calls": [{
        "index": 0, "id": format!("call_{}", asked.id.0.simple()), "type": "function",
        "function": { "name": "get_weather", "arguments": "null" },
    }] });
    assert_eq!(serde_json::to_value(&call.choices[0].delta).unwrap(), expected);
    assert_eq!(end.choices[0].finish_reason, Some(FinishReason::ToolCalls));
    assert!(usage.usage.is_some_and(|usage| usage.prompt_tokens == 10));
    // What follows from the results is an answer of its own.
    let mut state = ChunkState::new(run, 7, AnswerForm::Text, false);
    let completed = RecordedToolCall { status: ToolCallStatus::Error, ..asked };
    for event in [RunEventBody::Continued, RunEventBody::ToolCompleted(completed), answer(2, "Sunny.")] {
        state.on_event(event);
    }
    state.on_event(ended(RunStatus::Completed, "Sunny."));
    let frames: Vec<Frame> = state.take_frames().collect();
    let [Frame::Chunk(first), Frame::Chunk(text), _, Frame::Done] = &frames[..] else { panic!("{frames:?}") };
    assert!(first.id.ends_with("-7"), "{}", first.id);
    assert_eq!(text.choices[0].delta.content.as_deref(), Some("Sunny."));
}

#[test]
fn the_end_of_a_run_is_the_end_of_the_stream() {
    let paused = vec![answer(1, "Half."), ended(RunStatus::Paused, "Half.")];
    assert_eq!(frames(false, paused), ["Half.", "Length", "DONE"]);
    let flow = vec![ended(RunStatus::Completed, "What the parts said.")];
    assert_eq!(frames(false, flow), ["What the parts said.", "Stop", "DONE"]);
    let failed = vec![delta(1, "One"), ended(RunStatus::Failed, "")];
    assert_eq!(frames(true, failed), ["One", "error doom_loop", "DONE"]);
    assert_eq!(frames(false, vec![ended(RunStatus::Cancelled, "")]), ["error cancelled", "DONE"]);
}
