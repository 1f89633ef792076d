//! Says how tasks are started that a run outside a workflow has created.

use std::collections::HashMap;

use emergent_domain::{
    ids::ObjectId,
    object::Object,
    relationship::Relationship,
    task::{BLOCKS_TYPE, TASK_TYPE},
};
use emergent_graph::{CreatedSubgraph, WriteContext, projects::DEFAULT_PROJECT};

/// Says how the tasks are started that belong to no workflow. `None` if there are none, or if the project starts new
/// tasks by itself.
pub(super) fn dispatch_hint(writer: &WriteContext, created: &CreatedSubgraph) -> Option<String> {
    let is_loose = |object: &&Object| {
        object.type_ == TASK_TYPE && !object.properties.to_map().contains_key("workflow_id")
    };
    let tasks: Vec<ObjectId> = created.objects.iter().filter(is_loose).map(|task| task.id).collect();
    if tasks.is_empty() || writer.project.auto_dispatch_since.is_some() {
        return None;
    }
    let firsts: Vec<String> =
        firsts_of_graphs(&tasks, &created.relationships).iter().map(ToString::to_string).collect();
    let project = match writer.project.name.as_str() {
        DEFAULT_PROJECT => String::new(),
        name => format!(" --project {name}"),
    };
    Some(format!(
        "These tasks belong to no workflow, so nothing executes them yet. Tell the user how to start them: `emergent \
         dispatch --from-graph --task {}{project}`, or POST /api/coordination/dispatch {{ \"taskIds\": [\"{}\"] }}; it \
         starts every task that `blocks` joins with {}",
        firsts.join(" --task "),
        firsts.join("\", \""),
        if firsts.len() == 1 { "this one" } else { "these" },
    ))
}

/// The first task of each graph: tasks that no chain of `blocks` joins are not started with one another.
fn firsts_of_graphs(tasks: &[ObjectId], edges: &[Relationship]) -> Vec<ObjectId> {
    let mut graphs: HashMap<ObjectId, usize> =
        tasks.iter().enumerate().map(|(index, task)| (*task, index)).collect();
    for edge in edges.iter().filter(|edge| edge.type_ == BLOCKS_TYPE) {
        if let (Some(&one), Some(&other)) = (graphs.get(&edge.from), graphs.get(&edge.to)) {
            let (joined, gone) = (one.min(other), one.max(other));
            graphs.values_mut().filter(|graph| **graph == gone).for_each(|graph| *graph = joined);
        }
    }
    let is_first = |(index, task): &(usize, &ObjectId)| graphs.get(*task) == Some(index);
    tasks.iter().enumerate().filter(is_first).map(|(_, task)| *task).collect()
}
