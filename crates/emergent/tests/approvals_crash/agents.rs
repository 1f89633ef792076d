//! Two agents whose calls have to be approved: one writes to the graph, the other one calls an external program
//! that appends a line to a file.

use std::path::Path;

use emergent_testkit::ShellMcpServer;
use serde_json::{Value, json};

use crate::common::{Api, Home};

const BUILT_IN: &str = r#"
rules:
  - when: { step: 1 }
    answer:
      calls: [{ tool: entities_create, input: { type: Effect, properties: { title: "{{input}}" } } }]
  - when: {}
    answer: { text: Done. }
"#;
const EXTERNAL: &str = r#"
rules:
  - when: { step: 1 }
    answer:
      calls: [{ tool: append, input: { title: "{{input}}" } }]
  - when: {}
    answer: { text: Done. }
"#;
/// One line of the file is one effect. A line that is appended in one piece is there or not.
const APPEND: &str = r#"title=$(printf '%s' "$line" | sed 's/.*"title":"\([^"]*\)".*/\1/'); printf '%s\n' "$title" >> "$EFFECTS"; answer done"#;

/// The ids of the agents.
#[derive(Clone)]
pub struct Agents {
    pub built_in: String,
    pub external: String,
}

/// The scripts of the agents' models.
pub fn write_scripts(home: &Home) {
    let folder = home.data().join("rehearsals");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("built-in.yaml"), BUILT_IN).expect("a script");
    std::fs::write(folder.join("external.yaml"), EXTERNAL).expect("a script");
}

impl Agents {
    /// Defines the agents and the external program, whose effects are in the file `effects`.
    pub async fn define(api: &Api, effects: &Path) -> Self {
        let program = ShellMcpServer::with_tool("append", "Appends a line.").on_call(APPEND);
        let mut spec = program.spec("files", json!({ "EFFECTS": effects.display().to_string() }));
        spec["trust"] = json!(true);
        let server = api.post("/api/admin/mcp-servers", &spec).await.data();
        let inspect = format!("/api/admin/mcp-servers/{}/inspect", server["id"].as_str().expect("an id"));
        api.post(&inspect, &json!({})).await.data();
        Self {
            built_in: define(api, "built-in", "entities_create").await,
            external: define(api, "external", "append").await,
        }
    }

    /// The request that starts a run.
    pub fn trigger(&self, number: usize) -> String {
        let agent = if number.is_multiple_of(2) { &self.built_in } else { &self.external };
        format!("/api/admin/agents/{agent}/trigger")
    }
}

async fn define(api: &Api, name: &str, tool: &str) -> String {
    let definition: Value = json!({
        "name": name, "tools": [tool], "model": { "provider": "rehearsal", "name": name },
        "approvals": [{ "tools": [tool], "action": "ask" }],
    });
    let agent = api.post("/api/admin/agents", &definition).await.data();
    agent["id"].as_str().expect("an id").to_owned()
}
