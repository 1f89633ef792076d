//! Discussions: started by a run for its task, and read.

use emergent_domain::{
    ids::ObjectId,
    object::{NewObject, ObjectPatch},
    relationship::NewRelationship,
    task::TaskStatus,
    workflow::WorkflowLink,
};
use emergent_graph::{objects, relationships};
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use super::harness::*;

fn map(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().expect("an object").clone()
}

both_engines! {
    async fn a_discussion_is_held_as_its_starter_or_the_project_says(db: TestDb) {
        use emergent_domain::{coordination::DiscussionDefaults, project::ProjectPatch};
        let world = World::new(&db).await;
        let started = world.start(vec![task("a", &[])], 9).await.unwrap();
        let (id, a) = (started.workflow.id, started.tasks[0].id);
        world.walk(a, TaskStatus::InProgress).await;
        let duty = WorkflowLink { workflow: Some(id), task: Some(a), session: Some(ObjectId::new()), ..WorkflowLink::default() };
        let run = world.as_run(duty).await;
        let settings_of = async |input: Value| -> emergent_rules::workflow::discussion::DiscussionSettings {
            let made = run.ok("discussions_start", input).await["discussion"].clone();
            let object = world.graph.get_object(world.project, crate::harness::id(&made)).await.unwrap();
            serde_json::from_value(object.properties.to_map()["settings"].clone()).unwrap()
        };
        let own = settings_of(json!({
            "topic": "Rows?", "kind": "collaboration", "participants": ["researcher", "reviewer"], "threshold": 0.5, "quorum": 1,
            "phases": [{ "name": "think", "maxRounds": 2 }, { "name": "vote", "output": "vote" }],
        })).await;
        assert_eq!((own.threshold, own.quorum, own.phases.len(), own.phases[0].max_rounds), (0.5, Some(1), 2, 2));
        let discussions = DiscussionDefaults {
            kind: Some("consensus".into()), rounds: Some(2), threshold: Some(0.9), quorum: Some(9), phases: Vec::new(),
        };
        let patch = ProjectPatch { discussions: Some(discussions), ..ProjectPatch::default() };
        world.graph.update_project(world.project, patch).await.unwrap();
        let by_project = settings_of(json!({ "topic": "Columns?", "participants": ["researcher", "reviewer"] })).await;
        assert_eq!(by_project.kind.as_str(), "consensus");
        assert_eq!((by_project.rounds, by_project.threshold, by_project.quorum), (Some(2), 0.9, Some(2)));
        let own = map(json!({ "discussion": { "kind": "debate", "rounds": 1, "quorum": 1 } }));
        let patch = ObjectPatch { properties: Some(own), ..ObjectPatch::default() };
        world.write(move |tx, writer| objects::update(tx, &writer.with_links(), a, &patch)).await.unwrap();
        let by_task = settings_of(json!({ "topic": "Both?", "participants": ["researcher", "reviewer", "implementer"] })).await;
        assert_eq!((by_task.kind.as_str(), by_task.rounds, by_task.threshold), ("debate", Some(1), 0.9));
    }

    async fn a_run_starts_a_discussion_about_its_task(db: TestDb) {
        let world = World::new(&db).await;
        let started = world.start(vec![task("a", &[]), task("b", &[])], 9).await.unwrap();
        let (id, a) = (started.workflow.id, started.tasks[0].id);
        world.walk(a, TaskStatus::InProgress).await;
        let duty = WorkflowLink { workflow: Some(id), task: Some(a), session: Some(ObjectId::new()), ..WorkflowLink::default() };
        let run = world.as_run(duty).await;
        let made = run.ok("discussions_start", json!({
            "topic": "Rows or a list?", "options": ["rows", "list"],
            "participants": ["researcher", { "agent": "reviewer", "weight": 2 }],
        })).await["discussion"].clone();
        assert_eq!((&made["status"], &made["kind"], &made["taskId"]), (&json!("active"), &json!("consensus"), &json!(a)));
        let object = world.graph.get_object(world.project, crate::harness::id(&made)).await.unwrap().properties.to_map();
        assert_eq!(object["run_id"], json!(run.run));
        let settings: emergent_rules::workflow::discussion::DiscussionSettings = serde_json::from_value(object["settings"].clone()).unwrap();
        assert_eq!(settings.participants[1].weight, 2.0);
        assert!(world.told(id).await.contains(&"discussion_started".to_owned()));
        let read = run.ok("discussions_get", json!({})).await["discussion"].clone();
        assert_eq!((&read["id"], &read["entries"]), (&made["id"], &json!([])));

        for (wrong, why) in [
            (json!({ "topic": "x", "participants": ["researcher", "reviewr"] }), "`participants[1]`: there is no agent `reviewr`; did you mean `reviewer`?"),
            (json!({ "topic": "x", "participants": ["researcher", "researcher"] }), "takes part twice"),
            (json!({ "topic": "x", "kind": "debate", "participants": ["researcher", "reviewer"] }), "at least 3 participants"),
            (
                json!({ "topic": "x", "kind": "brainstorm", "participants": ["researcher", "reviewer"], "threshold": 0.6 }),
                "`threshold`: is only for the kinds `consensus` and `collaboration`",
            ),
            (json!({ "topic": "x", "participants": ["researcher", "reviewer"], "task": "b" }), "only one that is in progress is discussed"),
        ] {
            let said = run.err("discussions_start", wrong).await;
            assert!(said.contains(why), "{said}");
        }
        let said = world.err("discussions_start", json!({ "topic": "x", "participants": ["researcher", "reviewer"] })).await;
        assert!(said.contains("name a `task`"), "{said}");
    }

    async fn an_attempt_has_a_limited_number_of_discussions_whatever_becomes_of_them_in_the_graph(db: TestDb) {
        let world = World::new(&db).await;
        let started = world.start(vec![task("a", &[])], 9).await.unwrap();
        let (id, a) = (started.workflow.id, started.tasks[0].id);
        world.walk(a, TaskStatus::InProgress).await;
        let duty = WorkflowLink { workflow: Some(id), task: Some(a), session: Some(ObjectId::new()), ..WorkflowLink::default() };
        let run = world.as_run(duty).await;
        let ask = || json!({ "topic": "Rows?", "participants": ["researcher", "reviewer"] });
        for _ in 0..emergent_rules::workflow::discussion::MAX_STARTED_DISCUSSIONS {
            let made = run.ok("discussions_start", ask()).await["discussion"].clone();
            let discussion = crate::harness::id(&made);
            world.write(move |tx, writer| objects::delete(tx, &writer.with_links(), discussion, None)).await.ok();
        }
        let said = run.err("discussions_start", ask()).await;
        assert!(said.contains("has had 10 discussions, which is the limit"), "{said}");
    }

    async fn one_who_only_speaks_about_a_task_starts_a_discussion_of_its_attempt(db: TestDb) {
        let world = World::new(&db).await;
        let started = world.start(vec![task("a", &[])], 9).await.unwrap();
        let (id, a) = (started.workflow.id, started.tasks[0].id);
        world.walk(a, TaskStatus::InProgress).await;
        let duty = WorkflowLink { workflow: Some(id), task: Some(a), ..WorkflowLink::default() };
        let attempt = world.as_run(WorkflowLink { session: Some(ObjectId::new()), ..duty }).await.run;
        let patch = ObjectPatch { properties: Some(map(json!({ "run_id": attempt }))), ..ObjectPatch::default() };
        world.write(move |tx, writer| objects::update(tx, writer, a, &patch)).await.unwrap();
        let speaks = WorkflowLink { discussion: Some(ObjectId::new()), ..duty };
        for other in [duty, speaks] {
            let made = world.as_run(other).await.ok("discussions_start", json!({
                "topic": "Rows or a list?", "participants": ["researcher", "reviewer"],
            })).await["discussion"].clone();
            let object = world.graph.get_object(world.project, crate::harness::id(&made)).await.unwrap();
            assert_eq!(object.properties.to_map()["run_id"], json!(attempt));
        }
    }

    async fn a_discussion_is_read_in_the_order_of_what_was_said(db: TestDb) {
        let world = World::new(&db).await;
        let discussion = world.write(|tx, writer| {
            let make = |tx: &mut emergent_store::Tx<'_>, type_: &str, properties: Value| {
                let new = NewObject { type_: type_.into(), properties: map(properties), ..NewObject::default() };
                objects::create(tx, writer, &objects::ObjectDraft::new(new)?)
            };
            let discussion = make(tx, "Discussion", json!({
                "topic": "Rows?", "status": "resolved", "discussion_type": "consensus", "consensus_level": 0.75,
                "final_decision": { "option": "rows" },
            }))?;
            for (sequence, content) in [(2, "second"), (10, "third"), (1, "first")] {
                let entry = make(tx, "DiscussionEntry", json!({ "agent_name": "reviewer", "content": content, "entry_type": "argument" }))?;
                let joined = NewRelationship {
                    type_: "has_entry".into(), from: discussion.id, to: entry.id,
                    properties: map(json!({ "sequence": sequence })), weight: None,
                };
                relationships::create(tx, writer, &relationships::RelationshipDraft::new(joined)?)?;
            }
            Ok(discussion.id)
        }).await.unwrap();
        let read = world.ok("discussions_get", json!({ "id": discussion })).await["discussion"].clone();
        let said: Vec<&str> = read["entries"].as_array().unwrap().iter().map(|one| one["content"].as_str().unwrap()).collect();
        assert_eq!(said, ["first", "second", "third"]);
        assert_eq!((&read["decision"], &read["consensusLevel"]), (&json!({ "option": "rows" }), &json!(0.75)));
        let small = world.ok("discussions_get", json!({ "id": discussion, "fields": ["status"] })).await;
        assert_eq!(small["discussion"], json!({ "id": discussion, "status": "resolved" }));
    }
}
