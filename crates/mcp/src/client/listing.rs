//! Collects a server's list of tools page by page, within limits on its total size.

use emergent_domain::foreign_json;
use serde_json::value::RawValue;

use super::{
    Error,
    tools::{RemoteTool, ToolsPage},
};

/// The maximum number of pages of one list.
pub const MAX_PAGES: usize = 100;
/// The maximum number of entries of one list, valid or not.
const MAX_TOOLS: usize = 5_000;
/// The maximum size of all pages together.
const MAX_BYTES: usize = 8 << 20;
/// The maximum size of one tool, since a model reads all of it.
const MAX_TOOL_BYTES: usize = 256 << 10;
/// The maximum number of characters that the log quotes of an entry.
const MAX_LOGGED_CHARS: usize = 200;

/// The part of a list that was received so far.
#[derive(Default)]
pub struct ToolListing {
    tools: Vec<RemoteTool>,
    bytes: usize,
    /// All entries, valid or not.
    entries: usize,
    skipped: usize,
    /// The reason why the first entry was skipped.
    skip_reason: Option<String>,
}

impl ToolListing {
    /// Adds a page and returns the cursor of the next one; `None` for the last page. Entries that are invalid
    /// or not callable are skipped.
    pub fn add(
        &mut self,
        page: &RawValue,
        is_callable: impl Fn(&RemoteTool) -> bool,
    ) -> Result<Option<String>, Error> {
        self.bytes += page.get().len();
        if self.bytes > MAX_BYTES {
            return Err(Error::InvalidMessage(format!("a list of tools of more than {MAX_BYTES} bytes")));
        }
        let page: ToolsPage<'_> = foreign_json::from_str(page.get())
            .map_err(|error| Error::InvalidMessage(format!("an invalid list of tools: {error}")))?;
        self.entries += page.tools.len();
        if self.entries > MAX_TOOLS {
            return Err(Error::InvalidMessage(format!("more than {MAX_TOOLS} tools")));
        }
        for entry in page.tools {
            match parse_entry(entry) {
                Ok(tool) if is_callable(&tool) => self.tools.push(tool),
                Ok(_) => self.skip(|| "it requests headers that cannot be sent".into()),
                Err(reason) => self.skip(|| reason),
            }
        }
        Ok(page.next_cursor)
    }

    fn skip(&mut self, reason: impl FnOnce() -> String) {
        self.skipped += 1;
        self.skip_reason.get_or_insert_with(reason);
    }

    /// Returns the tools. Skipped entries are logged once, however many there are.
    pub fn into_tools(self) -> Vec<RemoteTool> {
        if let Some(reason) = self.skip_reason {
            let reason: String = reason.chars().take(MAX_LOGGED_CHARS).collect();
            tracing::warn!(tools = self.skipped, "skipped tools of a server's list; the first: {reason}");
        }
        self.tools
    }
}

/// Parses one entry. The error is the reason why it is skipped.
fn parse_entry(entry: &RawValue) -> Result<RemoteTool, String> {
    if entry.get().len() > MAX_TOOL_BYTES {
        return Err(format!("it has more than {MAX_TOOL_BYTES} bytes"));
    }
    RemoteTool::parse(entry.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;
    use crate::message::Message;

    fn tool(name: &str, bytes: usize) -> Value {
        json!({ "name": name, "description": "x".repeat(bytes), "inputSchema": {} })
    }

    /// Adds the same page several times, and compares the number of tools or the error.
    fn check(tools: &[Value], pages: usize, expected: Result<usize, &str>) {
        let page = to_raw_value(&json!({ "tools": tools, "nextCursor": "more" })).unwrap();
        let mut listing = ToolListing::default();
        let added = (0..pages).try_for_each(|_| listing.add(&page, |tool| tool.name != "odd").map(drop));
        let listed = added.map(|()| listing.into_tools().len()).map_err(|error| error.to_string());
        let expected = expected.map_err(|reason| format!("sent something that is not MCP: {reason}"));
        assert_eq!(listed, expected);
    }

    #[test]
    fn a_list_with_a_reserved_key_is_refused_at_any_depth() {
        for key in ["$serde_json::private::RawValue", r"\u0024serde_json::private::RawValue"] {
            let nested = (0..12).fold("0".to_owned(), |inner, _| {
                let lists = format!("{}{inner}{}", "[".repeat(120), "]".repeat(120));
                format!(r#"{{"{key}":{}}}"#, Value::from(lists))
            });
            let page = format!(r#"{{"tools":[{{"name":"a","inputSchema":{{"default":{nested}}}}}]}}"#);
            let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{page}}}"#);
            // It concerns the list, and no other message.
            let page = Message::parse(message.as_bytes()).unwrap().result.unwrap();
            let error = ToolListing::default().add(page, |_| true).unwrap_err().to_string();
            assert!(error.contains("is reserved"), "{error}");
        }
    }

    #[test]
    fn unusable_entries_are_skipped_and_the_others_are_listed() {
        check(&[tool("a", 9), json!(17), json!({}), tool("odd", 9), tool("b", 300_000)], 2, Ok(2));
    }

    #[test]
    fn the_limits_apply_to_all_pages_together() {
        check(&[tool("a", 200_000)], 41, Ok(41));
        check(&[tool("a", 200_000)], 42, Err("a list of tools of more than 8388608 bytes"));
        check(&vec![json!(null); 500], 10, Ok(0));
        check(&vec![json!(null); 500], 11, Err("more than 5000 tools"));
    }
}
