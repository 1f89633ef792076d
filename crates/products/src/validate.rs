//! Validates a manifest: the text, the schema, the field types, and then the rules that a schema
//! cannot express. All problems are collected.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    agent::{AvailableNames, Visibility},
    cron::Cron,
    invalid::Invalid,
    pack::nearest_name,
    prompt::Prompt,
};
use semver::Version;
use serde_json::Value;

use crate::{
    manifest::{Manifest, ManifestAgent, ManifestJob},
    problem::{ManifestProblem, pointer_segment},
    schema,
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
}

/// Parses a manifest and validates everything that does not depend on a project.
pub fn parse(text: &[u8]) -> Result<Manifest, Vec<ManifestProblem>> {
    let value = serde_json::from_slice(text).map_err(|error| {
        vec![
            ManifestProblem::new("", format!("is not JSON: {error}"))
                .with_fix("send the text of a manifest.json"),
        ]
    })?;
    parse_value(value)
}

/// Works like [`parse`], for JSON that has already been parsed.
pub fn parse_value(value: Value) -> Result<Manifest, Vec<ManifestProblem>> {
    let problems = schema::check(&value);
    if !problems.is_empty() {
        return Err(problems);
    }
    let manifest: Manifest = serde_path_to_error::deserialize(&value).map_err(|error| {
        let field = error.path().to_string();
        let field = if field == "." { String::new() } else { field.replace(".?", "") };
        let problem = emergent_domain::invalid::Problem::new(field, error.into_inner().to_string());
        vec![ManifestProblem::from_field(&value, "", problem)]
    })?;
    let manifest = Manifest { raw: value, ..manifest };
    let problems = check_rules(&manifest);
    if problems.is_empty() { Ok(manifest) } else { Err(problems) }
}

/// Validates the rules that depend on the project.
pub fn validate(manifest: &Manifest, context: &InstallContext) -> Vec<ManifestProblem> {
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
    names.agents = context.agents.keys().cloned().collect();
    names.agents.extend(manifest.agents.iter().map(|agent| agent.name.clone()));
    for (index, definition) in manifest.definitions().enumerate() {
        let base = format!("/agents/{index}");
        if let Err(invalid) = definition.check(&names) {
            problems.extend(agent_problems(&manifest.raw, &base, &manifest.agents[index], invalid));
        }
    }
    for (index, job) in manifest.jobs.iter().enumerate() {
        problems.extend(
            job_agent_problem(manifest, job, context)
                .map(|problem| ManifestProblem { pointer: format!("/jobs/{index}/agent"), ..problem }),
        );
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

/// Validates the rules that hold for every project.
fn check_rules(manifest: &Manifest) -> Vec<ManifestProblem> {
    let mut problems = Vec::new();
    check_nul(&manifest.raw, String::new(), &mut problems);
    if RESERVED.contains(&manifest.name.as_str()) {
        let name = &manifest.name;
        problems.push(
            ManifestProblem::new("/name", format!("`{name}` is a reserved word"))
                .with_fix("choose another name"),
        );
    }
    check_unique("/agents", manifest.agents.iter().map(|agent| &agent.name), &mut problems);
    check_unique("/template_packs", manifest.template_packs.iter().map(|pack| &pack.name), &mut problems);
    check_unique("/jobs", manifest.jobs.iter().map(|job| &job.name), &mut problems);
    check_unique("/mcp/prompts", manifest.mcp.prompts.iter().map(|prompt| &prompt.name), &mut problems);
    let servers: Vec<String> = manifest.mcp.servers.iter().map(|server| server.name().to_owned()).collect();
    check_unique("/mcp/servers", servers.iter(), &mut problems);
    check_agents(manifest, &mut problems);
    for (index, pack) in manifest.template_packs.iter().enumerate() {
        if let Err(invalid) = pack.check() {
            let base = format!("/template_packs/{index}");
            let locate = |problem| ManifestProblem::from_field(&manifest.raw, &base, problem);
            problems.extend(invalid.problems.into_iter().map(locate));
        }
    }
    for (index, job) in manifest.jobs.iter().enumerate() {
        check_schedule(&manifest.raw, &format!("/jobs/{index}"), job, &mut problems);
    }
    for (index, server) in manifest.mcp.servers.iter().enumerate() {
        let base = format!("/mcp/servers/{index}");
        let locate = |problem| ManifestProblem::from_field(&manifest.raw, &base, problem);
        problems.extend(server.check().into_iter().map(locate));
    }
    for (index, prompt) in manifest.mcp.prompts.iter().enumerate() {
        check_placeholders(&format!("/mcp/prompts/{index}"), prompt, &mut problems);
    }
    for (index, pattern) in manifest.mcp.tool_filter.iter().enumerate() {
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '*');
        if pattern.is_empty() || pattern.len() > 128 || !pattern.chars().all(fine) {
            let pointer = format!("/mcp/tool_filter/{index}");
            problems.push(
                ManifestProblem::new(pointer, "is not a tool name or pattern")
                    .with_fix("use letters, digits, `_`, `-`, `.`, and `*` for any characters"),
            );
        }
    }
    problems
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

fn check_unique<'a>(
    list: &str,
    names: impl Iterator<Item = &'a String>,
    problems: &mut Vec<ManifestProblem>,
) {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            let problem =
                ManifestProblem::new(format!("{list}/{index}/name"), format!("`{name}` is used twice"));
            problems.push(problem.with_fix("use a different name"));
        }
    }
}

fn check_agents(manifest: &Manifest, problems: &mut Vec<ManifestProblem>) {
    let mut default: Option<&str> = None;
    for (index, agent) in manifest.agents.iter().enumerate() {
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

fn check_schedule(root: &Value, base: &str, job: &ManifestJob, problems: &mut Vec<ManifestProblem>) {
    if let Err(error) = job.cron.parse::<Cron>() {
        let problem = ManifestProblem::new(format!("{base}/cron"), error.to_string());
        problems.push(problem.with_fix("use five fields, such as `0 8 * * MON-FRI`"));
    }
    if let Err(invalid) = job.config.check() {
        let base = if root.pointer(&format!("{base}/config")).is_some() {
            format!("{base}/config")
        } else {
            base.into()
        };
        problems.extend(
            invalid.problems.into_iter().map(|problem| ManifestProblem::from_field(root, &base, problem)),
        );
    }
}

fn check_placeholders(base: &str, prompt: &Prompt, problems: &mut Vec<ManifestProblem>) {
    let names: Vec<String> = prompt.arguments.iter().map(|argument| argument.name.clone()).collect();
    check_unique(&format!("{base}/arguments"), names.iter(), problems);
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
