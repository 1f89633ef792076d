//! Tasks that an agent of another system does.

use emergent_domain::{
    agent::AgentDefinition,
    mcp_server::{ConfiguredBy, ServerSpec},
    redact::Redactor,
    task::TaskStatus,
    time::Clock,
};
use emergent_secrets::{KeySource, Secrets};
use emergent_testkit::{
    A2aAgents, both_engines,
    scripted::{ScriptedModel, says},
};
use emergent_tools::remote::{McpServers, NewServer, RemoteSettings};
use serde_json::json;

use crate::harness::{House, task};

both_engines! {
    async fn a_task_is_done_by_an_agent_of_another_system_and_the_next_one_reads_its_result(db: TestDb) {
        let (folder, agents) = (tempfile::tempdir().unwrap(), A2aAgents::start());
        let keys = KeySource::from_file(folder.path().join("secret-key"));
        let secrets = Secrets::open(db.db.clone(), Clock::system(), keys, Redactor::default()).await.unwrap();
        let settings = RemoteSettings { allow_private_hosts: true, ..RemoteSettings::default() };
        let servers = McpServers::new(db.db.clone(), Clock::system(), secrets, settings);
        let model = ScriptedModel::default().agent("reader", [says("Read.")]);
        let house = House::with_remote(&db, model, servers.clone()).await;
        let spec = json!({ "name": "echo", "transport": "a2a", "url": agents.url("echo") });
        let spec: ServerSpec = serde_json::from_value(spec).unwrap();
        servers.create(house.project, ConfiguredBy::Operator, NewServer::new(spec)).await.unwrap();
        let writer = AgentDefinition { model: "a2a/echo".parse().ok(), ..AgentDefinition::new("writer") };
        house.dispatcher.executor().create_agent(house.actor(), writer).await.unwrap();
        house.agents(&["reader"]).await;

        let id = house.dispatch(vec![task("write", "writer", &[]), task("read", "reader", &["write"])]).await;
        let shown = house.completed(id).await;
        assert!(shown.tasks.iter().all(|one| one.task.status == TaskStatus::Completed));
        let asked = house.model.requests_of("reader");
        let prompt = format!("{:?}", asked[0]);
        assert!(prompt.contains("You said:"), "{prompt}");
        house.close().await;
        servers.shutdown().await;
    }
}
