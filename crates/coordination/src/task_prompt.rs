//! Prepares the prompt of an attempt. The rules choose the prior results that it contains. If there are too
//! many, and the settings of the workflow say so, a model chooses.

use emergent_domain::{ids::ObjectId, task::Task, workflow::ThreadingKind};
use emergent_rules::workflow::threading::{self, PriorResults, TaskPrompt, collect_results};

use crate::{
    judge::{self, AnswerState, Judge, JudgeAnswer, JudgeAnswers},
    loaded_workflow::LoadedWorkflow,
};

/// Whether the prompt of an attempt is complete.
pub(crate) enum PromptState {
    /// `selection` is set if a model chose the prior results.
    Ready { prompt: TaskPrompt, selection: Option<String> },
    /// A model is asked which results matter.
    WaitingForJudge,
}

/// Builds the prompt of a task within the token limit of its workflow.
pub(crate) fn prepare_prompt(
    judge: Option<&Judge>,
    answers: &mut JudgeAnswers,
    loaded: &LoadedWorkflow,
    task: &Task,
) -> PromptState {
    let settings = &loaded.workflow().settings;
    let max_tokens = settings.context_tokens;
    let mut results = collect_results(&loaded.snapshot, &loaded.discussions, task);
    let mut selection = None;
    let needs_model = settings.threading == ThreadingKind::Llm && results.need_selection(max_tokens);
    if let Some(judge) = judge.filter(|_| needs_model) {
        let selectable = results.selectable();
        match judge::ask_for_results(judge, answers, task, &selectable) {
            AnswerState::Pending => return PromptState::WaitingForJudge,
            AnswerState::Answered(Ok(JudgeAnswer::Results(selected))) => {
                let offered: Vec<ObjectId> = selectable.iter().map(|result| result.id).collect();
                results.retain_selected(&offered, &selected);
                let (selected, offered) = (selected.len(), offered.len());
                selection =
                    Some(format!("a model chose {selected} of {offered} prior results for the prompt"));
            }
            // Without a usable answer the rules decide.
            AnswerState::NotAsked | AnswerState::Answered(_) => {}
        }
    }
    let PriorResults { direct, discussions, indirect } = &results;
    let prompt =
        threading::build_prompt(max_tokens, task, direct, discussions, &task.failure_context, indirect);
    PromptState::Ready { prompt, selection }
}
