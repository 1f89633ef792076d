//! Follows an answer: waits until its run is started, and passes its frames on as they come. Nothing depends on a
//! follower: an answer goes on without one.

use std::{collections::VecDeque, time::Duration};

use emergent_domain::{
    conversation::{ChatMessage, ChatMessageStatus, Conversation},
    ids::{ChatMessageId, ConversationId, ProjectId, RunId},
    invalid::Invalid,
    run_event::{RunEvent, RunEventBody},
};
use emergent_store::{
    Tx,
    conversations::{changed_channel, messages},
    runs::rehearsals,
    wake::Waiter,
};
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};

use crate::{
    Chat, Error, Position, Result, SentMessage, conversations,
    frame::{Frame, FrameBody, Meta, StoredAnswer},
    frame_state::FrameState,
    position::{FramePlace, SentText},
};

/// How often a follower looks at the text that this process is writing, without being told of more. The text is in
/// memory.
const TEXT_INTERVAL: Duration = Duration::from_millis(200);
/// How often a follower reads a message that waits, without being woken. Every change of a conversation wakes its
/// followers on all servers, so this finds only what a lost wake missed.
const QUEUE_INTERVAL: Duration = Duration::from_secs(5);

/// What there is to follow in a conversation.
pub struct FollowTarget {
    conversation: Conversation,
    question: ChatMessage,
    resume: Option<FramePlace>,
}

struct Follower {
    chat: Chat,
    project: ProjectId,
    conversation: ConversationId,
    question: ChatMessageId,
    answer: ChatMessageId,
    meta: Meta,
    /// Where the reader was before.
    resume: Option<FramePlace>,
    changed: Waiter,
    ready: VecDeque<Frame>,
    phase: Phase,
}

enum Phase {
    /// The message waits for its turn.
    Queued,
    Answering {
        run: RunId,
        events: BoxStream<'static, Result<RunEvent>>,
        state: Box<FrameState>,
    },
    Ended,
}

impl Chat {
    /// Returns what a reader follows: the answer that its last position names, or the newest one. `None` if there is
    /// no answer to follow, or the reader has received all of it.
    pub async fn find_followed(
        &self,
        project: ProjectId,
        id: ConversationId,
        last: Option<Position>,
    ) -> Result<Option<FollowTarget>> {
        let read = move |tx: &mut Tx<'_>| {
            let conversation = conversations::get(tx, project, id)?;
            let Some(position) = last else {
                let newest = messages::newest_started(tx, id)?;
                return Ok(newest.map(|question| FollowTarget { conversation, question, resume: None }));
            };
            let unknown =
                || Invalid::new("Last-Event-ID", "is not a position in the answers of this conversation");
            let question = messages::get_question(tx, id, position.answer)?.ok_or_else(unknown)?;
            let end = end_seq(tx, project, &question)?;
            let has_all =
                matches!(position.place, FramePlace::After { seq, .. } if end.is_some_and(|end| seq >= end));
            if !has_all {
                return Ok(Some(FollowTarget { conversation, question, resume: Some(position.place) }));
            }
            let newer = messages::newest_started(tx, id)?.filter(|newest| newest.seq > question.seq);
            Ok::<_, Error>(newer.map(|question| FollowTarget { conversation, question, resume: None }))
        };
        self.db().snapshot(read).await
    }

    /// Returns what somebody follows who sends a message again that was stored before.
    pub async fn find_sent(&self, project: ProjectId, id: ChatMessageId) -> Result<FollowTarget> {
        let read = move |tx: &mut Tx<'_>| {
            let missing = || Error::not_found("message", id);
            let question = messages::get_by_id(tx, project, id)?.ok_or_else(missing)?;
            let conversation = conversations::get(tx, project, question.conversation)?;
            Ok::<_, Error>(FollowTarget { conversation, question, resume: None })
        };
        self.db().snapshot(read).await
    }

    /// Streams the frames of an answer, the last of which is `done`.
    pub fn follow(&self, followed: FollowTarget) -> impl Stream<Item = Result<Frame>> + Send + use<> {
        let FollowTarget { conversation, question, resume } = followed;
        let answer = question.answer.unwrap_or(question.id);
        let meta = Meta {
            conversation: conversation.id,
            title: conversation.title,
            agent: conversation.agent,
            message: question.id,
            answer,
            run: question.run,
            passages: question.retrieval_context.unwrap_or_default().passages,
        };
        let mut follower = Follower {
            chat: self.clone(),
            project: conversation.project,
            conversation: conversation.id,
            question: question.id,
            answer,
            meta,
            resume,
            changed: self.db().waiter(&changed_channel(conversation.id)),
            ready: VecDeque::new(),
            phase: Phase::Queued,
        };
        follower.begin(question.run);
        stream::unfold(follower, |mut follower| async move {
            let next = follower.next().await?;
            if next.is_err() {
                follower.phase = Phase::Ended;
            }
            Some((next, follower))
        })
    }

    /// Streams the frames of the answer to a message that was just sent.
    pub fn follow_sent(&self, sent: SentMessage) -> impl Stream<Item = Result<Frame>> + Send + use<> {
        let SentMessage { conversation, message } = sent;
        self.follow(FollowTarget { conversation, question: message, resume: None })
    }
}

/// The `seq` of the last event of an answer that has ended.
fn end_seq(tx: &mut Tx<'_>, project: ProjectId, question: &ChatMessage) -> Result<Option<i64>> {
    if question.status != ChatMessageStatus::Answered {
        return Ok(None);
    }
    let run = match question.run {
        Some(run) => emergent_store::runs::get(tx, project, run)?,
        None => None,
    };
    Ok(Some(run.map_or(NO_RUN_SEQ, |run| run.seq)))
}

/// The position of the end of an answer without a run.
const NO_RUN_SEQ: i64 = 1;

impl Follower {
    fn frame(&self, place: FramePlace, body: FrameBody) -> Frame {
        Frame { position: Position { answer: self.answer, place }, body }
    }

    /// Sends the first frame, and follows the run if there is one.
    fn begin(&mut self, run: Option<RunId>) {
        let (place, is_known) = match run {
            None => (FramePlace::Queued, self.resume.is_some()),
            Some(_) => (
                FramePlace::After { seq: 0, sent: SentText::default() },
                self.resume.is_some_and(|place| place != FramePlace::Queued),
            ),
        };
        if !is_known {
            self.meta.run = run;
            let frame = self.frame(place, FrameBody::Meta(self.meta.clone()));
            self.ready.push_back(frame);
        }
        if let Some(run) = run {
            let executor = &self.chat.executor;
            let events = executor.follow(self.project, run, 0).boxed();
            let state = Box::new(FrameState::new(self.answer, self.resume));
            self.phase = Phase::Answering { run, events, state };
        }
    }

    async fn next(&mut self) -> Option<Result<Frame>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(Ok(frame));
            }
            let advanced = match &mut self.phase {
                Phase::Ended => return None,
                Phase::Queued => self.wait_for_turn().await,
                Phase::Answering { .. } => self.read_run().await,
            };
            if let Err(error) = advanced {
                return Some(Err(error));
            }
        }
    }

    /// Waits until the message is answered. A message whose run could not be started has an answer without one.
    async fn wait_for_turn(&mut self) -> Result<()> {
        let (project, conversation, id) = (self.project, self.conversation, self.question);
        let read = move |tx: &mut Tx<'_>| {
            conversations::get(tx, project, conversation)?;
            Ok::<_, Error>(messages::get(tx, conversation, id)?)
        };
        let Some(question) = self.chat.db().read(read).await? else {
            self.phase = Phase::Ended;
            return Ok(());
        };
        match (question.status, question.run) {
            (_, Some(run)) => self.begin(Some(run)),
            (ChatMessageStatus::Answered, None) => {
                let answer = self.load_answer().await?;
                self.send_unstarted(answer);
            }
            _ => self.changed.wait(QUEUE_INTERVAL).await,
        }
        Ok(())
    }

    fn send_unstarted(&mut self, answer: StoredAnswer) {
        if !matches!(self.resume, Some(FramePlace::Error { .. })) {
            let message = answer.message.error.clone().unwrap_or_default();
            let frame = self.frame(FramePlace::Error { seq: 0 }, FrameBody::Error { reason: None, message });
            self.ready.push_back(frame);
        }
        let place = FramePlace::After { seq: NO_RUN_SEQ, sent: SentText::default() };
        let frame = self.frame(place, FrameBody::Done(Box::new(answer)));
        self.ready.push_back(frame);
        self.phase = Phase::Ended;
    }

    /// Takes the next event of the run, or looks at the text that is being written.
    async fn read_run(&mut self) -> Result<()> {
        let Phase::Answering { run, events, state } = &mut self.phase else { return Ok(()) };
        let next = tokio::time::timeout(TEXT_INTERVAL, events.next()).await;
        match next {
            Ok(Some(Ok(RunEvent { seq: Some(seq), body, .. }))) => state.on_event(seq, body),
            Ok(Some(Ok(RunEvent { body: RunEventBody::ThoughtDelta { .. }, .. }))) => {}
            // The events of text only say that there is more: what was missed before is in the text as well.
            Ok(Some(Ok(_))) | Err(_) => {
                let (known, bytes) = state.known_text();
                if let Some(live) = self.chat.executor.live_text(*run, known, bytes) {
                    state.on_live_text(live);
                }
            }
            Ok(Some(Err(error))) => return Err(error),
            Ok(None) => self.phase = Phase::Ended,
        }
        let Phase::Answering { state, .. } = &mut self.phase else { return Ok(()) };
        self.ready.extend(std::iter::from_fn(|| state.next_frame()));
        let Some(ended) = state.ended().cloned() else { return Ok(()) };
        let answer = self.load_answer().await?;
        if let Phase::Answering { state, .. } = &self.phase {
            self.ready.extend(state.end_frames(&ended, answer));
        }
        self.phase = Phase::Ended;
        Ok(())
    }

    /// Reads the stored answer. It was written with the end of the run, unless a server of an earlier version ended it.
    async fn load_answer(&mut self) -> Result<StoredAnswer> {
        let (conversation, id) = (self.conversation, self.answer);
        for is_repaired in [false, true] {
            if is_repaired {
                self.chat.repair(self.project, conversation).await?;
            }
            let read = move |tx: &mut Tx<'_>| {
                let Some(message) = messages::get(tx, conversation, id)? else { return Ok(None) };
                let is_rehearsal = match message.run {
                    Some(run) => rehearsals::list_rehearsed(tx, &[run])?.contains(&run),
                    None => false,
                };
                Ok::<_, Error>(Some(StoredAnswer { message, is_rehearsal }))
            };
            if let Some(answer) = self.chat.db().read(read).await? {
                return Ok(answer);
            }
        }
        Err(Error::not_found("message", id))
    }
}
