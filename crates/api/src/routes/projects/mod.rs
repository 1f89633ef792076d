//! `/api/projects`. A token bound to a project can read and change that project; only a token that
//! spans projects can create and delete projects.

mod change;
mod read;

use emergent_domain::ids::ProjectId;
use emergent_domain::token::Scope::{AdminRead, AdminWrite};
use utoipa_axum::routes;

use crate::{ApiError, access::Routes, auth::Caller};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AdminRead, routes!(read::list))
        .scoped(AdminWrite, routes!(change::create))
        .scoped(AdminRead, routes!(read::get))
        .scoped(AdminWrite, routes!(change::update))
        .scoped(AdminWrite, routes!(change::delete))
}

/// The project of another token is reported as not found.
fn check_visible(caller: &Caller, id: ProjectId) -> Result<(), ApiError> {
    match caller.bound_project() {
        Some(own) if own != id => Err(ApiError::not_found("project", id)),
        _ => Ok(()),
    }
}
