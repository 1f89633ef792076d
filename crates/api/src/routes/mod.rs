//! All routes, with the scope that each requires.

pub(crate) mod a2a;
mod agents;
mod agui;
mod approvals;
mod audit;
mod chat;
mod coordination;
mod documents;
mod events;
mod external;
mod graph;
pub(crate) mod mcp;
mod mcp_servers;
mod meta;
mod objects;
mod openai;
mod packs;
mod products;
mod projects;
mod relationships;
mod runs;
mod secrets;
mod session;
mod tokens;
mod tools;
mod triggers;

use crate::{
    App,
    access::{BuildDocument, Routes},
};

/// Returns the routes, and the function that builds the OpenAPI document which describes them.
pub(crate) fn routes() -> (axum::Router<App>, BuildDocument) {
    Routes::new()
        .merge(meta::routes())
        .merge(projects::routes())
        .merge(tokens::routes())
        .merge(session::routes())
        .merge(audit::routes())
        .merge(events::routes())
        .merge(objects::routes())
        .merge(relationships::routes())
        .merge(graph::routes())
        .merge(packs::routes())
        .merge(documents::routes())
        .merge(agents::routes())
        .merge(external::routes())
        .merge(a2a::routes())
        .merge(agui::routes())
        .merge(openai::routes())
        .merge(runs::routes())
        .merge(approvals::routes())
        .merge(chat::routes())
        .merge(tools::routes())
        .merge(triggers::routes())
        .merge(coordination::routes())
        .merge(products::routes())
        .merge(secrets::routes())
        .merge(mcp_servers::routes())
        .merge(mcp::routes())
        .into_parts()
}
