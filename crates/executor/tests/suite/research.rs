//! The research scenario: a parent lists the available agents, delegates each part of a question to a
//! suitable one, continues although one of them fails, and stores its conclusions together with their
//! sources.

use crate::support;

use emergent_domain::{cursor::Page, query::Direction, run::RunStatus};
use emergent_store::{Tx, runs};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, calls, fails, replies, says},
};
use serde_json::{Value, json};
use support::{Harness, with_tools};

const QUESTION: &str = "How do others tag documents?";

both_engines! {
    async fn a_parent_spawns_four_of_two_kinds_and_keeps_the_report_with_its_sources(db: TestDb) {
        let tasks = json!({ "tasks": [
            { "agent_name": "web-browser", "task": "Look at how wikis tag pages." },
            { "agent_name": "web-browser", "task": "Look at how shops tag goods." },
            { "agent_name": "paper-reader", "task": "Read about folksonomies." },
            { "agent_name": "paper-reader", "task": "Read about ontologies." },
        ] });
        let report = |answers: String| {
            calls("entities_create", json!({
                "objects": [
                    { "ref": "report", "type": "ResearchReport", "key": "tagging", "properties": { "title": QUESTION, "findings": answers } },
                    { "ref": "wikis", "type": "Source", "properties": { "title": "Wikis" } },
                    { "ref": "papers", "type": "Source", "properties": { "title": "Folksonomies" } },
                ],
                "relationships": [
                    { "type": "cites", "fromRef": "report", "toRef": "wikis" },
                    { "type": "cites", "fromRef": "report", "toRef": "papers" },
                ],
            }))
        };
        let refused = emergent_llm::Error::BadRequest { model: "scripted/lines".into(), status: 400, message: "no".into() };
        let model = ScriptedModel::default()
            .agent("research-assistant", [
                calls("list_available_agents", json!({})),
                calls("spawn_agents", tasks),
                // The report contains only what the children returned.
                replies(move |request| report(request.last_text())),
                says("Kept as `tagging`, with two sources; one of four could not be asked."),
            ])
            .agent("web-browser", [says("Wikis use flat tags."), says("Shops use facets.")])
            .agent("paper-reader", [says("Folksonomies grow by use."), fails(refused)]);
        let harness = Harness::open(&db, model).await;
        let tools = ["list_available_agents", "spawn_agents", "entities_create"];
        let parent = harness.agent(with_tools("research-assistant", &tools)).await;
        for name in ["web-browser", "paper-reader"] {
            harness.agent(with_tools(name, &[])).await;
        }
        let run = harness.run(&parent, QUESTION).await;
        assert_eq!(run.status, RunStatus::Completed, "{:?}", run.error);

        let listed = harness.model.requests_of("research-assistant")[1].last_text();
        assert!(listed.contains("web-browser") && listed.contains("paper-reader"), "{listed}");
        let id = run.id;
        let children = harness.executor.graph().db().read(move |tx: &mut Tx<'_>| runs::list_children(tx, id, None)).await;
        let children: Result<_, emergent_store::Error> = children;
        let children = children.unwrap();
        assert_eq!(children.len(), 4);
        let failed = children.iter().filter(|child| child.status == RunStatus::Failed).count();
        assert_eq!(failed, 1, "one failed, the others went on");

        let graph = harness.executor.graph();
        let filter = emergent_domain::query::ObjectFilter { types: vec!["ResearchReport".into()], ..Default::default() };
        let reports = graph.list_objects(harness.project, filter, Page::first(10)).await.unwrap().items;
        assert_eq!(reports.len(), 1);
        let findings = reports[0].properties.to_map()["findings"].to_string();
        for said in ["Wikis use flat tags.", "Shops use facets.", "Folksonomies grow by use."] {
            assert!(findings.contains(said), "{findings}");
        }
        let cites = graph
            .object_edges(harness.project, reports[0].id, Direction::Out, vec!["cites".into()], Page::first(10))
            .await
            .unwrap();
        assert_eq!(cites.items.len(), 2);
        let author = serde_json::to_value(reports[0].author).unwrap();
        assert_eq!(author["runId"], Value::from(run.id.to_string()), "the report knows who wrote it");
        harness.close().await;
    }
}
