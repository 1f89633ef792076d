//! Whether a manifest can be installed: text, schema, words, then the rules that a schema cannot
//! say. Everything that is wrong is collected; nothing stops at the first.

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

/// Words that are routes of their own below `/api/products`.
pub const RESERVED: [&str; 3] = ["install", "check-updates", "manifest.schema.json"];

/// The version of this program, for `min_core_version`.
pub fn core_version() -> Version {
    env!("CARGO_PKG_VERSION").parse().expect("Cargo checks it")
}

/// What a manifest must know of the place it is to be installed in.
#[derive(Debug, Clone)]
pub struct InstallContext {
    pub core: Version,
    /// The tools there will be, and those that nobody can say there will not be: [`crate::Pool`].
    pub tools: AvailableNames,
    /// Agents of the project that are not this product's.
    pub agents: BTreeMap<String, Visibility>,
}

/// Reads a manifest and checks all that can be checked without a project.
pub fn parse(text: &[u8]) -> Result<Manifest, Vec<ManifestProblem>> {
    let value = serde_json::from_slice(text).map_err(|error| {
        vec![
            ManifestProblem::new("", format!("is not JSON: {error}"))
                .with_fix("send the text of a manifest.json"),
        ]
    })?;
    parse_value(value)
}

/// As [`parse`], from JSON that was read already.
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

/// What depends on the place it is to be installed in.
pub fn validate(manifest: &Manifest, around: &InstallContext) -> Vec<ManifestProblem> {
    let mut problems = Vec::new();
    if let Some(wanted) = manifest.min_core_version.as_ref().filter(|wanted| **wanted > around.core) {
        let core = &around.core;
        problems.push(
            ManifestProblem::new(
                "/min_core_version",
                format!("{wanted} is newer than this server, which is {core}"),
            )
            .with_fix("upgrade Emergent, or take an older version of the product"),
        );
    }
    let mut names = around.tools.clone();
    names.agents = around.agents.keys().cloned().collect();
    names.agents.extend(manifest.agents.iter().map(|agent| agent.name.clone()));
    for (index, definition) in manifest.definitions().enumerate() {
        let base = format!("/agents/{index}");
        if let Err(invalid) = definition.check(&names) {
            problems.extend(agent_problems(&manifest.raw, &base, &manifest.agents[index], invalid));
        }
    }
    for (index, job) in manifest.jobs.iter().enumerate() {
        problems.extend(
            job_agent_problem(manifest, job, around)
                .map(|problem| ManifestProblem { pointer: format!("/jobs/{index}/agent"), ..problem }),
        );
    }
    problems
}

fn agent_problems(root: &Value, base: &str, agent: &ManifestAgent, invalid: Invalid) -> Vec<ManifestProblem> {
    let place = |problem: emergent_domain::invalid::Problem| {
        // These two may stand beside the model as well.
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
    invalid.problems.into_iter().map(place).collect()
}

fn job_agent_problem(
    manifest: &Manifest,
    job: &ManifestJob,
    around: &InstallContext,
) -> Option<ManifestProblem> {
    let own = manifest.agents.iter().find(|agent| agent.name == job.agent).map(|agent| agent.visibility);
    match own.or_else(|| around.agents.get(&job.agent).copied()) {
        Some(Visibility::Internal) => Some(
            ManifestProblem::new("", format!("`{}` is internal: only other agents start it", job.agent))
                .with_fix("name an agent whose visibility is `project` or `external`"),
        ),
        Some(_) => None,
        None => {
            let names = manifest.agents.iter().map(|agent| &agent.name).chain(around.agents.keys());
            let hint = nearest_name(&job.agent, names.map(String::as_str));
            let problem = ManifestProblem::new("", format!("there is no agent `{}`", job.agent));
            Some(match hint {
                Some(hint) => problem.with_fix(format!("did you mean `{hint}`?")),
                None => problem.with_fix("name an agent of this product or of the project"),
            })
        }
    }
}

/// What a manifest must keep wherever it goes.
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
            let place = |problem| ManifestProblem::from_field(&manifest.raw, &base, problem);
            problems.extend(invalid.problems.into_iter().map(place));
        }
    }
    for (index, job) in manifest.jobs.iter().enumerate() {
        check_schedule(&manifest.raw, &format!("/jobs/{index}"), job, &mut problems);
    }
    for (index, server) in manifest.mcp.servers.iter().enumerate() {
        let base = format!("/mcp/servers/{index}");
        let place = |problem| ManifestProblem::from_field(&manifest.raw, &base, problem);
        problems.extend(server.check().into_iter().map(place));
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

/// PostgreSQL cannot hold NUL in a text, and nobody means to write one.
fn check_nul(value: &Value, at: String, problems: &mut Vec<ManifestProblem>) {
    let mut wrong = |at: String| problems.push(ManifestProblem::new(at, "must not contain a NUL character"));
    match value {
        Value::String(text) if text.contains('\0') => wrong(at),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, item)| check_nul(item, format!("{at}/{index}"), problems));
        }
        Value::Object(map) => {
            for (name, value) in map {
                let below = format!("{at}{}", pointer_segment(name));
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
                ManifestProblem::new(format!("{list}/{index}/name"), format!("`{name}` is there twice"));
            problems.push(problem.with_fix("give each a name of its own"));
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
                format!("`{first}` is the default already"),
            );
            problems.push(problem.with_fix("a product has one default agent at most"));
        }
        for (field, here, inside) in [
            (
                "temperature",
                agent.temperature.is_some(),
                agent.model.as_ref().map(|m| m.temperature.is_some()),
            ),
            ("max_tokens", agent.max_tokens.is_some(), agent.model.as_ref().map(|m| m.max_tokens.is_some())),
        ] {
            let pointer = format!("{base}/{field}");
            match (here, inside) {
                (true, None) => problems.push(
                    ManifestProblem::new(pointer, "is said of a model, and this agent names none").with_fix(
                        "add `model`, such as { \"provider\": \"google\", \"name\": \"gemini-2.5-flash\" }",
                    ),
                ),
                (true, Some(true)) => {
                    let problem = ManifestProblem::new(pointer, format!("stands in `model.{field}` as well"));
                    problems.push(problem.with_fix("say it once"));
                }
                _ => {}
            }
        }
    }
}

fn check_schedule(root: &Value, base: &str, job: &ManifestJob, problems: &mut Vec<ManifestProblem>) {
    if let Err(error) = job.cron.parse::<Cron>() {
        let problem = ManifestProblem::new(format!("{base}/cron"), error.to_string());
        problems.push(problem.with_fix("five fields, such as `0 8 * * MON-FRI`"));
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
        let problem = ManifestProblem::new(pointer, format!("`{{{{{name}}}}}` stands for no argument"));
        problems.push(match nearest_name(&name, names.iter().map(String::as_str)) {
            Some(hint) => problem.with_fix(format!("did you mean `{hint}`?")),
            None => problem.with_fix("add it to `arguments`"),
        });
    }
}
