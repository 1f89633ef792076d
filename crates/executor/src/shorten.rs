//! Makes room when a conversation outgrows the model's window: old results first, then a summary
//! of everything but the newest turns. It cannot go on for ever: each way is taken only while it
//! makes the conversation smaller, and again only once it has grown.

use emergent_domain::{
    chat::Turn,
    ids::MessageId,
    run::MessageRole,
    run_event::{MessageContent, RecordedMessage},
};
use emergent_llm::{About, ChatRequest};
use tracing::warn;

use crate::{
    Result,
    budget::{self, Bill, Heard, Outcome, Wish},
    driver::Driver,
    purse::{Afforded, was_cut},
    recorder::Batch,
};

const SUM_UP: &str = "The conversation so far no longer fits. Write a summary from which you can go on without it: the \
                      task, what was found out (with ids and names), what was done, what remains, and decisions made. \
                      Answer with the summary only.";

impl Driver {
    /// Shortens what the model sees when it is too long, or `forced` because the provider said so.
    /// False when nothing could be done.
    pub async fn make_room(&mut self, forced: bool) -> Result<bool> {
        let window = self.executor.models().window(&self.run.model);
        let before = self.context.tokens();
        if !forced && (!self.context.is_full(window) || before <= self.shortened_at + window / 10) {
            return Ok(false);
        }
        let (length, mut done) = (self.context.length(), false);
        if let Some(upto) = self.context.results_to_leave_out() {
            self.context.leave_out_results(upto);
            self.note(before, upto, false).await?;
            done = self.context.length() < length;
        }
        if (!done || self.context.is_full(window)) && self.sum_up(window).await? {
            done = true;
        }
        self.shortened_at = self.context.tokens();
        Ok(done && self.context.length() < length)
    }

    async fn note(&mut self, before: u64, upto: i64, summarised: bool) -> Result<()> {
        let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        let mut batch = Batch::default();
        self.recorder.compacted(&mut batch, count(before), count(self.context.tokens()), upto, summarised);
        self.recorder.commit(batch, self.machine.steps()).await
    }

    /// Asks the model to sum up all but the newest turns. When it cannot, the run goes on as it is.
    async fn sum_up(&mut self, window: u64) -> Result<bool> {
        let Some((turns, upto)) = self.context.cut(window) else { return Ok(false) };
        let before = self.context.tokens();
        let mut old: Vec<Turn> = self.context.turns()[..turns].to_vec();
        old.push(Turn::user(SUM_UP));
        let input = budget::tokens_of(&self.definition.system_prompt, &[], &old);
        let wish = |driver: &Driver| Wish::answer(input, &driver.run.model);
        let Afforded::Yes(bill) = self.afford(wish, self.deadline).await? else { return Ok(false) };
        let mut heard = Heard::default();
        let step = self.run.steps_before + self.machine.step();
        let request = ChatRequest {
            model: &self.run.model.name,
            system: &self.definition.system_prompt,
            turns: &old,
            tools: &[],
            temperature: self.run.model.temperature,
            max_tokens: bill.as_ref().and_then(Bill::longest_answer).or(self.run.model.max_tokens),
            output_schema: None,
            kept: None,
            about: About { agent: &self.run.agent_name, step, run: Some(self.run.id) },
        };
        let answer = match self.chat(request, self.deadline, &mut |delta| heard.hear(&delta)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                warn!(run.id = %self.run.id, error = %error, "could not sum up the conversation, going on with all of it");
                self.close(bill.as_ref(), &Outcome::Failed(&error), &heard).await?;
                return Ok(false);
            }
            Err(_) => {
                self.close(bill.as_ref(), &Outcome::GivenUp, &heard).await?;
                return Ok(false);
            }
        };
        let outcome = Outcome::Answered(&answer.usage);
        if answer.text().trim().is_empty() || was_cut(bill.as_ref(), &answer) {
            self.close(bill.as_ref(), &outcome, &heard).await?;
            return Ok(false);
        }
        let mut text = answer.text();
        crate::scrub::text(&mut text);
        let mut batch = Batch::default();
        if let Some(bill) = &bill {
            batch.settles(self.settlement(bill, &outcome, &heard));
        }
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
        let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        self.recorder.message(&mut batch, message);
        self.recorder.compacted(&mut batch, count(before), count(self.context.tokens()), upto, true);
        self.recorder.commit(batch, self.machine.steps()).await?;
        Ok(true)
    }
}
