//! A server's list of tools, put together page by page. However it is dealt out, the whole of it is
//! bounded.

use serde_json::value::RawValue;

use super::{
    Error,
    tools::{RemoteTool, ToolsPage},
};

/// A list is not read past these.
pub const MOST_PAGES: usize = 100;
const MOST_TOOLS: usize = 5_000;
const MOST_BYTES: usize = 8 << 20;
/// Of one tool: a model reads all of it.
const MOST_TOOL_BYTES: usize = 256 << 10;
/// Letters of what the log is told of an entry.
const MOST_TOLD: usize = 200;

#[derive(Default)]
pub struct Listing {
    tools: Vec<RemoteTool>,
    bytes: usize,
    /// Readable or not.
    entries: usize,
    left_out: usize,
    /// Of the first that was left out.
    why: Option<String>,
}

impl Listing {
    /// Adds a page; returns where the next one begins. An entry that cannot be used is left out.
    pub fn add(
        &mut self,
        page: &RawValue,
        may_be_called: impl Fn(&RemoteTool) -> bool,
    ) -> Result<Option<String>, Error> {
        self.bytes += page.get().len();
        if self.bytes > MOST_BYTES {
            return Err(Error::Garbage(format!("a list of tools of more than {MOST_BYTES} bytes")));
        }
        let page: ToolsPage<'_> = serde_json::from_str(page.get())
            .map_err(|error| Error::Garbage(format!("a list of tools that cannot be read: {error}")))?;
        self.entries += page.tools.len();
        if self.entries > MOST_TOOLS {
            return Err(Error::Garbage(format!("more than {MOST_TOOLS} tools")));
        }
        for entry in page.tools {
            match read(entry) {
                Ok(tool) if may_be_called(&tool) => self.tools.push(tool),
                Ok(_) => self.leave_out(|| "it wants headers that cannot be sent".into()),
                Err(why) => self.leave_out(|| why),
            }
        }
        Ok(page.next_cursor)
    }

    fn leave_out(&mut self, why: impl FnOnce() -> String) {
        self.left_out += 1;
        self.why.get_or_insert_with(why);
    }

    /// The tools. The log hears once of those that were left out, however many they are.
    pub fn done(self) -> Vec<RemoteTool> {
        if let Some(why) = self.why {
            let why: String = why.chars().take(MOST_TOLD).collect();
            tracing::warn!(tools = self.left_out, "tools were left out of a server's list, the first: {why}");
        }
        self.tools
    }
}

fn read(entry: &RawValue) -> Result<RemoteTool, String> {
    if entry.get().len() > MOST_TOOL_BYTES {
        return Err(format!("it has more than {MOST_TOOL_BYTES} bytes"));
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
        let mut listing = Listing::default();
        let added = (0..pages).try_for_each(|_| listing.add(&page, |tool| tool.name != "odd").map(drop));
        let listed = added.map(|()| listing.done().len()).map_err(|error| error.to_string());
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
