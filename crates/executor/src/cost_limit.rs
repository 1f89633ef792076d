//! Refuses a limit in dollars for a run whose model has no price: each call would count as nothing, so the limit would
//! stop nothing, and whoever asked for it would believe to have one.

use emergent_domain::{
    agent::{AgentDefinition, ModelConfig},
    chat::Usage,
    invalid::Invalid,
    run::Origin,
};
use emergent_llm::Models;

use crate::start_options::StartOptions;

/// Checks the limit that the start of a run names. A limit that the run inherits is not checked: the agents that a run
/// starts may have other models, and a workflow or a project had its budget before.
pub(crate) fn check_cost_limit(
    models: &Models,
    definition: &AgentDefinition,
    model: &ModelConfig,
    origin: Origin,
    start: &StartOptions,
) -> Result<(), Invalid> {
    let has_price = || models.cost(model, &Usage::default()).is_some();
    // A flow calls no model itself: its limit is for its parts.
    if start.limit.microusd.is_none() || definition.calls_no_model() || has_price() {
        return Ok(());
    }
    let limits_nothing = format!("would limit nothing: the model `{model}` has no price");
    Err(match origin {
        // The reader is a model, which cannot set a price.
        Origin::Spawn => {
            Invalid::new("max_cost_usd", format!("{limits_nothing}; use `max_total_tokens` instead"))
        }
        _ => Invalid::new(
            "maxCostUsd",
            format!(
                "{limits_nothing}; limit its tokens instead (`maxTotalTokens`), or give the model a \
                 price in the file of `EMERGENT_MODEL_PRICES`"
            ),
        ),
    })
}
