//! Reads the audit log. Each service writes the entries of its own changes.

use emergent_domain::{
    audit::{AuditEntry, AuditFilter},
    cursor::{Page, ResultPage},
};
use emergent_store::audit as rows;

use crate::{Graph, error::Result};

impl Graph {
    /// Lists entries of the audit log, newest first.
    pub async fn list_audit(&self, filter: AuditFilter, page: Page) -> Result<ResultPage<AuditEntry>> {
        Ok(self.db().read(move |tx| rows::list(tx, &filter, &page)).await?)
    }
}
