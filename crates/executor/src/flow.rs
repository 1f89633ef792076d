//! Flows: agents that work through other agents in sequence, in a loop, or in parallel. A flow calls no
//! model itself; each of its parts is a child run. The parts are recorded in the database, so a
//! recovered flow continues where it was.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    agent::{AgentDefinition, FlowType, Until},
    run::{Origin, Reason, Run, RunEnd, RunStatus},
};
use emergent_store::{
    Tx, agents,
    runs::{self, conversation::Conversation},
};
use tokio::time::Instant;

use crate::{
    Error, Executor, Result,
    admission::{self, Admission},
    child_runs::{self, Child, ChildBatch},
    first_messages,
    loaded_run::{LoadedRun, flow_agents},
    recorder::{RecordBatch, Recorder},
    resume,
    slots::RunSlot,
    start_options::StartOptions,
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
}

/// How a part ended.
enum PartOutcome {
    Output(String),
    /// The part did not complete, so the flow ends in the same way.
    Stopped(RunEnd),
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
        }
    }

    /// Runs the parts of the flow and records its end.
    pub async fn drive(mut self, loaded: &LoadedRun) -> Result<()> {
        let LoadedRun { definition, earlier, own, .. } = loaded;
        let mut batch = RecordBatch::default();
        self.recorder.add_started(
            &mut batch,
            self.run.seq > i64::try_from(own.messages.len()).unwrap_or(0),
            None,
        );
        self.recorder.commit(batch, 0).await?;
        if self.run.resumed_from.is_some() {
            first_messages::resume_input(&first_user_text(own)).clone_into(&mut self.resume_input);
            self.finished_parts = self.load_finished_parts().await?;
        }
        let input = first_user_text(earlier.first().unwrap_or(own));
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
        let mut text = input.to_owned();
        for (index, _) in self.parts.clone().iter().enumerate() {
            let first = i64::from(round) * i64::try_from(self.parts.len()).unwrap_or(1)
                + i64::try_from(index).unwrap_or(0);
            let children = self.run_parts(first, vec![(index, text.clone())]).await?;
            match children.into_iter().next().map(|child| self.part_outcome(child)) {
                Some(PartOutcome::Output(output)) => text = output,
                Some(stopped) => return Ok(stopped),
                None => {}
            }
        }
        Ok(PartOutcome::Output(text))
    }

    /// Repeats the sequence until its output meets `until`, at most `rounds` times.
    async fn run_loop(&mut self, input: &str, until: Option<&Until>, rounds: u32) -> Result<RunEnd> {
        let mut last_output = String::new();
        for round in 0..rounds {
            let round_input = match round {
                0 => input.to_owned(),
                _ => format!("{input}\n\nThe result of the round before:\n{last_output}"),
            };
            match self.run_sequence(round, &round_input).await? {
                PartOutcome::Output(output) => last_output = output,
                PartOutcome::Stopped(end) => return Ok(end),
            }
            if until.is_some_and(|until| until.is_met(&last_output)) {
                return Ok(RunEnd::Completed { summary: last_output });
            }
        }
        Ok(match until {
            None => RunEnd::Completed { summary: last_output },
            Some(_) => RunEnd::Paused {
                reason: Reason::StepLimit,
                summary: format!(
                    "`until` was not met after {rounds} rounds. The last result:\n{last_output}"
                ),
            },
        })
    }

    /// Runs all parts concurrently with the same input. Fails only if no part completes.
    async fn run_parallel(&mut self, input: &str) -> Result<RunEnd> {
        let parts = (0..self.parts.len()).map(|index| (index, input.to_owned())).collect();
        let children = self.run_parts(0, parts).await?;
        let mut sections = Vec::new();
        let mut failed = Vec::new();
        for (child, name) in children.into_iter().zip(self.parts.iter()) {
            match self.part_outcome(child) {
                PartOutcome::Output(output) => sections.push(format!("## {name}\n\n{output}")),
                PartOutcome::Stopped(end) => {
                    sections.push(format!("## {name}\n\n({end}) {}", end.summary()));
                    failed.push(name.as_str());
                }
            }
        }
        let summary = sections.join("\n\n");
        Ok(if failed.len() == self.parts.len() {
            let error = format!("no part completed: {}", failed.join(", "));
            RunEnd::Failed { reason: Reason::Flow, error, summary }
        } else {
            RunEnd::Completed { summary }
        })
    }

    /// Runs parts concurrently. `first` is the child index of the first one; each input has the index of its
    /// agent in `parts`. Parts that an earlier run completed are not run again, and a paused one is resumed.
    async fn run_parts(&mut self, first: i64, inputs: Vec<(usize, String)>) -> Result<Vec<Child>> {
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
        let admit: child_runs::AdmitChild = Arc::new(move |tx: &mut Tx<'_>, index: usize| {
            let admission = Admission::child_of(Origin::Flow, &parent, None, part_at(index));
            if let Some(paused) = earlier_parts[index].as_ref().filter(|run| run.status == RunStatus::Paused)
            {
                let start = StartOptions { input: resume_input.clone(), ..StartOptions::default() };
                return resume::resume(tx, &executor, paused, admission, &start);
            }
            let (part_index, input) = &inputs[index];
            let name = &names[*part_index];
            let agent = agents::get_by_name(tx, parent.project, name)?
                .ok_or_else(|| Error::not_found("agent", name))?;
            let start = StartOptions { input: input.clone(), ..StartOptions::default() };
            admission::admit(tx, &executor, &agent, &admission, &start)
        });
        let position = self.recorder.position(0);
        let batch = ChildBatch {
            call: None,
            first_part: first,
            existing,
            at: position,
            deadline: self.deadline,
            admit,
        };
        child_runs::run_children(&self.executor, &self.run, batch).await
    }

    fn part_outcome(&self, child: Child) -> PartOutcome {
        match child {
            Child::Refused(reason) => PartOutcome::Stopped(RunEnd::failed(Reason::Flow, reason)),
            Child::Run(run) => {
                let summary = run.summary.clone().unwrap_or_default();
                match run.status {
                    RunStatus::Completed => PartOutcome::Output(summary),
                    RunStatus::Paused => PartOutcome::Stopped(RunEnd::Paused {
                        reason: run.reason.unwrap_or(Reason::StepLimit),
                        summary,
                    }),
                    RunStatus::Cancelled if Instant::now() >= self.deadline => {
                        PartOutcome::Stopped(RunEnd::Paused { reason: Reason::Timeout, summary })
                    }
                    _ => PartOutcome::Stopped(RunEnd::Failed {
                        reason: Reason::Flow,
                        error: format!(
                            "its part `{}` is {}: {}",
                            run.agent_name,
                            run.status,
                            run.error.as_deref().unwrap_or("no reason given")
                        ),
                        summary,
                    }),
                }
            }
        }
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
            PartOutcome::Output(summary) => RunEnd::Completed { summary },
            PartOutcome::Stopped(end) => end,
        }
    }
}
