//! Lists the tools of a connected server, and stores what the listing changed.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use emergent_domain::{
    foreign_json,
    mcp_server::{McpServer, PinPolicy, ToolStatus},
    redact::Redactor,
    time::Timestamp,
    tool_name::external,
};
use emergent_mcp::client::RemoteTool;
use emergent_store::{Tx, mcp_servers, mcp_tools};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use tracing::warn;

use super::{McpServers, breaker::FailureKind, client::RemoteClient, connection::ServerConnection, pins};

impl McpServers {
    /// Like [`McpServers::refresh`], over a connection that was open before: a failure is recorded as the last
    /// error of the server.
    pub(super) async fn refresh_or_record(
        &self,
        connection: &Arc<ServerConnection>,
        client: &RemoteClient,
    ) -> Result<(), String> {
        let Err(reason) = self.refresh(connection, client).await else { return Ok(()) };
        let reason = self.shown_error(connection, &reason);
        connection.breaker.lock().record_failure(self.clock().now(), FailureKind::Calling, &reason);
        self.record_error(connection, &reason).await;
        Err(reason)
    }

    /// Lists the tools of the server and stores what changed.
    pub(super) async fn refresh(
        &self,
        connection: &Arc<ServerConnection>,
        client: &RemoteClient,
    ) -> Result<(), String> {
        let within = self.settings().connect_timeout_for(&connection.server);
        let tools = client.list_tools(within).await?;
        let (bytes, redactor) =
            (tools.iter().map(|tool| tool.text.get().len()).sum(), self.sent_redactor(connection));
        let read = connection.large_messages.process(bytes, move || UsableTools::select(tools, &redactor));
        let UsableTools { listed, usable, skipped } = read.await.map_err(|error| error.to_string())?;
        if skipped > 0 {
            warn!(
                server = connection.server.name(),
                tools = skipped,
                "MCP server `{}` has tools that cannot be used: their names are not allowed, or they cannot be parsed",
                connection.server.name()
            );
        }
        *connection.listed.write() = listed;
        let (server, now) = (connection.server.clone(), self.clock().now());
        let usable = Arc::new(usable);
        let stored = self.db().write(move |tx| record_listing(tx, &server, &usable, now)).await;
        let report = stored.map_err(|error: emergent_store::Error| {
            warn!(error = %error, "the tools of an MCP server could not be stored");
            "has tools that could not be stored".to_owned()
        })?;
        let Some(report) = report else {
            return Err(
                "has had more tools than are stored for one server: remove it and add it again".into()
            );
        };
        connection.has_stored_error.store(false, Ordering::Release);
        report.log(&connection.server);
        Ok(())
    }
}

/// The tools of a listing that can be offered, without secrets, and their digests.
#[derive(Default)]
struct UsableTools {
    listed: HashMap<String, String>,
    usable: Vec<RemoteTool>,
    skipped: usize,
}

impl UsableTools {
    fn select(tools: Vec<RemoteTool>, redactor: &Redactor) -> Self {
        let mut selected = Self::default();
        for tool in tools {
            match Self::without_secrets(redactor, tool) {
                Ok(tool) if external::is_announceable(&tool.name) => {
                    selected.listed.entry(tool.name.clone()).or_insert_with(|| pins::digest(&tool));
                    selected.usable.push(tool);
                }
                _ => selected.skipped += 1,
            }
        }
        selected
    }

    /// Redacts the description of a tool, since a server may put the secrets that it was given into it.
    fn without_secrets(redactor: &Redactor, tool: RemoteTool) -> Result<RemoteTool, String> {
        let Cow::Owned(redacted) = redactor.redact_text(tool.text.get()) else { return Ok(tool) };
        let redacted = RawValue::from_string(redacted).or_else(|_| {
            // The JSON became invalid, because a secret of digits was redacted inside of a number.
            let mut value: Value = foreign_json::from_str(tool.text.get())?;
            redactor.redact_value(&mut value);
            to_raw_value(&value)
        });
        RemoteTool::parse(redacted.map_err(|error| error.to_string())?)
    }
}

/// What a listing changed.
#[derive(Default)]
struct ListingReport {
    /// The tools that are new and held back.
    held: Vec<String>,
    /// The known tools that differ from what was accepted.
    changed: Vec<String>,
}

impl ListingReport {
    fn log(&self, server: &McpServer) {
        let name = server.name();
        if !self.held.is_empty() {
            warn!(
                server = name,
                tools = self.held.join(", "),
                "MCP server `{name}` has new tools, which are held back until somebody accepts them"
            );
        }
        if !self.changed.is_empty() && server.pin_policy != PinPolicy::Off {
            warn!(
                server = name,
                tools = self.changed.join(", "),
                "MCP server `{name}` changed tools that were seen before"
            );
        }
    }
}

/// Stores a listing and reports what changed: nothing if the server itself was changed or deleted in the
/// meantime. `None`: nothing was stored, because the limits for one server would be exceeded.
fn record_listing(
    tx: &mut Tx<'_>,
    server: &McpServer,
    listed: &[RemoteTool],
    now: Timestamp,
) -> Result<Option<ListingReport>, emergent_store::Error> {
    let Some(row) = mcp_servers::lock(tx, server.project, server.id)? else {
        return Ok(Some(ListingReport::default()));
    };
    if row.version != server.version {
        return Ok(Some(ListingReport::default()));
    }
    let stored_tools = mcp_tools::list_for_server(tx, server.id)?;
    // Whoever added the server consented to the tools that it has now.
    let is_first = row.tools_accepted_at.is_none();
    let acceptance = pins::Acceptance { accept_new: is_first || row.trust, policy: row.pin_policy };
    let updates = pins::updates_for_listing(&stored_tools, listed, acceptance, now);
    if !pins::within_limits(&stored_tools, &updates) {
        return Ok(None);
    }
    for tool in &updates {
        mcp_tools::upsert(tx, server.id, tool)?;
    }
    if !updates.is_empty() || row.listed_at.is_none() {
        mcp_servers::bump_revision(tx, server.project)?;
    }
    mcp_servers::record_listing(tx, server.id, server.version, now, is_first)?;
    let names_with = |status: ToolStatus| {
        updates.iter().filter(|tool| tool.status == status).map(|tool| tool.name.clone()).collect()
    };
    Ok(Some(ListingReport { held: names_with(ToolStatus::New), changed: names_with(ToolStatus::Changed) }))
}
