//! Health, metrics and the API document.

mod describe;
mod diagnostics;
mod health;
mod home;

use emergent_domain::token::Scope::AdminRead;

use crate::{access::Routes, endpoint::routes};

pub(super) fn routes() -> Routes {
    Routes::new()
        .public(routes!(health::health))
        .public(routes!(health::ready))
        .public(routes!(home::home))
        .scoped(AdminRead, routes!(health::metrics))
        .scoped(AdminRead, routes!(diagnostics::diagnostics))
        .public(routes!(describe::document))
        .public(routes!(describe::page))
}
