//! Lists firings and their outcomes, as people read them.

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{AgentId, ProjectId},
    trigger::{Firing, FiringStatus},
};

use super::COLUMNS;
use crate::{
    error::Result,
    page,
    row::TableRow,
    tx::Tx,
    value::{Param, Row},
};

/// Which firings to list; a field that is `None` matches all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FiringFilter {
    pub agent: Option<AgentId>,
    pub status: Option<FiringStatus>,
}

/// A firing with the name of its agent, which may be deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedFiring {
    pub firing: Firing,
    pub agent_name: String,
}

/// The firings of a project, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    filter: &FiringFilter,
    page: &Page,
) -> Result<ResultPage<ListedFiring>> {
    let mut params = vec![Param::from(project)];
    let (after, values) = page::after_cursor_sql(page, "created_at", "id", 2);
    params.extend(values);
    let mut conditions = String::new();
    if let Some(agent) = filter.agent {
        params.push(Param::from(agent));
        conditions.push_str(&format!(" AND agent_id = ${}", params.len()));
    }
    if let Some(status) = filter.status {
        params.push(Param::from(status.as_str()));
        conditions.push_str(&format!(" AND status = ${}", params.len()));
    }
    let sql = format!(
        "SELECT (SELECT a.name FROM agent_definitions AS a WHERE a.id = trigger_firings.agent_id), {COLUMNS}
         FROM trigger_firings WHERE project_id = $1{after}{conditions} ORDER BY created_at DESC, id DESC{}",
        page::limit_sql(page)
    );
    let read = |row: &Row<'_>| {
        let agent_name = row.get::<Option<String>>(0)?.unwrap_or_default();
        Ok(ListedFiring { firing: Firing::from_row_at(row, 1)?, agent_name })
    };
    page::query_page(tx, page.limit, &sql, &params, read, |listed| Cursor {
        created_at: listed.firing.created_at,
        id: listed.firing.id.0,
    })
}
