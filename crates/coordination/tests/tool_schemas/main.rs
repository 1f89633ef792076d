//! The input schemas of all tools that an agent with `*` is offered: how large they are, and that
//! a tool accepts what its schema accepts.

use emergent_domain::ids::ProjectId;
use emergent_executor::{Executor, Settings};
use emergent_graph::Graph;
use emergent_llm::ToolSpec;
use emergent_testkit::{TestDb, fixed_clock};
use emergent_tools::{ToolPool, builtin};

mod docs;
mod inputs;
mod normal_forms;

/// Bytes of name, description and input schema of all tools together. A model reads them with
/// every call, so a tool that makes them larger has to be worth it: four bytes are about a token. The settings
/// of a discussion and the search for bookkeeping are worth 1,500 bytes more than the rest had before; linked search,
/// groups and budgets of hits, and the facts that a fact replaces are worth 4,100.
const MAX_TOTAL_BYTES: usize = 46_200;

async fn all_tools() -> Vec<ToolSpec> {
    let db = TestDb::sqlite().await;
    let graph = Graph::new(db.db.clone(), fixed_clock(), None);
    let pool = emergent_coordination::tools::tools()
        .into_iter()
        .fold(ToolPool::new(builtin::tools()), |pool, tool| pool.with_tool(tool));
    let executor = Executor::new(graph, Default::default(), pool, Settings::default());
    executor.tools().resolve(ProjectId::new(), &["*".to_owned()], 0, true).await.specs()
}

fn size(tool: &ToolSpec) -> usize {
    tool.name.len() + tool.description.len() + tool.input_schema.as_str().len()
}

/// `cargo test -p emergent-coordination --test tool_schemas size -- --nocapture` prints the sizes.
#[tokio::test]
async fn the_size_of_all_tools_together_has_a_limit() {
    let mut tools = all_tools().await;
    assert_eq!(tools.len(), 46);
    tools.sort_by_key(|tool| std::cmp::Reverse(size(tool)));
    for tool in &tools {
        println!("{:6} {}", size(tool), tool.name);
    }
    let total: usize = tools.iter().map(size).sum();
    println!("{total:6} bytes in {} tools, the limit is {MAX_TOTAL_BYTES}", tools.len());
    assert!(
        total <= MAX_TOTAL_BYTES,
        "{total} bytes: shorten descriptions, or raise the limit with a reason"
    );
}
