//! Flows: agents that work through other agents in sequence, in a loop, or in parallel. A flow calls no
//! model itself; each of its parts is a child run. The parts are recorded in the database, so a
//! recovered flow continues where it was.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use emergent_domain::{
    agent::{AgentDefinition, FlowType, Until},
    run::{Origin, Reason, Run, RunEnd, RunStatus},
    run_summary,
};
use emergent_rules::run::typed_output;
use emergent_store::{
    Tx, agents,
    runs::{self, conversation::Conversation},
};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    Error, Executor, Result,
    admission::{Admission, admit_in_batch},
    admission_batch::AdmissionBatch,
    child_runs::{self, Child, ChildBatch},
    child_timeout, first_messages,
    flow_parts::AnsweringPart,
    loaded_run::{LoadedRun, flow_agents},
    output_schema,
    recorder::{RecordBatch, Recorder},
    resume::resume_in_batch,
    slots::RunSlot,
    start_options::StartOptions,
    stopped_part::{self, StoppedPart, StoppedSection},
};

/// The number of rounds of a loop whose definition sets none.
const DEFAULT_ITERATIONS: u32 = 10;

/// The driver of a run whose agent is a flow.
pub(crate) struct Flow {
    pub executor: Executor,
    pub run: Arc<Run>,
    pub recorder: Recorder,
    pub deadline: Instant,
    pub slot: RunSlot,
    /// The names of the agents of one round.
    parts: Arc<Vec<String>>,
    /// The parts of the runs that this flow resumes; at each index, the newest one.
    finished_parts: HashMap<i64, Run>,
    /// The input of the resumption. It is passed to the part that continues.
    resume_input: String,
    /// What the answer of the flow must match. The part that writes the answer is held to it.
    output_schema: Option<Value>,
    /// The part whose text is shown while it is written.
    _answering: Option<AnsweringPart>,
}

/// How a part ended.
enum PartOutcome {
    Output(PartOutput),
    /// The part did not complete, so the flow ends in the same way.
    Stopped(StoppedPart),
}

/// What a completed part answered.
#[derive(Clone)]
struct PartOutput {
    text: String,
    /// The answer as a value, if the part has an output schema.
    value: Option<Value>,
}

impl PartOutput {
    fn into_end(self) -> RunEnd {
        RunEnd::Completed { summary: self.text, output: self.value }
    }
}

impl Flow {
    pub fn new(
        executor: &Executor,
        run: Run,
        definition: &AgentDefinition,
        recorder: Recorder,
        deadline: Instant,
        slot: RunSlot,
    ) -> Self {
        let mut parts = flow_agents(definition).to_vec();
        if parts.is_empty() {
            parts.push(definition.name.clone());
        }
        Self {
            executor: executor.clone(),
            run: Arc::new(run),
            recorder,
            deadline,
            slot,
            parts: Arc::new(parts),
            finished_parts: HashMap::new(),
            resume_input: String::new(),
            output_schema: None,
            _answering: None,
        }
    }

    /// Runs the parts of the flow and records its end.
    pub async fn drive(mut self, loaded: &LoadedRun) -> Result<()> {
        let LoadedRun { definition, earlier, own, .. } = loaded;
        let mut batch = RecordBatch::default();
        let recovered = self.run.seq > i64::try_from(own.messages.len()).unwrap_or(0);
        match self.run.waiting_since {
            Some(_) => self.recorder.add_continued(&mut batch),
            None => self.recorder.add_started(&mut batch, recovered, None),
        }
        self.recorder.commit(batch, 0).await?;
        if self.run.resumed_from.is_some() {
            first_messages::resume_input(&first_user_text(own)).clone_into(&mut self.resume_input);
            self.finished_parts = self.load_finished_parts().await?;
        }
        let input = first_user_text(earlier.first().unwrap_or(own));
        self.output_schema = output_schema::schema_of(&self.run, definition).map(Cow::into_owned);
        // A flow only waits, so it leaves its slot to runs that work.
        self.slot.release();
        let end = match definition.flow_type {
            FlowType::Single | FlowType::Sequential => self.run_sequence(0, &input).await?.into_end(),
            FlowType::Parallel => self.run_parallel(&input).await?,
            FlowType::Loop => {
                let flow = definition.flow_config.clone().unwrap_or_default();
                // A resumed loop gets its full number of rounds again.
                let finished_rounds =
                    u32::try_from(self.finished_parts.len() / self.parts.len()).unwrap_or(0);
                let rounds = finished_rounds + flow.max_iterations.unwrap_or(DEFAULT_ITERATIONS);
                self.run_loop(&input, flow.until.as_ref(), rounds).await?
            }
        };
        let output_schema = output_schema::compile(self.executor.graph(), &self.run, definition).await;
        if let (Ok(schema), RunEnd::Completed { summary, .. }) = (&output_schema, &end) {
            output_schema::read_ahead(self.executor.graph(), self.run.project, schema.as_ref(), summary)
                .await;
        }
        let end = match output_schema {
            Ok(schema) => typed_output::end_of_flow(schema.as_ref(), end),
            Err(end) => end,
        };
        let mut batch = RecordBatch::default();
        Recorder::set_end(&mut batch, end);
        self.recorder.commit(batch, 0).await
    }

    /// Loads the parts of the runs that this flow resumes; of several at one index, the newest.
    async fn load_finished_parts(&self) -> Result<HashMap<i64, Run>> {
        let run = Arc::clone(&self.run);
        let work = move |tx: &mut Tx<'_>| {
            let mut parts = HashMap::new();
            for id in runs::resume_chain(tx, &run)? {
                for part in runs::list_children(tx, id, None)? {
                    parts.entry(part.child_index).or_insert(part);
                }
            }
            Ok::<_, emergent_store::Error>(parts)
        };
        Ok(self.executor.db().read(work).await?)
    }

    /// Runs the parts in order, each with the output of the previous one as its input.
    async fn run_sequence(&mut self, round: u32, input: &str) -> Result<PartOutcome> {
        let mut last = PartOutput { text: input.to_owned(), value: None };
        for (index, _) in self.parts.clone().iter().enumerate() {
            let first = i64::from(round) * i64::try_from(self.parts.len()).unwrap_or(1)
                + i64::try_from(index).unwrap_or(0);
            let is_answering = index + 1 == self.parts.len();
            if is_answering {
                self._answering = Some(self.executor.flow_parts().begin_answer(self.run.id, first));
            }
            let output_schema = self.output_schema.clone().filter(|_| is_answering);
            let outcomes = self.run_parts(first, vec![(index, last.text.clone())], output_schema).await?;
            match outcomes.into_iter().next() {
                Some(PartOutcome::Output(output)) => last = output,
                Some(PartOutcome::Stopped(part)) if index > 0 => {
                    return Ok(PartOutcome::Stopped(part.with_earlier_result("part", &last.text)));
                }
                Some(stopped) => return Ok(stopped),
                None => {}
            }
        }
        Ok(PartOutcome::Output(last))
    }

    /// Repeats the sequence until its output meets `until`, at most `rounds` times.
    async fn run_loop(&mut self, input: &str, until: Option<&Until>, rounds: u32) -> Result<RunEnd> {
        let mut last = PartOutput { text: String::new(), value: None };
        for round in 0..rounds {
            let round_input = match round {
                0 => input.to_owned(),
                _ => format!("{input}\n\nThe result of the round before:\n{}", last.text),
            };
            match self.run_sequence(round, &round_input).await? {
                PartOutcome::Output(output) => last = output,
                PartOutcome::Stopped(part) if round > 0 => {
                    return Ok(part.with_earlier_result("round", &last.text).into_end());
                }
                PartOutcome::Stopped(part) => return Ok(part.into_end()),
            }
            if until.is_some_and(|until| until.is_met(&last.text)) {
                return Ok(last.into_end());
            }
        }
        Ok(match until {
            None => last.into_end(),
            Some(_) => RunEnd::Paused {
                reason: Reason::StepLimit,
                summary: format!(
                    "`until` was not met after {rounds} rounds. The last result:\n{}",
                    last.text
                ),
            },
        })
    }

    /// Runs all parts concurrently with the same input. Fails only if no part completes, and none is paused.
    async fn run_parallel(&mut self, input: &str) -> Result<RunEnd> {
        let parts = (0..self.parts.len()).map(|index| (index, input.to_owned())).collect();
        let outcomes = self.run_parts(0, parts, None).await?;
        let (mut sections, mut stopped, mut paused) = (Vec::new(), Vec::<StoppedSection>::new(), None);
        for (outcome, name) in outcomes.into_iter().zip(self.parts.iter()) {
            match outcome {
                PartOutcome::Output(output) => sections.push(format!("## {name}\n\n{}", output.text)),
                PartOutcome::Stopped(part) => {
                    let end = part.into_own_end();
                    if end.status() == RunStatus::Paused {
                        paused = paused.or(end.reason());
                    }
                    let section = StoppedSection { name, end };
                    sections.push(section.to_text());
                    stopped.push(section);
                }
            }
        }
        let summary = sections.join("\n\n");
        Ok(match paused {
            _ if stopped.len() < self.parts.len() => RunEnd::completed(summary),
            // A resumption continues the paused parts.
            Some(reason) => RunEnd::Paused { reason, summary },
            None => {
                let parts: Vec<String> = stopped.iter().map(StoppedSection::describe).collect();
                let error = format!("no part completed: {}", parts.join("; "));
                RunEnd::Failed { reason: stopped_part::common_reason(&stopped), error, summary }
            }
        })
    }

    /// Runs parts concurrently. `first` is the child index of the first one; each input has the index of its
    /// agent in `parts`. Parts that an earlier run completed are not run again, and a paused one is resumed. No part
    /// has more time than the flow has left. The answers must match `output_schema`.
    async fn run_parts(
        &mut self,
        first: i64,
        inputs: Vec<(usize, String)>,
        output_schema: Option<Value>,
    ) -> Result<Vec<PartOutcome>> {
        let part_at = move |index: usize| first + i64::try_from(index).unwrap_or(0);
        let earlier_parts: Vec<Option<Run>> =
            (0..inputs.len()).map(|index| self.finished_parts.get(&part_at(index)).cloned()).collect();
        let is_completed = |run: &Run| run.status == RunStatus::Completed;
        let existing = earlier_parts.iter().map(|run| run.clone().filter(is_completed)).collect();
        let (executor, parent, names, resume_input) = (
            self.executor.clone(),
            Arc::clone(&self.run),
            Arc::clone(&self.parts),
            self.resume_input.clone(),
        );
        let (deadline, grace) = (self.deadline, self.executor.settings().grace);
        let start_options = move |input: &str, timeout: i64| StartOptions {
            input: input.to_owned(),
            timeout_seconds: Some(timeout.min(child_timeout::max_child_timeout(deadline, grace))),
            output_schema: output_schema.clone(),
            ..StartOptions::default()
        };
        let admit: child_runs::AdmitChild =
            Arc::new(move |tx: &mut Tx<'_>, admissions: &mut AdmissionBatch, index: usize| {
                let admission = Admission::child_of(Origin::Flow, &parent, None, part_at(index));
                if let Some(paused) =
                    earlier_parts[index].as_ref().filter(|run| run.status == RunStatus::Paused)
                {
                    let start = start_options(&resume_input, child_timeout::resumed_timeout(tx, paused)?);
                    return resume_in_batch(tx, &executor, admissions, paused, admission, &start);
                }
                let (part_index, input) = &inputs[index];
                let name = &names[*part_index];
                let Some(agent) = agents::get_by_name(tx, parent.project, name)? else {
                    let names = agents::list_visible_names(tx, parent.project)?;
                    return Err(Error::unknown_agent(name, &names));
                };
                let timeout = child_timeout::default_timeout(&agent.definition);
                // A part that was stopped without being paused starts anew, so it reads both.
                let start = match earlier_parts[index].is_some() && !resume_input.is_empty() {
                    true => start_options(&format!("{input}\n\n{resume_input}"), timeout),
                    false => start_options(input, timeout),
                };
                admit_in_batch(tx, &executor, admissions, &agent, &admission, &start)
            });
        let batch = ChildBatch { call: None, first_part: first, existing, deadline: self.deadline, admit };
        let children =
            child_runs::run_children(&self.executor, &self.run, &mut self.recorder, 0, batch).await?;
        let default_timeouts = child_timeout::default_timeouts(&self.executor, &children).await?;
        let outcomes = children.into_iter().zip(default_timeouts);
        Ok(outcomes.map(|(child, default_timeout)| self.part_outcome(child, default_timeout)).collect())
    }

    /// Returns how a part ended. `default_timeout` is the timeout of its definition, if it ran out of time.
    fn part_outcome(&self, child: Child, default_timeout: Option<i64>) -> PartOutcome {
        let run = match child {
            Child::Run(run) => run,
            Child::Refused(refusal) => return RunEnd::failed(refusal.reason, refusal.text).into(),
            Child::NotStarted => {
                let summary = run_summary::describe_work(Reason::Timeout, 0, []);
                return RunEnd::Paused { reason: Reason::Timeout, summary }.into();
            }
        };
        let note = stopped_part::shortened_timeout_note(&run, default_timeout);
        let summary = run.summary.clone().unwrap_or_default();
        let end = match run.status {
            RunStatus::Completed => {
                return PartOutcome::Output(PartOutput { text: summary, value: run.output });
            }
            RunStatus::Paused => RunEnd::Paused { reason: run.reason.unwrap_or(Reason::StepLimit), summary },
            RunStatus::Cancelled if Instant::now() >= self.deadline => {
                let summary = match summary.trim().is_empty() {
                    true => {
                        run_summary::describe_work(Reason::Timeout, run.step_count - run.steps_before, [])
                    }
                    false => summary,
                };
                RunEnd::Paused { reason: Reason::Timeout, summary }
            }
            _ => RunEnd::Failed {
                reason: match run.reason {
                    Some(Reason::InvalidOutput) if self.output_schema.is_some() => Reason::InvalidOutput,
                    // Whoever decides whether to start the flow again has to know what a person must do first.
                    Some(reason @ (Reason::Budget | Reason::Definition | Reason::UnknownOutcome)) => reason,
                    _ => Reason::Flow,
                },
                error: format!(
                    "its part `{}` is {}: {}",
                    run.agent_name,
                    run.status,
                    run.error.as_deref().unwrap_or("no reason given")
                ),
                summary,
            },
        };
        PartOutcome::Stopped(StoppedPart::new(&run, end, note))
    }
}

impl From<RunEnd> for PartOutcome {
    fn from(end: RunEnd) -> Self {
        PartOutcome::Stopped(StoppedPart::from_end(end))
    }
}

/// Returns the text of the last message that the run was admitted with.
fn first_user_text(conversation: &Conversation) -> String {
    let text = conversation.messages.last().map(|message| match &message.content {
        emergent_domain::run_event::MessageContent::Text { text, .. } => text.clone(),
        _ => String::new(),
    });
    text.unwrap_or_default()
}

impl PartOutcome {
    fn into_end(self) -> RunEnd {
        match self {
            PartOutcome::Output(output) => output.into_end(),
            PartOutcome::Stopped(part) => part.into_end(),
        }
    }
}
