//! Reads the record of one run in order: its conversation, its tool calls and its events.

use std::time::Duration;

use emergent_domain::{
    approval::{ApprovalKind, ApprovalStatus, Choice},
    chat::{Part, Usage, join_text},
    cursor::{Page, ResultPage},
    ids::{ProjectId, RunId, ToolCallId},
    run::{MessageRole, Reason, Run, RunStatus, ToolCallStatus},
    run_event::{
        MessageContent, ModelRetry, RecordedToolCall, RunEvent, RunEventBody, SERVERS_UNAVAILABLE,
        UnavailableServer,
    },
    time::Timestamp,
};
use emergent_store::{
    Tx,
    runs::timeline::{self as rows, EventRow, SeqRange, TimelineItem},
};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

pub use emergent_store::runs::timeline::{MessageFilter, ToolCallFilter, ToolCallRef};

use crate::{Error, Executor, Result, history::get_run};

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct RunMessage {
    /// The id of the message, or of the tool call for a tool result.
    pub id: Uuid,
    pub run: RunId,
    pub role: MessageRole,
    pub step: i64,
    pub content: RunMessageContent,
    pub usage: Option<Usage>,
    pub cost: Option<f64>,
    pub at: Timestamp,
}

/// The content of a message, by its role.
#[derive(Debug, Clone, PartialEq)]
pub enum RunMessageContent {
    /// A system prompt or a user message. `injected` names the limit if the executor added the message.
    Text {
        text: String,
        injected: Option<Reason>,
    },
    /// An answer of the model. The inputs and outputs of its calls are with the calls.
    Answer {
        text: String,
        thoughts: Option<String>,
        calls: Vec<ToolCallRef>,
    },
    /// From here on, the model sees this text instead of everything up to the `seq` in `upto`.
    Summary {
        text: String,
        upto: i64,
    },
    Result {
        call: ToolCallId,
        tool: String,
        output: Value,
        is_error: bool,
    },
}

impl Executor {
    /// Returns the conversation with the tool results, oldest first.
    pub async fn run_messages(
        &self,
        project: ProjectId,
        id: RunId,
        filter: MessageFilter,
        page: Page,
    ) -> Result<ResultPage<RunMessage>> {
        let after = rows::seq_after(&page)?;
        self.db()
            .snapshot(move |tx| {
                let waits = get_run(tx, project, id)?.status == RunStatus::Waiting;
                let items = rows::list_items(tx, id, &filter, after, page.limit)?;
                Ok(items.map(|item| to_message(id, item, waits)))
            })
            .await
    }

    /// Returns the tool calls, oldest first. A pending call is shown as running: it starts within moments. In a run that
    /// waits for a person it is shown as held: it starts when the person has decided about its neighbour.
    pub async fn run_tool_calls(
        &self,
        project: ProjectId,
        id: RunId,
        filter: ToolCallFilter,
        page: Page,
    ) -> Result<ResultPage<RecordedToolCall>> {
        let after = rows::seq_after(&page)?;
        self.db()
            .snapshot(move |tx| {
                let waits = get_run(tx, project, id)?.status == RunStatus::Waiting;
                let calls = rows::list_calls(tx, id, &filter, waits, after, page.limit)?;
                Ok(calls.map(|call| with_shown_status(call, waits)))
            })
            .await
    }

    pub async fn run_tool_call(
        &self,
        project: ProjectId,
        run: RunId,
        id: ToolCallId,
    ) -> Result<RecordedToolCall> {
        self.db()
            .read(move |tx| {
                let waits = get_run(tx, project, run)?.status == RunStatus::Waiting;
                let call = rows::get_call(tx, run, id)?.ok_or_else(|| Error::not_found("tool call", id))?;
                Ok(with_shown_status(call, waits))
            })
            .await
    }

    /// Returns up to `limit` recorded events after `after`, in order; live-only events are not included. A
    /// caller that continues from the `seq` of the last event misses nothing and gets nothing twice.
    pub async fn run_events(
        &self,
        project: ProjectId,
        id: RunId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<RunEvent>> {
        // All tables are read in one snapshot: otherwise a later event of one table could hide an earlier one
        // of another.
        self.db()
            .snapshot(move |tx| {
                let run = get_run(tx, project, id)?;
                Ok(events(tx, &run, after, limit)?)
            })
            .await
    }

    /// Like [`Executor::run_events`], but large events end the page earlier: after the first event it has at most
    /// `max_bytes`.
    pub(crate) async fn run_events_page(
        &self,
        project: ProjectId,
        id: RunId,
        after: i64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<EventPage> {
        self.db()
            .snapshot(move |tx| {
                let run = get_run(tx, project, id)?;
                let fitting = rows::find_fitting(tx, id, after, limit, max_bytes)?;
                // Without the end, each page would read the calls of many later messages, and drop them.
                let range = SeqRange { after, up_to: fitting.last_seq };
                let events = match fitting.count {
                    0 => Vec::new(),
                    count => events_in(tx, &run, range, count)?,
                };
                Ok(EventPage { events, is_last: fitting.is_last })
            })
            .await
    }

    /// Returns the events about the status of a run after a `seq`: its starts, when it waits and goes on, and its end.
    pub async fn status_events(
        &self,
        project: ProjectId,
        id: RunId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<RunEvent>> {
        self.db()
            .snapshot(move |tx| {
                let run = get_run(tx, project, id)?;
                let rows = rows::list_status_events(tx, id, after, limit)?;
                let events = rows.into_iter().filter_map(|row| {
                    let (seq, at) = (row.seq, row.at);
                    Some(RunEvent { run: id, seq: Some(seq), at, body: event_body(&run, row)? })
                });
                Ok(events.collect())
            })
            .await
    }
}

/// A page of the events of a run.
pub(crate) struct EventPage {
    pub events: Vec<RunEvent>,
    /// Whether there were no further events when the page was read.
    pub is_last: bool,
}

/// Returns the events of a run after a `seq`. The caller reads from a snapshot.
pub fn events(tx: &mut Tx<'_>, run: &Run, after: i64, limit: usize) -> emergent_store::Result<Vec<RunEvent>> {
    events_in(tx, run, SeqRange::after(after), limit)
}

fn events_in(
    tx: &mut Tx<'_>,
    run: &Run,
    range: SeqRange,
    limit: usize,
) -> emergent_store::Result<Vec<RunEvent>> {
    let mut events: Vec<(i64, Timestamp, RunEventBody)> = Vec::new();
    for message in rows::messages_with_calls(tx, run.id, range, limit)? {
        events.push((message.seq, message.at, RunEventBody::Message(message)));
    }
    for call in rows::calls_started_in(tx, run.id, range, limit)? {
        events.push((call.seq, call.at, RunEventBody::ToolStarted(as_started(call))));
    }
    for call in rows::calls_ended_in(tx, run.id, range, limit)? {
        let seq = call.result_seq.unwrap_or(call.seq);
        events.push((seq, ended_at(&call), RunEventBody::ToolCompleted(call)));
    }
    for event in rows::list_events(tx, run.id, range, limit)? {
        let (seq, at) = (event.seq, event.at);
        // Every kind of event is known here, because a database of a newer version is not opened.
        events.extend(event_body(run, event).map(|body| (seq, at, body)));
    }
    events.sort_by_key(|(seq, _, _)| *seq);
    events.truncate(limit);
    Ok(events.into_iter().map(|(seq, at, body)| RunEvent { run: run.id, seq: Some(seq), at, body }).collect())
}

/// Converts a stored event; `None` if its data cannot be read.
fn event_body(run: &Run, event: EventRow) -> Option<RunEventBody> {
    let data = &event.data;
    let number = |field: &str| data[field].as_i64().unwrap_or(0);
    Some(match event.kind.as_str() {
        "run_started" => RunEventBody::Started { recovered: data["recovered"] == true },
        SERVERS_UNAVAILABLE => RunEventBody::ServersUnavailable {
            servers: UnavailableServer::list_from_event(data)?,
            missing_tools: UnavailableServer::missing_tools_from_event(data),
        },
        "loop_detected" => RunEventBody::LoopDetected {
            call: data["call"].as_str()?.parse().ok()?,
            tool: data["tool"].as_str().unwrap_or_default().to_owned(),
            count: number("count"),
        },
        "limit_reached" => RunEventBody::LimitReached { reason: Reason::parse(data["reason"].as_str()?)? },
        "answer_incomplete" => RunEventBody::AnswerIncomplete {
            step: number("step"),
            reason: Reason::parse(data["reason"].as_str()?)?,
        },
        "model_retry" => RunEventBody::ModelRetry {
            step: number("step"),
            retry: ModelRetry::deserialize(data).ok()?,
            child: None,
        },
        "compacted" => RunEventBody::Compacted {
            before: number("before"),
            after: number("after"),
            summarised: data["summarised"] == true,
        },
        "approval_requested" => RunEventBody::ApprovalRequested {
            approval: data["approval"].as_str()?.parse().ok()?,
            call: data["call"].as_str()?.parse().ok()?,
            tool: data["tool"].as_str().unwrap_or_default().to_owned(),
            kind: ApprovalKind::parse(data["kind"].as_str()?)?,
            child: data["child"].as_str().and_then(|id| id.parse().ok()),
        },
        "run_waiting" => {
            RunEventBody::Waiting { waiting_for: ApprovalKind::parse(data["waitingFor"].as_str()?)? }
        }
        "approval_decided" => RunEventBody::ApprovalDecided {
            approval: data["approval"].as_str()?.parse().ok()?,
            call: data["call"].as_str()?.parse().ok()?,
            tool: data["tool"].as_str().unwrap_or_default().to_owned(),
            status: ApprovalStatus::parse(data["status"].as_str()?)?,
            decision: Choice::parse(data["decision"].as_str()?)?,
            reason: data["reason"].as_str().map(str::to_owned),
            edited: data["edited"] == true,
            child: data["child"].as_str().and_then(|id| id.parse().ok()),
        },
        "run_continued" => RunEventBody::Continued,
        "run_ended" => RunEventBody::Ended {
            status: RunStatus::parse(data["status"].as_str()?)?,
            reason: data["reason"].as_str().and_then(Reason::parse),
            summary: run.summary.clone().unwrap_or_default(),
            output: run.output.clone(),
            error: run.error.clone(),
        },
        _ => return None,
    })
}

/// Returns a call as it was when it started.
fn as_started(call: RecordedToolCall) -> RecordedToolCall {
    RecordedToolCall {
        status: ToolCallStatus::Running,
        output: None,
        result_seq: None,
        duration_ms: None,
        ..call
    }
}

fn with_shown_status(call: RecordedToolCall, run_waits: bool) -> RecordedToolCall {
    RecordedToolCall { status: shown_status(call.status, run_waits), ..call }
}

fn shown_status(status: ToolCallStatus, run_waits: bool) -> ToolCallStatus {
    match status {
        ToolCallStatus::Pending if run_waits => ToolCallStatus::Held,
        ToolCallStatus::Pending => ToolCallStatus::Running,
        other => other,
    }
}

/// Computes when a call ended from its recorded start and duration.
fn ended_at(call: &RecordedToolCall) -> Timestamp {
    let duration_ms = call.duration_ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
    call.at + Duration::from_millis(duration_ms)
}

fn to_message(run: RunId, item: TimelineItem, run_waits: bool) -> RunMessage {
    match item {
        TimelineItem::Message(message, calls) => RunMessage {
            id: message.id.0,
            run,
            role: message.role,
            step: message.step,
            content: match message.content {
                MessageContent::Text { text, injected } => RunMessageContent::Text { text, injected },
                MessageContent::Summary { text, upto } => RunMessageContent::Summary { text, upto },
                MessageContent::Parts(parts) => answer_content(&parts, calls, run_waits),
            },
            usage: message.usage,
            cost: message.cost,
            at: message.at,
        },
        TimelineItem::Result(call) => RunMessage {
            id: call.id.0,
            run,
            role: MessageRole::ToolResult,
            step: call.step,
            at: ended_at(&call),
            content: RunMessageContent::Result {
                call: call.id,
                is_error: call.status == ToolCallStatus::Error,
                tool: call.tool,
                output: call.output.unwrap_or(Value::Null),
            },
            usage: None,
            cost: None,
        },
    }
}

fn answer_content(parts: &[Part], mut calls: Vec<ToolCallRef>, run_waits: bool) -> RunMessageContent {
    let mut thoughts = String::new();
    for part in parts {
        if let Part::Thought { text, .. } = part {
            thoughts.push_str(text);
        }
    }
    for call in &mut calls {
        call.status = shown_status(call.status, run_waits);
    }
    let thoughts = (!thoughts.is_empty()).then_some(thoughts);
    RunMessageContent::Answer { text: join_text(parts), thoughts, calls }
}
