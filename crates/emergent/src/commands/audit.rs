//! `emergent audit`: shows who changed tokens, secrets, servers, products, agents, budgets and projects.

use emergent_wire::audit::AuditEntryView;

use super::{
    encode,
    resolve::{TOKENS, resolve_id},
    run_bulk::parse_optional_time,
};
use crate::{
    client::{Client, Received},
    error::Result,
    output,
};

/// Show who changed tokens, secrets, servers, products, agents, budgets and projects
///
/// The newest changes come first.
#[derive(Debug, clap::Args)]
pub struct Audit {
    /// Only this action, such as token.create, or all of a kind, such as token
    #[arg(long)]
    action: Option<String>,
    /// Only changes by this token: its id, the end of its id, or a unique name
    #[arg(long, value_name = "TOKEN")]
    by: Option<String>,
    /// Only changes since then: a time such as 2026-01-31T08:00:00Z, or for how long, such as 24h or 7d
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only changes before then, as with --since
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    limit: u32,
}

impl Audit {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let token = match &self.by {
            Some(reference) => Some(resolve_id(client, &TOKENS, reference).await?),
            None => None,
        };
        let since = parse_optional_time("since", self.since.as_deref())?.map(|time| time.to_string());
        let until = parse_optional_time("until", self.until.as_deref())?.map(|time| time.to_string());
        let mut query = Vec::new();
        for (name, value) in [("action", self.action), ("token", token), ("since", since), ("until", until)] {
            if let Some(value) = value {
                query.push(format!("{name}={}", encode(&value)));
            }
        }
        let path = format!("/api/admin/audit?{}", query.join("&"));
        let entries: Vec<Received<AuditEntryView>> = client.get_limited(&path, self.limit).await?;
        if as_json {
            return output::print_json(&entries);
        }
        let rows: Vec<_> = entries.iter().map(|entry| cells(entry)).collect();
        let headers = ["AT", "BY", "FROM", "ACTION", "TARGET"];
        output::print_table_with_optional(&headers, &rows, &["ACTION"], &["FROM"])
    }
}

fn cells(entry: &AuditEntryView) -> Vec<String> {
    let by = match (&entry.token, &entry.run_id) {
        (_, Some(run)) => format!("run {run}"),
        (Some(token), None) => token.name.clone(),
        (None, None) => "the server".to_owned(),
    };
    // A command on the data folder has no address, and neither has the server itself.
    let from = entry.address.clone().unwrap_or_else(|| "this machine".to_owned());
    let target = if entry.target.name.is_empty() { &entry.target.id } else { &entry.target.name };
    vec![entry.at.to_string(), by, from, entry.action.clone(), target.clone()]
}
