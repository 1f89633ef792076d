//! Budgets: no model call starts that could exceed a limit, all spending is counted exactly once, and a
//! run whose budget is exhausted summarises its work.

use crate::support;

use std::{sync::Arc, time::Duration};

use emergent_domain::{
    agent::{AgentDefinition, ModelConfig},
    chat::Usage,
    ids::ObjectId,
    run::{Reason, RunStatus},
    workflow::{Amount, Limit, WorkflowLink},
};
use emergent_executor::{ModelQuery, ModelQueryError, StartOptions};
use emergent_store::{Tx, budget};
use emergent_testkit::{
    both_engines,
    scripted::{ScriptedModel, ScriptedReply, USAGE, calls, fails, hangs, says},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::json;
use support::{
    Harness, HarnessOptions, agent, assert_ended,
    priced_model::{Endless, PricedModel, check_books, counters, limit_day, spent},
    server::Server,
    until, with_tools,
    workflow_runs::{dispatched, object, workflow},
};

fn tokens(tokens: i64) -> Limit {
    Limit { microusd: None, tokens: Some(tokens) }
}

/// An agent whose answers are limited to `max_tokens`.
fn brief(mut definition: AgentDefinition, max_tokens: u32) -> AgentDefinition {
    definition.model = definition.model.map(|model| ModelConfig { max_tokens: Some(max_tokens), ..model });
    definition
}

fn look(n: i64) -> ScriptedReply {
    calls("entities_query", json!({ "limit": n }))
}

fn counting(say: ScriptedReply, input: u64, output: u64) -> ScriptedReply {
    say.with_usage(Usage { input, output, ..Usage::default() })
}

both_engines! {
    async fn a_run_whose_workflow_may_spend_no_more_sums_up_and_fails(db: TestDb) {
        let script = [counting(look(1), 3_000, 500), counting(look(2), 4_000, 900), says("Two of three.")];
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let worker = harness.agent(brief(with_tools("worker", &["entities_query"]), 2_000)).await;
        let flow = workflow(&harness, tokens(13_800)).await;
        let task = object(&harness, "SpecTask").await;
        let workflow_link = WorkflowLink { workflow: Some(flow), task: Some(task), ..WorkflowLink::default() };
        let run = dispatched(&harness, &worker, workflow_link, 0).await.unwrap();
        let run = harness.ended(run.id).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Budget));
        assert_eq!(run.summary.as_deref(), Some("Two of three."));
        let error = run.error.unwrap();
        let limit = "5400 tokens were left of the workflow's budget (13800 tokens); raise it";
        assert!(error.starts_with("the next call needed at least ") && error.contains(limit), "{error}");
        let request = harness.model.requests().pop().unwrap();
        assert!(request.tools.is_empty() && request.last_text().starts_with("CRITICAL - BUDGET REACHED"));
        let books = check_books(&db, harness.project, flow, "").await;
        assert_eq!(books.spent.tokens, 3_500 + 4_900 + 110);
        assert_eq!(books.unpriced, 3, "nobody knows what a scripted model costs");
        assert_eq!(books.by_task[0].key, Some(task));
        assert_eq!(books.by_agent[0].key, "worker");
        harness.close().await;
    }

    async fn a_run_that_may_not_even_sum_up_says_what_it_did(db: TestDb) {
        let script = [counting(look(1), 5_000, 900)];
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let worker = harness.agent(with_tools("worker", &["entities_query"])).await;
        let flow = workflow(&harness, tokens(6_000)).await;
        let run = dispatched(&harness, &worker, WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() }, 0).await.unwrap();
        let run = harness.ended(run.id).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Budget));
        let summary = run.summary.unwrap();
        assert!(summary.contains("1 step") && summary.contains("`entities_query` (1)"), "{summary}");
        let error = run.error.unwrap();
        let needed = error.strip_prefix("the next call needed at least ").and_then(|rest| rest.split(' ').next());
        let needed: u64 = needed.and_then(|number| number.parse().ok()).expect(&error);
        // The summary needs 64 tokens of output besides the 5900 of the conversation, the call that was refused 512.
        assert!(needed > 5_900 + 512, "{error}");
        assert!(error.contains(", and 100 tokens were left of the workflow's budget (6000 tokens)"), "{error}");
        assert_eq!(harness.model.requests().len(), 1);
        harness.close().await;
    }

    async fn an_answer_gets_what_is_left_and_one_that_was_cut_by_it_is_no_result(db: TestDb) {
        // Without a limit, the provider decides how long an answer is, and a cut one is continued a few times;
        // with one, the budget does.
        for (limit, reason) in [(2_000, Some(Reason::Budget)), (10_000_000, Some(Reason::Truncated))] {
            let harness = Harness::with(&db, HarnessOptions { models: Some(Endless::models()), ..HarnessOptions::new(ScriptedModel::default()) }).await;
            let model = Some(Endless::MODEL.parse().unwrap());
            let worker = harness.agent(AgentDefinition { model, ..agent(&format!("worker-{limit}")) }).await;
            let flow = workflow(&harness, tokens(limit)).await;
            let run = dispatched(&harness, &worker, WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() }, 0).await.unwrap();
            let run = harness.ended(run.id).await;
            assert_eq!(run.reason, reason);
            assert!(run.summary.as_ref().unwrap().starts_with("and so on"), "{run:?}");
            let spent = check_books(&db, harness.project, flow, "").await.spent.tokens;
            assert!(spent > 1_900 && spent <= limit, "{spent}");
            harness.close().await;
        }
    }

    async fn a_run_that_sums_up_before_it_ever_answered_is_taken_up_again_like_any_other(db: TestDb) {
        let server = Server::open(&db, HarnessOptions::new(ScriptedModel::new([hangs()]))).await;
        let worker = server.harness.agent(agent("worker")).await;
        // The budget allows a short summary, but no answer.
        let flow = workflow(&server.harness, tokens(500)).await;
        let run = dispatched(&server.harness, &worker, WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() }, 0).await.unwrap();
        until("it is asked to sum up", async || server.harness.model.open() == 1).await;
        let request = server.harness.model.requests().remove(0);
        assert!(request.last_text().starts_with("CRITICAL - BUDGET REACHED"), "{}", request.last_text());
        server.kill(&db, Duration::ZERO).await;
        let harness = Harness::open(&db, ScriptedModel::new([says("Nothing yet.")])).await;
        let run = harness.ended(run.id).await;
        assert_ended(&run, RunStatus::Failed, Some(Reason::Budget));
        let books = check_books(&db, harness.project, flow, "").await;
        assert!(books.lost == 1 && books.spent.tokens <= 500, "{books:?}");
        harness.close().await;
    }

    async fn calls_of_a_workflow_without_a_budget_are_counted_all_the_same(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([look(1), says("Done."), says("Alone.")])).await;
        let worker = harness.agent(with_tools("worker", &["entities_query"])).await;
        let flow = workflow(&harness, Limit::default()).await;
        let run = dispatched(&harness, &worker, WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() }, 0).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let each = i64::try_from(USAGE.input + USAGE.output).unwrap();
        assert_eq!(check_books(&db, harness.project, flow, "").await.spent, Amount { microusd: 0, tokens: 2 * each });
        assert!(counters(&db, harness.project).await.is_empty(), "nothing to count against");
        harness.run(&worker, "Alone.").await;
        assert_eq!(spent(&db, harness.project, flow).await.spent.tokens, 2 * each, "another's run is not its own");
        harness.close().await;
    }

    async fn a_day_ends_for_an_agent_and_for_its_project(db: TestDb) {
        let script = (0..4).map(|_| says("Done."));
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let small = harness.agent(brief(agent("small"), 100)).await;
        let other = harness.agent(brief(agent("other"), 100)).await;
        limit_day(&db, harness.project, Some("small"), tokens(250)).await;
        limit_day(&db, harness.project, None, tokens(550)).await;
        assert_ended(&harness.run(&small, "Go.").await, RunStatus::Completed, None);
        assert_ended(&harness.run(&small, "Go.").await, RunStatus::Completed, None);
        let refused = harness.run(&small, "Go.").await;
        assert_ended(&refused, RunStatus::Failed, Some(Reason::Budget));
        assert!(refused.error.unwrap().contains("agent `small` for the day"));
        assert_ended(&harness.run(&other, "Go.").await, RunStatus::Completed, None);
        assert_ended(&harness.run(&other, "Go.").await, RunStatus::Completed, None);
        let refused = harness.run(&other, "Go.").await;
        assert!(refused.error.unwrap().contains("the project's budget for the day"));
        let day = budget::utc_day(refused.created_at);
        let project = harness.project;
        let days: Result<_, emergent_store::Error> = db.read(move |tx| budget::day_counters(tx, project, day)).await;
        let days: Vec<_> = days.unwrap().into_iter().map(|(agent, counter)| (agent, counter.spent.tokens)).collect();
        assert_eq!(days, [(None, 440), (Some("small".to_owned()), 220)], "nobody counts what nothing limits");
        harness.close().await;
    }

    async fn nothing_is_started_for_a_day_that_is_used_up(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([counting(says("Done."), 60, 140), says("Done.")])).await;
        let small = harness.agent(brief(agent("small"), 100)).await;
        let other = harness.agent(brief(agent("other"), 100)).await;
        limit_day(&db, harness.project, Some("small"), tokens(200)).await;
        assert_ended(&harness.run(&small, "Go.").await, RunStatus::Completed, None);
        let start = StartOptions { input: "Go.".into(), ..StartOptions::default() };
        let refused = harness.executor.trigger(harness.actor(), small.id, start).await.unwrap_err();
        assert!(refused.to_string().contains("agent `small` for the day (200 tokens)"), "{refused}");
        assert_ended(&harness.run(&other, "Go.").await, RunStatus::Completed, None);
        limit_day(&db, harness.project, Some("small"), Limit::default()).await;
        harness.start(&small, "Go.").await;
        harness.close().await;
    }

    async fn a_limit_that_is_set_while_a_run_is_under_way_counts_for_it(db: TestDb) {
        let script = [look(1).with_delay(Duration::from_millis(2_300)), says("Too much."), says("Too much.")];
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let worker = harness.agent(with_tools("worker", &["entities_query"])).await;
        let run = harness.start(&worker, "Go.").await;
        until("it is asked", async || harness.model.open() == 1).await;
        limit_day(&db, harness.project, None, tokens(1)).await;
        assert_ended(&harness.ended(run.id).await, RunStatus::Failed, Some(Reason::Budget));
        assert_eq!(harness.model.requests().len(), 1);
        harness.close().await;
    }

    async fn a_call_waits_for_others_that_hold_what_it_needs(db: TestDb) {
        let script = (0..6).map(|_| says("Done.").with_delay(Duration::from_millis(60)));
        let harness = Harness::open(&db, ScriptedModel::new(script)).await;
        let worker = harness.agent(brief(agent("worker"), 1_000)).await;
        // The budget allows one reservation at a time, and the real cost of all calls.
        let flow = workflow(&harness, tokens(1_700)).await;
        let workflow_link = WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() };
        let mut runs = Vec::new();
        for _ in 0..6 {
            runs.push(dispatched(&harness, &worker, workflow_link, 0).await.unwrap());
        }
        for run in runs {
            assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        }
        assert_eq!(harness.model.max_open(), 1);
        check_books(&db, harness.project, flow, "").await;
        harness.close().await;
    }

    async fn what_a_call_costs_is_known_also_when_nobody_answers(db: TestDb) {
        let refused = emergent_llm::Error::BadRequest { model: "m".into(), status: 400, message: "no".into() };
        let harness = Harness::open(&db, ScriptedModel::new([fails(refused), hangs(), hangs()])).await;
        let worker = harness.agent(brief(agent("worker"), 1_000)).await;
        let flow = workflow(&harness, tokens(100_000)).await;
        let workflow_link = WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() };
        let failed = dispatched(&harness, &worker, workflow_link, 0).await.unwrap();
        assert_ended(&harness.ended(failed.id).await, RunStatus::Failed, Some(Reason::Provider));
        assert_eq!(check_books(&db, harness.project, flow, "").await.spent, Amount::default(), "nothing came");
        // This run is cancelled during its model call.
        let cancelled = dispatched(&harness, &worker, workflow_link, 0).await.unwrap();
        until("it is asked", async || harness.model.open() == 1).await;
        let open = spent(&db, harness.project, flow).await;
        assert!(open.reserved.tokens > 1_000 && open.spent.tokens == 0, "{open:?}");
        harness.executor.cancel(harness.actor(), cancelled.id).await.unwrap();
        let books = check_books(&db, harness.project, flow, "").await;
        assert_eq!((books.spent, books.lost), (open.reserved, 1), "what became of it is not known");
        harness.close().await;
    }

    async fn a_call_that_a_dying_server_left_open_counts_in_full_and_once(db: TestDb) {
        let server = Server::open(&db, HarnessOptions::new(ScriptedModel::new([hangs()]))).await;
        let worker = server.harness.agent(brief(agent("worker"), 1_000)).await;
        let flow = workflow(&server.harness, tokens(100_000)).await;
        let run = dispatched(&server.harness, &worker, WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() }, 0).await.unwrap();
        until("it is asked", async || server.harness.model.open() == 1).await;
        let open = spent(&db, server.harness.project, flow).await.reserved.tokens;
        server.kill(&db, Duration::ZERO).await;
        let harness = Harness::open(&db, ScriptedModel::new([says("Done.")])).await;
        assert_ended(&harness.ended(run.id).await, RunStatus::Completed, None);
        let books = check_books(&db, harness.project, flow, "").await;
        assert_eq!((books.spent.tokens, books.lost), (open + 110, 1));
        harness.close().await;
    }

    async fn a_question_outside_a_run_is_counted_for_its_task(db: TestDb) {
        let refused = emergent_llm::Error::BadRequest { model: "m".into(), status: 400, message: "no".into() };
        let script = [says("worker"), fails(refused), hangs()];
        let harness = Harness::open(&db, ScriptedModel::default().agent("selector", script)).await;
        let flow = workflow(&harness, tokens(1_600)).await;
        let task = object(&harness, "SpecTask").await;
        let ask = |max_tokens| ModelQuery {
            project: harness.project, workflow: Some(flow), task: Some(task), agent: "selector".into(),
            model: ScriptedModel::MODEL.parse().unwrap(), system: "You choose.".into(), prompt: "Who?".into(),
            output_schema: None, max_tokens, timeout: Duration::from_millis(300),
        };
        assert_eq!(harness.executor.query_model(ask(200)).await.unwrap(), "worker");
        let failed = harness.executor.query_model(ask(200)).await;
        assert!(matches!(failed, Err(ModelQueryError::Model(_))), "{failed:?}");
        let books = check_books(&db, harness.project, flow, "").await;
        assert_eq!((books.spent.tokens, books.by_task[0].key), (110, Some(task)));
        let refused = harness.executor.query_model(ask(5_000)).await;
        assert!(matches!(refused, Err(ModelQueryError::Budget(_))), "{refused:?}");
        let late = harness.executor.query_model(ask(200)).await;
        assert!(matches!(late, Err(ModelQueryError::TimedOut)), "{late:?}");
        let books = check_books(&db, harness.project, flow, "").await;
        assert!(books.spent.tokens > 310 && books.lost == 1, "{books:?}");
        harness.close().await;
    }

    async fn a_retry_of_a_question_outside_a_run_is_an_event_of_its_workflow(db: TestDb) {
        let wait = Duration::from_millis(100);
        let busy = emergent_llm::Error::RateLimited { model: "m".into(), message: "slow down".into(), retry_after: Some(wait) };
        let model = ScriptedModel::default().agent("selector", [fails(busy), says("worker")]);
        let harness = Harness::open(&db, model).await;
        let flow = workflow(&harness, Limit::default()).await;
        let task = object(&harness, "SpecTask").await;
        let query = ModelQuery {
            project: harness.project, workflow: Some(flow), task: Some(task), agent: "selector".into(),
            model: ScriptedModel::MODEL.parse().unwrap(), system: "You choose.".into(), prompt: "Who?".into(),
            output_schema: None, max_tokens: 200, timeout: Duration::from_secs(20),
        };
        assert_eq!(harness.executor.query_model(query).await.unwrap(), "worker");
        let read = move |tx: &mut Tx<'_>| emergent_store::workflows::list_events(tx, flow, 0, 10);
        let events: Result<_, emergent_store::Error> = db.read(read).await;
        let events = events.unwrap();
        assert_eq!(events.iter().map(|event| (event.kind.as_str(), event.task)).collect::<Vec<_>>(), [("model_retry", Some(task))]);
        let data = &events[0].data;
        assert!(data["asker"] == "selector" && data["waitMs"].as_u64().unwrap() >= 100, "{data}");
        assert!(data["error"].as_str().unwrap().contains("slow down"), "{data}");
        harness.close().await;
    }

    async fn summing_up_a_conversation_that_grew_too_long_is_counted_too(db: TestDb) {
        let long = |n: i64| says("word ".repeat(500)).and(look(n));
        let script = (1..6).map(long).chain((0..6).map(|_| says("Summary.")));
        let script = (1..).zip(script).map(|(n, say)| counting(say, 1_000 * n, 10));
        let model = ScriptedModel::new(script);
        let models = model.models().with_window(ScriptedModel::MODEL, 4_000);
        let harness = Harness::with(&db, HarnessOptions { models: Some(models), ..HarnessOptions::new(model) }).await;
        let worker = harness.agent(brief(with_tools("worker", &["entities_query"]), 500)).await;
        let flow = workflow(&harness, tokens(1_000_000)).await;
        let run = dispatched(&harness, &worker, WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() }, 0).await.unwrap();
        harness.ended(run.id).await;
        assert!(harness.timeline(run.id).await.contains("compacted summarised=true"));
        let books = check_books(&db, harness.project, flow, "").await;
        let request = i64::try_from(harness.model.requests().len()).unwrap();
        assert_eq!(books.spent.tokens, (1..=request).map(|n| 1_000 * n + 10).sum::<i64>());
        harness.close().await;
    }

    async fn a_workflow_that_gets_its_budget_late_has_spent_what_it_spent(db: TestDb) {
        let harness = Harness::open(&db, ScriptedModel::new([says("Done."), says("Done.")])).await;
        let worker = harness.agent(brief(agent("worker"), 100)).await;
        let flow = workflow(&harness, Limit::default()).await;
        let workflow_link = WorkflowLink { workflow: Some(flow), ..WorkflowLink::default() };
        let run = dispatched(&harness, &worker, workflow_link, 0).await.unwrap();
        harness.ended(run.id).await;
        let settings = json!({ "budget": { "tokens": 150 } }).to_string();
        let give = move |tx: &mut Tx<'_>| {
            tx.execute("UPDATE workflows SET settings = $1", &[emergent_store::json(&settings)])
        };
        let given: Result<u64, emergent_store::Error> = db.write(give).await;
        assert_eq!(given.unwrap(), 1);
        let run = dispatched(&harness, &worker, workflow_link, 0).await.unwrap();
        assert_ended(&harness.ended(run.id).await, RunStatus::Failed, Some(Reason::Budget));
        assert_eq!(check_books(&db, harness.project, flow, "").await.spent.tokens, 110);
        harness.close().await;
    }

    async fn whatever_happens_no_limit_is_exceeded_and_the_books_agree(db: TestDb) {
        let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random::<u64>);
        println!("SEED={seed}");
        let said = format!("SEED={seed}");
        let mut dice = StdRng::seed_from_u64(seed);
        let bursar = PricedModel::new(seed);
        let plan = |dice: &mut StdRng| {
            let max_runs = dice.random_range(3..24);
            HarnessOptions { models: Some(bursar.models()), ..HarnessOptions::new(ScriptedModel::default()) }.max_runs(max_runs)
        };
        let mut server = Server::open(&db, plan(&mut dice)).await;
        let project = server.harness.project;
        let limits = [
            Limit { microusd: Some(dice.random_range(2_000..9_000)), tokens: Some(dice.random_range(8_000..40_000)) },
            Limit { microusd: Some(dice.random_range(2_000..9_000)), tokens: None },
            tokens(dice.random_range(4_000..20_000)),
        ];
        let flow = workflow(&server.harness, limits[0]).await;
        limit_day(&db, project, None, limits[1]).await;
        limit_day(&db, project, Some("one"), limits[2]).await;
        let mut agents = Vec::new();
        for (name, max_tokens) in [("one", 700), ("two", 1_500)] {
            let mut definition = brief(with_tools(name, &["entities_query"]), max_tokens);
            definition.model = Some(ModelConfig { max_tokens: Some(max_tokens), ..PricedModel::MODEL.parse().unwrap() });
            definition.max_steps = Some(6);
            agents.push(server.harness.agent(definition).await);
        }
        let tasks = [object(&server.harness, "SpecTask").await, object(&server.harness, "SpecTask").await];
        let mut runs = Vec::new();
        for _ in 0..40 {
            let task: ObjectId = *tasks.choose(&mut dice).unwrap();
            let workflow_link = WorkflowLink { workflow: Some(flow), task: Some(task), ..WorkflowLink::default() };
            runs.push(dispatched(&server.harness, agents.choose(&mut dice).unwrap(), workflow_link, 0).await.unwrap().id);
        }
        let watched = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let watch = {
            let (watched, db, said) = (Arc::clone(&watched), db.db.clone(), said.clone());
            tokio::spawn(async move {
                while watched.load(std::sync::atomic::Ordering::SeqCst) {
                    for (name, counter) in counters(&db, project).await {
                        let limit = match name.matches(':').count() {
                            1 if name.starts_with("workflow") => limits[0],
                            1 => limits[1],
                            _ if name.ends_with(":one") => limits[2],
                            _ => Limit::default(),
                        };
                        let used = counter.spent + counter.reserved;
                        assert!(limit.allows(used), "{said}: {name} has {used:?} of {limit:?}");
                        assert!(counter.reserved.tokens >= 0 && counter.spent.tokens >= 0, "{said}: {name} {counter:?}");
                    }
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
            })
        };
        for _ in 0..dice.random_range(2..5) {
            tokio::time::sleep(Duration::from_millis(dice.random_range(5..150))).await;
            if dice.random_bool(0.5) {
                let one = *runs.choose(&mut dice).unwrap();
                let _ = server.harness.executor.cancel(server.harness.actor(), one).await;
            }
            let next = plan(&mut dice);
            server.kill(&db, Duration::ZERO).await;
            server = Server::open(&db, next).await;
        }
        let mut ends = std::collections::BTreeMap::new();
        for run in runs {
            let end = server.harness.ended(run).await;
            *ends.entry((end.status.as_str(), end.reason.map(Reason::as_str))).or_insert(0) += 1;
        }
        watched.store(false, std::sync::atomic::Ordering::SeqCst);
        watch.await.unwrap();
        let books = check_books(&db, project, flow, &said).await;
        println!("{ends:?}, {:?} of {limits:?}, {} calls lost", books.spent, books.lost);
        assert!(books.spent.tokens > 0, "{said}");
        server.kill(&db, Duration::ZERO).await;
    }
}
