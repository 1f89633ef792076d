//! An MCP server over standard input and output that does nothing, as fast as possible: the rest of a
//! call's time is spent in its client. The first argument is the number of tools it lists.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1);
    let (input, mut output) = (io::stdin().lock(), io::stdout().lock());
    for line in input.lines() {
        let Ok(line) = line else { return };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if message["id"].is_null() {
            continue;
        }
        let mut answer = match message["method"].as_str() {
            Some("initialize") => json!({ "result": {
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "nothing", "version": "1" } } }),
            Some("tools/list") => json!({ "result": { "tools": (0..count).map(tool).collect::<Vec<_>>() } }),
            Some("tools/call") => json!({ "result": { "content": [{ "type": "text", "text": "done" }] } }),
            Some("ping") => json!({ "result": {} }),
            _ => json!({ "error": { "code": -32601, "message": "no such method" } }),
        };
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = message["id"].clone();
        if writeln!(output, "{answer}").and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}

fn tool(number: usize) -> Value {
    json!({
        "name": format!("tool_{number}"), "description": "Does nothing, and says so.",
        "inputSchema": { "type": "object", "properties": { "what": { "type": "string" } } },
        "annotations": { "readOnlyHint": true },
    })
}
