//! Shortens a conversation that outgrows the model's context window: old tool results are dropped
//! first, then everything but the newest turns is summarised. Shortening cannot loop forever: a step counts
//! only if it makes the conversation smaller, and the next one follows only after it has grown again.

use emergent_domain::{
    chat::Turn,
    ids::MessageId,
    run::MessageRole,
    run_event::{MessageContent, RecordedMessage},
};
use emergent_llm::{ChatRequest, Delta, RequestMeta};
use tokio::time::Instant;
use tracing::warn;

use super::{
    RunDriver,
    model_budget::{BudgetCheck, is_truncated_by_budget},
    model_call::ModelCaller,
};
use crate::{
    Result,
    budget::{self, CallEstimate, CallOutcome, StreamMeter},
    recorder::RecordBatch,
};

const SUMMARY_PROMPT: &str = "The conversation so far no longer fits. Write a summary from which you can go on without it: the \
                      task, what was found out (with ids and names), what was done, what remains, and decisions made. \
                      Answer with the summary only.";

/// The conversation is shortened again only after it has grown by the context window divided by this.
const MIN_GROWTH_DIVISOR: u64 = 10;

impl RunDriver {
    /// Shortens the turns for the model if they are too long, or if `forced` because the provider refused
    /// them. The summary of old turns has time until `deadline`, which is that of the model call that follows.
    /// Returns false if nothing could be shortened.
    pub async fn compact(&mut self, forced: bool, deadline: Instant) -> Result<bool> {
        let window = self.executor.models().window(&self.run.model);
        let tokens_before = self.context.estimated_tokens();
        if !forced
            && (!self.context.is_full(window)
                || tokens_before <= self.compacted_at + window / MIN_GROWTH_DIVISOR)
        {
            return Ok(false);
        }
        let (length_before, mut shortened) = (self.context.byte_length(), false);
        if let Some(upto) = self.context.compactable_results() {
            self.context.drop_results(upto);
            self.record_compaction(tokens_before, upto, false).await?;
            shortened = self.context.byte_length() < length_before;
        }
        // After the run's own deadline, the little time that is left is for its final summary, unless the
        // provider refuses that one without a shorter conversation.
        let has_time = forced || Instant::now() < self.deadline;
        if has_time
            && (!shortened || self.context.is_full(window))
            && self.summarize_history(window, deadline).await?
        {
            shortened = true;
        }
        self.compacted_at = self.context.estimated_tokens();
        Ok(shortened && self.context.byte_length() < length_before)
    }

    async fn record_compaction(&mut self, tokens_before: u64, upto: i64, summarised: bool) -> Result<()> {
        let to_i64 = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        let mut batch = RecordBatch::default();
        self.recorder.add_compacted(
            &mut batch,
            to_i64(tokens_before),
            to_i64(self.context.estimated_tokens()),
            upto,
            summarised,
        );
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// Asks the model for a summary of all but the newest turns. Returns false if that fails; the run then
    /// continues with the full conversation.
    async fn summarize_history(&mut self, window: u64, deadline: Instant) -> Result<bool> {
        let Some((turn_count, upto)) = self.context.summary_split(window) else { return Ok(false) };
        let tokens_before = self.context.estimated_tokens();
        let mut old_turns: Vec<Turn> = self.context.turns()[..turn_count].to_vec();
        old_turns.push(Turn::user(SUMMARY_PROMPT));
        let input = budget::estimate_tokens(&self.definition.system_prompt, &[], &old_turns);
        let estimate = |driver: &RunDriver| CallEstimate::for_answer(input, &driver.run.model);
        let BudgetCheck::Granted(reservation) = self.reserve_call(estimate, deadline).await? else {
            return Ok(false);
        };
        let mut meter = StreamMeter::default();
        let step = self.run.steps_before + self.machine.step();
        let request = ChatRequest {
            model: &self.run.model.name,
            // Without the output schema, which is not for this answer.
            system: &self.definition.system_prompt,
            turns: &old_turns,
            tools: &[],
            temperature: self.run.model.temperature,
            max_tokens: reservation.max_output().or(self.run.model.max_tokens),
            output_schema: None,
            cache: None,
            meta: RequestMeta { agent: &self.run.agent_name, step, run: Some(self.run.id) },
        };
        let caller = ModelCaller {
            executor: &self.executor,
            run: &self.run,
            recorder: &mut self.recorder,
            steps: self.machine.steps(),
        };
        let mut on_delta = |delta: Delta| meter.record(&delta);
        let answer = match caller.chat_with_retries(request, deadline, &mut on_delta).await? {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                warn!(run.id = %self.run.id, error = %error, "could not summarise the conversation, continuing with all of it");
                self.settle_without_answer(&reservation, &CallOutcome::Failed(&error), &meter).await?;
                return Ok(false);
            }
            Err(_) => {
                self.settle_without_answer(&reservation, &CallOutcome::Abandoned, &meter).await?;
                return Ok(false);
            }
        };
        let outcome = CallOutcome::Answered(&answer.usage);
        if answer.text().trim().is_empty() || is_truncated_by_budget(&reservation, &answer) {
            self.settle_without_answer(&reservation, &outcome, &meter).await?;
            return Ok(false);
        }
        let mut text = answer.text();
        crate::scrub::scrub_text(&mut text);
        let mut batch = RecordBatch::default();
        batch.set_settlement(self.settlement(&reservation, &outcome, &meter));
        let message = RecordedMessage {
            id: MessageId::new(),
            seq: 0,
            role: MessageRole::User,
            step,
            content: MessageContent::Summary { text: text.clone(), upto },
            usage: Some(answer.usage),
            cost: self.executor.models().cost(&self.run.model, &answer.usage),
            at: self.executor.clock().now(),
        };
        self.context.replace_with_summary(&text, upto);
        let to_i64 = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        self.recorder.add_message(&mut batch, message);
        self.recorder.add_compacted(
            &mut batch,
            to_i64(tokens_before),
            to_i64(self.context.estimated_tokens()),
            upto,
            true,
        );
        self.recorder.commit(batch, self.machine.steps()).await?;
        Ok(true)
    }
}
