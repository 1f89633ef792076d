//! Which firings of events are due, in projects where many others wait.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use emergent_domain::{
    ids::{AgentId, FiringId, ProjectId},
    time::Timestamp,
    trigger::{EventKind, Firing},
};
use emergent_store::{
    Db, Error, Tx, params, project_counts, projects,
    triggers::{
        self,
        firings::{self, DueFirings},
    },
};
use emergent_testkit::both_engines;

use crate::unreadable::{firing, now};

fn later(seconds: u64) -> Timestamp {
    now() + Duration::from_secs(seconds)
}

async fn new_project(db: &Db, name: &'static str) -> ProjectId {
    let insert = move |tx: &mut Tx<'_>| projects::insert(tx, name, false, now());
    let inserted = db.write(insert).await.unwrap_or_else(|error: Error| panic!("{error}"));
    inserted.expect("the name is free").id
}

/// Adds firings of a trigger that are due after so many seconds.
async fn insert(
    db: &Db,
    project: ProjectId,
    agent: AgentId,
    seconds: impl IntoIterator<Item = u64>,
) -> Vec<FiringId> {
    let due_at = |seconds: u64| Firing { due_at: later(seconds), ..firing(project, agent) };
    let rows: Vec<Firing> = seconds.into_iter().map(due_at).collect();
    let ids = rows.iter().map(|row| row.id).collect();
    let inserted = db.write(move |tx| firings::insert(tx, &rows)).await;
    inserted.unwrap_or_else(|error: Error| panic!("{error}"));
    ids
}

/// The due firings of all triggers but these, or of these only.
async fn due(
    db: &Db,
    project: ProjectId,
    agents: &[AgentId],
    only: bool,
    at: Timestamp,
    limit: usize,
) -> Vec<FiringId> {
    due_within(db, project, agents, only, &HashMap::new(), at, limit).await
}

/// Like [`due`], but of some triggers not more than so many.
async fn due_within(
    db: &Db,
    project: ProjectId,
    agents: &[AgentId],
    only: bool,
    limits: &HashMap<AgentId, usize>,
    at: Timestamp,
    limit: usize,
) -> Vec<FiringId> {
    let (agents, limits) = (agents.to_vec(), limits.clone());
    let list = move |tx: &mut Tx<'_>| {
        let which = if only { DueFirings::Only(&agents) } else { DueFirings::Without(&agents) };
        firings::list_due(tx, project, which, &limits, at, limit)
    };
    let found = db.read(list).await.unwrap_or_else(|error: Error| panic!("{error}"));
    found.into_iter().map(|firing| firing.id).collect()
}

both_engines! {
    async fn those_of_a_trigger_are_found_behind_many_of_another(db: TestDb) {
        let project = ProjectId::new();
        let [held_back, quick, slow] = [(); 3].map(|()| AgentId::new());
        let many = insert(&db, project, held_back, 0..200).await;
        let quicks = insert(&db, project, quick, [300, 500]).await;
        let slows = insert(&db, project, slow, [400, 900]).await;
        insert(&db, ProjectId::new(), AgentId::new(), [0]).await;
        let in_order = [quicks[0], slows[0], quicks[1]];
        for limit in [1, 2, 3] {
            let found = due(&db, project, &[held_back], false, later(600), limit).await;
            assert_eq!(found, in_order[..limit], "the longest due first");
        }
        assert_eq!(due(&db, project, &[held_back], false, later(600), 9).await, in_order);
        assert_eq!(due(&db, project, &[], false, later(600), 2).await, many[..2]);
        assert_eq!(due(&db, project, &[slow], true, later(600), 9).await, slows[..1]);
        let both = due(&db, project, &[slow, held_back], true, later(600), 300).await;
        assert_eq!((both.len(), both.last()), (201, slows.first()));
        assert!(due(&db, project, &[], true, later(600), 9).await.is_empty());
        let few = HashMap::from([(held_back, 2), (slow, 0)]);
        let found = due_within(&db, project, &[], false, &few, later(600), 9).await;
        assert_eq!(found, [many[0], many[1], quicks[0], quicks[1]], "of some not more than so many");

        for (seconds, expected) in [(0, vec![held_back]), (299, vec![held_back]), (999, vec![held_back, quick, slow])] {
            let list = move |tx: &mut Tx<'_>| firings::list_due_triggers(tx, project, later(seconds));
            let found = db.read(list).await.unwrap_or_else(|error: Error| panic!("{error}"));
            let found: Vec<AgentId> = found.into_iter().map(|trigger| trigger.agent).collect();
            assert_eq!(found, expected, "after {seconds} seconds");
        }
    }

    async fn each_project_is_found_by_its_first_one(db: TestDb) {
        let next = async |after: Option<u64>| {
            let read = move |tx: &mut Tx<'_>| match after {
                Some(seconds) => firings::next_due_after(tx, later(seconds)),
                None => firings::next_due_at(tx),
            };
            db.read(read).await.unwrap_or_else(|error: Error| panic!("{error}"))
        };
        assert_eq!(next(None).await, None);
        let (one, two) = (new_project(&db, "one").await, new_project(&db, "two").await);
        let gone = new_project(&db, "gone").await;
        insert(&db, one, AgentId::new(), [100, 200]).await;
        insert(&db, two, AgentId::new(), 50..90).await;
        insert(&db, gone, AgentId::new(), [10]).await;
        let delete = move |tx: &mut Tx<'_>| {
            tx.execute("UPDATE projects SET deleted_at = $1 WHERE id = $2", params![now(), gone])
        };
        db.write(delete).await.unwrap_or_else(|error: Error| panic!("{error}"));
        assert_eq!(next(None).await, Some(later(50)));
        assert_eq!(next(Some(89)).await, Some(later(100)));
        assert_eq!(next(Some(200)).await, None);
        for (seconds, expected) in [(49, vec![]), (50, vec![two]), (100, vec![one, two])] {
            let read = move |tx: &mut Tx<'_>| triggers::projects_with_due_firings(tx, later(seconds));
            let found = db.read(read).await.unwrap_or_else(|error: Error| panic!("{error}"));
            assert_eq!(found.len(), expected.len(), "each once");
            assert_eq!(HashSet::<ProjectId>::from_iter(found), HashSet::from_iter(expected));
        }
    }

    async fn those_that_wait_are_counted_up_to_a_limit(db: TestDb) {
        let (one, gone) = (new_project(&db, "one").await, new_project(&db, "gone").await);
        let many = usize::try_from(firings::MAX_COUNTED).unwrap() + 1;
        let rows = |project: ProjectId, count: usize| -> Vec<Firing> {
            let agent = AgentId::new();
            (0..count).map(|_| firing(project, agent)).collect()
        };
        let mut all = rows(one, many);
        all.extend(rows(gone, 3));
        for rows in all.chunks(1_000).map(<[Firing]>::to_vec) {
            let inserted = db.write(move |tx| firings::insert(tx, &rows)).await;
            inserted.unwrap_or_else(|error: Error| panic!("{error}"));
        }
        let delete = move |tx: &mut Tx<'_>| {
            tx.execute("UPDATE projects SET deleted_at = $1 WHERE id = $2", params![now(), gone])
        };
        db.write(delete).await.unwrap_or_else(|error: Error| panic!("{error}"));
        let event = EventKind::EntityCreated;
        let expected = vec![(event, firings::MAX_COUNTED)];
        let count = db.read(firings::count_waiting).await;
        assert_eq!(count.unwrap_or_else(|error: Error| panic!("{error}")), expected);
        for (project, expected) in [(one, expected), (gone, vec![(event, 3)]), (ProjectId::new(), vec![])] {
            let read = move |tx: &mut Tx<'_>| project_counts::load(tx, project);
            let counts = db.read(read).await.unwrap_or_else(|error: Error| panic!("{error}"));
            assert_eq!(counts.waiting_events, expected);
        }
    }
}
