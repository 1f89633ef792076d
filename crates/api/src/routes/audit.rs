//! `/api/admin/audit`: who changed tokens, secrets, servers, products, agents, budgets and projects.

use axum::extract::State;
use emergent_domain::{
    audit::AuditFilter,
    cursor::Page,
    ids::{ProjectId, TokenId},
    invalid::Invalid,
    time::Timestamp,
    token::Scope::AdminRead,
};
use utoipa_axum::routes;

use crate::{
    App,
    access::Routes,
    auth::Caller,
    extract::{Query, paged_query},
    response::{Envelope, Result, page},
    views::audit::AuditEntryView,
};

/// The most characters of an action in a request.
const MAX_ACTION_CHARS: usize = 64;

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
        let is_action = |text: &String| {
            (1..=MAX_ACTION_CHARS).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '.'))
        };
        if self.action.as_ref().is_some_and(|action| !is_action(action)) {
            let reason = "must be an action such as `token.create`, or a kind of targets such as `token`";
            return Err(Invalid::new("action", reason));
        }
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
