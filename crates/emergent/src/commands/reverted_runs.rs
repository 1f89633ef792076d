//! Which runs were reverted, and when. The audit log has it.

use std::collections::HashMap;

use emergent_domain::time::Timestamp;
use emergent_wire::audit::AuditEntryView;
use uuid::Uuid;

use super::{encode, resolve::MAX_SEARCHED};
use crate::client::{Client, Received};

/// When the runs were reverted that were created at this time or later. Nothing is known with a token that may not read
/// the audit log: what else is shown of a run needs no such right.
pub async fn reverted_runs(client: &Client, created_since: Timestamp) -> HashMap<Uuid, Timestamp> {
    let since = encode(&created_since.to_string());
    let path = format!("/api/admin/audit?action=run.revert&since={since}");
    let entries = client.get_newest::<Received<AuditEntryView>>(&path, MAX_SEARCHED).await;
    let mut times = HashMap::new();
    // The newest is the first one.
    for entry in entries.unwrap_or_default() {
        if let Ok(run) = entry.target.id.parse() {
            times.entry(run).or_insert(entry.at);
        }
    }
    times
}
