//! A small MCP server as a shell script, for tests that need a program with tools.

use serde_json::{Value, json};

/// A program with tools. Texts are put between double quotes of a shell, so `$NAME` is a variable of the
/// program's environment, and `$(cat "$FILE")` the content of a file that a test may change.
#[derive(Debug, Clone)]
pub struct ShellMcpServer {
    list: String,
    call: String,
    at_end: String,
}

impl ShellMcpServer {
    /// A server with one tool.
    pub fn with_tool(name: &str, description: &str) -> Self {
        Self::listing(format!(r#"tool "{name}" "{description}""#))
    }

    /// A server whose tools are the words of the file `$NAMES`.
    pub fn with_names() -> Self {
        let list =
            r#"comma=; for name in $(cat "$NAMES"); do printf '%s' "$comma"; comma=,; tool "$name" ''; done"#;
        Self::listing(list.to_owned())
    }

    fn listing(list: String) -> Self {
        Self { list, call: "answer done".to_owned(), at_end: String::new() }
    }

    /// What the program does when a tool is called: statements that may use `$line`, the request, and
    /// `answer TEXT`.
    #[must_use]
    pub fn on_call(self, call: &str) -> Self {
        Self { call: call.to_owned(), ..self }
    }

    /// What the program does when a tool is called: it adds a line to the file `$CALLS`, asks for input with these
    /// parameters of `elicitation/create`, and answers with what it got. Neither may contain a single quote.
    #[must_use]
    pub fn asks(self, params: &Value) -> Self {
        let request =
            json!({ "jsonrpc": "2.0", "id": "question", "method": "elicitation/create", "params": params });
        self.on_call(&format!(
            r#"echo called >> "$CALLS"; printf '%s\n' '{request}'; read -r reply
               said=$(printf '%s' "$reply" | sed 's/"/\\"/g'); answer "$said""#
        ))
    }

    /// As [`ShellMcpServer::asks`], but the program no longer wants the answer after a while.
    #[must_use]
    pub fn asks_and_gives_up(self, params: &Value, seconds: f32) -> Self {
        let request =
            json!({ "jsonrpc": "2.0", "id": "question", "method": "elicitation/create", "params": params });
        let cancelled = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "question" },
        });
        self.on_call(&format!(
            r#"printf '%s\n' '{request}'; sleep {seconds}; printf '%s\n' '{cancelled}'; sleep {seconds}; answer "gave up""#
        ))
    }

    /// What the program does when its input ends.
    #[must_use]
    pub fn at_end(self, at_end: &str) -> Self {
        Self { at_end: at_end.to_owned(), ..self }
    }

    /// The program as a script for `sh -c`.
    pub fn script(&self) -> String {
        SCRIPT.replace("LIST", &self.list).replace("CALL", &self.call).replace("AT_END", &self.at_end)
    }

    /// The description of the server with this name and these variables.
    pub fn spec(&self, name: &str, env: Value) -> Value {
        json!({ "name": name, "transport": "stdio", "command": "sh", "args": ["-c", self.script()], "env": env })
    }
}

const SCRIPT: &str = r#"
respond() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
tool() { printf '{"name":"%s","description":"%s","inputSchema":{"type":"object"}}' "$1" "$2"; }
answer() { respond "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) respond '"result":{"protocolVersion":"2025-11-25","capabilities":{}}';;
    *'"tools/list"'*) tools=$(LIST); respond "\"result\":{\"tools\":[$tools]}";;
    *'"tools/call"'*) CALL;;
    *'"id"'*) respond '"error":{"code":-32601,"message":"no"}';;
  esac
done
AT_END
"#;
