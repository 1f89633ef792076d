//! `/v1`: external agents as models, for clients of OpenAI's chat completions. The protocol is in
//! `emergent_surfaces::openai`.

mod client_calls;
mod completions;
mod errors;
mod models;

use emergent_domain::token::Scope::AgentsInvoke;

use crate::{access::Routes, endpoint::routes};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AgentsInvoke, routes!(models::list))
        .scoped(AgentsInvoke, routes!(models::get))
        .starts_and_waits(AgentsInvoke, routes!(completions::create))
        .layer(errors::in_shape_of_openai)
}
