//! Tasks that others have a say in.

use emergent_domain::{
    task::{NewTask, TaskStatus},
    workflow::WorkflowStatus,
};
use emergent_testkit::{
    both,
    scripted::{Scripted, calls, says},
};
use serde_json::json;

use crate::house::{House, task, text};

fn design() -> Vec<NewTask> {
    vec![NewTask {
        requires_collaboration: true,
        collaborators: vec!["researcher".into()],
        ..task("design", "writer", &[])
    }]
}

both! {
    async fn a_proposal_is_discussed_until_it_is_approved(db: TestDb) {
        let model = Scripted::default()
            .agent("writer", [says("A Tag with a name."), says("A Tag with a name and a tag_type.")])
            .agent("researcher", [says("SUGGEST_CHANGES: add tag_type."), says("APPROVED. Looks complete.")]);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher"]).await;
        let id = house.dispatch(design()).await;
        let shown = house.completed(id).await;
        let design = &shown.tasks[0];
        assert_eq!(design.task.output, Some(json!("A Tag with a name and a tag_type.")));
        assert_eq!(design.runs.len(), 1, "the attempt is one run; the turns are the discussion's");
        let discussions = house.beyond(design.task.id, "spawned_discussion").await;
        assert_eq!(discussions.len(), 1);
        assert_eq!(text(&discussions[0], "status"), "resolved");
        assert_eq!(discussions[0].properties.to_map()["consensus_level"], json!(1.0));
        let entries = house.beyond(discussions[0].id, "has_entry").await;
        let said: Vec<(String, String)> =
            entries.iter().map(|entry| (text(entry, "agent_name"), text(entry, "content"))).collect();
        assert_eq!(said.len(), 4, "{said:?}");
        assert_eq!(said[1], ("researcher".into(), "SUGGEST_CHANGES: add tag_type.".into()));
        assert_eq!(said[3].0, "researcher");
        let feedback = house.model.asked_of("researcher");
        assert!(feedback[0].turns[0].text().contains("A Tag with a name."));
        house.close().await;
    }

    async fn a_discussion_without_an_end_waits_for_a_person_who_decides(db: TestDb) {
        let writer: Vec<_> = (0..4).map(|at| says(format!("Proposal {at}."))).collect();
        let researcher: Vec<_> = (0..4).map(|_| says("SUGGEST_CHANGES: not like that.")).collect();
        let model = Scripted::default().agent("writer", writer).agent("researcher", researcher);
        let house = House::open(&db, model).await;
        house.agents(&["writer", "researcher"]).await;
        let id = house.dispatch(design()).await;
        let shown = house.ended(id).await;
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated);
        let escalation = shown.workflow.escalation.unwrap();
        assert_eq!(escalation.options, ["decide", "cancel"]);
        let discussion = escalation.discussion.unwrap();
        assert_eq!(shown.tasks[0].task.status, TaskStatus::InProgress, "its task waits");
        house.dispatcher
            .decide(house.actor(), discussion, json!("Take the second proposal."), Some("it is simpler".into()))
            .await
            .unwrap();
        let shown = house.completed(id).await;
        let output = shown.tasks[0].task.output.clone().unwrap().to_string();
        assert!(output.contains("Take the second proposal."), "{output}");
        house.close().await;
    }

    async fn an_agent_has_others_vote_on_what_it_cannot_decide(db: TestDb) {
        let vote = |option: &str| calls("submit_vote", json!({ "option": option, "confidence": 0.9, "reason": "it is simpler" }));
        let ask = json!({ "topic": "Rows or a list?", "participants": ["one", "two", "three"], "options": ["rows", "list"] });
        let model = Scripted::default()
            .agent("lead", [calls("discussions_start", ask), says("I leave that to the others.")])
            .agent("one", [says("Rows."), vote("rows"), says("Voted.")])
            .agent("two", [says("Rows as well."), vote("rows"), says("Voted.")])
            .agent("three", [says("A list."), vote("list"), says("Voted.")]);
        let house = House::open(&db, model).await;
        house.agent("lead", &["discussions_start"]).await;
        house.agents(&["one", "two", "three"]).await;
        let id = house.dispatch(vec![task("choose", "lead", &[])]).await;
        let shown = house.ended(id).await;
        // Two of three is not enough for a threshold of 0.7: a person decides.
        assert_eq!(shown.workflow.status, WorkflowStatus::Escalated, "{:?}", house.events(id).await);
        let discussion = shown.workflow.escalation.unwrap().discussion.unwrap();
        let told = house.dispatcher.discussion(house.project, discussion).await.unwrap();
        house.dispatcher.decide(house.actor(), discussion, json!("rows"), None).await.unwrap();
        let shown = house.completed(id).await;
        let output = shown.tasks[0].task.output.clone().unwrap().to_string();
        assert!(output.contains("I leave that to the others.") && output.contains("rows"), "{output}");
        let votes: Vec<_> = told.entries.iter().filter(|entry| text(entry, "entry_type") == "vote").collect();
        // The third is not waited for when nothing can win any more.
        assert!(votes.len() >= 2);
        assert!(votes.iter().any(|vote| text(vote, "option") == "list"), "dissent is kept");
        let blind = house.model.asked_of("two");
        let asked = blind[1].turns[0].text();
        assert!(!asked.contains("simpler"), "votes are given blind: {asked}");
        house.close().await;
    }
}
