//! `emergent run tool-calls`: the tool calls of a run, with their inputs and outputs.

use emergent_wire::tool_call::{CallStatusView, ToolCallView};
use serde_json::Value;

use super::{encode, tree};
use crate::{
    client::{Client, Received},
    error::Result,
    output::{self, bold, dim, first_line, green, red},
};

/// How much of an input or output a list shows where there is no terminal.
const MAX_VALUE_CHARS: usize = 80;

#[derive(Debug, clap::Args)]
pub struct ToolCalls {
    /// An id, the end of an id, or `last`
    run: String,
    /// Only calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only with this status: held, running, completed, error
    #[arg(long)]
    status: Option<String>,
    /// Print inputs and outputs whole
    #[arg(long)]
    full: bool,
}

impl ToolCalls {
    /// The run, as it was named.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// `path` is the API path of the run.
    pub async fn show(self, client: &Client, path: &str, as_json: bool) -> Result<()> {
        let filters = [("tool_name", &self.tool), ("status", &self.status)];
        let filters: Vec<String> = filters
            .iter()
            .filter_map(|(name, value)| value.as_ref().map(|value| format!("{name}={}", encode(value))))
            .collect();
        let calls: Vec<Received<ToolCallView>> =
            client.get_all_pages(&format!("{path}/tool-calls?{}", filters.join("&"))).await?;
        if as_json {
            return output::print_json(&calls);
        }
        if self.full {
            return calls.iter().try_for_each(|call| print_call(call));
        }
        let rows: Vec<_> = calls
            .iter()
            .map(|call| {
                vec![
                    call.step_number.to_string(),
                    call.tool_name.clone(),
                    call.status.as_str().to_owned(),
                    tree::took(call.duration_ms).unwrap_or_else(|| "–".to_owned()),
                    first_line(&call.input.to_string(), MAX_VALUE_CHARS),
                    first_line(&output_text(call), MAX_VALUE_CHARS),
                ]
            })
            .collect();
        if rows.is_empty() && output::terminal_width().is_some() {
            return output::print_line("This run has called no tools.");
        }
        output::print_table(&["STEP", "TOOL", "STATUS", "TOOK", "INPUT", "OUTPUT"], &rows)
    }
}

/// The output as text; empty while the call runs.
fn output_text(call: &ToolCallView) -> String {
    match &call.output {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

fn print_call(call: &ToolCallView) -> Result<()> {
    let mark = match call.status {
        CallStatusView::Completed => green("✓"),
        CallStatusView::Error => red("✗"),
        CallStatusView::Held => "✋".to_owned(),
        CallStatusView::Running => "▸".to_owned(),
    };
    let took = tree::took(call.duration_ms).unwrap_or_default();
    let step = dim(&format!("step {}", call.step_number));
    output::print_row(&format!(
        "{mark} {}  {step}  {took}  {}",
        bold(&call.tool_name),
        dim(&call.id.to_string())
    ))?;
    output::print_json(&call.input)?;
    match &call.output {
        None => Ok(()),
        Some(Value::String(text)) => output::print_item("→ ", text),
        Some(value) => output::print_json(value),
    }
}
