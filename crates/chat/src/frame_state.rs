//! Turns the events of a run into the frames of its answer, without any input or output. Two readers get the same
//! frames, apart from where pieces of text are cut; a reader that comes back goes on where it was.

use std::collections::VecDeque;

use emergent_domain::{
    approval::{ApprovalStatus, Choice},
    chat::join_text,
    conversation::{ChatMessage, ChatMessageStatus},
    ids::ChatMessageId,
    run::{MessageRole, Reason, RunStatus, ToolCallStatus},
    run_event::{MessageContent, RecordedToolCall, RunEventBody},
};
use emergent_executor::LiveText;
use serde_json::Value;

use crate::{
    Position,
    frame::{Frame, FrameBody, MAX_FRAME_BYTES, StoredAnswer, ToolFrame, ToolOutcome, limit_value},
    position::{FramePlace, SentText},
};

/// Where a reader is, and what comes next.
pub(crate) struct FrameState {
    answer: ChatMessageId,
    /// The `seq` of the last event.
    seq: i64,
    /// What was sent of the answer that the model is writing.
    sent: SentText,
    /// The text that `sent` is known to be the start of.
    source: Option<(i64, u64)>,
    /// How many answers of the model are recorded, and the `seq` of the last.
    answers: i64,
    last_answer: i64,
    /// Where the reader was before. Frames up to there are not sent again.
    resume: Option<FramePlace>,
    ready: VecDeque<Frame>,
    ended: Option<AnswerEnd>,
}

/// The end of the run. The frame `done` has the stored answer, which the caller reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnswerEnd {
    seq: i64,
    error: Option<(Option<Reason>, String)>,
}

impl FrameState {
    /// Starts at the beginning, or after `resume`.
    pub fn new(answer: ChatMessageId, resume: Option<FramePlace>) -> Self {
        Self {
            answer,
            seq: 0,
            sent: SentText::default(),
            source: None,
            answers: 0,
            last_answer: 0,
            resume: resume.filter(|place| *place != FramePlace::Queued),
            ready: VecDeque::new(),
            ended: None,
        }
    }

    pub fn next_frame(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    /// Which text is known, and how many bytes of it were sent; see `Executor::live_text`.
    pub fn known_text(&self) -> (Option<(i64, u64)>, usize) {
        (self.source, self.sent.bytes)
    }

    /// Takes the next event. Events come in the order of their `seq`, from the first one on.
    pub fn on_event(&mut self, seq: i64, body: RunEventBody) {
        match body {
            RunEventBody::Message(message) if message.role == MessageRole::Assistant && message.step > 0 => {
                if let MessageContent::Parts(parts) = &message.content {
                    self.on_answer(seq, &join_text(parts));
                }
            }
            RunEventBody::ToolStarted(call) => self.on_tool_started(seq, call),
            RunEventBody::ToolCompleted(call) => self.on_tool_completed(seq, call),
            RunEventBody::ApprovalRequested { approval, call, tool, .. } => {
                let outcome = ToolOutcome::Held { approval };
                self.send_tool(seq, ToolFrame { tool, call, outcome, truncated: false });
            }
            // Calls of the run itself end with their result.
            RunEventBody::ApprovalDecided {
                call, tool, status, decision, reason, child: Some(_), ..
            } => {
                let outcome = match (status, decision) {
                    (ApprovalStatus::Decided, Choice::Approve | Choice::Answer) => ToolOutcome::Approved,
                    _ => ToolOutcome::Failed {
                        error: refusal_text(status, reason),
                        denied: matches!(status, ApprovalStatus::Decided | ApprovalStatus::Expired),
                    },
                };
                self.send_tool(seq, ToolFrame { tool, call, outcome, truncated: false });
            }
            RunEventBody::Ended { status, reason, error, .. } => {
                let error = error.filter(|_| status == RunStatus::Failed).map(|error| (reason, error));
                self.ended = Some(AnswerEnd { seq, error });
            }
            _ => {}
        }
        self.seq = self.seq.max(seq);
        // The reader had a part of the text that comes next.
        if let Some(FramePlace::After { seq: at, sent }) = self.resume
            && self.seq >= at
        {
            if self.seq == at {
                self.sent = sent;
            }
            self.resume = None;
        }
    }

    /// Takes the text that the model is writing, without the part that is known. Ignored if it was recorded already, or
    /// comes after events that have not arrived yet.
    pub fn on_live_text(&mut self, live: LiveText) {
        let is_next = live.after <= self.seq && live.after >= self.last_answer;
        if !is_next || self.is_resuming() || live.text.is_empty() {
            return;
        }
        let source = Some((live.after, live.attempt));
        if self.source == source {
            self.send_text(&live.text, false);
            return;
        }
        match self.sent.rest_of(&live.text) {
            Some(rest) => {
                self.source = source;
                self.send_text(rest, false);
            }
            None => {
                (self.source, self.sent) = (source, SentText::default());
                self.send_text(&live.text, true);
            }
        }
    }

    /// The end of the run, when all frames before it were taken.
    pub fn ended(&self) -> Option<&AnswerEnd> {
        self.ended.as_ref().filter(|_| self.ready.is_empty())
    }

    /// Returns the last frames: why the answer failed, and the stored answer.
    pub fn end_frames(&self, ended: &AnswerEnd, answer: StoredAnswer) -> Vec<Frame> {
        let had_error = matches!(self.resume, Some(FramePlace::Error { .. }));
        let mut frames = self.unrecorded_answer(ended, &answer.message);
        if let Some((reason, text)) = ended.error.clone().filter(|_| !had_error) {
            let place = FramePlace::Error { seq: ended.seq - 1 };
            frames.push(self.frame(place, FrameBody::Error { reason, message: text }));
        }
        let place = FramePlace::After { seq: ended.seq, sent: SentText::default() };
        let has_all = matches!(self.resume, Some(FramePlace::After { seq, .. }) if seq >= ended.seq);
        if !has_all {
            frames.push(self.frame(place, FrameBody::Done(Box::new(answer))));
        }
        frames
    }

    /// Returns what was not sent of the answer of a run that records no answer of a model itself. Such a run is a
    /// flow: its answer comes from one of its parts, or is made of all of them.
    fn unrecorded_answer(&self, ended: &AnswerEnd, message: &ChatMessage) -> Vec<Frame> {
        let is_own = self.answers > 0 || message.status != ChatMessageStatus::Completed;
        if is_own || self.resume.is_some() {
            return Vec::new();
        }
        let (mut sent, rest, mut replace) = match self.sent.rest_of(&message.content) {
            Some(rest) => (self.sent, rest, false),
            None => (SentText::default(), message.content.as_str(), true),
        };
        let mut frames = Vec::new();
        for piece in pieces(rest) {
            sent = sent.with(piece);
            // Before the end, so that a reader that comes back after this gets the frame `done`.
            let place = FramePlace::After { seq: ended.seq - 1, sent };
            frames.push(self.frame(place, FrameBody::Token { step: 1, text: piece.to_owned(), replace }));
            replace = false;
        }
        frames
    }

    /// Whether the reader has received this already.
    fn is_resuming(&self) -> bool {
        match self.resume {
            Some(FramePlace::After { seq, .. }) => self.seq < seq,
            // Only the end comes after the error.
            Some(FramePlace::Error { .. }) => true,
            Some(FramePlace::Queued) | None => false,
        }
    }

    /// An answer of the model is recorded. What was not sent of it is sent now.
    fn on_answer(&mut self, seq: i64, text: &str) {
        if !self.has_received(seq) {
            match self.sent.rest_of(text) {
                Some("") => {}
                Some(rest) => self.send_recorded(seq, rest, false),
                None => {
                    self.sent = SentText::default();
                    self.send_recorded(seq, text, true);
                }
            }
        }
        (self.sent, self.source) = (SentText::default(), None);
        self.answers += 1;
        self.last_answer = seq;
    }

    fn on_tool_started(&mut self, seq: i64, call: RecordedToolCall) {
        let (input, truncated) = limit_value(call.input);
        let outcome = ToolOutcome::Started { input };
        self.send_tool(seq, ToolFrame { tool: call.tool, call: call.id, outcome, truncated });
    }

    fn on_tool_completed(&mut self, seq: i64, call: RecordedToolCall) {
        let denied = call.is_denied();
        let output = call.output.unwrap_or(Value::Null);
        let (outcome, truncated) = match call.status {
            ToolCallStatus::Error => (ToolOutcome::Failed { error: error_text(&output), denied }, false),
            _ => {
                let (result, truncated) = limit_value(output);
                (ToolOutcome::Completed { result }, truncated)
            }
        };
        self.send_tool(seq, ToolFrame { tool: call.tool, call: call.id, outcome, truncated });
    }

    fn send_tool(&mut self, seq: i64, tool: ToolFrame) {
        if self.has_received(seq) {
            return;
        }
        let place = FramePlace::After { seq, sent: SentText::default() };
        let frame = self.frame(place, FrameBody::Tool(tool));
        self.ready.push_back(frame);
    }

    /// Whether the reader has received what this event says.
    fn has_received(&self, seq: i64) -> bool {
        match self.resume {
            Some(FramePlace::After { seq: last, .. }) => seq <= last,
            Some(FramePlace::Error { .. }) => true,
            Some(FramePlace::Queued) | None => false,
        }
    }

    /// Sends text that is not recorded yet, in pieces.
    fn send_text(&mut self, text: &str, replace: bool) {
        let mut replace = replace;
        for piece in pieces(text) {
            self.sent = self.sent.with(piece);
            let place = FramePlace::After { seq: self.seq, sent: self.sent };
            let body = FrameBody::Token { step: self.answers + 1, text: piece.to_owned(), replace };
            let frame = self.frame(place, body);
            self.ready.push_back(frame);
            replace = false;
        }
    }

    /// Sends the rest of a recorded text. The last piece ends at the event.
    fn send_recorded(&mut self, seq: i64, text: &str, replace: bool) {
        if text.is_empty() {
            // Nothing of what was sent is part of the answer.
            let body = FrameBody::Token { step: self.answers + 1, text: String::new(), replace };
            let frame = self.frame(FramePlace::After { seq, sent: SentText::default() }, body);
            self.ready.push_back(frame);
            return;
        }
        self.send_text(text, replace);
        let position =
            Position { answer: self.answer, place: FramePlace::After { seq, sent: SentText::default() } };
        if let Some(last) = self.ready.back_mut() {
            last.position = position;
        }
    }

    fn frame(&self, place: FramePlace, body: FrameBody) -> Frame {
        Frame { position: Position { answer: self.answer, place }, body }
    }
}

/// Cuts a text into pieces that fit in a frame, each at a character.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = rest.split_at(rest.floor_char_boundary(MAX_FRAME_BYTES));
        rest = after;
        Some(piece)
    })
}

/// The reason of a failed call, as the model read it.
fn error_text(output: &Value) -> String {
    let text = output.get("error").and_then(Value::as_str).map_or_else(|| output.to_string(), str::to_owned);
    text[..text.floor_char_boundary(MAX_FRAME_BYTES)].to_owned()
}

/// Why the call of another run is not made.
fn refusal_text(status: ApprovalStatus, reason: Option<String>) -> String {
    let what = match status {
        ApprovalStatus::Withdrawn => "withdrawn",
        ApprovalStatus::Expired => "expired",
        ApprovalStatus::Decided | ApprovalStatus::Pending => "denied",
    };
    let text = reason.map_or_else(|| what.to_owned(), |reason| format!("{what}: {reason}"));
    text[..text.floor_char_boundary(MAX_FRAME_BYTES)].to_owned()
}

#[cfg(test)]
mod tests;
