//! Which agent a task was assigned to, as the graph tells it.

use emergent_coordination::TaskCommand;
use emergent_domain::{
    cursor::Page,
    ids::ObjectId,
    query::Direction,
    relationship::Relationship,
    task::{NewTask, TaskStatus},
    workflow::WorkflowStatus,
};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, says},
};

use crate::harness::{House, task};

async fn assignments(house: &House, task: ObjectId) -> Vec<Relationship> {
    let types = vec!["assigned_to_agent".to_owned()];
    let edges = house.graph().object_edges(house.project, task, Direction::Out, types, Page::first(10)).await;
    edges.unwrap().items
}

fn agent(edge: &Relationship) -> String {
    let properties = edge.properties.to_map();
    assert!(properties["assigned_at"].is_string(), "{properties:?}");
    properties["agent_name"].as_str().unwrap().to_owned()
}

both_engines! {
    async fn a_task_has_an_edge_with_the_agent_it_is_assigned_to(db: TestDb) {
        let house = House::open(&db, ScriptedModel::default().agent("other", [says("Built.")])).await;
        house.agents(&["builder", "other"]).await;
        // The script has nothing for `builder`, so its attempts fail.
        let build = NewTask { max_retries: Some(1), ..task("build", "builder", &[]) };
        let id = house.dispatch(vec![build]).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let build = shown.tasks[0].task.id;
        let edges = assignments(&house, build).await;
        assert_eq!((edges.len(), agent(&edges[0]), edges[0].to), (1, "builder".to_owned(), build));
        assert_eq!(edges[0].version, 1, "a second attempt by the same agent is no new assignment");
        let reassign = TaskCommand::Reassign { agent: "other".into(), note: None };
        house.dispatcher.command_task(house.actor(), build, reassign).await.unwrap();
        let shown = house.completed(id).await;
        assert_eq!(shown.tasks[0].task.status, TaskStatus::Completed);
        let edges = assignments(&house, build).await;
        assert_eq!((edges.len(), agent(&edges[0]), edges[0].version), (1, "other".to_owned(), 2));
        let history = house.graph().relationship_history(house.project, edges[0].id, Page::first(10)).await;
        let agents: Vec<String> = history.unwrap().items.iter().map(agent).collect();
        assert_eq!(agents, ["other", "builder"]);
        house.close().await;
    }
}
