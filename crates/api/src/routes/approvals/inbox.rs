//! Lists the inbox: approvals and questions, discussions without a decision, and escalated workflows, in one order.

use axum::extract::State;
use emergent_coordination::InboxItemFilter;
use emergent_domain::{
    approval::ApprovalStatus,
    cursor::{Cursor, Page, ResultPage},
    ids::{ProjectId, RunId},
    inbox::InboxItemKind,
};
use emergent_executor::approvals::ApprovalFilter;

use crate::{
    ApiError, App,
    auth::InProject,
    extract::{Query, paged_query},
    response::{Envelope, Result, page},
    views::approval::{InboxItemView, InboxKind},
};

paged_query! {
    pub(super) struct InboxQuery {
        /// `pending`, `decided`, `expired` or `withdrawn`.
        #[param(pattern = "^(pending|decided|expired|withdrawn)$")]
        status: Option<String>,
        /// `approval`, `question`, `discussion` or `escalation`.
        #[param(pattern = "^(approval|question|discussion|escalation)$")]
        kind: Option<String>,
        /// Only what this run waits for, or waited for.
        #[serde(rename = "runId")]
        #[param(value_type = Option<Uuid>, rename = "runId")]
        run: Option<RunId>,
    }
}

/// What is listed.
struct InboxFilter {
    status: Option<ApprovalStatus>,
    kind: Option<InboxKind>,
    run: Option<RunId>,
}

impl InboxQuery {
    fn filter(&self) -> std::result::Result<InboxFilter, ApiError> {
        let status = self.status.as_deref().map(|text| {
            ApprovalStatus::parse(text).ok_or_else(|| {
                ApiError::invalid("status", "must be one of pending, decided, expired, withdrawn")
            })
        });
        let kind = self.kind.as_deref().map(|text| {
            InboxKind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
                ApiError::invalid(
                    "kind",
                    "must be one of approval, question, discussion, escalation, client_tool",
                )
            })
        });
        Ok(InboxFilter { status: status.transpose()?, kind: kind.transpose()?, run: self.run })
    }
}

impl InboxFilter {
    /// Which discussions and workflows are listed; `None` for none. No run waits for these.
    fn escalated(&self) -> Option<InboxItemFilter> {
        let kind = match self.kind {
            None => None,
            Some(InboxKind::Discussion) => Some(InboxItemKind::Discussion),
            Some(InboxKind::Escalation) => Some(InboxItemKind::Escalation),
            Some(InboxKind::Approval | InboxKind::Question | InboxKind::ClientTool) => return None,
        };
        self.run.is_none().then_some(InboxItemFilter { status: self.status, kind })
    }

    /// Which requests of runs are listed; `None` for none.
    fn requests(&self) -> Option<ApprovalFilter> {
        let kind = match self.kind {
            None => None,
            Some(kind) => Some(kind.request_kind()?),
        };
        Some(ApprovalFilter { status: self.status, kind, run: self.run })
    }
}

/// Lists what a person has to decide, or decided, newest first: tool calls that have to be approved, questions of agents,
/// discussions without a decision, and escalated workflows.
#[utoipa::path(
    get, path = "/api/approvals", tag = "approvals", operation_id = "listApprovals", params(InboxQuery),
    responses((status = 200, description = "A page of the inbox", body = Envelope<Vec<InboxItemView>>)),
)]
pub(super) async fn list(
    State(app): State<App>,
    InProject(project): InProject,
    Query(query): Query<InboxQuery>,
) -> Result<Vec<InboxItemView>> {
    let requested = query.page()?;
    page(list_items(&app, project, &query.filter()?, requested).await?)
}

/// Reads a page of each kind, and merges them. Each list continues after the same item, so a page of the merged
/// list is contained in these pages.
async fn list_items(
    app: &App,
    project: ProjectId,
    filter: &InboxFilter,
    page: Page,
) -> std::result::Result<ResultPage<InboxItemView>, ApiError> {
    let mut lists: Vec<ResultPage<InboxItemView>> = Vec::new();
    if let Some(requests) = filter.requests() {
        let listed = app.executor.list_approvals(project, requests, page).await?;
        lists.push(listed.map(InboxItemView::from));
    }
    if let Some(escalated) = filter.escalated() {
        let listed = app.dispatcher.inbox_items(project, escalated, page).await?;
        lists.push(listed.map(InboxItemView::from));
    }
    Ok(merge(lists, page.limit))
}

/// Merges pages of lists that are ordered alike. What comes after the last item of a list that goes on is not
/// known yet, so the merged page ends there at the latest.
fn merge(lists: Vec<ResultPage<InboxItemView>>, limit: usize) -> ResultPage<InboxItemView> {
    let position = |item: &InboxItemView| (item.created_at, item.id);
    let unfinished = lists.iter().filter(|list| list.next.is_some());
    let known_to = unfinished.filter_map(|list| list.items.last().map(position)).max();
    let mut items: Vec<InboxItemView> = lists.into_iter().flat_map(|list| list.items).collect();
    items.retain(|item| known_to.is_none_or(|end| position(item) >= end));
    items.sort_by_key(|item| std::cmp::Reverse(position(item)));
    let has_more = known_to.is_some() || items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| has_more);
    let next = last.map(|last| Cursor { created_at: last.created_at, id: last.id });
    ResultPage { items, next }
}

#[cfg(test)]
mod tests {
    use emergent_domain::{ids::ProjectId, inbox::InboxItem, time::Timestamp};
    use uuid::Uuid;

    use super::*;

    fn list(times: &[i64], next: bool) -> ResultPage<InboxItemView> {
        let item = |time: &i64| {
            InboxItemView::from(InboxItem {
                id: Uuid::from_u128(1),
                project: ProjectId::new(),
                kind: InboxItemKind::Discussion,
                title: String::new(),
                status: ApprovalStatus::Pending,
                decision: None,
                created_at: Timestamp::from_micros(*time),
            })
        };
        let items: Vec<_> = times.iter().map(item).collect();
        let last = items.last().filter(|_| next);
        let next = last.map(|item| Cursor { created_at: item.created_at, id: item.id });
        ResultPage { items, next }
    }

    #[test]
    fn a_merged_page_has_the_newest_of_all_lists_and_continues_after_its_last_item() {
        let merged = merge(vec![list(&[9, 5], true), list(&[8, 7, 1], false)], 3);
        let times: Vec<i64> = merged.items.iter().map(|item| item.created_at.as_micros()).collect();
        assert_eq!(times, [9, 8, 7]);
        assert_eq!(merged.next.unwrap().created_at, Timestamp::from_micros(7));
        assert!(merge(vec![list(&[3], false), list(&[2], false)], 3).next.is_none());
    }

    #[test]
    fn a_short_list_that_goes_on_ends_the_page() {
        // The first list was cut before its limit: what comes after its last item is unknown.
        let merged = merge(vec![list(&[9], true), list(&[8, 7], false)], 3);
        assert_eq!(merged.items.len(), 1);
        assert_eq!(merged.next.map(|next| next.created_at), Some(Timestamp::from_micros(9)));
    }
}
