//! `docs/tools.md` lists every tool with its aliases. The effects and scopes of the tools in its first
//! table are compared in `crates/tools/tests/docs.rs`.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::tool_name;

type Aliases = BTreeSet<String>;

/// Returns the tools of the page. A row of the first table has the aliases in its second cell, a row of
/// the second table, whose names are bold, has them beside the name.
fn documented() -> BTreeMap<String, Aliases> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows = page.lines().filter_map(|line| {
        let cells = if line.starts_with("| `") { 2 } else { 1 };
        let row = line.strip_prefix("| ").filter(|row| row.starts_with(['`', '*']))?;
        let named: Vec<&str> = row.split('|').take(cells).collect();
        let named = named.concat();
        let mut names = named.split('`').skip(1).step_by(2).map(str::to_owned);
        Some((names.next()?, names.collect()))
    });
    rows.collect()
}

#[tokio::test]
async fn every_tool_is_documented_with_its_aliases() {
    let offered: BTreeMap<String, Aliases> = super::all_tools()
        .await
        .into_iter()
        .map(|tool| {
            let aliases = tool_name::aliases(&tool.name).map(str::to_owned).collect();
            (tool.name, aliases)
        })
        .collect();
    assert_eq!(documented(), offered, "left: docs/tools.md, right: the tools that an agent is offered");
}
