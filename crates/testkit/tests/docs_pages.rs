//! The pages of the documentation do not disturb each other: whoever follows one after the other in one folder changes
//! no agent of another page, and knows that the server of the page before has to be stopped.

use std::{collections::BTreeMap, fs, path::Path};

/// The pages with their texts.
fn pages() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs =
        fs::read_dir(root.join("docs")).expect("the documentation").flatten().map(|entry| entry.path());
    let markdown = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    markdown
        .chain([root.join("README.md")])
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).expect("a page"))
        })
        .collect()
}

/// The names of the agents that a page creates: in files, and on the command line.
fn created_agents(page: &str) -> Vec<&str> {
    let starts = ["echo '{ \"name\": \"", "```json\n{\n  \"name\": \""];
    let objects = starts.iter().flat_map(|start| page.split(start).skip(1));
    objects
        .filter_map(|rest| {
            let (name, rest) = rest.split_once('"')?;
            let end = rest.find("```").unwrap_or(rest.len());
            // MCP servers have a transport, products a version, template packs types.
            let is_agent = rest[..end].contains("\"provider\"") || rest[..end].contains("\"systemPrompt\"");
            is_agent.then_some(name)
        })
        .collect()
}

#[test]
fn no_two_pages_create_an_agent_of_the_same_name() {
    let pages = pages();
    let mut creators: BTreeMap<&str, &str> = BTreeMap::new();
    for (page, text) in &pages {
        for agent in created_agents(text) {
            let other = creators.insert(agent, page);
            assert!(
                other.is_none_or(|other| other == page),
                "`{agent}` is created by {page} and by {}: the second changes the agent of the first",
                other.unwrap_or_default()
            );
        }
    }
    for expected in ["scribe", "secretary", "greeter", "clerk", "cleaner"] {
        assert!(creators.contains_key(expected), "{expected} is not found: {creators:?}");
    }
}

#[test]
fn a_page_that_starts_a_server_says_that_another_is_stopped_first() {
    for name in ["approvals", "chat", "extraction", "installation", "integrations", "invoke", "sessions"] {
        let page = &pages()[&format!("{name}.md")];
        let (before, _) =
            page.rsplit_once("emergent serve\n```").unwrap_or_else(|| panic!("{name} starts none"));
        assert!(before.contains("stop it first with Ctrl-C"), "{name}");
    }
}
