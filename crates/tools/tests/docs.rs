//! `docs/tools.md` says of every tool what the tool says of itself.

use std::collections::BTreeMap;

use emergent_domain::tool_name;
use emergent_tools::{Effect, builtin};

type Row = (Vec<String>, String, String);

fn documented() -> BTreeMap<String, Row> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");
    let text = std::fs::read_to_string(path).unwrap();
    let plain = |cell: &str| cell.trim().trim_matches('`').to_owned();
    text.lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
            let [name, aliases, _, effect, scope] = cells[..] else { panic!("five columns: {line}") };
            let aliases = aliases.split_whitespace().map(plain).collect();
            (plain(name), (aliases, plain(effect), plain(scope)))
        })
        .collect()
}

#[test]
fn the_table_of_tools_is_true() {
    let real: BTreeMap<String, Row> = builtin::tools()
        .iter()
        .map(|tool| {
            let info = tool.info();
            let effect = match info.effect {
                Effect::Reads => "reads",
                Effect::Writes { destructive: false } => "writes",
                Effect::Writes { destructive: true } => "deletes",
                Effect::External { .. } => "external",
                Effect::Coordinates => "coordinates",
                Effect::Asks => "asks",
            };
            let aliases = tool_name::aliases(&info.name).map(str::to_owned).collect();
            let scope = info.scope.map_or("agents only", |scope| scope.as_str());
            (info.name.clone(), (aliases, effect.to_owned(), scope.to_owned()))
        })
        .collect();
    assert_eq!(documented(), real);
}
