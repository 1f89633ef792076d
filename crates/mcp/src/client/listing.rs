//! A server's list of tools, put together page by page. However it is dealt out, the whole of it is
//! bounded.

use serde_json::value::RawValue;

use super::{
    Error,
    tools::{RemoteTool, ToolsPage},
};

/// A list is not read past these.
pub const MAX_PAGES: usize = 100;
const MAX_TOOLS: usize = 5_000;
const MAX_BYTES: usize = 8 << 20;
/// Of one tool: a model reads all of it.
const MAX_TOOL_BYTES: usize = 256 << 10;
/// Letters of what the log is told of an entry.
const MAX_LOGGED_CHARS: usize = 200;

#[derive(Default)]
pub struct ToolListing {
    tools: Vec<RemoteTool>,
    bytes: usize,
    /// Readable or not.
    entries: usize,
    left_out: usize,
    /// Of the first that was left out.
    skip_reason: Option<String>,
}

impl ToolListing {
    /// Adds a page; returns where the next one begins. An entry that cannot be used is left out.
    pub fn add(
        &mut self,
        page: &RawValue,
        may_be_called: impl Fn(&RemoteTool) -> bool,
    ) -> Result<Option<String>, Error> {
        self.bytes += page.get().len();
        if self.bytes > MAX_BYTES {
            return Err(Error::InvalidMessage(format!("a list of tools of more than {MAX_BYTES} bytes")));
        }
        let page: ToolsPage<'_> = serde_json::from_str(page.get()).map_err(|error| {
            Error::InvalidMessage(format!("a list of tools that cannot be read: {error}"))
        })?;
        self.entries += page.tools.len();
        if self.entries > MAX_TOOLS {
            return Err(Error::InvalidMessage(format!("more than {MAX_TOOLS} tools")));
        }
        for entry in page.tools {
            match parse_entry(entry) {
                Ok(tool) if may_be_called(&tool) => self.tools.push(tool),
                Ok(_) => self.skip(|| "it wants headers that cannot be sent".into()),
                Err(why) => self.skip(|| why),
            }
        }
        Ok(page.next_cursor)
    }

    fn skip(&mut self, why: impl FnOnce() -> String) {
        self.left_out += 1;
        self.skip_reason.get_or_insert_with(why);
    }

    /// The tools. The log hears once of those that were left out, however many they are.
    pub fn into_tools(self) -> Vec<RemoteTool> {
        if let Some(why) = self.skip_reason {
            let why: String = why.chars().take(MAX_LOGGED_CHARS).collect();
            tracing::warn!(tools = self.left_out, "tools were left out of a server's list, the first: {why}");
        }
        self.tools
    }
}

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

    fn tool(name: &str, bytes: usize) -> Value {
        json!({ "name": name, "description": "x".repeat(bytes), "inputSchema": {} })
    }

    /// The same page again and again: what is listed at last, or why it is not.
    fn check(tools: &[Value], pages: usize, expected: Result<usize, &str>) {
        let page = to_raw_value(&json!({ "tools": tools, "nextCursor": "more" })).unwrap();
        let mut listing = ToolListing::default();
        let added = (0..pages).try_for_each(|_| listing.add(&page, |tool| tool.name != "odd").map(drop));
        let listed = added.map(|()| listing.into_tools().len()).map_err(|error| error.to_string());
        let expected = expected.map_err(|why| format!("sent something that is not MCP: {why}"));
        assert_eq!(listed, expected);
    }

    #[test]
    fn what_cannot_be_used_is_left_out_and_costs_no_other() {
        check(&[tool("a", 9), json!(17), json!({}), tool("odd", 9), tool("b", 300_000)], 2, Ok(2));
    }

    #[test]
    fn a_list_is_bounded_however_it_is_dealt_out() {
        check(&[tool("a", 200_000)], 41, Ok(41));
        check(&[tool("a", 200_000)], 42, Err("a list of tools of more than 8388608 bytes"));
        check(&vec![json!(null); 500], 10, Ok(0));
        check(&vec![json!(null); 500], 11, Err("more than 5000 tools"));
    }
}
