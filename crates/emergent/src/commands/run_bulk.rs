//! The conditions of `emergent run list`, the counts of `emergent run stats`, and `emergent run cancel` and
//! `emergent run resume` for many runs.

use std::collections::BTreeMap;

use emergent_domain::{
    text::counted,
    time::{Clock, Timestamp},
};
use emergent_wire::run_bulk::{
    BulkOutcomeView, BulkRunAction, BulkRuns, BulkRunsView, RunFilterView, RunStatsView,
};

use super::{encode, run::agent_text};
use crate::{
    cells::cell,
    client::{Client, Received},
    config::parse_duration,
    error::{Error, Result},
    output,
};

/// Which runs.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RunConditions {
    /// Only of this agent, by name or id
    #[arg(long)]
    agent: Option<String>,
    /// Only with this status: queued, running, waiting, completed, failed, paused, cancelled; several with commas
    #[arg(long)]
    status: Option<String>,
    /// Only paused or failed for this reason: step_limit, timeout, error, doom_loop, budget, provider, …
    #[arg(long)]
    reason: Option<String>,
    /// Only started by this: trigger, schedule, event, spawn, flow, dispatch, chat, invoke, resume
    #[arg(long)]
    origin: Option<String>,
    /// Only created since then: a time such as 2026-01-31T08:00:00Z, or for how long, such as 2h or 7d
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only created before then, as with --since
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only runs that no other run started
    #[arg(long)]
    root: bool,
    /// Only with this text in the input or the summary
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
}

impl RunConditions {
    fn is_empty(&self) -> bool {
        self.pairs().iter().all(|(_, value)| value.is_none()) && !self.root
    }

    fn pairs(&self) -> [(&'static str, &Option<String>); 7] {
        [
            ("agent", &self.agent),
            ("status", &self.status),
            ("reason", &self.reason),
            ("origin", &self.origin),
            ("since", &self.since),
            ("until", &self.until),
            ("q", &self.query),
        ]
    }

    /// The parameters of a request, each after a `&`.
    pub fn query_text(&self) -> Result<String> {
        let mut text = String::new();
        for (name, value) in self.pairs() {
            let Some(value) = value else { continue };
            let value = match name {
                "since" | "until" => parse_time(name, value)?.to_string(),
                _ => value.clone(),
            };
            text.push_str(&format!("&{name}={}", encode(&value)));
        }
        if self.root {
            text.push_str("&root=true");
        }
        Ok(text)
    }

    fn into_filter(self) -> Result<RunFilterView> {
        let time = |name: &str, text: Option<String>| text.map(|text| parse_time(name, &text)).transpose();
        Ok(RunFilterView {
            agent: self.agent,
            status: self.status,
            reason: parse_name("--reason", self.reason)?,
            origin: parse_name("--origin", self.origin)?,
            parent_run_id: None,
            since: time("since", self.since)?,
            until: time("until", self.until)?,
            root: self.root.then_some(true),
            q: self.query,
        })
    }
}

/// A value of the API that is written as its name.
fn parse_name<T: serde::de::DeserializeOwned>(flag: &str, text: Option<String>) -> Result<Option<T>> {
    let Some(text) = text else { return Ok(None) };
    let parsed = serde_json::from_value(serde_json::Value::from(text.as_str()));
    parsed.map(Some).map_err(|error| Error::Usage(format!("{flag} does not know `{text}`: {error}")))
}

/// A time, or for how long before now. The error names the flag.
pub(super) fn parse_time(flag: &str, text: &str) -> Result<Timestamp> {
    if let Some(before) = parse_duration(text) {
        return Ok(Clock::system().now() - before);
    }
    text.parse().map_err(|_| {
        Error::Usage(format!(
            "--{flag}: expected a time such as 2026-01-31T08:00:00Z, or for how long, such as 2h or 7d; `{text}` is \
             neither"
        ))
    })
}

/// Like [`parse_time`], for a flag that may be left out.
pub(super) fn parse_optional_time(flag: &str, text: Option<&str>) -> Result<Option<Timestamp>> {
    text.map(|text| parse_time(flag, text)).transpose()
}

/// Many runs.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct BulkFlags {
    /// All runs that match the conditions, instead of one run
    #[arg(long)]
    pub all_matching: bool,
    #[command(flatten)]
    conditions: RunConditions,
    /// With --all-matching: only list the runs
    #[arg(long, requires = "all_matching")]
    dry_run: bool,
    /// With --all-matching: confirm that all of them are meant
    #[arg(long, requires = "all_matching")]
    yes: bool,
}

impl BulkFlags {
    /// Refuses conditions beside the id of a run.
    pub fn check_single(&self) -> Result<()> {
        if self.conditions.is_empty() {
            return Ok(());
        }
        Err(Error::Usage("name one run, or use --all-matching with conditions".to_owned()))
    }

    /// Cancels or resumes the runs. Without `--yes`, lists them and says how to confirm.
    pub async fn change(
        self,
        client: &Client,
        action: BulkRunAction,
        key: Option<&str>,
        as_json: bool,
    ) -> Result<()> {
        if self.conditions.is_empty() {
            let message = "--all-matching needs a condition, such as --agent, --status or --since";
            return Err(Error::Usage(message.to_owned()));
        }
        let dry_run = self.dry_run || !self.yes;
        let filter = Some(self.conditions.into_filter()?);
        let body = BulkRuns { action, filter, ids: None, dry_run };
        let result: Received<BulkRunsView> =
            client.post_once("/api/admin/runs/bulk", &body, key).await?.data().await?;
        match as_json {
            true => output::print_json(&result)?,
            false => show_result(&result)?,
        }
        if !self.dry_run && !self.yes && !result.runs.is_empty() {
            let message = "nothing was changed: confirm that all of these runs are meant with --yes";
            return Err(Error::Usage(message.to_owned()));
        }
        Ok(())
    }
}

fn show_result(result: &BulkRunsView) -> Result<()> {
    let outcome = |outcome: BulkOutcomeView| match outcome {
        BulkOutcomeView::Cancelled => "cancelled",
        BulkOutcomeView::Resumed => "resumed",
        BulkOutcomeView::Possible => match result.action {
            BulkRunAction::Cancel => "would be cancelled",
            BulkRunAction::Resume => "would be resumed",
        },
        BulkOutcomeView::Skipped => "skipped",
        BulkOutcomeView::NotFound => "not found",
        BulkOutcomeView::Failed => "failed",
    };
    let rows: Vec<Vec<String>> = result
        .runs
        .iter()
        .map(|run| {
            let new_run = run.new_run_id.map(|id| format!("as {id}"));
            let note = run.message.clone().or(new_run).unwrap_or_default();
            vec![
                run.run_id.to_string(),
                run.agent_name.as_deref().map(agent_text).unwrap_or_default(),
                run.status.map(|status| status.to_string()).unwrap_or_default(),
                outcome(run.outcome).to_owned(),
                cell(&note, 80),
            ]
        })
        .collect();
    if rows.is_empty() && output::terminal_width().is_some() {
        return output::print_line("No run matches the conditions.");
    }
    output::print_table(&["ID", "AGENT", "WAS", "OUTCOME", "NOTE"], &rows)?;
    if result.has_more {
        output::print_notice(
            "there are more: one request changes 1000 runs at most; repeat it for the others",
        );
    }
    Ok(())
}

/// Shows how many runs there were, by status, agent and hour.
pub async fn show_stats(
    client: &Client,
    since: Option<&str>,
    until: Option<&str>,
    as_json: bool,
) -> Result<()> {
    let mut path = "/api/admin/runs/stats".to_owned();
    let mut separator = '?';
    for (name, text) in [("since", since), ("until", until)] {
        if let Some(text) = text {
            path.push_str(&format!("{separator}{name}={}", encode(&parse_time(name, text)?.to_string())));
            separator = '&';
        }
    }
    let stats: Received<RunStatsView> = client.get(&path).await?.data().await?;
    if as_json {
        return output::print_json(&stats);
    }
    let runs = counted(stats.total, "run");
    output::print_text(&format!("{runs} from {} to {}", stats.since, stats.until))?;
    output::print_text(&counts(&stats.by_status))?;
    if !stats.active.is_empty() {
        output::print_text(&format!("now, whenever they were created: {}", counts(&stats.active)))?;
    }
    let agents: Vec<Vec<String>> = stats
        .by_agent
        .iter()
        .map(|agent| vec![agent_text(&agent.agent_name), agent.total.to_string(), counts(&agent.by_status)])
        .collect();
    output::print_table(&["AGENT", "RUNS", "BY STATUS"], &agents)?;
    let hours: Vec<Vec<String>> = stats
        .by_hour
        .iter()
        .map(|hour| vec![hour.hour.to_string(), hour.total.to_string(), counts(&hour.by_status)])
        .collect();
    output::print_table(&["HOUR", "RUNS", "BY STATUS"], &hours)
}

fn counts(by_status: &BTreeMap<String, i64>) -> String {
    by_status.iter().map(|(status, count)| format!("{count} {status}")).collect::<Vec<_>>().join(", ")
}
