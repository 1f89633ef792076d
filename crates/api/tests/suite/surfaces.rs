//! The visibility matrix: every surface × every visibility × every kind of caller. A surface is added with one line of
//! [`surfaces`].

use crate::{
    common::{Answer, Client, Server},
    mcp::peer::Peer,
};

use emergent_api::AppOptions;
use emergent_domain::token::Scope::{
    self, AdminRead, AdminWrite, AgentsInvoke, AgentsRead, AgentsWrite, ChatUse,
};
use emergent_testkit::{
    TestDb, both_engines,
    scripted::{ScriptedModel, ScriptedReply, calls, says},
};
use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};
use tokio::sync::watch;

/// What became of an attempt to reach an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is listed, or was started.
    Reached,
    /// It is not listed, or not found.
    Absent,
    /// The request was refused with this status.
    Refused(u16),
}
use Outcome::{Absent, Reached, Refused};

const VISIBILITIES: [&str; 3] = ["external", "project", "internal"];

/// One way to reach agents.
struct Surface {
    name: &'static str,
    /// What a token needs; the first one is what a token of the wrong scope lacks. Without any, no token is needed.
    scopes: &'static [Scope],
    /// What happens with the right token, by visibility.
    expected: [Outcome; 3],
    /// What happens with a token without the scope.
    without_scope: Outcome,
    attempt: Attempt,
}

type Attempt = for<'a> fn(&'a World, &'a Client, &'a str) -> BoxFuture<'a, Outcome>;

const FORBIDDEN: Outcome = Refused(403);

/// Every surface of the specification, and those that came later.
fn surfaces() -> Vec<Surface> {
    let surface = |name, scopes, expected, attempt: Attempt| Surface {
        name,
        scopes,
        expected,
        without_scope: FORBIDDEN,
        attempt,
    };
    vec![
        surface(
            "list_available_agents",
            &[AgentsInvoke, AdminRead],
            [Reached, Reached, Reached],
            |w, c, v| w.listed_by_tool(c, v).boxed(),
        ),
        surface("spawn_agents", &[AgentsInvoke, AdminRead], [Reached, Reached, Reached], |w, c, v| {
            w.spawned(c, v).boxed()
        }),
        surface("list of agents", &[AgentsRead], [Reached, Reached, Absent], |w, c, v| {
            w.listed(c, v, false).boxed()
        }),
        surface("list with internal ones", &[AgentsRead], [Reached, Reached, Reached], |w, c, v| {
            w.listed(c, v, true).boxed()
        }),
        surface("trigger", &[AgentsInvoke], [Reached, Reached, FORBIDDEN], |w, c, v| {
            w.triggered(c, v).boxed()
        }),
        surface("history of runs", &[AdminRead], [Reached, Reached, Reached], |w, c, v| {
            w.in_history(c, v).boxed()
        }),
        surface(
            "schedule",
            &[AgentsWrite, AgentsInvoke, AdminWrite],
            [Reached, Reached, Refused(400)],
            |w, c, v| w.scheduled(c, v).boxed(),
        ),
        surface("chat", &[ChatUse], [Reached, Reached, FORBIDDEN], |w, c, v| w.chatted(c, v).boxed()),
        Surface {
            without_scope: Absent,
            ..surface("tool of MCP", &[AgentsInvoke], [Reached, Absent, Absent], |w, c, v| {
                w.listed_by_mcp(c, v).boxed()
            })
        },
        surface("card", &[], [Reached, Absent, Absent], |w, c, v| w.in_card(c, v).boxed()),
        surface("invoke", &[AgentsInvoke], [Reached, FORBIDDEN, FORBIDDEN], |w, c, v| {
            w.invoked(c, v).boxed()
        }),
        surface("models of OpenAI", &[AgentsInvoke], [Reached, Absent, Absent], |w, c, v| {
            w.in_models(c, v).boxed()
        }),
        surface("completions of OpenAI", &[AgentsInvoke], [Reached, FORBIDDEN, FORBIDDEN], |w, c, v| {
            w.completed(c, v).boxed()
        }),
        surface("AG-UI", &[AgentsInvoke], [Reached, FORBIDDEN, FORBIDDEN], |w, c, v| {
            w.run_by_agui(c, v).boxed()
        }),
        surface("card of A2A", &[], [Reached, Absent, Absent], |w, c, v| w.in_a2a_card(c, v).boxed()),
        surface("extended card of A2A", &[AgentsInvoke], [Reached, FORBIDDEN, FORBIDDEN], |w, c, v| {
            w.in_extended_a2a_card(c, v).boxed()
        }),
        surface("messages of A2A", &[AgentsInvoke], [Reached, FORBIDDEN, FORBIDDEN], |w, c, v| {
            w.sent_over_a2a(c, v, false).boxed()
        }),
        surface("messages of A2A over HTTP", &[AgentsInvoke], [Reached, FORBIDDEN, FORBIDDEN], |w, c, v| {
            w.sent_over_a2a(c, v, true).boxed()
        }),
    ]
}

/// A server with an agent of each visibility, which are named after it, and one that delegates.
struct World {
    server: Server,
    agents: Vec<(&'static str, String)>,
    lead: String,
    _runner: watch::Sender<bool>,
}

/// The agents answer; the one that delegates does what it is told.
fn model() -> ScriptedModel {
    ScriptedModel::always(|request| {
        let is_result = request.turns.len() > 1;
        let input = request.last_text();
        let call = |tool: &str, input: Value| -> ScriptedReply { calls(tool, input) };
        match (request.agent.as_str(), input.split_once(' ')) {
            ("lead", Some(("list", _))) if !is_result => call("list_available_agents", json!({})),
            ("lead", Some(("spawn", name))) if !is_result => {
                call("spawn_agents", json!({ "tasks": [{ "agent_name": name, "task": "Go." }] }))
            }
            _ => says("Here."),
        }
    })
}

impl World {
    async fn start(db: &TestDb) -> Self {
        let options = AppOptions { invoke_rate: 1_000, ..AppOptions::default() };
        let server = Server::with_options(db, model().models(), options).await;
        let runner = server.drive();
        let admin = server.admin();
        let mut agents = Vec::new();
        for visibility in VISIBILITIES {
            let acp = (visibility == "external").then(|| json!({ "displayName": visibility }));
            let id = admin.agent(visibility, json!({ "visibility": visibility, "acp": acp })).await;
            agents.push((visibility, id));
        }
        let lead = admin.agent("lead", json!({ "tools": ["list_available_agents", "spawn_agents"] })).await;
        Self { server, agents, lead, _runner: runner }
    }

    fn id(&self, visibility: &str) -> &str {
        &self.agents.iter().find(|(name, _)| *name == visibility).expect("an agent").1
    }

    /// The outcome of a request that starts the agent or changes it.
    fn outcome(answer: &Answer) -> Outcome {
        match answer.status.as_u16() {
            200..300 => Reached,
            404 => Absent,
            status => Refused(status),
        }
    }

    /// The outcome of a list: whether these values have the agent.
    fn in_list(answer: &Answer, visibility: &str, names: impl Fn(&Answer) -> Vec<String>) -> Outcome {
        match Self::outcome(answer) {
            Reached if names(answer).iter().any(|name| name == visibility) => Reached,
            Reached => Absent,
            other => other,
        }
    }

    /// Lets the agent that delegates do something, and returns the results of its tool calls.
    async fn lead(&self, client: &Client, input: String) -> Result<Value, Outcome> {
        let path = format!("/api/admin/agents/{}/trigger", self.lead);
        let started = client.post(&path, json!({ "input": input })).await;
        if Self::outcome(&started) != Reached {
            return Err(Self::outcome(&started));
        }
        let run = started.is(202)["runId"].as_str().expect("an id").to_owned();
        client.ended(&run).await;
        let calls = client.get(&format!("/api/admin/agents/{}/runs/{run}/tool-calls", self.lead)).await;
        Ok(calls.is(200)[0]["output"].clone())
    }

    async fn listed_by_tool(&self, client: &Client, visibility: &str) -> Outcome {
        match self.lead(client, "list agents".to_owned()).await {
            Ok(output) if output.to_string().contains(&format!("\"name\":\"{visibility}\"")) => Reached,
            Ok(_) => Absent,
            Err(outcome) => outcome,
        }
    }

    async fn spawned(&self, client: &Client, visibility: &str) -> Outcome {
        match self.lead(client, format!("spawn {visibility}")).await {
            Ok(output) if output.to_string().contains("\"completed\"") => Reached,
            Ok(_) => Absent,
            Err(outcome) => outcome,
        }
    }

    async fn listed(&self, client: &Client, visibility: &str, internal: bool) -> Outcome {
        let answer = client.get(&format!("/api/admin/agents?include_internal={internal}")).await;
        Self::in_list(&answer, visibility, |answer| texts(&answer.body["data"], "name"))
    }

    async fn triggered(&self, client: &Client, visibility: &str) -> Outcome {
        let path = format!("/api/admin/agents/{}/trigger", self.id(visibility));
        Self::outcome(&client.post(&path, json!({ "input": "Go." })).await)
    }

    async fn in_history(&self, client: &Client, visibility: &str) -> Outcome {
        // There is a run of each agent: every agent can be spawned.
        assert_eq!(self.spawned(&self.server.admin(), visibility).await, Reached);
        let answer = client.get(&format!("/api/admin/runs?agent={}", self.id(visibility))).await;
        Self::in_list(&answer, visibility, |answer| texts(&answer.body["data"], "agentName"))
    }

    async fn scheduled(&self, client: &Client, visibility: &str) -> Outcome {
        let path = format!("/api/admin/agents/{}", self.id(visibility));
        Self::outcome(&client.patch(&path, json!({ "trigger": "0 3 1 1 *" })).await)
    }

    async fn chatted(&self, client: &Client, visibility: &str) -> Outcome {
        let body = json!({ "message": "Hi.", "agentDefinitionId": self.id(visibility) });
        Self::outcome(&client.post("/api/chat/stream", body).await)
    }

    async fn listed_by_mcp(&self, client: &Client, visibility: &str) -> Outcome {
        let answer = Peer::modern(client.clone()).send("tools/list", json!({})).await;
        let visibility = format!("agent_{visibility}");
        Self::in_list(&answer, &visibility, |answer| texts(&answer.body["result"]["tools"], "name"))
    }

    async fn in_card(&self, client: &Client, visibility: &str) -> Outcome {
        let answer = client.get("/api/agents/card").await;
        Self::in_list(&answer, visibility, |answer| texts(&answer.body["agents"], "name"))
    }

    async fn invoked(&self, client: &Client, visibility: &str) -> Outcome {
        let path = format!("/api/agents/{}/invoke", self.id(visibility));
        Self::outcome(&client.post(&path, json!({ "input": "Go." })).await)
    }
}

/// The surface of OpenAI.
impl World {
    async fn in_models(&self, client: &Client, visibility: &str) -> Outcome {
        let answer = client.get("/v1/models").await;
        Self::in_list(&answer, visibility, |answer| texts(&answer.body["data"], "id"))
    }

    async fn in_a2a_card(&self, client: &Client, visibility: &str) -> Outcome {
        Self::outcome(&client.get(&format!("/a2a/default/{visibility}/.well-known/agent-card.json")).await)
    }

    async fn in_extended_a2a_card(&self, client: &Client, visibility: &str) -> Outcome {
        let path = format!("/a2a/default/{visibility}/v1/extendedAgentCard?A2A-Version=1.0");
        Self::outcome(&client.get(&path).await)
    }

    async fn sent_over_a2a(&self, client: &Client, visibility: &str, over_http: bool) -> Outcome {
        let id = format!("{visibility}-{over_http}");
        let message = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "Go." }] });
        let path = format!("/a2a/default/{visibility}");
        let sent = match over_http {
            true => {
                let body = json!({ "message": message });
                client.post(&format!("{path}/v1/message:send?A2A-Version=1.0"), body).await
            }
            false => {
                let params = json!({ "message": message });
                let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
                client.post(&format!("{path}?A2A-Version=1.0"), body).await
            }
        };
        assert!(sent.body.get("error").is_none() || !sent.status.is_success(), "{}", sent.text);
        Self::outcome(&sent)
    }

    async fn completed(&self, client: &Client, visibility: &str) -> Outcome {
        let messages = json!([{ "role": "user", "content": "Go." }]);
        Self::outcome(
            &client.post("/v1/chat/completions", json!({ "model": visibility, "messages": messages })).await,
        )
    }
}

/// The surface of AG-UI.
impl World {
    async fn run_by_agui(&self, client: &Client, visibility: &str) -> Outcome {
        let messages = json!([{ "id": "1", "role": "user", "content": "Go." }]);
        let path = format!("/api/agents/{}/agui", self.id(visibility));
        Self::outcome(
            &client.post(&path, json!({ "threadId": "t", "runId": "r", "messages": messages })).await,
        )
    }
}

/// One field of each item of a list.
fn texts(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item[field].as_str().map(str::to_owned)).collect()
}

both_engines! {
    async fn each_surface_reaches_agents_as_their_visibility_says(db: TestDb) {
        let world = World::start(&db).await;
        let own = Some(world.server.default_project);
        let other = Some(world.server.project("other").await);
        let mut wrong = Vec::new();
        for surface in surfaces() {
            let needed = surface.scopes;
            let others: Vec<Scope> = Scope::ALL.iter().copied().filter(|one| needed.first() != Some(one)).collect();
            let is_public = needed.is_empty();
            // A token has at least one scope.
            let own_scopes = if is_public { &[Scope::GraphRead] } else { needed };
            let callers = [
                ("no token", None, Refused(401)),
                ("wrong scope", Some(world.server.token(&others, own).await), surface.without_scope),
                ("other project", Some(world.server.token(Scope::ALL, other).await), Absent),
                ("right token", Some(world.server.token(own_scopes, own).await), Reached),
            ];
            for (caller, token, refusal) in callers {
                let client = world.server.client(token.as_deref());
                for (visibility, expected) in VISIBILITIES.into_iter().zip(surface.expected) {
                    let expected = if is_public || caller == "right token" { expected } else { refusal };
                    let found = (surface.attempt)(&world, &client, visibility).await;
                    if found != expected {
                        wrong.push(format!("{} of `{visibility}` with {caller}: {found:?}, expected {expected:?}", surface.name));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    }
}
