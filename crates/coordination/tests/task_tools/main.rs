//! The tools over tasks and discussions do what they say, as runs and clients call them.

use emergent_domain::{
    ids::{ObjectId, WorkflowId},
    object::ObjectPatch,
    task::{NewTask, Task, TaskStatus, VerdictKind},
    workflow::{WorkflowLink, WorkflowStatus},
};
use emergent_graph::{Error, objects};
use emergent_testkit::both_engines;
use serde_json::json;

mod discussions;
mod harness;
use harness::*;

/// The problems of what was refused, as `field: reason`.
fn problems<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Vec<String> {
    match outcome {
        Err(Error::Invalid(invalid)) => {
            invalid.problems.iter().map(|problem| format!("{}: {}", problem.field, problem.reason)).collect()
        }
        other => panic!("expected something invalid, got {other:?}"),
    }
}

both_engines! {
    async fn a_workflow_starts_with_its_tasks_and_the_edges_between_them(db: TestDb) {
        let world = World::new(&db).await;
        let judge = NewTask { verdict: VerdictKind::Test, ..task("test", &["build"]) };
        let started = world.start(vec![task("design", &[]), task("build", &["design"]), judge], 10).await.unwrap();
        let id = started.workflow.id;
        assert_eq!(world.shape(id).await, "build<design design test<build");
        let workflow = world.workflow(id).await;
        assert_eq!((workflow.status, workflow.description.as_str()), (WorkflowStatus::Running, "tags"));
        assert_eq!(world.told(id).await, ["workflow_started", "task_added", "task_added", "task_added"]);
        let test = started.tasks[2].id;
        let edges = world
            .graph
            .object_edges(world.project, test, Default::default(), vec!["verifies".into()], emergent_domain::cursor::Page::first(9))
            .await
            .unwrap();
        assert_eq!(edges.items.iter().map(|edge| (edge.from, edge.to)).collect::<Vec<_>>(), [(test, started.tasks[1].id)]);
        // Without tasks it is planned first.
        let planned = world.start(Vec::new(), 10).await.unwrap();
        assert_eq!(planned.workflow.status, WorkflowStatus::Planning);
    }

    async fn everything_that_is_wrong_with_tasks_is_told_with_its_place(db: TestDb) {
        let world = World::new(&db).await;
        let wrong = vec![
            task("a", &[]),
            NewTask { title: " ".into(), complexity: Some(11), max_retries: Some(-1), ..task("b c", &["a"]) },
            NewTask { assigned_agent: Some("implementor".into()), collaborators: vec!["reviewer".into(), "nobody-at-all".into()], ..task("a", &[]) },
            NewTask { verifies: vec!["x".into()], ..task("d", &["a", "bb"]) },
        ];
        assert_eq!(problems(world.start(wrong, 3).await), [
            "tasks: would be 4 tasks of one workflow, and max_tasks is 3",
            "tasks[1].key: `b c` must have 1 to 64 letters, digits, `_`, `-` and `.`, and begin with a letter or digit",
            "tasks[1].title: is required",
            "tasks[1].complexity: must be 1 to 10",
            "tasks[1].maxRetries: must be 0 to 100",
            "tasks[2].key: `a` is the key of a task before this one",
            "tasks[2].assignedAgent: there is no agent `implementor`; did you mean `implementer`?",
            "tasks[2].collaborators[1]: there is no agent `nobody-at-all`",
            "tasks[3].verifies: is only for a task that ends in a verdict: give `verdict` as test or review",
            "tasks[3].blockedBy[1]: there is no task `bb`",
            "tasks[3].verifies[0]: there is no task `x`; did you mean `a`?",
        ]);
        let round = vec![task("a", &["c"]), task("b", &["a"]), task("c", &["b"])];
        let told = problems(world.start(round, 9).await);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("dependency cycle: ") && told[0].matches(" → ").count() == 3, "{told:?}");
        assert_eq!(problems(world.start(vec![task("a", &["a"])], 9).await), [
            "tasks[0].blockedBy: would create a dependency cycle: a → a; remove one of these edges",
        ]);
        let none = world.read(|tx| Ok(tx.query("SELECT id FROM workflows", &[], |row| row.get::<WorkflowId>(0))?.len())).await;
        assert_eq!(none, 0, "nothing of it is left");
    }

    async fn a_run_without_a_workflow_starts_one_and_adds_to_it(db: TestDb) {
        let world = World::new(&db).await.as_run(WorkflowLink::default()).await;
        let first = world.ok("tasks_create", json!({ "title": "Research: tags, and more!", "workflow": "Tags" })).await;
        let id = workflow_of(&first);
        assert_eq!(keys(&first, "tasks"), ["research-tags-and-more"]);
        let workflow = world.workflow(id).await;
        assert_eq!((workflow.status, workflow.started_by_run), (WorkflowStatus::Running, world.run));
        assert_eq!(workflow.description, "Tags");
        let more = world.ok("create_task", json!({ "tasks": [
            { "key": "build", "title": "Build", "blockedBy": ["research-tags-and-more"], "assignedAgent": "implementer" },
            { "title": "Build", "blockedBy": [first["tasks"][0]["id"], "build"] },
        ] })).await;
        assert_eq!(workflow_of(&more), id, "what it started is its own");
        assert_eq!(
            world.shape(id).await,
            "build-2<build+research-tags-and-more build<research-tags-and-more research-tags-and-more"
        );
        // Another run has nothing to do with it, unless it says so.
        let other = world.as_run(WorkflowLink::default()).await;
        assert_ne!(workflow_of(&other.ok("tasks_create", json!({ "title": "x" })).await), id);
        let named = other.ok("tasks_create", json!({ "title": "y", "workflowId": id })).await;
        assert_eq!(workflow_of(&named), id);
        assert!(other.err("tasks_create", json!({ "title": "z", "workflowId": WorkflowId::new() })).await.contains("there is no workflow"));
    }

    async fn a_task_gets_the_schema_of_its_result(db: TestDb) {
        let world = World::new(&db).await.as_run(WorkflowLink::default()).await;
        let schema = json!({ "type": "object", "properties": { "tags": { "type": "array" } } });
        let made = world.ok("tasks_create", json!({ "title": "Find", "outputSchema": schema })).await;
        let (project, workflow) = (world.project, workflow_of(&made));
        let tasks = world.read(move |tx| emergent_store::tasks::list_for_workflow(tx, project, workflow)).await;
        assert_eq!(Task::from_object(&tasks[0]).output_schema, Some(schema));
        let wrong = json!({ "tasks": [{ "title": "a" }, { "title": "b", "outputSchema": { "type": "objectt" } }] });
        let said = world.err("tasks_create", wrong).await;
        assert!(said.contains("`tasks[1].outputSchema"), "{said}");
        assert!(world.err("tasks_create", json!({ "title": "c", "outputSchema": "text" })).await.contains("outputSchema"));
    }

    async fn a_run_of_a_workflow_writes_into_that_one(db: TestDb) {
        let world = World::new(&db).await;
        let started = world.start(vec![task("design", &[])], 3).await.unwrap();
        let (id, elsewhere) = (started.workflow.id, world.start(vec![task("x", &[])], 3).await.unwrap());
        let run = world.in_workflow(id).await;
        let made = run.ok("tasks_create", json!({ "key": "build", "title": "Build", "blockedBy": ["design"] })).await;
        assert_eq!(workflow_of(&made), id);
        assert_eq!(world.shape(id).await, "build<design design");
        let said = run.err("tasks_create", json!({ "title": "x", "workflowId": elsewhere.workflow.id })).await;
        assert!(said.contains(&format!("you work for the workflow `{id}`")), "{said}");
        let said = run.err("tasks_create", json!({ "key": "build", "title": "again", "blockedBy": [elsewhere.tasks[0].id] })).await;
        assert!(said.contains("`key`: `build` is the key of a task of this workflow"), "{said}");
        assert!(said.contains("`blockedBy[0]`: there is no task"), "{said}");
        let said = run.err("tasks_create", json!({ "tasks": [{ "title": "a" }, { "title": "b" }] })).await;
        assert!(said.contains("would be 4 tasks of one workflow, 2 of them there already, and max_tasks is 3"), "{said}");
        // One that is over takes none.
        let over = world.workflow(id).await;
        world.write(move |tx, _| {
            let after = emergent_domain::workflow::Workflow { status: WorkflowStatus::Cancelled, ..over.clone() };
            Ok(emergent_store::workflows::update(tx, WorkflowStatus::Running, &after)?)
        }).await.unwrap();
        assert!(run.err("tasks_create", json!({ "title": "late" })).await.contains("is cancelled and takes no more tasks"));
        assert_eq!(world.shape(id).await, "build<design design");
    }

    async fn subtasks_are_put_together_and_can_hold_up_what_waits_for_their_parent(db: TestDb) {
        let world = World::new(&db).await;
        let started = world.start(vec![task("parent", &[]), task("next", &["parent"])], 20).await.unwrap();
        let (id, parent) = (started.workflow.id, started.tasks[0].id);
        world.walk(parent, TaskStatus::InProgress).await;
        let run = world.as_run(WorkflowLink { workflow: Some(id), task: Some(parent), ..WorkflowLink::default() }).await;
        let parts = json!([{ "key": "p", "title": "One" }, { "key": "q", "title": "Two", "blockedBy": ["p"] }]);
        let made = run.ok("create_subtasks", json!({ "tasks": parts, "synthesis": { "title": "Both" }, "blocksParent": true })).await;
        assert_eq!((keys(&made, "tasks"), &made["synthesis"]["key"]), (vec!["p", "q"], &json!("both")));
        assert_eq!(world.shape(id).await, "both<p+q next<both+parent p parent q<p");
        run.ok("create_subtasks", json!({ "tasks": [{ "key": "r", "title": "R" }], "blocksParent": false })).await;
        assert_eq!(world.shape(id).await, "both<p+q next<both+parent p parent q<p r", "nothing more is implied");
        run.ok("create_subtasks", json!({ "tasks": [{ "key": "s", "title": "S" }] })).await;
        assert_eq!(world.shape(id).await, "both<p+q next<both+parent+s p parent q<p r s");
        let said = run.err("create_subtasks", json!({ "tasks": [{ "title": "T", "blockedBy": ["next"] }], "blocksParent": true })).await;
        assert!(said.contains("dependency cycle: "), "{said}");
        run.ok("create_subtasks", json!({ "tasks": [{ "key": "t", "title": "T", "blockedBy": ["next"] }] })).await;
        assert_eq!(world.shape(id).await, "both<p+q next<both+parent+s p parent q<p r s t<next", "a part may follow");
        let free = world.in_workflow(id).await;
        let said = free.err("create_subtasks", json!({ "tasks": [{ "title": "T" }], "blocksParent": true })).await;
        assert!(said.contains("works at a task"), "{said}");
        // Without a workflow the parts start one.
        let alone = world.as_run(WorkflowLink::default()).await;
        let made = alone.ok("create_subtasks", json!({ "tasks": [{ "title": "A" }, { "title": "A" }], "synthesis": { "title": "A" } })).await;
        assert_eq!(world.shape(workflow_of(&made)).await, "a a-2 a-3<a+a-2");
    }

    async fn a_workflow_grows_to_its_bound_and_no_further(db: TestDb) {
        let world = World::new(&db).await;
        let many: Vec<NewTask> = (0..1_000).map(|at| task(&format!("t{at}"), &[])).collect();
        let started = world.start(many, emergent_domain::task::MAX_TASKS).await.unwrap();
        let run = world.in_workflow(started.workflow.id).await;
        let said = run.err("tasks_create", json!({ "title": "one too many" })).await;
        assert!(said.contains("1001 tasks of one workflow, 1000 of them there already, and max_tasks is 1000"), "{said}");
    }

    async fn tasks_are_listed_by_workflow_and_status(db: TestDb) {
        let world = World::new(&db).await;
        let started = world.start(vec![task("a", &[]), task("b", &["a"])], 9).await.unwrap();
        world.start(vec![task("x", &[])], 9).await.unwrap();
        world.walk(started.tasks[0].id, TaskStatus::InProgress).await;
        let run = world.in_workflow(started.workflow.id).await;
        let mut listed = run.ok("query_tasks", json!({})).await;
        listed["tasks"].as_array_mut().unwrap().sort_by_key(|one| one["key"].to_string());
        assert_eq!(keys(&listed, "tasks"), ["a", "b"]);
        assert_eq!(listed["tasks"][0]["status"], "in_progress");
        assert_eq!(listed["tasks"][0].get("description"), None);
        let some = run.ok("tasks_list", json!({ "status": "pending", "fields": ["key"] })).await;
        assert_eq!(some["tasks"], json!([{ "id": started.tasks[1].id, "key": "b" }]));
        assert_eq!(run.ok("tasks_list", json!({ "allWorkflows": true })).await["tasks"].as_array().unwrap().len(), 3);
        let page = world.ok("tasks_list", json!({ "limit": 2 })).await;
        let rest = world.ok("tasks_list", json!({ "limit": 2, "cursor": page["nextCursor"] })).await;
        assert_eq!((keys(&page, "tasks").len(), keys(&rest, "tasks").len()), (2, 1));
        assert_eq!(rest.get("nextCursor"), None);
        let said = run.err("tasks_list", json!({ "status": "done" })).await;
        assert!(said.contains("pending, in_progress"), "{said}");
    }

    async fn what_can_start_comes_in_the_order_in_which_it_should(db: TestDb) {
        let world = World::new(&db).await;
        let urgent = |key: &str, priority| NewTask { priority, ..task(key, &[]) };
        use emergent_domain::task::Priority::*;
        let started = world.start(vec![
            urgent("low", Low), task("plain", &[]), task("waited-for", &[]), urgent("first", Critical),
            task("m", &["waited-for"]), task("n", &["m"]), task("held", &["first"]),
        ], 20).await.unwrap();
        let run = world.in_workflow(started.workflow.id).await;
        let found = run.ok("get_available_tasks", json!({})).await;
        assert_eq!(keys(&found, "tasks"), ["first", "waited-for", "plain", "low"]);
        world.walk(started.tasks[3].id, TaskStatus::InProgress).await;
        world.walk(started.tasks[3].id, TaskStatus::Completed).await;
        let found = run.ok("tasks_available", json!({ "limit": 2, "fields": ["key"] })).await;
        assert_eq!((keys(&found, "tasks"), &found["total"]), (vec!["waited-for", "plain"], &json!(4)));
        // One that is tried again can start again.
        let id = started.tasks[2].id;
        world.walk(id, TaskStatus::InProgress).await;
        assert!(!keys(&run.ok("tasks_available", json!({})).await, "tasks").contains(&"waited-for"));
        world.walk(id, TaskStatus::Pending).await;
        assert!(keys(&run.ok("tasks_available", json!({})).await, "tasks").contains(&"waited-for"));
    }

    async fn a_task_is_changed_and_moves_as_tasks_move(db: TestDb) {
        let world = World::new(&db).await;
        let started = world.start(vec![task("build", &[]), task("own", &[])], 9).await.unwrap();
        let (id, build, own) = (started.workflow.id, started.tasks[0].id, started.tasks[1].id);
        let run = world.in_workflow(id).await;
        let before = world.workflow(id).await.revision;
        let done = run.ok("complete_task", json!({
            "id": "build", "status": "completed", "summary": "built", "output": { "files": 3 }, "fields": ["status", "output"],
        })).await;
        assert_eq!(done["task"], json!({ "id": build, "status": "completed", "output": { "files": 3 } }));
        assert!(world.workflow(id).await.revision > before, "its dispatcher hears of it");
        let said = run.err("tasks_update", json!({ "id": build, "status": "pending" })).await;
        assert_eq!(said, "the task `build` is completed, which is final; it cannot become pending");
        let said = run.err("tasks_update", json!({ "id": "bild", "summary": "x" })).await;
        assert_eq!(said, "this workflow has no task `bild`; did you mean `build`?");
        let said = run.err("tasks_update", json!({ "id": format!("SpecTask/{id}/own"), "assignedAgent": "reviewr" })).await;
        assert!(said.contains("did you mean `reviewer`?"), "{said}");
        assert!(run.err("tasks_update", json!({ "id": "own" })).await.contains("nothing to change"));
        run.ok("tasks_update", json!({ "id": format!("SpecTask/{id}/own"), "assignedAgent": "reviewer", "priority": "high" })).await;
        let said = run.err("tasks_update", json!({ "id": own, "title": "x", "expectedVersion": 1 })).await;
        assert!(said.contains("is at version 2, not 1"), "{said}");

        // Its own task ends with the run, whatever it says.
        world.walk(own, TaskStatus::InProgress).await;
        let duty = WorkflowLink { workflow: Some(id), task: Some(own), session: Some(ObjectId::new()), ..WorkflowLink::default() };
        let worker = world.as_run(duty).await;
        let said = worker.ok("tasks_update", json!({ "id": "own", "status": "completed", "output": "so far" })).await;
        assert_eq!(said["task"]["status"], "in_progress");
        assert!(said["note"].as_str().unwrap().contains("how your run ends"));
        // From outside a key needs its workflow.
        assert!(world.err("tasks_update", json!({ "id": "own", "summary": "x" })).await.contains("give its id"));
        world.ok("tasks_update", json!({ "id": "own", "workflowId": id, "summary": "x" })).await;
    }

    async fn what_a_task_waits_for_and_what_waits_for_it_is_shown(db: TestDb) {
        let world = World::new(&db).await;
        let started = world.start(vec![task("a", &[]), task("b", &[]), task("c", &["a", "b"]), task("d", &["c"]), task("e", &["d"])], 9).await.unwrap();
        let id = started.workflow.id;
        world.walk(started.tasks[0].id, TaskStatus::Completed).await;
        let run = world.as_run(WorkflowLink { workflow: Some(id), task: Some(started.tasks[2].id), ..WorkflowLink::default() }).await;
        let shown = run.ok("get_task_dependencies", json!({ "fields": ["key", "status"] })).await;
        assert_eq!(shown["task"]["key"], "c");
        let mut before = keys(&shown, "blockedBy");
        before.sort_unstable();
        assert_eq!((before, keys(&shown, "blocks")), (vec!["a", "b"], vec!["d"]));
        assert_eq!((&shown["waitsFor"], &shown["canStart"], &shown["waiting"]), (&json!(["b"]), &json!(false), &json!(2)));
        let free = run.ok("tasks_dependencies", json!({ "id": "b" })).await;
        assert_eq!((&free["waitsFor"], &free["canStart"]), (&json!([]), &json!(true)));
        assert!(world.err("tasks_dependencies", json!({})).await.contains("`id` is required"));
    }

    async fn nothing_of_another_project_is_seen_or_joined(db: TestDb) {
        let world = World::new(&db).await;
        let started = world.start(vec![task("a", &[])], 9).await.unwrap();
        let (id, a) = (started.workflow.id, started.tasks[0].id);
        let mut there = world.as_run(WorkflowLink::default()).await;
        there.project = world.graph.create_project("there", false).await.unwrap().id;
        there.run = None;
        for (name, input) in [
            ("tasks_create", json!({ "title": "x", "workflowId": id })),
            ("tasks_list", json!({ "workflowId": id })),
            ("tasks_available", json!({ "workflowId": id })),
            ("tasks_update", json!({ "id": a, "summary": "x" })),
            ("tasks_dependencies", json!({ "id": a })),
            ("discussions_get", json!({ "id": a })),
        ] {
            let said = there.err(name, input).await;
            assert!(said.contains("there is no "), "{name}: {said}");
        }
        assert_eq!(there.ok("tasks_list", json!({})).await["tasks"], json!([]));
    }

    async fn a_text_with_the_type_names_no_task_by_its_key_in_the_workflow(db: TestDb) {
        let world = World::new(&db).await;
        let started = world.start(vec![task("build", &[])], 9).await.unwrap();
        let (workflow, build) = (started.workflow.id, started.tasks[0].id);
        // As an earlier version of the server let anybody write it.
        let key = json!({ "key": "SpecTask/zz" }).as_object().cloned();
        let patch = ObjectPatch { properties: key, ..ObjectPatch::default() };
        world.write(move |tx, writer| objects::update(tx, &writer.with_links(), build, &patch)).await.unwrap();
        let run = world.in_workflow(workflow).await;
        let said = run.err("tasks_update", json!({ "id": "SpecTask/zz", "title": "x" })).await;
        assert!(said.contains("there is no task `SpecTask/zz`"), "{said}");
        run.ok("tasks_update", json!({ "id": build, "title": "x" })).await;
    }
}

#[test]
fn every_tool_says_what_it_takes() {
    let names: Vec<String> =
        emergent_coordination::tools::tools().iter().map(|tool| tool.info().name.clone()).collect();
    assert_eq!(
        names.join(" "),
        "tasks_create create_subtasks tasks_list tasks_available tasks_update tasks_dependencies discussions_get \
         discussions_start"
    );
    for tool in emergent_coordination::tools::tools() {
        let info = tool.info();
        let schema = info.input_schema.as_value();
        assert_eq!(schema["additionalProperties"], json!(false), "{}", info.name);
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{} {name}", info.name);
        }
        assert!(info.description.len() > 80, "{}", info.name);
    }
}
