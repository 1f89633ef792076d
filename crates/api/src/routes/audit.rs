//! `/api/admin/audit`: who changed tokens, secrets, servers, products, agents, budgets and projects.

use axum::extract::State;
use emergent_domain::{
    audit::{AuditFilter, check_action_filter},
    cursor::Page,
    ids::{ProjectId, TokenId},
    invalid::Invalid,
    time::Timestamp,
    token::Scope::AdminRead,
};

use crate::{
    App,
    access::Routes,
    auth::Caller,
    endpoint::routes,
    extract::{Query, paged_query},
    response::{Envelope, Result, page},
    views::audit::AuditEntryView,
};

pub(super) fn routes() -> Routes {
    Routes::new().scoped(AdminRead, routes!(list))
}

paged_query! {
    struct AuditQuery {
        /// Only this action, such as `token.create`, or all actions on a kind of targets, such as `token`.
        action: Option<String>,
        /// Only changes by the token with this id.
        #[param(value_type = Option<Uuid>)]
        token: Option<TokenId>,
        /// Only changes at this time or later.
        #[param(value_type = Option<String>, format = DateTime)]
        since: Option<Timestamp>,
        /// Only changes before this time.
        #[param(value_type = Option<String>, format = DateTime)]
        until: Option<Timestamp>,
    }
}

impl AuditQuery {
    fn into_filter(self, project: Option<ProjectId>) -> std::result::Result<(AuditFilter, Page), Invalid> {
        let requested = self.page()?;
        self.action.as_deref().map(check_action_filter).transpose()?;
        let Self { action, token, since, until, .. } = self;
        Ok((AuditFilter { project, action, token, since, until }, requested))
    }
}

/// Lists what was changed and by whom, newest first. A token of one project sees the changes of that project.
/// A token that spans projects sees all of them, or those of the project that `X-Project-ID` names.
#[utoipa::path(
    get, path = "/api/admin/audit", tag = "audit", operation_id = "listAudit", params(AuditQuery),
    responses((status = 200, description = "A page of entries", body = Envelope<Vec<AuditEntryView>>)),
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<Vec<AuditEntryView>> {
    let (filter, requested) = query.into_filter(caller.named_project())?;
    page(app.graph.list_audit(filter, requested).await?)
}
