//! Every route, with the scope it needs.

mod agents;
mod documents;
mod graph;
mod meta;
mod objects;
mod packs;
mod projects;
mod relationships;
mod runs;
mod tokens;
mod tools;

use crate::{App, access::Routes};

/// The routes and the document that describes them.
pub(crate) fn all() -> (axum::Router<App>, utoipa::openapi::OpenApi) {
    Routes::new()
        .merge(meta::routes())
        .merge(projects::routes())
        .merge(tokens::routes())
        .merge(objects::routes())
        .merge(relationships::routes())
        .merge(graph::routes())
        .merge(packs::routes())
        .merge(documents::routes())
        .merge(agents::routes())
        .merge(runs::routes())
        .merge(tools::routes())
        .into_parts()
}
