//! `/api/projects`. A token bound to a project can read and change that project; only a token that
//! spans projects can create and delete projects.

mod change;
mod read;

use emergent_domain::token::Scope::{AdminRead, AdminWrite};

use crate::{access::Routes, endpoint::routes};

pub(super) fn routes() -> Routes {
    Routes::new()
        .scoped(AdminRead, routes!(read::list))
        .scoped(AdminWrite, routes!(change::create))
        .scoped(AdminRead, routes!(read::get))
        .scoped(AdminWrite, routes!(change::update))
        .scoped(AdminWrite, routes!(change::delete))
}
