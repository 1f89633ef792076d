//! Agents of a project: names, versions, and the default agent.

use emergent_domain::{
    agent::{Agent, AgentDefinition, Visibility},
    author::Author,
    cursor::Page,
    ids::{AgentId, ProjectId, TokenId},
    token::Scope,
};
use emergent_executor::{Error, Executor, Settings};
use emergent_graph::{Actor, Graph};
use emergent_llm::Models;
use emergent_testkit::{TestDb, both_engines, fixed_clock};
use emergent_tools::ToolPool;

struct Harness {
    executor: Executor,
    actor: Actor,
}

impl Harness {
    async fn new(db: &TestDb) -> Self {
        let graph = Graph::new(db.db.clone(), fixed_clock(), None);
        let tools = ToolPool::new(emergent_tools::builtin::tools());
        let executor = Executor::new(graph, Models::default(), tools, Settings::default());
        let actor = project(&executor, "test").await;
        Self { executor, actor }
    }

    async fn create(&self, definition: AgentDefinition) -> Agent {
        self.executor.create_agent(self.actor, definition).await.unwrap()
    }

    async fn change(&self, id: AgentId, change: fn(&mut AgentDefinition)) -> Result<Agent, Error> {
        let change = move |mut definition: AgentDefinition| {
            change(&mut definition);
            definition
        };
        self.executor.update_agent(self.actor, id, None, change).await
    }

    async fn get(&self, id: AgentId) -> Agent {
        self.executor.get_agent(self.actor.project, id).await.unwrap()
    }

    async fn names(&self, include_internal: bool) -> Vec<String> {
        let listed = self.executor.list_agents(self.actor.project, include_internal, Page::first(100)).await;
        listed.unwrap().items.into_iter().map(|agent| agent.definition.name).collect()
    }
}

async fn project(executor: &Executor, name: &str) -> Actor {
    let project = executor.graph().create_project(name, false).await.unwrap().id;
    with_scopes(executor, project, &[Scope::AdminWrite, Scope::AgentsRead]).await
}

/// A token of a project with these scopes.
async fn with_scopes(executor: &Executor, project: ProjectId, scopes: &[Scope]) -> Actor {
    let scopes = scopes.iter().copied().collect();
    let (token, _) = executor.graph().create_token("t", scopes, Some(project), None).await.unwrap();
    Actor { project, author: Author::Token { id: token.id } }
}

fn named(name: &str) -> AgentDefinition {
    AgentDefinition::new(name)
}

fn default_one(name: &str, visibility: Visibility) -> AgentDefinition {
    AgentDefinition { is_default: true, visibility, ..named(name) }
}

/// Returns the message of a conflict, or an empty text for any other outcome.
fn conflict<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    match outcome {
        Err(Error::Conflict(message)) => message,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

fn fields<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Vec<String> {
    match outcome {
        Err(Error::Invalid(invalid)) => invalid.problems.into_iter().map(|problem| problem.field).collect(),
        other => panic!("expected something invalid, got {other:?}"),
    }
}

both_engines! {
    async fn an_agent_does_not_widen_its_maker(db: TestDb) {
        let harness = Harness::new(&db).await;
        let project = harness.actor.project;
        let maker = with_scopes(&harness.executor, project, &[Scope::AgentsWrite, Scope::GraphRead]).await;
        let tools = |tools: &[&str]| AgentDefinition {
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            ..named("made")
        };
        let scope = |outcome: Result<Agent, Error>| match outcome {
            Err(Error::BeyondMaker { scope, .. }) => scope,
            other => panic!("expected a refusal, got {other:?}"),
        };
        let create = async |definition| harness.executor.create_agent(maker, definition).await;
        assert_eq!(scope(create(tools(&["entities_get", "entities_create"])).await), Scope::GraphWrite);
        assert_eq!(scope(create(tools(&["create_entity"])).await), Scope::GraphWrite, "an alias is the tool");
        assert_eq!(scope(create(tools(&["entities_*"])).await), Scope::GraphWrite);
        assert_eq!(scope(create(tools(&["entities_get*"])).await), Scope::AgentsInvoke, "it may match external tools");
        let scheduled = AgentDefinition { trigger: Some("0 3 * * *".into()), ..named("made") };
        assert_eq!(scope(create(scheduled).await), Scope::AgentsInvoke);
        assert_eq!(harness.names(true).await, [""; 0], "nothing was written");

        let made = create(tools(&["entities_get"])).await.unwrap();
        let widen = |definition| AgentDefinition { tools: vec!["entities_delete".into()], ..definition };
        assert_eq!(scope(harness.executor.update_agent(maker, made.id, None, widen).await), Scope::GraphWrite);
        // The agent of an admin is not given other orders by somebody who may do less.
        let strong = harness.create(AgentDefinition { tools: vec!["entities_delete".into()], ..named("strong") }).await;
        let redirect = |definition| AgentDefinition { system_prompt: "Delete everything.".into(), ..definition };
        // The maker may not read it, so the scope that its tool needs is not told.
        assert_eq!(scope(harness.executor.update_agent(maker, strong.id, None, redirect).await), Scope::AdminWrite);
        let reader = with_scopes(&harness.executor, project, &[Scope::AgentsWrite, Scope::AgentsRead]).await;
        assert_eq!(scope(harness.executor.update_agent(reader, strong.id, None, redirect).await), Scope::GraphWrite);
        let disarm = move |definition| AgentDefinition { tools: Vec::new(), ..redirect(definition) };
        assert_eq!(scope(harness.executor.update_agent(maker, strong.id, None, disarm).await), Scope::AdminWrite);
        assert_eq!(scope(harness.executor.delete_agent(maker, strong.id).await), Scope::AdminWrite);
        assert_eq!(scope(harness.executor.delete_agent(reader, strong.id).await), Scope::GraphWrite);
        assert_eq!((harness.get(made.id).await.version, harness.get(strong.id).await.version), (1, 1));

        let stranger = Actor { project, author: Author::Token { id: TokenId::new() } };
        assert_eq!(scope(harness.executor.create_agent(stranger, AgentDefinition { name: "other".into(), ..tools(&["entities_get"]) }).await), Scope::GraphRead);
    }

    async fn every_version_is_kept_with_its_author(db: TestDb) {
        let harness = Harness::new(&db).await;
        let first = AgentDefinition { tools: vec!["entities_*".into()], ..named("a") };
        let agent = harness.create(first.clone()).await;
        assert_eq!(harness.get(agent.id).await, agent);
        let other = Actor { author: Author::System, ..harness.actor };
        let described = |definition| AgentDefinition { description: "Second".into(), ..definition };
        let changed = harness.executor.update_agent(other, agent.id, Some(1), described).await.unwrap();
        assert_eq!((changed.version, changed.definition.description.as_str()), (2, "Second"));
        assert!(changed.updated_at > agent.updated_at, "even when the clock stands still");

        let versions = db
            .read(move |tx| {
                let mut versions = Vec::new();
                for version in 1..=3 {
                    let definition = emergent_executor::agents::get_version(tx, agent.id, version)?;
                    let author = emergent_store::agents::version_author(tx, agent.id, version)?;
                    versions.push(definition.zip(author));
                }
                Ok::<_, Error>(versions)
            })
            .await
            .unwrap();
        assert_eq!(versions[0], Some((first, harness.actor.author)));
        assert_eq!(versions[1], Some((changed.definition, Author::System)));
        assert_eq!(versions[2], None);
    }

    async fn a_change_that_changes_nothing_is_no_version(db: TestDb) {
        let harness = Harness::new(&db).await;
        let mut definition = named("a");
        definition.config.insert("n".into(), 1.5.into());
        definition.model = Some("rehearsal/x".parse().unwrap());
        let agent = harness.create(definition).await;
        assert_eq!(harness.change(agent.id, |_| {}).await.unwrap(), agent);
        assert_eq!(harness.get(agent.id).await.version, 1);
    }

    async fn a_change_of_an_older_version_is_refused(db: TestDb) {
        let harness = Harness::new(&db).await;
        let agent = harness.create(named("a")).await;
        harness.change(agent.id, |definition| definition.max_steps = Some(3)).await.unwrap();
        let stale = harness.executor.update_agent(harness.actor, agent.id, Some(1), |definition| definition).await;
        assert!(matches!(stale, Err(Error::VersionConflict { expected: 1, current: 2, .. })), "{stale:?}");
    }

    async fn names_are_unique_among_the_living_of_a_project(db: TestDb) {
        let harness = Harness::new(&db).await;
        let holder = harness.create(named("a")).await;
        let taken = conflict(harness.executor.create_agent(harness.actor, named("a")).await);
        assert!(taken.contains(&holder.id.to_string()), "{taken}");
        let b = harness.create(named("b")).await;
        conflict(harness.change(b.id, |definition| definition.name = "a".into()).await);
        let elsewhere = project(&harness.executor, "elsewhere").await;
        harness.executor.create_agent(elsewhere, named("a")).await.unwrap();

        harness.executor.delete_agent(harness.actor, holder.id).await.unwrap();
        harness.change(b.id, |definition| definition.name = "a".into()).await.unwrap();
        assert_eq!(harness.names(true).await, ["a"]);
    }

    async fn two_who_want_one_name_at_once_do_not_both_get_it(db: TestDb) {
        let harness = Harness::new(&db).await;
        let create = || {
            let (executor, actor) = (harness.executor.clone(), harness.actor);
            tokio::spawn(async move { executor.create_agent(actor, default_one("a", Visibility::Project)).await })
        };
        let tries: Vec<_> = (0..8).map(|_| create()).collect();
        let mut made = 0;
        for one in tries {
            match one.await.unwrap() {
                Ok(_) => made += 1,
                Err(error) => drop(conflict::<()>(Err(error))),
            }
        }
        assert_eq!(made, 1);
    }

    async fn a_definition_is_checked_against_the_project(db: TestDb) {
        let harness = Harness::new(&db).await;
        let wrong = AgentDefinition {
            tools: vec!["search_hybrid".into(), "create_entity".into(), "no_such_tool".into()],
            flow_type: emergent_domain::agent::FlowType::Parallel,
            flow_config: Some(emergent_domain::agent::FlowConfig {
                agents: vec!["helper".into()],
                ..Default::default()
            }),
            ..named("lead")
        };
        let outcome = harness.executor.create_agent(harness.actor, wrong.clone()).await;
        assert_eq!(fields(outcome), ["tools[2]", "flowConfig.agents[0]"]);
        harness.create(named("helper")).await;
        let outcome = harness.executor.create_agent(harness.actor, wrong.clone()).await;
        assert_eq!(fields(outcome), ["tools[2]"]);
        let agent = harness.create(AgentDefinition { tools: vec!["search_hybrid".into()], ..wrong }).await;
        assert_eq!(fields(harness.change(agent.id, |definition| definition.max_steps = Some(0)).await), ["maxSteps"]);
        assert_eq!(harness.get(agent.id).await, agent);
    }

    async fn the_default_is_taken_over(db: TestDb) {
        let harness = Harness::new(&db).await;
        let project = harness.actor.project;
        assert_eq!(harness.executor.default_agent(project).await.unwrap(), None);
        let first = harness.create(default_one("first", Visibility::Project)).await;
        let second = harness.create(named("second")).await;
        harness.change(second.id, |definition| definition.is_default = true).await.unwrap();
        let default = harness.executor.default_agent(project).await.unwrap().unwrap();
        assert_eq!(default.id, second.id);
        let robbed = harness.get(first.id).await;
        assert_eq!((robbed.version, robbed.definition.is_default), (2, false), "a version of its own");

        let external = harness.create(default_one("external", Visibility::External)).await;
        assert_eq!(harness.executor.default_agent(project).await.unwrap().unwrap().id, external.id);
        harness.executor.delete_agent(harness.actor, external.id).await.unwrap();
        assert_eq!(harness.executor.default_agent(project).await.unwrap(), None);
    }

    async fn an_external_default_gives_way_to_external_ones_only(db: TestDb) {
        let harness = Harness::new(&db).await;
        let face = harness.create(default_one("face", Visibility::External)).await;
        let wanted = default_one("inner", Visibility::Project);
        let refused = conflict(harness.executor.create_agent(harness.actor, wanted).await);
        assert!(refused.contains("`face`"), "{refused}");
        let inner = harness.create(named("inner")).await;
        conflict(harness.change(inner.id, |definition| definition.is_default = true).await);
        assert_eq!(harness.get(face.id).await, face, "nothing was taken from it");
        let open = |definition: &mut AgentDefinition| {
            definition.is_default = true;
            definition.visibility = Visibility::External;
        };
        harness.change(inner.id, open).await.unwrap();
        assert!(!harness.get(face.id).await.definition.is_default);
    }

    async fn a_deleted_agent_is_a_tombstone(db: TestDb) {
        let harness = Harness::new(&db).await;
        let agent = harness.create(named("a")).await;
        let project = harness.actor.project;
        let gone = harness.executor.delete_agent(harness.actor, agent.id).await.unwrap();
        assert_eq!((gone.version, gone.deleted_at), (2, Some(gone.updated_at)));
        for missing in [
            harness.executor.get_agent(project, agent.id).await,
            harness.executor.find_agent(project, "a").await,
            harness.executor.delete_agent(harness.actor, agent.id).await,
            harness.change(agent.id, |_| {}).await,
        ] {
            assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
        }
        assert_eq!(harness.executor.get_agent_including_deleted(project, agent.id).await.unwrap(), gone);
        let version = db.read(move |tx| emergent_executor::agents::get_version(tx, agent.id, 1)).await.unwrap();
        assert_eq!(version, Some(agent.definition), "what waits goes on with it");
    }

    async fn an_agent_is_found_by_id_or_name_in_its_project_only(db: TestDb) {
        let harness = Harness::new(&db).await;
        let agent = harness.create(named("a")).await;
        let elsewhere = project(&harness.executor, "elsewhere").await;
        // What looks like an id is one, and never the name of another agent.
        let twin = harness.executor.create_agent(elsewhere, named(&agent.id.to_string())).await;
        assert!(matches!(twin, Err(Error::Invalid(_))), "{twin:?}");
        let find = async |project, text: &str| harness.executor.find_agent(project, text).await.ok().map(|a| a.id);
        let here = harness.actor.project;
        assert_eq!(find(here, "a").await, Some(agent.id));
        assert_eq!(find(here, &agent.id.to_string()).await, Some(agent.id));
        assert_eq!(find(elsewhere.project, &agent.id.to_string()).await, None);
        assert_eq!(find(elsewhere.project, "a").await, None);
        assert_eq!(find(here, "a\0").await, None);
        let change = harness.executor.update_agent(elsewhere, agent.id, None, |definition| definition).await;
        assert!(matches!(change, Err(Error::NotFound { .. })));
    }

    async fn the_error_for_a_misspelt_name_suggests_an_agent_that_is_not_internal(db: TestDb) {
        let harness = Harness::new(&db).await;
        harness.create(named("researcher")).await;
        harness.create(AgentDefinition { visibility: Visibility::Internal, ..named("planner") }).await;
        let elsewhere = project(&harness.executor, "elsewhere").await;
        harness.executor.create_agent(elsewhere, named("writer")).await.unwrap();
        let told = async |name: &str| {
            harness.executor.find_agent(harness.actor.project, name).await.unwrap_err().to_string()
        };
        assert_eq!(told("reseacher").await, "there is no agent `reseacher`; did you mean `researcher`?");
        for unknown in ["planer", "writr", "zzz"] {
            assert_eq!(told(unknown).await, format!("there is no agent `{unknown}`"));
        }
    }

    async fn internal_agents_are_listed_on_request_in_pages(db: TestDb) {
        let harness = Harness::new(&db).await;
        for at in 0..5 {
            let visibility = if at == 2 { Visibility::Internal } else { Visibility::Project };
            harness.create(AgentDefinition { visibility, ..named(&format!("a{at}")) }).await;
        }
        assert_eq!(harness.names(false).await, ["a4", "a3", "a1", "a0"], "newest first");
        assert_eq!(harness.names(true).await.len(), 5);
        let mut page = Page::first(2);
        let mut seen = Vec::new();
        loop {
            let found = harness.executor.list_agents(harness.actor.project, true, page).await.unwrap();
            seen.extend(found.items.into_iter().map(|agent| agent.definition.name));
            match found.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, ["a4", "a3", "a2", "a1", "a0"]);
    }
}
