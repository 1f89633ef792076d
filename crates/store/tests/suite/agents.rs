//! Agents: the newest row and its versions move together.

use emergent_domain::{
    agent::{Agent, AgentDefinition},
    author::Author,
    ids::{AgentId, ProjectId},
    time::Timestamp,
};
use emergent_store::{Error, agents};
use emergent_testkit::both_engines;

fn agent(project: ProjectId, name: &str) -> Agent {
    let now = Timestamp::from_micros(1_700_000_000_000_000);
    Agent {
        id: AgentId::new(),
        project,
        version: 1,
        definition: AgentDefinition::new(name),
        created_at: now,
        updated_at: now,
        deleted_at: None,
    }
}

both_engines! {
    async fn a_version_is_written_once(db: TestDb) {
        let first = agent(ProjectId::new(), "a");
        let mut second = Agent { version: 2, ..first.clone() };
        second.definition.max_steps = Some(7);
        let (kept, next) = (first.clone(), second.clone());
        let wrote = db
            .write(move |tx| {
                agents::insert(tx, &kept, Author::System)?;
                // The second finds that its place is taken.
                Ok::<_, Error>([
                    agents::update(tx, &next, Author::System)?,
                    agents::update(tx, &next, Author::System)?,
                ])
            })
            .await
            .unwrap();
        assert_eq!(wrote, [true, false]);
        let (project, id) = (first.project, first.id);
        let found = db
            .read(move |tx| {
                Ok::<_, Error>((agents::get(tx, project, id)?, agents::get_version(tx, id, 1)?, agents::list_names(tx, project)?))
            })
            .await
            .unwrap();
        assert_eq!(found, (Some(second), Some(first.definition), vec!["a".to_owned()]));
    }

    async fn a_name_is_free_again_once_its_agent_is_gone(db: TestDb) {
        let first = agent(ProjectId::new(), "a");
        let project = first.project;
        let gone = Agent { version: 2, deleted_at: Some(first.updated_at), ..first.clone() };
        let kept = first.clone();
        db.write(move |tx| agents::insert(tx, &kept, Author::System)).await.unwrap();
        let twin = db.write(move |tx| agents::insert(tx, &agent(project, "a"), Author::System)).await;
        assert!(matches!(twin, Err(Error::Duplicate { .. })), "{twin:?}");
        db.write(move |tx| {
            agents::update(tx, &gone, Author::System)?;
            agents::insert(tx, &agent(project, "a"), Author::System)
        })
        .await
        .unwrap();
        let living = db.read(move |tx| agents::list_all(tx, project)).await.unwrap();
        assert_eq!(living.len(), 1);
        assert_ne!(living[0].id, first.id);
        let ever = db.read(move |tx| agents::get_including_deleted(tx, project, first.id)).await.unwrap();
        assert!(ever.unwrap().deleted_at.is_some());
    }
}
