//! Distributes live events of the runs that this process drives, and holds the text of the answers that are being
//! streamed, so that a subscriber gets the text so far and then each part of the rest once. The durable events are
//! in the database, and a subscriber that falls behind reads them there.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use emergent_domain::{
    ids::RunId,
    run_event::{RunEvent, RunEventBody, TextSoFar},
};
use emergent_store::runs::UnfinishedText;
use parking_lot::Mutex;
use tokio::sync::broadcast;

/// A subscriber that falls behind by more events than this has to read the database.
const CHANNEL_CAPACITY: usize = 256;

/// The most bytes of an answer that are held while it is streamed; of a longer one the beginning is dropped.
pub const MAX_TEXT_BYTES: usize = 256 << 10;
/// What remains when the beginning is dropped, so that this does not happen with each part.
const REMAINING_TEXT_BYTES: usize = 192 << 10;

/// The runs that stream an answer or have subscribers. Clones share them.
#[derive(Clone, Default)]
pub struct EventHub(Arc<Mutex<HashMap<RunId, LiveRun>>>);

#[derive(Default)]
struct LiveRun {
    sender: Option<broadcast::Sender<LiveEvent>>,
    answer: Option<LiveAnswer>,
    /// The answers with text that were dropped before they were complete, oldest first, until an answer is recorded.
    dropped: Vec<LiveAnswer>,
    /// How many answers were begun while there were subscribers.
    attempts: u64,
}

impl LiveRun {
    fn has_subscribers(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.receiver_count() > 0)
    }

    fn is_needed(&self) -> bool {
        self.answer.is_some() || !self.dropped.is_empty() || self.has_subscribers()
    }

    /// Drops the answer. Its text stays in place of the text that an earlier attempt of the same model call wrote.
    /// The text of another call stays beside it, because the answer before a summary is not the summary.
    fn drop_answer(&mut self) {
        let answer = self.answer.take().filter(|answer| !answer.so_far.text.trim().is_empty());
        let Some(answer) = answer else { return };
        self.dropped.retain(|dropped| dropped.after_seq != answer.after_seq);
        self.dropped.push(answer);
    }

    fn send(&self, event: LiveEvent) {
        if let Some(sender) = &self.sender {
            // Sending fails only without receivers, which is not an error.
            let _ = sender.send(event);
        }
    }
}

/// The text of an answer that is being streamed. It is bounded by [`MAX_TEXT_BYTES`].
#[derive(Debug, Clone)]
pub struct LiveAnswer {
    pub so_far: TextSoFar,
    /// The last `seq` that was assigned before the answer began. An answer that is recorded has a higher one.
    pub after_seq: i64,
    /// Changes when the model is asked again: the text then begins anew.
    attempt: u64,
    /// The bytes at the beginning that were dropped.
    omitted_bytes: usize,
}

/// The text that a model is writing, from a place on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveText {
    pub step: i64,
    /// [`LiveAnswer::after_seq`]
    pub after: i64,
    /// Changes when the model is asked again: the text then begins anew.
    pub attempt: u64,
    pub text: String,
}

impl LiveAnswer {
    fn push(&mut self, text: &str) {
        let so_far = &mut self.so_far;
        so_far.text.push_str(text);
        if so_far.text.len() > MAX_TEXT_BYTES {
            let mut cut = so_far.text.len() - REMAINING_TEXT_BYTES;
            while !so_far.text.is_char_boundary(cut) {
                cut += 1;
            }
            let dropped = so_far.text.drain(..cut).as_str().chars().count();
            so_far.omitted_chars += i64::try_from(dropped).unwrap_or(i64::MAX);
            self.omitted_bytes += cut;
        }
    }
}

/// An event of a subscription.
#[derive(Debug, Clone)]
pub struct LiveEvent {
    pub event: Arc<RunEvent>,
    /// For a part of an answer, [`LiveAnswer::after_seq`] of that answer.
    pub after_seq: Option<i64>,
}

/// The events of a run from now on, and the answer that is being streamed. The parts that are in the text of the
/// answer are not among the events.
pub struct Subscription {
    pub events: broadcast::Receiver<LiveEvent>,
    pub answer: Option<LiveAnswer>,
}

impl EventHub {
    /// Receives all events that the run publishes from now on, and the text of its current answer.
    pub fn subscribe(&self, run: RunId) -> Subscription {
        let mut runs = self.0.lock();
        // Runs that nobody needs any more are removed, so the map does not grow.
        runs.retain(|_, live| live.is_needed());
        let live = runs.entry(run).or_default();
        let sender = live.sender.get_or_insert_with(|| broadcast::channel(CHANNEL_CAPACITY).0);
        Subscription { events: sender.subscribe(), answer: live.answer.clone() }
    }

    /// The text of the answer that the run streams at the moment.
    pub fn text_so_far(&self, run: RunId) -> Option<TextSoFar> {
        self.0.lock().get(&run).and_then(|live| live.answer.as_ref().map(|answer| answer.so_far.clone()))
    }

    /// Returns the text that the model of a run is writing, without the first `skip` bytes if it is still the text of
    /// `known` (`after` and `attempt`). `None` if this process streams no answer of the run, or no longer holds that
    /// part of it.
    pub fn text_from(&self, run: RunId, known: Option<(i64, u64)>, skip: usize) -> Option<LiveText> {
        self.text_named(run, known, skip, |answer| (answer.after_seq, answer.attempt))
    }

    /// As [`EventHub::text_from`], for the text of a part of a flow as that of the flow, which records no answers
    /// itself: `after` is 0, and `attempt` differs for each answer of each part.
    pub fn part_text_from(&self, part: RunId, known: Option<(i64, u64)>, skip: usize) -> Option<LiveText> {
        self.text_named(part, known, skip, |answer| {
            let mut hasher = DefaultHasher::new();
            (part, answer.after_seq, answer.attempt).hash(&mut hasher);
            (0, hasher.finish())
        })
    }

    fn text_named(
        &self,
        run: RunId,
        known: Option<(i64, u64)>,
        skip: usize,
        name: impl Fn(&LiveAnswer) -> (i64, u64),
    ) -> Option<LiveText> {
        let runs = self.0.lock();
        let answer = runs.get(&run)?.answer.as_ref()?;
        let (after, attempt) = name(answer);
        let skip = if known == Some((after, attempt)) { skip } else { 0 };
        let text = answer.so_far.text.get(skip.checked_sub(answer.omitted_bytes)?..)?.to_owned();
        Some(LiveText { step: answer.so_far.step, after, attempt, text })
    }

    /// Whether anyone is subscribed. Callers check this first, so that no event is built for nobody.
    pub fn has_subscribers(&self, run: RunId) -> bool {
        self.0.lock().get(&run).is_some_and(LiveRun::has_subscribers)
    }

    /// Sends an event to the subscribers of its run.
    pub fn publish(&self, event: RunEvent) {
        if let Some(live) = self.0.lock().get(&event.run) {
            live.send(LiveEvent { event: Arc::new(event), after_seq: None });
        }
    }

    /// Sends a part of an answer to the subscribers of its run, and holds its text. `after_seq` is the last `seq`
    /// that was assigned before the answer began.
    pub fn publish_delta(&self, event: RunEvent, after_seq: i64) {
        let mut runs = self.0.lock();
        let live = runs.entry(event.run).or_default();
        match &event.body {
            RunEventBody::TextDelta { step, text } => live.answer_after(*step, after_seq).push(text),
            // What was streamed is void.
            RunEventBody::StepRestarted { step, .. } => {
                live.drop_answer();
                live.answer_after(*step, after_seq);
            }
            _ => {}
        }
        // Under the lock, so that a subscriber gets this part either in the text or as an event.
        live.send(LiveEvent { event: Arc::new(event), after_seq: Some(after_seq) });
    }

    /// Forgets the text of the answer of a run, because it is recorded or will never be.
    pub fn end_answer(&self, run: RunId) {
        let mut runs = self.0.lock();
        let Some(live) = runs.get_mut(&run) else { return };
        (live.answer, live.dropped) = (None, Vec::new());
        if !live.is_needed() {
            runs.remove(&run);
        }
    }

    /// Ends the answer of a run that is asked for again or not at all, because the time of the run was up or the
    /// provider failed. Its text is held until [`EventHub::end_answer`]: without a later answer, it is the result.
    pub fn drop_answer(&self, run: RunId) {
        let mut runs = self.0.lock();
        let Some(live) = runs.get_mut(&run) else { return };
        live.drop_answer();
        if !live.is_needed() {
            runs.remove(&run);
        }
    }

    /// The text of a run that is not recorded: of the answers that were dropped, and of the one that is being
    /// streamed.
    pub(crate) fn unfinished_texts(&self, run: RunId) -> Vec<UnfinishedText> {
        let runs = self.0.lock();
        let answers = runs.get(&run).into_iter().flat_map(|live| live.dropped.iter().chain(&live.answer));
        answers
            .map(|answer| UnfinishedText { text: answer.so_far.text.clone(), after_seq: answer.after_seq })
            .collect()
    }
}

impl LiveRun {
    /// The answer that began after this `seq`; a new one if another answer was streamed before.
    fn answer_after(&mut self, step: i64, after_seq: i64) -> &mut LiveAnswer {
        if self.answer.as_ref().is_some_and(|answer| answer.after_seq != after_seq) {
            self.answer = None;
        }
        let attempts = &mut self.attempts;
        self.answer.get_or_insert_with(|| {
            *attempts += 1;
            LiveAnswer {
                so_far: TextSoFar { step, text: String::new(), omitted_chars: 0 },
                after_seq,
                attempt: *attempts,
                omitted_bytes: 0,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::time::Timestamp;

    use super::*;

    fn delta(run: RunId, text: &str) -> RunEvent {
        let body = RunEventBody::TextDelta { step: 1, text: text.to_owned() };
        RunEvent { run, seq: None, at: Timestamp::from_micros(0), body }
    }

    #[test]
    fn a_subscriber_gets_each_part_of_an_answer_in_the_text_or_as_an_event() {
        let (hub, run) = (EventHub::default(), RunId::new());
        hub.publish_delta(delta(run, "one "), 2);
        hub.publish_delta(delta(run, "two "), 2);
        let mut subscription = hub.subscribe(run);
        hub.publish_delta(delta(run, "three"), 2);
        let answer = subscription.answer.unwrap();
        assert_eq!((answer.so_far.text.as_str(), answer.after_seq), ("one two ", 2));
        let received = subscription.events.try_recv().unwrap();
        assert!(matches!(&received.event.body, RunEventBody::TextDelta { text, .. } if text == "three"));
        assert!(subscription.events.try_recv().is_err());
    }

    #[test]
    fn a_new_answer_and_a_restart_drop_the_text_before() {
        let (hub, run) = (EventHub::default(), RunId::new());
        hub.publish_delta(delta(run, "first"), 2);
        hub.publish_delta(delta(run, "second"), 5);
        assert_eq!(hub.text_so_far(run).unwrap().text, "second");
        let restart = RunEventBody::StepRestarted { step: 1, why: "busy".to_owned() };
        hub.publish_delta(RunEvent { body: restart, ..delta(run, "") }, 5);
        assert_eq!(hub.text_so_far(run).unwrap().text, "");
        hub.end_answer(run);
        assert!(hub.text_so_far(run).is_none());
        assert!(hub.0.lock().is_empty(), "nobody needs the run any more");
    }

    #[test]
    fn the_text_of_a_dropped_answer_is_held_until_an_answer_is_recorded() {
        let (hub, run) = (EventHub::default(), RunId::new());
        let texts = || {
            let texts = hub.unfinished_texts(run).into_iter();
            texts.map(|unfinished| (unfinished.text, unfinished.after_seq)).collect::<Vec<_>>()
        };
        hub.publish_delta(delta(run, "first"), 2);
        hub.drop_answer(run);
        assert!(hub.text_so_far(run).is_none(), "followers get it no more");
        assert!(hub.subscribe(RunId::new()).answer.is_none());
        assert_eq!(texts(), [("first".to_owned(), 2)]);
        hub.publish_delta(delta(run, " "), 3);
        hub.drop_answer(run);
        hub.publish_delta(delta(run, "second"), 5);
        assert_eq!(texts(), [("first".to_owned(), 2), ("second".to_owned(), 5)]);
        hub.drop_answer(run);
        assert_eq!(texts(), [("first".to_owned(), 2), ("second".to_owned(), 5)]);
        hub.publish_delta(delta(run, "again"), 5);
        hub.drop_answer(run);
        assert_eq!(texts(), [("first".to_owned(), 2), ("again".to_owned(), 5)]);
        hub.end_answer(run);
        assert!(texts().is_empty() && !hub.0.lock().contains_key(&run));
    }

    #[test]
    fn a_reader_gets_the_part_of_a_text_that_it_does_not_know() {
        let (hub, run) = (EventHub::default(), RunId::new());
        let _subscription = hub.subscribe(run);
        hub.publish_delta(delta(run, "first"), 2);
        let first = hub.text_from(run, None, 3).unwrap();
        assert_eq!((first.text.as_str(), first.after), ("first", 2));
        hub.publish_delta(delta(run, " part"), 2);
        let known = Some((first.after, first.attempt));
        assert_eq!(hub.text_from(run, known, 5).unwrap().text, " part");
        // The model is asked again, after nothing was recorded.
        hub.end_answer(run);
        assert!(hub.text_from(run, known, 5).is_none());
        hub.publish_delta(delta(run, "another"), 2);
        assert_eq!(hub.text_from(run, known, 5).unwrap().text, "another");
    }

    #[test]
    fn the_text_of_an_answer_is_bounded_and_says_what_is_missing() {
        let (hub, run) = (EventHub::default(), RunId::new());
        let part = "ä".repeat(1_000);
        for _ in 0..1_000 {
            hub.publish_delta(delta(run, &part), 2);
        }
        assert!(hub.text_from(run, None, 0).is_none(), "the beginning is not held any more");
        let so_far = hub.text_so_far(run).unwrap();
        assert!(so_far.text.len() <= MAX_TEXT_BYTES);
        let held = i64::try_from(so_far.text.chars().count()).unwrap();
        assert_eq!(so_far.omitted_chars + held, 1_000_000);
    }
}
