//! Validates a manifest: the text, the schema, the field types, and then the rules that a schema
//! cannot express. All problems are collected.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    agent::{AvailableNames, Visibility, resolve_provider},
    foreign_json,
    ids::{NAME_IS_ID, is_id},
    invalid::Invalid,
    mcp_server::ServerSpec,
    pack::{TemplatePack, nearest_name},
    prompt::Prompt,
};
use semver::Version;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    job_rules::{check_job, task_problems},
    manifest::{Manifest, ManifestAgent, ManifestJob, ManifestRemoteAgent},
    problem::{ManifestProblem, pointer_segment},
    readable::{self, Readable},
    schema::{self, Violations},
};

/// Names that are routes below `/api/products`.
pub const RESERVED: [&str; 3] = ["install", "check-updates", "manifest.schema.json"];

/// Returns the version of this server, which is compared with `min_core_version`.
#[expect(clippy::expect_used, reason = "Cargo accepts only a semantic version")]
pub fn core_version() -> Version {
    env!("CARGO_PKG_VERSION").parse().expect("the version of this crate is semantic")
}

/// The facts about the project and server that a manifest depends on.
#[derive(Debug, Clone)]
pub struct InstallContext {
    pub core: Version,
    /// The tools that will exist, or whose absence cannot be determined: see
    /// [`crate::tool_forecast`].
    pub tools: AvailableNames,
    /// The agents of the project that do not belong to this product.
    pub agents: BTreeMap<String, Visibility>,
    /// The providers of models that this server knows, configured or not. If there are none, they are not known here.
    pub providers: Vec<String>,
}

/// Parses a manifest and validates everything that does not depend on a project.
pub fn parse(text: &[u8]) -> Result<Manifest, Vec<ManifestProblem>> {
    parse_value(parse_json(text)?)
}

/// Parses the text of a manifest as JSON.
pub fn parse_json(text: &[u8]) -> Result<Value, Vec<ManifestProblem>> {
    foreign_json::from_slice(text).map_err(|error| {
        vec![
            ManifestProblem::new("", format!("is not JSON: {error}"))
                .with_fix("send the text of a manifest.json"),
        ]
    })
}

/// Works like [`parse`], for JSON that has already been parsed.
pub fn parse_value(value: Value) -> Result<Manifest, Vec<ManifestProblem>> {
    let manifest = parse_with_problems(value)?;
    if manifest.problems.is_empty() { Ok(manifest) } else { Err(manifest.problems) }
}

/// Works like [`parse_value`], but returns a manifest that has problems and can be read nevertheless, with its
/// problems: those that depend on the project are added to them, so that an author sees all at once.
pub fn parse_with_problems(value: Value) -> Result<Manifest, Vec<ManifestProblem>> {
    let Violations { mut problems, has_long_list } = schema::check(&value);
    if has_long_list {
        return Err(problems);
    }
    let readable = without_unknown_fields(&value, &problems);
    let Readable { manifest, repaired, unread, problems: unreadable } =
        readable::read(&value, readable.clone());
    let mut found = check_rules(&readable, &repaired);
    found.retain(|problem| !is_about_unread(problem, &unread));
    add_new(&mut problems, check_names(&readable));
    add_new(&mut problems, found);
    for problem in unreadable {
        // The schema usually reports the same, at this place or below it.
        if !problems.iter().any(|known| known.pointer.starts_with(&problem.pointer)) {
            problems.push(problem);
        }
    }
    match manifest {
        Some(manifest) => Ok(Manifest { raw: value, problems, ..manifest }),
        None => Err(problems),
    }
}

/// The manifest without the fields that are reported as unknown: they would keep the rest from being read. The
/// pointers to everything else stay the same.
fn without_unknown_fields(value: &Value, problems: &[ManifestProblem]) -> Value {
    let mut readable = value.clone();
    for problem in problems.iter().filter(|problem| problem.message.starts_with(schema::UNKNOWN_FIELD)) {
        let Some((parent, name)) = problem.pointer.rsplit_once('/') else { continue };
        if let Some(Value::Object(map)) = readable.pointer_mut(parent) {
            map.remove(&name.replace("~1", "/").replace("~0", "~"));
        }
    }
    readable
}

/// Validates the rules that depend on the project. Returns their problems after those of the manifest itself. What could
/// not be read is not judged.
pub fn validate(manifest: &Manifest, context: &InstallContext) -> Vec<ManifestProblem> {
    let mut problems = manifest.problems.clone();
    let mut found = check_project_rules(manifest, context);
    found.retain(|problem| !is_about_unread(problem, &manifest.unread));
    add_new(&mut problems, found);
    problems
}

fn check_project_rules(manifest: &Manifest, context: &InstallContext) -> Vec<ManifestProblem> {
    let mut problems = Vec::new();
    if let Some(required) = manifest.min_core_version.as_ref().filter(|required| **required > context.core) {
        let core = &context.core;
        problems.push(
            ManifestProblem::new(
                "/min_core_version",
                format!("requires version {required}, but this server has version {core}"),
            )
            .with_fix("upgrade Emergent, or use an older version of the product"),
        );
    }
    let mut names = context.tools.clone();
    // A list of servers that cannot be read may have any tool.
    names.tools_complete &=
        !["/mcp", "/mcp/servers", "/a2a", "/a2a/agents"].iter().any(|list| manifest.is_unread(list));
    names.agents = context.agents.keys().cloned().collect();
    names.agents.extend(manifest.agents.iter().map(|agent| agent.name.clone()));
    for (index, definition) in manifest.definitions().enumerate() {
        let base = format!("/agents/{index}");
        if let Err(invalid) = definition.check(&names) {
            problems.extend(agent_problems(&manifest.raw, &base, &manifest.agents[index], invalid));
        }
    }
    for (index, agent) in manifest.agents.iter().enumerate() {
        let model = agent.model.as_ref();
        let provider = model.and_then(|model| resolve_provider(model.provider.clone(), &model.name).ok());
        if let Some(provider) = provider.filter(|_| !context.providers.is_empty())
            && !context.providers.contains(&provider)
        {
            let message = format!("has the unknown provider `{provider}`");
            let fix = format!("the providers are `{}`", context.providers.join("`, `"));
            problems.push(ManifestProblem::new(format!("/agents/{index}/model"), message).with_fix(fix));
        }
    }
    for (index, job) in manifest.jobs.iter().enumerate() {
        match &job.dispatch {
            Some(template) => {
                problems.extend(task_problems(
                    &manifest.raw,
                    &format!("/jobs/{index}/dispatch"),
                    template,
                    &names,
                ));
            }
            // Agents that cannot be read may have any name. A job without an agent has a problem already.
            None if manifest.is_unread("/agents")
                || manifest.raw.pointer(&format!("/jobs/{index}/agent")).is_none() => {}
            None => problems.extend(
                job_agent_problem(manifest, job, context)
                    .map(|problem| ManifestProblem { pointer: format!("/jobs/{index}/agent"), ..problem }),
            ),
        }
    }
    problems
}

fn agent_problems(root: &Value, base: &str, agent: &ManifestAgent, invalid: Invalid) -> Vec<ManifestProblem> {
    let locate = |problem: emergent_domain::invalid::Problem| {
        // These two fields may also be given next to the model.
        let beside = match problem.field.as_str() {
            "model.temperature" if agent.temperature.is_some() => Some("temperature"),
            "model.maxTokens" if agent.max_tokens.is_some() => Some("max_tokens"),
            _ => None,
        };
        match beside {
            Some(field) => ManifestProblem::new(format!("{base}/{field}"), problem.reason),
            None => ManifestProblem::from_field(root, base, problem),
        }
    };
    invalid.problems.into_iter().map(locate).collect()
}

fn job_agent_problem(
    manifest: &Manifest,
    job: &ManifestJob,
    context: &InstallContext,
) -> Option<ManifestProblem> {
    let own = manifest.agents.iter().find(|agent| agent.name == job.agent).map(|agent| agent.visibility);
    match own.or_else(|| context.agents.get(&job.agent).copied()) {
        Some(Visibility::Internal) => Some(
            ManifestProblem::new("", format!("`{}` is internal: only other agents can start it", job.agent))
                .with_fix("name an agent whose visibility is `project` or `external`"),
        ),
        Some(_) => None,
        None => {
            let names = manifest.agents.iter().map(|agent| &agent.name).chain(context.agents.keys());
            let hint = nearest_name(&job.agent, names.map(String::as_str));
            let problem = ManifestProblem::new("", format!("there is no agent `{}`", job.agent));
            Some(match hint {
                Some(hint) => problem.with_fix(format!("did you mean `{hint}`?")),
                None => problem.with_fix("name an agent of this product or of the project"),
            })
        }
    }
}

/// The parts of a manifest that can be read, each with its index. A part that cannot is reported by the schema,
/// and does not hide the problems of the others. Agents and packs are read without what of them cannot be read.
struct ReadableParts {
    agents: Vec<(usize, ManifestAgent)>,
    packs: Vec<(usize, TemplatePack)>,
    jobs: Vec<(usize, ManifestJob)>,
    servers: Vec<(String, ServerSpec)>,
    prompts: Vec<(usize, Prompt)>,
    tool_filter: Vec<(usize, String)>,
}

impl ReadableParts {
    fn read(raw: &Value, repaired: &Value) -> Self {
        Self {
            agents: read_items(repaired, "/agents"),
            packs: read_items(repaired, "/template_packs"),
            jobs: read_items(raw, "/jobs"),
            servers: read_servers(raw),
            prompts: read_items(raw, "/mcp/prompts"),
            tool_filter: read_items(raw, "/mcp/tool_filter"),
        }
    }
}

/// The MCP servers and the agents of other systems, each with its pointer.
fn read_servers(raw: &Value) -> Vec<(String, ServerSpec)> {
    let servers = read_items::<ServerSpec>(raw, "/mcp/servers").into_iter();
    let agents = read_items::<ManifestRemoteAgent>(raw, "/a2a/agents").into_iter();
    servers
        .map(|(index, spec)| (format!("/mcp/servers/{index}"), spec))
        .chain(agents.map(|(index, agent)| (format!("/a2a/agents/{index}"), agent.0)))
        .collect()
}

fn read_items<T: DeserializeOwned>(raw: &Value, list: &str) -> Vec<(usize, T)> {
    let items = raw.pointer(list).and_then(Value::as_array).into_iter().flatten();
    items.enumerate().filter_map(|(index, item)| Some((index, T::deserialize(item).ok()?))).collect()
}

/// Adds problems at places that have none yet: the schema and the rules may report the same mistake.
fn add_new(problems: &mut Vec<ManifestProblem>, more: Vec<ManifestProblem>) {
    let known: BTreeSet<String> = problems.iter().map(|problem| problem.pointer.clone()).collect();
    problems.extend(more.into_iter().filter(|problem| !known.contains(&problem.pointer)));
}

/// Whether the part that a problem is about could not be read, and so is not judged. Whether an agent may have
/// `flow_config` depends on its `flow_type`.
fn is_about_unread(problem: &ManifestProblem, unread: &[String]) -> bool {
    let flow = problem.pointer.strip_suffix("/flow_config");
    readable::is_unread(unread, &problem.pointer)
        || flow.is_some_and(|agent| unread.contains(&format!("{agent}/flow_type")))
}

/// Validates the characters of all texts, and the names. A name counts also if the rest of its part cannot be read.
fn check_names(raw: &Value) -> Vec<ManifestProblem> {
    let mut problems = Vec::new();
    check_nul(raw, String::new(), &mut problems);
    if let Some(name) = raw["name"].as_str().filter(|name| RESERVED.contains(name)) {
        problems.push(
            ManifestProblem::new("/name", format!("`{name}` is a reserved word"))
                .with_fix("choose another name"),
        );
    }
    if raw["name"].as_str().is_some_and(is_id) {
        problems.push(ManifestProblem::new("/name", NAME_IS_ID));
    }
    // MCP servers and agents of other systems share one set of names.
    for lists in [
        &["/agents"][..],
        &["/template_packs"],
        &["/jobs"],
        &["/mcp/prompts"],
        &["/mcp/servers", "/a2a/agents"],
    ] {
        let names = lists.iter().flat_map(|list| names_of(raw, list));
        check_unique(names, &mut problems);
    }
    problems
}

/// The names of a list, each with its pointer.
fn names_of<'a>(raw: &'a Value, list: &str) -> impl Iterator<Item = (String, &'a str)> {
    let items = raw.pointer(list).and_then(Value::as_array).into_iter().flatten().enumerate();
    items.filter_map(move |(index, item)| Some((format!("{list}/{index}/name"), item["name"].as_str()?)))
}

/// Validates the rules that hold for every project. `repaired` is `raw` with placeholders for what cannot be read.
fn check_rules(raw: &Value, repaired: &Value) -> Vec<ManifestProblem> {
    let mut problems = Vec::new();
    let parts = ReadableParts::read(raw, repaired);
    let ReadableParts { agents, packs, jobs, servers, prompts, tool_filter } = &parts;
    check_agents(raw, agents, &mut problems);
    for (index, pack) in packs {
        if let Err(invalid) = pack.check() {
            let base = format!("/template_packs/{index}");
            let locate = |problem| ManifestProblem::from_field(raw, &base, problem);
            problems.extend(invalid.problems.into_iter().map(locate));
        }
    }
    for (index, job) in jobs {
        if is_id(&job.name) {
            problems.push(ManifestProblem::new(format!("/jobs/{index}/name"), NAME_IS_ID));
        }
        check_job(raw, &format!("/jobs/{index}"), job, &mut problems);
    }
    for (base, server) in servers {
        let locate = |problem| ManifestProblem::from_field(raw, base, problem);
        problems.extend(server.check().into_iter().map(locate));
    }
    for (index, prompt) in prompts {
        check_placeholders(&format!("/mcp/prompts/{index}"), prompt, &mut problems);
    }
    check_tool_filter(tool_filter, &mut problems);
    problems
}

fn check_tool_filter(patterns: &[(usize, String)], problems: &mut Vec<ManifestProblem>) {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '*');
    for (index, pattern) in patterns {
        if pattern.is_empty() || pattern.len() > 128 || !pattern.chars().all(fine) {
            let pointer = format!("/mcp/tool_filter/{index}");
            problems.push(
                ManifestProblem::new(pointer, "is not a tool name or pattern")
                    .with_fix("use letters, digits, `_`, `-`, `.`, and `*` for any characters"),
            );
        }
    }
}

/// Rejects NUL characters, because PostgreSQL cannot store them in a text column.
fn check_nul(value: &Value, pointer: String, problems: &mut Vec<ManifestProblem>) {
    let mut add_problem =
        |pointer: String| problems.push(ManifestProblem::new(pointer, "must not contain a NUL character"));
    match value {
        Value::String(text) if text.contains('\0') => add_problem(pointer),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| check_nul(item, format!("{pointer}/{index}"), problems));
        }
        Value::Object(map) => {
            for (name, value) in map {
                let below = format!("{pointer}{}", pointer_segment(name));
                if name.contains('\0') {
                    problems.push(ManifestProblem::new(below, "must not contain a NUL character"));
                } else {
                    check_nul(value, below, problems);
                }
            }
        }
        _ => {}
    }
}

/// Rejects a name that is there twice. Each name comes with its pointer.
fn check_unique<'a>(names: impl Iterator<Item = (String, &'a str)>, problems: &mut Vec<ManifestProblem>) {
    let mut seen = BTreeSet::new();
    for (pointer, name) in names {
        if !seen.insert(name) {
            let problem = ManifestProblem::new(pointer, format!("`{name}` is used twice"));
            problems.push(problem.with_fix("use a different name"));
        }
    }
}

fn check_agents(raw: &Value, agents: &[(usize, ManifestAgent)], problems: &mut Vec<ManifestProblem>) {
    let mut default: Option<&str> = None;
    for (index, agent) in agents {
        let base = format!("/agents/{index}");
        if agent.is_default
            && let Some(first) = default.replace(&agent.name)
        {
            let problem = ManifestProblem::new(
                format!("{base}/is_default"),
                format!("`{first}` is already the default"),
            );
            problems.push(problem.with_fix("a product can have only one default agent"));
        }
        if let Some(model) = &agent.model
            && let Err(invalid) = resolve_provider(model.provider.clone(), &model.name)
        {
            let messages = invalid.problems.into_iter().map(|problem| problem.reason);
            problems.extend(messages.map(|message| ManifestProblem::new(format!("{base}/model"), message)));
        }
        for (field, outside, inside) in [
            (
                "temperature",
                agent.temperature.is_some(),
                agent.model.as_ref().map(|m| m.temperature.is_some()),
            ),
            ("max_tokens", agent.max_tokens.is_some(), agent.model.as_ref().map(|m| m.max_tokens.is_some())),
        ] {
            let pointer = format!("{base}/{field}");
            match (outside, inside) {
                // A model that cannot be read is there.
                (true, None) if raw.pointer(&format!("{base}/model")).is_some_and(|model| !model.is_null()) => {}
                (true, None) => problems.push(
                    ManifestProblem::new(pointer, "is a setting of a model, but this agent has no `model`").with_fix(
                        "add `model`, such as { \"provider\": \"google\", \"name\": \"gemini-2.5-flash\" }",
                    ),
                ),
                (true, Some(true)) => {
                    let problem = ManifestProblem::new(pointer, format!("is also set in `model.{field}`"));
                    problems.push(problem.with_fix("set it only once"));
                }
                _ => {}
            }
        }
    }
}

fn check_placeholders(base: &str, prompt: &Prompt, problems: &mut Vec<ManifestProblem>) {
    let names: Vec<String> = prompt.arguments.iter().map(|argument| argument.name.clone()).collect();
    let pointer = |index: usize| format!("{base}/arguments/{index}/name");
    check_unique(names.iter().enumerate().map(|(index, name)| (pointer(index), name.as_str())), problems);
    for (index, name) in prompt.unknown_placeholders() {
        let pointer = format!("{base}/messages/{index}/content");
        let problem =
            ManifestProblem::new(pointer, format!("`{{{{{name}}}}}` refers to an unknown argument"));
        problems.push(match nearest_name(&name, names.iter().map(String::as_str)) {
            Some(hint) => problem.with_fix(format!("did you mean `{hint}`?")),
            None => problem.with_fix("add it to `arguments`"),
        });
    }
}
