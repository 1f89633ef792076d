//! Health, metrics and the API document.

mod describe;
mod health;

use emergent_domain::token::Scope::AdminRead;
use utoipa_axum::routes;

use crate::access::Routes;

pub(super) fn routes() -> Routes {
    Routes::new()
        .public(routes!(health::health))
        .public(routes!(health::ready))
        .scoped(AdminRead, routes!(health::metrics))
        .any_token(routes!(describe::document))
        .public(routes!(describe::page))
}
