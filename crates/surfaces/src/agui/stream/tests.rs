use emergent_domain::{
    approval::{Approval, ApprovalStatus, Choice},
    ids::{ApprovalId, MessageId},
    run::ToolCallStatus,
};

use super::*;
use crate::{
    agui::verify::verify,
    samples::{approval, client_tool, message, run, tool_call},
};

fn stream(is_resumed: bool) -> EventStream {
    let ids = ClientIds { thread: "t".into(), run: "r".into(), parent_run: None };
    let echo = Echo {
        messages: vec![json!({ "id": "u", "role": "user", "content": "Go." })],
        state: json!({ "order": 7 }).as_object().cloned(),
    };
    EventStream::new(run(RunStatus::Running), ids, echo, is_resumed)
}

/// The events of a stream after RUN_STARTED and the first state, shortened.
fn shown(mut stream: EventStream) -> Vec<String> {
    let id = stream.run.id.to_string();
    let events: Vec<Event> = stream.take_events().collect();
    verify(&events).unwrap();
    let show = |event: &Event| match event {
        Event::RunStarted { .. } | Event::StateSnapshot { .. } | Event::StateDelta { .. } => None,
        Event::StepStarted { step_name } => Some(format!("<{step_name}")),
        Event::StepFinished { step_name } => Some(format!("{step_name}>")),
        Event::TextMessageStart { message_id, .. } => Some(message_id.replace(&id, "(")),
        Event::TextMessageContent { delta, .. } => Some(delta.clone()),
        Event::TextMessageEnd { .. } => Some(")".to_owned()),
        Event::ReasoningStart { .. } => Some("[".to_owned()),
        Event::ReasoningMessageStart { .. } | Event::ReasoningMessageEnd { .. } => None,
        Event::ReasoningMessageContent { delta, .. } => Some(delta.clone()),
        Event::ReasoningEnd { .. } => Some("]".to_owned()),
        Event::ToolCallStart { tool_call_name, .. } => Some(format!("call {tool_call_name}")),
        Event::ToolCallArgs { delta, .. } => Some(delta.clone()),
        Event::ToolCallEnd { .. } => None,
        Event::ToolCallResult { content, .. } => Some(format!("result {content}")),
        Event::MessagesSnapshot { messages } => Some(format!("{} messages", messages.len())),
        Event::Custom { name, .. } => Some(name.clone()),
        Event::RunFinished { outcome: Outcome::Interrupt { interrupts }, .. } => {
            Some(format!("interrupt {}", interrupts.len()))
        }
        Event::RunFinished { outcome: Outcome::Success, result: None, .. } => Some("pending".to_owned()),
        Event::RunFinished { result, .. } => Some(format!("finished {}", result.as_ref().unwrap().text)),
        Event::RunError { code, .. } => Some(format!("error {code}")),
    };
    events.iter().filter_map(show).collect()
}

fn events(bodies: Vec<RunEventBody>) -> Vec<String> {
    let mut stream = stream(false);
    bodies.into_iter().for_each(|body| stream.on_event(body));
    shown(stream)
}

fn delta(step: i64, text: &str) -> RunEventBody {
    RunEventBody::TextDelta { step, text: text.to_owned() }
}

fn thought(step: i64, text: &str) -> RunEventBody {
    RunEventBody::ThoughtDelta { step, text: text.to_owned() }
}

fn so_far(step: i64, text: &str, omitted_chars: i64) -> RunEventBody {
    RunEventBody::TextSoFar(TextSoFar { step, text: text.to_owned(), omitted_chars })
}

fn answer_with(step: i64, text: &str, calls: &[&RecordedToolCall]) -> RunEventBody {
    let usage = TokenCounts { input: 10, output: 2, ..TokenCounts::default() };
    let mut parts = if text.is_empty() { Vec::new() } else { vec![Part::text(text)] };
    parts.extend(calls.iter().map(|call| {
        Part::Call(ToolCall {
            id: call.id,
            name: call.tool.clone(),
            input: call.input.clone(),
            provider: None,
        })
    }));
    let recorded = message(MessageRole::Assistant, step, text);
    RunEventBody::Message(RecordedMessage {
        id: MessageId::new(),
        usage: Some(usage),
        content: MessageContent::Parts(parts),
        ..recorded
    })
}

fn answer(step: i64, text: &str) -> RunEventBody {
    answer_with(step, text, &[])
}

fn call(step: i64) -> RecordedToolCall {
    RecordedToolCall { step, input: json!({ "a": 1 }), ..tool_call("look", ToolCallStatus::Running) }
}

fn completed(call: &RecordedToolCall) -> RunEventBody {
    RunEventBody::ToolCompleted(RecordedToolCall { output: Some(json!({ "n": 1 })), ..call.clone() })
}

fn waiting() -> RunEventBody {
    RunEventBody::Waiting { waiting_for: ApprovalKind::Approval }
}

fn decided() -> RunEventBody {
    RunEventBody::ApprovalDecided {
        approval: ApprovalId::new(),
        call: ToolCallId::new(),
        tool: "look".into(),
        status: ApprovalStatus::Decided,
        decision: Choice::Approve,
        reason: None,
        edited: false,
        child: None,
    }
}

fn ended(status: RunStatus, summary: &str) -> RunEventBody {
    let failed = status == RunStatus::Failed;
    RunEventBody::Ended {
        status,
        reason: failed.then_some(Reason::DoomLoop),
        summary: summary.to_owned(),
        output: None,
        error: failed.then(|| "it repeats itself".to_owned()),
    }
}

#[test]
fn text_is_sent_once_however_it_arrives() {
    let end = || ended(RunStatus::Completed, "One two.");
    let expected = |parts: &[&str]| {
        let mut all = vec!["<step 1".to_owned(), "(:1".to_owned()];
        all.extend(parts.iter().map(|part| (*part).to_owned()));
        all.extend([")", "step 1>", "finished One two."].map(str::to_owned));
        all
    };
    let live = vec![delta(1, "One "), delta(1, "two."), answer(1, "One two."), end()];
    assert_eq!(events(live), expected(&["One ", "two."]));
    assert_eq!(events(vec![answer(1, "One two."), end()]), expected(&["One two."]));
    let followed = vec![so_far(1, "One ", 0), delta(1, "two."), answer(1, "One two."), end()];
    assert_eq!(events(followed), expected(&["One ", "two."]));
    let long = vec![so_far(1, "two", 4), delta(1, "."), answer(1, "One two."), end()];
    assert_eq!(events(long), expected(&["One two."]));
    let late = vec![answer(1, "One two."), delta(1, "two."), so_far(1, "One ", 0), end()];
    assert_eq!(events(late), expected(&["One two."]));
}

#[test]
fn steps_have_their_text_and_their_calls() {
    let look = call(1);
    let bodies = vec![
        delta(1, "Let me look."),
        answer_with(1, "Let me look.", &[&look]),
        RunEventBody::ToolStarted(look.clone()),
        completed(&look),
        completed(&look),
        answer(2, "Three."),
        ended(RunStatus::Completed, "Three."),
    ];
    let expected = [
        "<step 1",
        "(:1",
        "Let me look.",
        ")",
        "call look",
        "{\"a\":1}",
        "result {\"n\":1}",
        "step 1>",
        "<step 2",
        "(:2",
        "Three.",
        ")",
        "step 2>",
        "finished Three.",
    ];
    assert_eq!(events(bodies), expected);
}

#[test]
fn thoughts_are_reasoning_before_the_text() {
    let live = vec![
        thought(1, "Hm"),
        thought(1, "."),
        delta(1, "One."),
        answer(1, "One."),
        ended(RunStatus::Completed, "One."),
    ];
    let expected = ["<step 1", "[", "Hm", ".", "]", "(:1", "One.", ")", "step 1>", "finished One."];
    assert_eq!(events(live), expected);
}

#[test]
fn an_answer_that_is_begun_again_is_taken_back() {
    let restart = RunEventBody::StepRestarted { step: 1, why: "overloaded".to_owned() };
    let bodies = vec![
        delta(1, "One "),
        restart,
        delta(1, "Two."),
        answer(1, "Two."),
        ended(RunStatus::Completed, "Two."),
    ];
    let expected =
        ["<step 1", "(:1", "One ", ")", "1 messages", "(:1", "Two.", ")", "step 1>", "finished Two."];
    assert_eq!(events(bodies), expected);
    let other = vec![delta(1, "One "), answer(1, "Two."), ended(RunStatus::Completed, "Two.")];
    assert_eq!(events(other), expected, "what is recorded counts");
}

#[test]
fn an_incomplete_answer_and_the_one_after_it_are_two_messages() {
    let bodies =
        vec![answer(1, "One"), delta(1, "late"), answer(1, "Two."), ended(RunStatus::Completed, "Two.")];
    let expected = ["<step 1", "(:1", "One", ")", "(:1:2", "Two.", ")", "step 1>", "finished Two."];
    assert_eq!(events(bodies), expected);
}

#[test]
fn a_run_that_waits_ends_the_stream_with_an_interrupt() {
    let look = call(1);
    let mut stream = stream(false);
    for body in [answer_with(1, "", &[&look]), RunEventBody::ToolStarted(look.clone()), waiting()] {
        stream.on_event(body);
    }
    assert!(stream.is_waiting() && !stream.has_finished());
    stream.interrupt(&[approval(stream.run.id, ApprovalKind::Approval)]);
    assert!(stream.has_finished());
    stream.on_event(completed(&look));
    let mut states = Vec::new();
    stream.ready.iter().for_each(|event| {
        if let Event::StateDelta { delta } = event {
            states.push(delta[0]["value"]["waitingFor"].clone());
        }
    });
    assert_eq!(states, [json!("approval")]);
    let expected = ["<step 1", "call look", "{\"a\":1}", "step 1>", "2 messages", "interrupt 1"];
    assert_eq!(shown(stream), expected);
}

#[test]
fn a_resumed_part_has_only_the_results_of_the_calls_that_waited() {
    let look = call(1);
    let mut stream = stream(true);
    for body in [
        decided(),
        RunEventBody::Continued,
        RunEventBody::ToolStarted(look.clone()),
        completed(&look),
        answer(2, "Done."),
        ended(RunStatus::Completed, "Done."),
    ] {
        stream.on_event(body);
    }
    let expected = [
        "emergent.approval_decided",
        "result {\"n\":1}",
        "<step 2",
        "(:2",
        "Done.",
        ")",
        "step 2>",
        "finished Done.",
    ];
    assert_eq!(shown(stream), expected);
}

/// A stream of a run that was given the tool `look` by its client, whose request ends with these messages.
fn client_stream(is_resumed: bool, messages: Vec<Value>) -> EventStream {
    let mut stream = stream(is_resumed);
    stream.run.terms.client_tools = vec![client_tool("look")];
    stream.transcript = Transcript::new(messages);
    stream
}

fn client_request(stream: &EventStream, call: &RecordedToolCall) -> Approval {
    let request = approval(stream.run.id, ApprovalKind::ClientTool);
    Approval { call: call.id, tool: call.tool.clone(), input: call.input.clone(), ..request }
}

#[test]
fn a_run_that_calls_a_tool_of_its_client_ends_the_stream_with_the_call() {
    let look = call(1);
    let mut stream = client_stream(false, Vec::new());
    for body in [answer_with(1, "Let me look.", &[&look]), RunEventBody::ToolStarted(look.clone()), waiting()]
    {
        stream.on_event(body);
    }
    let request = client_request(&stream, &look);
    stream.interrupt(&[request]);
    let waiting_for = stream.ready.iter().find_map(|event| match event {
        Event::StateDelta { delta } => Some(delta[0]["value"]["waitingFor"].clone()),
        _ => None,
    });
    assert_eq!(waiting_for, Some(json!("client_tool")));
    let expected = ["<step 1", "(:1", "Let me look.", ")", "call look", "{\"a\":1}", "step 1>", "pending"];
    assert_eq!(shown(stream), expected);
}

#[test]
fn a_call_to_the_client_follows_after_the_results_of_the_other_calls() {
    let look = call(1);
    let own = RecordedToolCall { tool: "search".into(), ..call(1) };
    let mut stream = client_stream(false, Vec::new());
    for body in [
        answer_with(1, "", &[&look, &own]),
        RunEventBody::ToolStarted(look.clone()),
        RunEventBody::ToolStarted(own.clone()),
        completed(&own),
        waiting(),
    ] {
        stream.on_event(body);
    }
    let request = client_request(&stream, &look);
    stream.interrupt(&[request]);
    let parents: Vec<String> = stream
        .ready
        .iter()
        .filter_map(|event| match event {
            Event::ToolCallStart { parent_message_id, .. } => Some(parent_message_id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(parents, [format!("{}:1", stream.run.id), format!("{}:calls", look.id)]);
    let expected = [
        "<step 1",
        "call search",
        "{\"a\":1}",
        "result {\"n\":1}",
        "call look",
        "{\"a\":1}",
        "step 1>",
        "pending",
    ];
    assert_eq!(shown(stream), expected);
}

#[test]
fn the_client_is_not_sent_the_result_that_it_sent() {
    let look = call(1);
    let sent = json!({ "id": "m", "role": "tool", "toolCallId": look.id, "content": "sun" });
    let bodies = || {
        let decided = RunEventBody::ApprovalDecided {
            approval: ApprovalId::new(),
            call: look.id,
            tool: "look".into(),
            status: ApprovalStatus::Decided,
            decision: Choice::Answer,
            reason: None,
            edited: false,
            child: None,
        };
        [
            decided,
            RunEventBody::Continued,
            completed(&look),
            answer(2, "Sunny."),
            ended(RunStatus::Completed, "Sunny."),
        ]
    };
    let mut stream = client_stream(true, vec![sent]);
    bodies().into_iter().for_each(|body| stream.on_event(body));
    let rest = ["<step 2", "(:2", "Sunny.", ")", "step 2>", "finished Sunny."];
    assert_eq!(shown(stream), rest);
    // Somebody else answered in its place.
    let mut stream = client_stream(true, Vec::new());
    bodies().into_iter().for_each(|body| stream.on_event(body));
    assert_eq!(shown(stream)[..2], ["emergent.approval_decided", "result {\"n\":1}"]);
}

#[test]
fn the_end_of_a_run_is_the_end_of_the_stream() {
    let paused = vec![answer(1, "Half."), ended(RunStatus::Paused, "Half.")];
    assert_eq!(events(paused), ["<step 1", "(:1", "Half.", ")", "step 1>", "finished Half."]);
    let flow = vec![ended(RunStatus::Completed, "What the parts said.")];
    assert_eq!(events(flow), ["(:summary", "What the parts said.", ")", "finished What the parts said."]);
    let failed = vec![delta(1, "One"), ended(RunStatus::Failed, "")];
    assert_eq!(events(failed), ["<step 1", "(:1", "One", ")", "step 1>", "error doom_loop"]);
    assert_eq!(events(vec![ended(RunStatus::Cancelled, "")]), ["error cancelled"]);
    let mut broken = stream(false);
    broken.on_event(delta(1, "One"));
    broken.fail("internal", "no");
    assert_eq!(shown(broken), ["<step 1", "(:1", "One", ")", "step 1>", "error internal"]);
}

#[test]
fn a_result_has_the_output_and_the_usage() {
    let mut stream = stream(false);
    stream.on_event(answer(1, "{\"n\":1}"));
    let output = Some(json!({ "n": 1 }));
    let (status, summary) = (RunStatus::Completed, "{\"n\":1}".to_owned());
    stream.on_event(RunEventBody::Ended { status, reason: None, summary, output, error: None });
    let last = stream.take_events().last().unwrap();
    let last = serde_json::to_value(last).unwrap();
    assert_eq!(
        (&last["result"]["output"], &last["result"]["status"]),
        (&json!({ "n": 1 }), &json!("completed"))
    );
    assert_eq!(
        (&last["usage"][0]["inputTokens"], &last["usage"][0]["totalTokens"]),
        (&json!(10), &json!(12))
    );
    assert_eq!((&last["threadId"], &last["runId"]), (&json!("t"), &json!("r")));
}

mod any_events {
    use proptest::prelude::*;

    use super::*;

    /// What may happen in a run, in any order: also what a correct run never does.
    fn any_event(calls: Vec<RecordedToolCall>) -> impl Strategy<Value = RunEventBody> {
        let step = || 1_i64..4;
        let text = || prop_oneof![Just(""), Just("One"), Just("One two"), Just("Other")];
        let some_calls = calls.clone();
        let any_call = prop::sample::select(calls);
        prop_oneof![
            (step(), text()).prop_map(|(step, text)| delta(step, text)),
            (step(), text()).prop_map(|(step, text)| thought(step, text)),
            (step(), text(), 0_i64..2).prop_map(|(step, text, omitted)| so_far(step, text, omitted)),
            step().prop_map(|step| RunEventBody::StepRestarted { step, why: String::new() }),
            (step(), text(), prop::collection::vec(0..some_calls.len(), 0..3)).prop_map(
                move |(step, text, chosen)| {
                    let calls: Vec<&RecordedToolCall> =
                        chosen.iter().map(|index| &some_calls[*index]).collect();
                    answer_with(step, text, &calls)
                }
            ),
            any_call.clone().prop_map(RunEventBody::ToolStarted),
            any_call.prop_map(|call| completed(&call)),
            Just(waiting()),
            Just(decided()),
            Just(RunEventBody::Continued),
            Just(ended(RunStatus::Completed, "One")),
            Just(ended(RunStatus::Failed, "")),
        ]
    }

    proptest! {
        #[test]
        fn every_stream_is_well_formed(
            bodies in Just(vec![call(1), call(1), call(2)])
                .prop_flat_map(|calls| prop::collection::vec(any_event(calls), 0..40)),
            is_resumed: bool,
            has_client_tool: bool,
            ends_with in 0..4,
        ) {
            let mut stream = stream(is_resumed);
            if has_client_tool {
                stream.run.terms.client_tools = vec![client_tool("look")];
            }
            bodies.into_iter().for_each(|body| stream.on_event(body));
            match ends_with {
                0 => stream.interrupt(&[approval(stream.run.id, ApprovalKind::Question)]),
                1 => stream.fail("internal", "no"),
                2 => stream.interrupt(&[approval(stream.run.id, ApprovalKind::ClientTool)]),
                _ => stream.on_event(ended(RunStatus::Paused, "Half.")),
            }
            let events: Vec<Event> = stream.take_events().collect();
            prop_assert_eq!(verify(&events), Ok(()));
        }
    }
}
