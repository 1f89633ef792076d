//! Plans the prompts of a product.

use super::{Action, ItemKind, PlanBuilder, StepChange, update_change};
use crate::state::ProjectState;

impl<'a> PlanBuilder<'a> {
    pub(super) fn plan_prompts(&mut self) {
        let before: &'a ProjectState = self.before;
        let prompts = self.mcp().map_or(&[][..], |mcp| &mcp.prompts);
        let ours = || {
            before
                .prompts
                .iter()
                .filter(|prompt_row| prompt_row.product == self.name)
                .map(|prompt_row| &prompt_row.prompt)
        };
        let removed: Vec<_> =
            ours().filter(|old| !prompts.iter().any(|prompt| prompt.name == old.name)).collect();
        let planned: Vec<_> =
            prompts.iter().map(|prompt| (prompt, ours().find(|old| old.name == prompt.name))).collect();
        for prompt in removed {
            self.push_step(ItemKind::Prompt, &prompt.name, StepChange::Remove, Action::DeletePrompt);
        }
        for (prompt, existing) in planned {
            let value = |prompt| serde_json::to_value(prompt).unwrap_or_default();
            let change =
                existing.map_or(StepChange::Add, |existing| update_change(&value(existing), &value(prompt)));
            let keeps = change == StepChange::Keep;
            let action = if keeps { Action::None } else { Action::UpsertPrompt(Box::new(prompt.clone())) };
            self.push_step(ItemKind::Prompt, &prompt.name, change, action);
        }
    }
}
