//! What `emergent serve --sample` adds: a graph with a few people, machines and ideas of early computing, and the
//! default agents, one of which answers questions about it.

use emergent_domain::{agent::Agent, author::Author, cursor::Page, query::ObjectFilter, trigger::EventKind};
use emergent_executor::Executor;
use emergent_graph::{Actor, Graph};
use emergent_products::Products;
use emergent_store::agents;
use tracing::warn;

use crate::{
    error::{Error, Result},
    text::wrap_item,
};

const SAMPLE: &str = include_str!("sample.ndjson");

/// The object of the sample that the suggested commands name.
const NAMED_OBJECT: (&str, &str) = ("Person", "ada-lovelace");

/// Whether a project has the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleState {
    /// It was imported, now or at an earlier start.
    Imported,
    /// The project has other objects, so nothing was imported.
    Refused,
}

/// Imports the sample into the default project, unless the project has objects.
pub async fn import_sample(graph: &Graph) -> Result<SampleState> {
    let project = graph.ensure_default_project().await?.id;
    let existing = graph.list_objects(project, ObjectFilter::default(), Page::first(1)).await?;
    if !existing.items.is_empty() {
        let (type_, key) = (vec![NAMED_OBJECT.0.to_owned()], Some(NAMED_OBJECT.1.to_owned()));
        let filter = ObjectFilter { types: type_, key, ..ObjectFilter::default() };
        let named = graph.list_objects(project, filter, Page::first(1)).await?;
        return Ok(if named.items.is_empty() { SampleState::Refused } else { SampleState::Imported });
    }
    let actor = Actor { project, author: Author::System };
    let lines = SAMPLE.lines().enumerate().map(|(index, line)| (index as u64 + 1, line.to_owned())).collect();
    graph.import_batch(actor, lines).await?;
    Ok(SampleState::Imported)
}

/// Installs the default agents in the default project. A project in which they cannot be installed, for example because
/// a name is taken, goes on without them.
pub async fn install_default_agents(graph: &Graph, products: &Products) -> Result<()> {
    let project = graph.ensure_default_project().await?.id;
    let actor = Actor { project, author: Author::System };
    if let Err(error) = products.install_default_agents(actor).await {
        warn!("the default agents were not installed: {error}");
    }
    Ok(())
}

/// Lines about the triggers of the default project whose agents have no usable model, for a terminal of so many columns.
/// Nobody waits for what they start, so without these lines nobody would learn that it is refused.
pub async fn trigger_notes(graph: &Graph, executor: &Executor, columns: usize) -> Result<String> {
    let project = graph.ensure_default_project().await?.id;
    let triggers = executor.list_triggers(project).await.map_err(Error::Triggers)?;
    let agents = graph.db().read(move |tx| agents::list_all(tx, project)).await?;
    let problem = |agent: &Agent| {
        let own = agent.definition.model.as_ref();
        let pinned = own.filter(|_| agent.definition.pins_model());
        let chosen = executor.models().choose_for_run(pinned, own);
        chosen.err().filter(|_| !agent.definition.calls_no_model())
    };
    let mut notes = String::new();
    for trigger in triggers.events.iter().filter(|trigger| trigger.dispatch.is_none()) {
        let agent = agents.iter().find(|agent| agent.id == trigger.agent);
        if let Some(agent) = agent
            && let Some(problem) = problem(agent)
        {
            let (name, when) = (&agent.definition.name, when(trigger.event));
            let note = format!("The agent `{name}`, which starts when {when}, cannot start: {problem}.");
            notes.push_str(&wrap_item("  ", &note, columns).join("\n"));
            notes.push('\n');
        }
    }
    Ok(notes)
}

/// When an event fires a trigger, in words.
fn when(event: EventKind) -> &'static str {
    match event {
        EventKind::DocumentIngested => "a document is added",
        EventKind::EntityCreated => "an object is created",
        EventKind::EntityUpdated => "an object is changed",
        EventKind::RelationshipCreated => "a relationship is created",
    }
}
