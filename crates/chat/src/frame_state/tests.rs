use emergent_domain::{
    approval::ApprovalKind,
    chat::Part,
    ids::{ApprovalId, ConversationId, MessageId, ProjectId, RunId, ToolCallId},
    run_event::RecordedMessage,
    time::Timestamp,
};
use serde_json::json;

use super::*;

fn answer(text: &str) -> RunEventBody {
    message(MessageRole::Assistant, 1, MessageContent::Parts(vec![Part::text(text)]))
}

fn message(role: MessageRole, step: i64, content: MessageContent) -> RunEventBody {
    let at = Timestamp::from_micros(0);
    let id = MessageId::new();
    RunEventBody::Message(RecordedMessage { id, seq: 0, role, step, content, usage: None, cost: None, at })
}

fn tool(status: ToolCallStatus) -> RecordedToolCall {
    RecordedToolCall {
        id: ToolCallId::new(),
        seq: 0,
        message: MessageId::new(),
        tool: "look".to_owned(),
        step: 1,
        input: json!({}),
        status,
        output: Some(json!({ "found": 1 })),
        result_seq: None,
        duration_ms: None,
        at: Timestamp::from_micros(0),
        effect: None,
    }
}

fn ended(status: RunStatus) -> RunEventBody {
    let error = (status == RunStatus::Failed).then(|| "the model failed".to_owned());
    RunEventBody::Ended {
        status,
        reason: Some(Reason::Provider),
        summary: String::new(),
        output: None,
        error,
    }
}

fn live(after: i64, attempt: u64, text: &str) -> LiveText {
    LiveText { step: 1, after, attempt, text: text.to_owned() }
}

/// What happens in a run, as its followers learn of it.
#[derive(Clone)]
enum Happening {
    Event(i64, RunEventBody),
    /// The whole text that the model has written.
    Text(LiveText),
}

use Happening::{Event, Text};

fn stored() -> emergent_domain::conversation::ChatMessage {
    emergent_domain::conversation::ChatMessage {
        id: ChatMessageId(uuid::Uuid::nil()),
        project: ProjectId(uuid::Uuid::nil()),
        conversation: ConversationId(uuid::Uuid::nil()),
        seq: 2,
        parent: None,
        role: emergent_domain::conversation::ChatRole::Assistant,
        content: String::new(),
        status: emergent_domain::conversation::ChatMessageStatus::Failed,
        reason: None,
        error: None,
        run: None,
        answer: None,
        retrieval_context: None,
        citations: Vec::new(),
        input_tokens: None,
        output_tokens: None,
        cost: None,
        author: emergent_domain::author::Author::System,
        created_at: Timestamp::from_micros(0),
    }
}

/// The frames that a follower gets, which was at `resume` before.
fn frames(happenings: &[Happening], resume: Option<FramePlace>) -> Vec<Frame> {
    frames_until(happenings, resume, &stored())
}

/// As [`frames`], with the answer that is stored in the end.
fn frames_until(
    happenings: &[Happening],
    resume: Option<FramePlace>,
    stored: &emergent_domain::conversation::ChatMessage,
) -> Vec<Frame> {
    let mut state = FrameState::new(ChatMessageId(uuid::Uuid::nil()), resume);
    let mut frames = Vec::new();
    for happening in happenings {
        match happening.clone() {
            Event(seq, body) => state.on_event(seq, body),
            Text(live) => {
                let (known, bytes) = state.known_text();
                let skip = if known == Some((live.after, live.attempt)) { bytes } else { 0 };
                if let Some(text) = live.text.get(skip..).map(str::to_owned) {
                    state.on_live_text(LiveText { text, ..live });
                }
            }
        }
        frames.extend(std::iter::from_fn(|| state.next_frame()));
        if let Some(end) = state.ended().cloned() {
            let answer = StoredAnswer { message: stored.clone(), is_rehearsal: false };
            frames.extend(state.end_frames(&end, answer));
        }
    }
    frames
}

/// What a reader shows of these frames: texts by step, and everything else in order.
fn shown(frames: &[Frame]) -> Vec<String> {
    let mut shown: Vec<(Option<i64>, String)> = Vec::new();
    for frame in frames {
        match &frame.body {
            FrameBody::Token { step, text, replace } => {
                match shown.iter_mut().find(|(known, _)| *known == Some(*step)) {
                    Some((_, known)) if *replace => known.clone_from(text),
                    Some((_, known)) => known.push_str(text),
                    None => shown.push((Some(*step), text.clone())),
                }
            }
            FrameBody::Tool(tool) => shown.push((None, format!("{:?}", tool.outcome))),
            FrameBody::Error { message, .. } => shown.push((None, message.clone())),
            FrameBody::Done(_) => shown.push((None, "done".to_owned())),
            FrameBody::Meta(_) => shown.push((None, "meta".to_owned())),
        }
    }
    shown.into_iter().map(|(_, text)| text).filter(|text| !text.is_empty()).collect()
}

fn story() -> Vec<Happening> {
    let question =
        || message(MessageRole::User, 1, MessageContent::Text { text: "q".into(), injected: None });
    let before = || message(MessageRole::Assistant, 0, MessageContent::Parts(vec![Part::text("earlier")]));
    vec![
        Event(1, before()),
        Event(2, question()),
        Event(3, RunEventBody::Started { recovered: false }),
        Text(live(3, 0, "Grü")),
        Text(live(3, 0, "Grüße, ")),
        Text(live(3, 0, "Grüße, ich suche.")),
        Event(4, answer("Grüße, ich suche.")),
        Event(5, RunEventBody::ToolStarted(tool(ToolCallStatus::Running))),
        // What the model wrote before is not sent again.
        Text(live(3, 0, "Grüße, ich suche.")),
        Event(6, RunEventBody::ToolCompleted(tool(ToolCallStatus::Completed))),
        Text(live(6, 0, "First attempt, which ")),
        Text(live(6, 1, "")),
        Text(live(6, 1, "Second att")),
        Event(7, answer("Second attempt.")),
        Event(8, ended(RunStatus::Failed)),
    ]
}

#[test]
fn a_reader_is_shown_what_was_recorded_whatever_the_model_wrote_before() {
    let all = shown(&frames(&story(), None));
    assert_eq!(all.len(), 6, "{all:?}");
    assert_eq!((all[0].as_str(), all[3].as_str()), ("Grüße, ich suche.", "Second attempt."));
    assert_eq!((all[4].as_str(), all[5].as_str()), ("the model failed", "done"));
    let record: Vec<Happening> = story().into_iter().filter(|one| matches!(one, Event(..))).collect();
    assert_eq!(shown(&frames(&record, None)), all, "a reader on another server is shown the same");
}

#[test]
fn a_reader_that_comes_back_anywhere_is_shown_the_same_in_the_end() {
    let (whole, record): (Vec<Happening>, Vec<Happening>) =
        (story(), story().into_iter().filter(|one| matches!(one, Event(..))).collect());
    let first = frames(&whole, None);
    for cut in 1..first.len() {
        let place = first[cut - 1].position.to_string().parse::<Position>().unwrap().place;
        // The reader comes back to the server that drives the run, or to another one.
        for happenings in [&whole, &record] {
            let mut both = first[..cut].to_vec();
            both.extend(frames(happenings, Some(place)));
            assert_eq!(shown(&both), shown(&first), "cut after {cut}: {place:?}");
        }
    }
}

#[test]
fn large_texts_and_results_are_sent_in_pieces_or_cut() {
    let text = "ü".repeat(20_000);
    let sent = frames(&[Event(1, answer(&text))], None);
    assert_eq!((sent.len(), shown(&sent)), (3, vec![text]));
    let large =
        RecordedToolCall { output: Some(json!("x".repeat(50_000))), ..tool(ToolCallStatus::Completed) };
    let sent = frames(&[Event(2, RunEventBody::ToolCompleted(large))], None);
    let FrameBody::Tool(frame) = &sent[0].body else { panic!("a tool frame") };
    assert!(frame.truncated && format!("{frame:?}").len() < MAX_FRAME_BYTES + 500);
}

/// A flow records no answer of a model. What is shown is the text of the part that answers.
fn flow_story() -> Vec<Happening> {
    let question =
        || message(MessageRole::User, 1, MessageContent::Text { text: "q".into(), injected: None });
    vec![
        Event(1, question()),
        Event(2, RunEventBody::Started { recovered: false }),
        Text(live(0, 7, "I look at ")),
        Text(live(0, 7, "I look at it.")),
        // The part is asked again after a tool call.
        Text(live(0, 8, "The ans")),
        Text(live(0, 8, "The answer")),
        Event(3, ended(RunStatus::Completed)),
    ]
}

#[test]
fn the_text_of_a_flow_is_that_of_its_part_and_in_the_end_what_is_stored() {
    let completed = emergent_domain::conversation::ChatMessage {
        content: "The answer is 42.".to_owned(),
        status: ChatMessageStatus::Completed,
        ..stored()
    };
    let (whole, record): (Vec<Happening>, Vec<Happening>) =
        (flow_story(), flow_story().into_iter().filter(|one| matches!(one, Event(..))).collect());
    let first = frames_until(&whole, None, &completed);
    assert_eq!(shown(&first), ["The answer is 42.", "done"]);
    assert!(first.len() > 5, "the text comes in pieces: {first:?}");
    assert_eq!(shown(&frames_until(&record, None, &completed)), shown(&first), "on another server");
    for cut in 1..first.len() {
        let place = first[cut - 1].position.to_string().parse::<Position>().unwrap().place;
        for happenings in [&whole, &record] {
            let mut both = first[..cut].to_vec();
            both.extend(frames_until(happenings, Some(place), &completed));
            assert_eq!(shown(&both), shown(&first), "cut after {cut}: {place:?}");
        }
    }
}

#[test]
fn a_call_of_another_run_that_waited_is_closed_when_it_is_decided() {
    let (approval, call, run) = (ApprovalId::new(), ToolCallId::new(), RunId::new());
    let closing = |status, decision, child, reason: Option<&str>| {
        let (kind, tool) = (ApprovalKind::Approval, "send".to_owned());
        let requested = RunEventBody::ApprovalRequested { approval, call, tool: tool.clone(), kind, child };
        let reason = reason.map(str::to_owned);
        let decided = RunEventBody::ApprovalDecided {
            approval,
            call,
            tool,
            status,
            decision,
            reason,
            edited: false,
            child,
        };
        let sent = frames(&[Event(1, requested), Event(2, decided)], None);
        let calls: Vec<ToolCallId> = sent
            .iter()
            .map(|frame| match &frame.body {
                FrameBody::Tool(tool) => tool.call,
                other => panic!("a frame of a tool, not {other:?}"),
            })
            .collect();
        assert!(calls.iter().all(|id| *id == call));
        shown(&sent).split_off(1)
    };
    let (decided, child) = (ApprovalStatus::Decided, Some(run));
    assert_eq!(closing(decided, Choice::Approve, child, None), ["Approved"]);
    assert_eq!(closing(decided, Choice::Answer, child, None), ["Approved"]);
    let denied = closing(decided, Choice::Deny, child, Some("not today"));
    assert_eq!(denied, [r#"Failed { error: "denied: not today", denied: true }"#]);
    assert_eq!(
        closing(ApprovalStatus::Withdrawn, Choice::Deny, child, None),
        [r#"Failed { error: "withdrawn", denied: false }"#]
    );
    // A call of the run itself has a result of its own.
    assert!(closing(decided, Choice::Approve, None, None).is_empty());
}

#[test]
fn a_call_that_was_denied_is_told_from_one_that_failed() {
    let closing = |output| {
        let call = RecordedToolCall { output: Some(output), ..tool(ToolCallStatus::Error) };
        shown(&frames(&[Event(1, RunEventBody::ToolCompleted(call))], None))
    };
    let denied = closing(json!({ "error": "A person denied this call.", "denied": true }));
    assert_eq!(denied, [r#"Failed { error: "A person denied this call.", denied: true }"#]);
    let failed = closing(json!({ "error": "A person denied this call." }));
    assert_eq!(failed, [r#"Failed { error: "A person denied this call.", denied: false }"#]);
}
