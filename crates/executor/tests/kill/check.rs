//! Checks of the records after all runs have ended, against what the observer received.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    chat::{Part, Turn, join_text},
    ids::RunId,
    run::{MessageRole, Reason, Run, RunStatus, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
};
use emergent_store::{
    Db,
    runs::{
        self,
        conversation::{self, Conversation},
        timeline::{self, EventRow},
    },
};
use serde_json::{Value, json};

use crate::{
    agent_scripts::{self, CAP, Task},
    observer::Observations,
    wire::ObservedRequest,
};

/// A run with its record.
pub struct Recorded {
    pub run: Run,
    pub task: Task,
    pub talk: Conversation,
    events: Vec<EventRow>,
}

/// Whether a server that was presumed dead may still have been alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Servers {
    OneAfterTheOther,
    BesideEachOther,
}

/// The counts of a test.
#[derive(Debug, Default)]
pub struct Tally {
    pub runs: usize,
    pub taken_up_again: usize,
    pub in_doubt: usize,
    pub repeated: usize,
}

pub async fn load(db: &Db) -> Vec<Recorded> {
    let all: Result<Vec<Recorded>, emergent_store::Error> = db
        .read(|tx| {
            let sql = "SELECT project_id, id FROM agent_runs ORDER BY created_at, id";
            let ids = tx.query(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let mut all = Vec::with_capacity(ids.len());
            for (project, id) in ids {
                let run = runs::get(tx, project, id)?.expect("it was there");
                let talk = conversation::load(tx, id)?;
                let events = timeline::list_events(tx, id, timeline::SeqRange::after(0), 10_000)?;
                let input = talk.messages.iter().find(|message| message.role == MessageRole::User);
                let task = Task::read(&plain(input.expect("every run is message something")));
                all.push(Recorded { run, task, talk, events });
            }
            Ok(all)
        })
        .await;
    all.expect("the record")
}

/// Returns the text of a system or user message.
fn plain(message: &RecordedMessage) -> String {
    match &message.content {
        MessageContent::Text { text, .. } => text.clone(),
        other => panic!("a plain text, not {other:?}"),
    }
}

/// Checks every run, and that exactly the expected runs exist.
pub fn check(observations: &Observations, all: &[Recorded], servers: Servers) -> Tally {
    let mut tally = Tally { runs: all.len(), ..Tally::default() };
    let by_id: BTreeMap<RunId, &Recorded> = all.iter().map(|one| (one.run.id, one)).collect();
    for (key, run) in &observations.accepted {
        let one = by_id.get(run).unwrap_or_else(|| panic!("the run of `{key}` was accepted and is gone"));
        assert_eq!((&one.task.key, one.run.parent), (key, None));
    }
    let mut top = BTreeSet::new();
    for one in all.iter().filter(|one| one.run.parent.is_none()) {
        let wanted =
            observations.started.get(&one.task.key).unwrap_or_else(|| panic!("nobody started {:?}", one.run));
        assert_eq!((&one.run.agent_name, &one.task), (&wanted.agent, &wanted.task));
        assert!(top.insert(&one.task.key), "`{}` was started twice", one.task.key);
    }
    let asked = asked_by_answer(observations);
    for one in all {
        one.check_seqs();
        one.end();
        one.conversation(observations, &asked, servers);
        one.children(all);
        one.outside(observations, &mut tally);
        one.drivers(observations, servers);
        let again = one.events.iter().filter(|event| event.data["recovered"] == true).count();
        tally.taken_up_again += again;
    }
    nothing_else_was_called(observations, all);
    tally
}

/// Returns the requests of each run by the number of answers in the conversation, newest last. With two
/// successive servers, a request of the dead one may be received late.
fn asked_by_answer(observations: &Observations) -> BTreeMap<(RunId, usize), Vec<u64>> {
    let mut by_answer: BTreeMap<(RunId, usize), Vec<u64>> = BTreeMap::new();
    for (number, asked) in (0..).zip(&observations.asked) {
        by_answer.entry((asked.run, answers_in(asked))).or_default().push(number);
    }
    for numbers in by_answer.values_mut() {
        numbers.sort_by_key(|number| (observations.asked[*number as usize].process, *number));
    }
    by_answer
}

fn answers_in(asked: &ObservedRequest) -> usize {
    let turns = asked.turns.as_array().expect("turns");
    turns.iter().filter(|turn| turn["speaker"] == "assistant").count()
}

fn nothing_else_was_called(observations: &Observations, all: &[Recorded]) {
    let recorded: BTreeSet<(&str, &str)> = all
        .iter()
        .flat_map(|one| &one.talk.calls)
        .map(|call| (call.tool.as_str(), call.input["key"].as_str().unwrap_or_default()))
        .collect();
    for (tool, key) in observations.called.keys() {
        assert!(recorded.contains(&(tool.as_str(), key.as_str())), "{tool} of `{key}` is in no record");
    }
}

impl Recorded {
    fn name(&self) -> String {
        format!("run {} of {} ({})", self.run.id, self.run.agent_name, self.task.key)
    }

    pub fn answers(&self) -> impl Iterator<Item = (&RecordedMessage, &Vec<Part>)> {
        self.talk.messages.iter().filter_map(|message| match &message.content {
            MessageContent::Parts(parts) => Some((message, parts)),
            _ => None,
        })
    }

    pub fn calls_of(&self, message: &RecordedMessage) -> impl Iterator<Item = &RecordedToolCall> {
        self.talk.calls.iter().filter(|call| call.message == message.id)
    }

    /// Checks that messages, calls, results and events use each `seq` once, without gaps.
    fn check_seqs(&self) {
        let messages = self.talk.messages.iter().map(|message| message.seq);
        let calls = self.talk.calls.iter().flat_map(|call| [Some(call.seq), call.result_seq]);
        let mut seqs: Vec<i64> =
            messages.chain(calls.flatten()).chain(self.events.iter().map(|event| event.seq)).collect();
        seqs.sort_unstable();
        let whole: Vec<i64> = (1..=self.run.seq).collect();
        assert_eq!(seqs, whole, "the `seq` numbers of {}", self.name());
        let last = self.events.last().map(|event| (event.seq, event.kind.as_str()));
        assert_eq!(last, Some((self.run.seq, "run_ended")), "{}", self.name());
        let ends = self.events.iter().filter(|event| event.kind == "run_ended").count();
        assert_eq!(ends, 1, "{}", self.name());
    }

    /// Checks that the run ended as planned, with the planned number of steps.
    fn end(&self) {
        let (run, agent) = (&self.run, self.run.agent_name.as_str());
        let message = format!("{}: {:?} {:?}", self.name(), run.reason, run.error);
        let endless = agent == "endless";
        let ended = if endless { RunStatus::Paused } else { RunStatus::Completed };
        assert_eq!(run.status, ended, "{message}");
        assert_eq!(run.reason, endless.then_some(Reason::StepLimit), "{message}");
        let answers = agent_scripts::answers(agent, &self.task);
        assert_eq!(self.answers().count(), answers, "the answers of {message}");
        let steps = if endless { CAP as usize } else { answers };
        assert_eq!(usize::try_from(run.step_count), Ok(steps), "the steps of {message}");
        if let Some((_, last)) = self.answers().last() {
            assert_eq!(run.summary, Some(join_text(last)), "{message}");
        }
        assert_eq!(run.error, None, "{message}");
    }

    /// Checks that each answer belongs to the newest request of its step, and that this request contained
    /// the record up to that point, word for word.
    fn conversation(
        &self,
        observations: &Observations,
        asked: &BTreeMap<(RunId, usize), Vec<u64>>,
        servers: Servers,
    ) {
        let system = self.talk.messages.iter().find(|message| message.role == MessageRole::System);
        let system = plain(system.expect("a system prompt"));
        for (at, (message, parts)) in self.answers().enumerate() {
            let request = Task::read(&join_text(parts)).request.expect("its request");
            let received = &observations.asked[request as usize];
            let label = format!("answer {at} of {}", self.name());
            assert_eq!(
                (received.run, received.step, &received.system),
                (self.run.id, message.step, &system),
                "{label}"
            );
            let seen = serde_json::to_value(self.turns_before(message.seq)).expect("turns are JSON");
            assert_eq!(received.turns, seen, "what the model saw before {label}, and what is recorded");
            if servers == Servers::OneAfterTheOther {
                let newest = asked[&(self.run.id, at)].last();
                assert_eq!(newest, Some(&request), "{label} was recorded, and asked for again");
            }
            self.planned(at, message, parts, received, request);
        }
        let beyond = asked.keys().filter(|(run, at)| *run == self.run.id && *at >= self.answers().count());
        assert_eq!(beyond.count(), 0, "{} was asked after its end", self.name());
    }

    /// Checks that the calls of an answer are the planned ones, as the model made them.
    fn planned(
        &self,
        at: usize,
        message: &RecordedMessage,
        parts: &[Part],
        received: &ObservedRequest,
        request: u64,
    ) {
        let label = format!("answer {at} of {}", self.name());
        let wanted = match received.with_tools {
            true => agent_scripts::calls(&self.run.agent_name, &self.task, at),
            false => Vec::new(),
        };
        let made: Vec<(&str, &Value)> =
            self.calls_of(message).map(|call| (call.tool.as_str(), &call.input)).collect();
        let wanted: Vec<_> = wanted.iter().map(|one| (one.tool, &one.input)).collect();
        assert_eq!(made, wanted, "{label}");
        let ids: Vec<_> = self.calls_of(message).map(|call| call.id).collect();
        let said =
            parts.iter().filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None });
        for (place, (call, id)) in said.zip(&ids).enumerate() {
            let provider = json!({ "signature": format!("{request}-{place}") });
            assert_eq!((call.id, &call.provider), (*id, &Some(provider)), "{label}");
        }
    }

    /// Returns the turns before a `seq`, as a model has to see them.
    fn turns_before(&self, place: i64) -> Vec<Turn> {
        let mut turns = Vec::new();
        for message in self.talk.messages.iter().filter(|message| message.seq < place) {
            match (&message.content, message.role) {
                (_, MessageRole::System) => {}
                (MessageContent::Parts(parts), _) => {
                    turns.push(Turn::assistant(parts.clone()));
                    let results: Vec<_> =
                        self.calls_of(message).map(|call| self.result(call, place)).collect();
                    if !results.is_empty() {
                        turns.push(Turn::results(results));
                    }
                }
                _ => turns.push(Turn::user(plain(message))),
            }
        }
        turns
    }

    fn result(&self, call: &RecordedToolCall, place: i64) -> emergent_domain::chat::ToolResult {
        let before = call.result_seq.is_some_and(|seq| seq < place);
        assert!(before, "{} went on before the result of {call:?}", self.name());
        emergent_domain::chat::ToolResult {
            id: call.id,
            name: call.tool.clone(),
            output: call.output.clone().expect("a result"),
            is_error: call.status == ToolCallStatus::Error,
        }
    }

    /// Checks that each planned child exists once, and that its outcome is the one its parent received.
    fn children(&self, all: &[Recorded]) {
        let mut below: Vec<&Recorded> =
            all.iter().filter(|one| one.run.parent == Some(self.run.id)).collect();
        below.sort_by_key(|one| one.run.child_index);
        let spawning = self.talk.calls.iter().find(|call| call.tool == "spawn_agents");
        let wanted = agent_scripts::children(&self.run.agent_name, &self.task);
        let message =
            |agent: &str, task: &Task, part: usize| (agent.to_owned(), task.key.clone(), task.steps, part);
        let wanted: Vec<_> =
            wanted.iter().enumerate().map(|(part, (agent, task))| message(agent, task, part)).collect();
        let found: Vec<_> = below
            .iter()
            .map(|one| {
                message(
                    &one.run.agent_name,
                    &one.task,
                    usize::try_from(one.run.child_index).expect("a place"),
                )
            })
            .collect();
        assert_eq!(found, wanted, "the runs below {}", self.name());
        for one in &below {
            assert_eq!(one.run.parent_call, spawning.map(|call| call.id), "{}", one.name());
        }
        if let Some(call) = spawning {
            let received = call.output.as_ref().and_then(Value::as_array).expect("a list of results");
            let came = below.iter().map(|one| {
                json!({ "run_id": one.run.id, "agent_name": one.run.agent_name, "status": "completed",
                        "summary": one.run.summary, "steps": one.run.step_count })
            });
            assert_eq!(*received, came.collect::<Vec<_>>(), "what {} received of its children", self.name());
        } else if let Some(last) = below.last() {
            assert_eq!(self.run.summary, last.run.summary, "the end of {}", self.name());
        }
    }

    /// Checks that every call has a result. A call that cannot be repeated was made once, or its outcome is
    /// recorded as unknown.
    fn outside(&self, observations: &Observations, tally: &mut Tally) {
        for call in &self.talk.calls {
            let message = format!("{} {:?} of {}", call.tool, call.input, self.name());
            let output = call.output.clone().unwrap_or_else(|| panic!("no result: {message}"));
            let key = (call.tool.clone(), call.input["key"].as_str().unwrap_or_default().to_owned());
            let tickets = observations.called.get(&key).map_or(&[][..], Vec::as_slice);
            match (call.tool.as_str(), call.status) {
                ("ring", ToolCallStatus::Completed) => {
                    let received: Vec<_> = tickets.iter().map(|ticket| json!(ticket)).collect();
                    assert_eq!(received, [output], "{message}");
                }
                ("ring", _) => {
                    assert!(output["error"].to_string().contains("not known"), "{message}: {output}");
                    assert!(tickets.len() <= 1, "{message} was called {} times", tickets.len());
                    tally.in_doubt += 1;
                }
                (tool, status) => {
                    assert_eq!(status, ToolCallStatus::Completed, "{message}: {output}");
                    if tool == "poke" {
                        assert!(tickets.iter().any(|ticket| json!(ticket) == output), "{message}: {output}");
                        tally.repeated += usize::from(tickets.len() > 1);
                    }
                }
            }
        }
    }

    /// Checks that servers wrote strictly one after the other: none that lost a run ever wrote to it again.
    fn drivers(&self, observations: &Observations, servers: Servers) {
        let said = self.answers().map(|(message, parts)| {
            let request = Task::read(&join_text(parts)).request.expect("its request");
            (message.seq, observations.asked[request as usize].process)
        });
        let done = self.talk.calls.iter().filter_map(|call| {
            let process = call.output.as_ref()?["process"].as_u64()?;
            Some((call.result_seq?, usize::try_from(process).ok()?))
        });
        let mut written: Vec<(i64, usize)> = said.chain(done).collect();
        written.sort_unstable();
        let mut drivers: Vec<usize> = written.iter().map(|(_, process)| *process).collect();
        drivers.dedup();
        let once: BTreeSet<_> = drivers.iter().collect();
        assert_eq!(once.len(), drivers.len(), "{} was driven by {drivers:?}", self.name());
        if servers == Servers::OneAfterTheOther {
            assert!(drivers.is_sorted(), "{} was driven by {drivers:?}", self.name());
        }
        // Each server that recovers a run records that first.
        let starts = self.events.iter().filter(|event| event.kind == "run_started").count();
        assert!(starts >= drivers.len().max(1), "{} was driven by {drivers:?}", self.name());
    }
}
