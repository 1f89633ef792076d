//! Findings from what a running server says about itself: its settings, and whether its database, embedder and
//! models can be used.

use emergent_wire::diagnostics::{
    DiagnosticsView, EmbedderView, ListenView, ModelProviderView, ProbeStatus, ProbeView, SettingSource,
    SettingView, WebhookStateView,
};

use super::{Finding, neutral_finding, ok_finding, problem_finding, warning_finding};
use crate::{
    client::Client,
    error::{Error, Result},
    settings_report,
};

/// How the finding about the configuration of a running server begins.
pub const SERVER_CONFIGURATION: &str = "of the server";

/// The finding that the variables of this terminal have no effect on the server that is asked; `None` if it has none.
pub fn ignored_variables(settings: &[SettingView]) -> Option<Finding> {
    let of_terminal = settings.iter().filter(|setting| setting.source == SettingSource::Environment);
    let names: Vec<&str> = of_terminal.map(|setting| setting.variable.as_str()).collect();
    let found = format!(
        "this terminal sets {}; the running server has the settings that it was started with, which follow",
        names.join(", ")
    );
    (!names.is_empty()).then(|| ok_finding("configuration", found))
}

/// Asks the server to check what it depends on. `None` when it is of a version that cannot.
pub async fn load(client: &Client) -> Result<Option<DiagnosticsView>> {
    match client.get("/api/admin/diagnostics?probe=true").await {
        Ok(response) => Ok(Some(response.data().await?)),
        Err(Error::Refused { code, .. }) if code == "no_route" => Ok(None),
        Err(error) => Err(error),
    }
}

/// The findings about the server at this address, without its settings.
pub fn findings(server: &str, state: &DiagnosticsView) -> Vec<Finding> {
    let commit = state.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    let file = state.config_file.clone().unwrap_or_else(|| "no emergent.toml".to_owned());
    let mut findings = vec![
        ok_finding("server", format!("{server} answers, version {}{commit}", state.version)),
        ok_finding("configuration", format!("{SERVER_CONFIGURATION}: {file}")),
    ];
    findings.extend(address(&state.listen));
    let database = format!("{}, schema version {}", state.database.engine, state.database.schema_version);
    let fix = "look at the server's log, at the disk and at EMERGENT_DATABASE_URL";
    findings.push(probed("database", &database, &state.database.probe, fix));
    findings.push(embedder(&state.embedder));
    findings.extend(models(state));
    let has_webhook =
        state.settings.iter().any(|setting| setting.variable == "EMERGENT_WEBHOOK_URL" && setting.is_set);
    findings.extend(state.webhooks.as_ref().and_then(|webhook| webhooks(webhook, has_webhook)));
    findings
}

/// A finding if notices of inboxes wait for their delivery, or were given up, and if the server has a webhook.
fn webhooks(state: &WebhookStateView, has_webhook: bool) -> Option<Finding> {
    if state.given_up > 0 {
        let reason = state.last_error.as_deref().unwrap_or("the reason is not known");
        let were = if state.given_up == 1 { "notice of an inbox was" } else { "notices of inboxes were" };
        let found = format!("{} {were} given up; the newest because {reason}", state.given_up);
        let fix = "correct EMERGENT_WEBHOOK_URL or the webhook of the project; `emergent inbox list` has what was \
                   not delivered";
        return Some(problem_finding("webhooks", found, fix));
    }
    let wait = if state.waiting == 1 { "notice of an inbox waits" } else { "notices of inboxes wait" };
    match state.waiting {
        0 => has_webhook.then(|| ok_finding("webhooks", "every notice of the inboxes is delivered")),
        count => Some(warning_finding("webhooks", format!("{count} {wait} for delivery"))),
    }
}

fn address(listen: &ListenView) -> Option<Finding> {
    let address = listen.address.as_ref()?;
    let reach = match (listen.loopback, listen.tls) {
        (true, _) => "only this machine reaches it",
        (false, true) => "other machines reach it, with TLS",
        (false, false) => "other machines reach it, and tokens travel in the clear unless a proxy adds TLS",
    };
    Some(ok_finding("address", format!("{address}, {reach}")))
}

fn embedder(embedder: &EmbedderView) -> Finding {
    let Some(model) = &embedder.model else {
        return ok_finding("embeddings", "off: search is by text alone");
    };
    let dimensions = embedder.dimensions.map(|count| format!(", {count} dimensions")).unwrap_or_default();
    let fix = "set EMERGENT_EMBEDDINGS to `builtin`, `off`, `local:<dir>` or `provider/model`, with the provider's key";
    let similarity =
        embedder.min_similarity.map(|least| format!(", similarity from {least}")).unwrap_or_default();
    let mut probe = embedder.probe.clone();
    if probe.status == ProbeStatus::Ok && embedder.dimensions.is_some() {
        // The message repeats the dimensions.
        probe.message = None;
    }
    probed("embeddings", &format!("{model}{dimensions}{similarity}"), &probe, fix)
}

/// A finding for each configured provider, one that lists the others, and the model for everything.
fn models(state: &DiagnosticsView) -> Vec<Finding> {
    let mut findings = providers(&state.models, &state.settings, state.model.as_deref());
    if let Some(model) = &state.model {
        findings.push(ok_finding("models", format!("{model} for everything")));
    }
    findings.extend(judge(&state.models, &state.settings, state.model.as_deref()));
    findings
}

/// Whether the model that judges can be called; `None` without one. `for_all` is the model that takes its place as well.
pub fn judge(
    providers: &[ModelProviderView],
    settings: &[SettingView],
    for_all: Option<&str>,
) -> Option<Finding> {
    let is_judge = |setting: &&SettingView| {
        setting.variable == "EMERGENT_JUDGE_MODEL" && setting.source != SettingSource::Default
    };
    let setting = settings.iter().find(is_judge)?;
    let judge = setting.value.as_deref().filter(|_| for_all.is_none())?;
    let mut parts = judge.split('/');
    let provider = parts.next().filter(|name| *name != "record").or_else(|| parts.next())?;
    let provider = providers.iter().find(|known| known.provider == provider)?;
    if provider.configured {
        return Some(ok_finding("models", format!("{judge} judges")));
    }
    let found =
        format!("{judge}, which judges, needs {}", provider.setting.as_deref().unwrap_or("its provider"));
    let name = match setting.source {
        SettingSource::File => settings_report::named_in_file(&setting.name),
        _ => setting.variable.clone(),
    };
    let fix = format!(
        "make that provider usable, or set {name} to a model of a configured provider, or not at all"
    );
    Some(problem_finding("models", found, fix))
}

/// A finding for each configured provider, and one that lists the others. `model` is the one for everything.
pub fn providers(
    providers: &[ModelProviderView],
    settings: &[SettingView],
    model: Option<&str>,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for provider in providers.iter().filter(|provider| provider.configured) {
        if provider.probe.status == ProbeStatus::Failed && !is_wanted(provider, settings, model) {
            let name = &provider.provider;
            let found = format!("{name} does not run at its default address, and no setting names it");
            findings.push(neutral_finding("models", found));
            continue;
        }
        let names: Vec<&str> = provider_settings(provider).filter(|name| is_set(settings, name)).collect();
        let names = match names.is_empty() {
            true => provider.setting.as_deref().unwrap_or("its address").to_owned(),
            false => names.join(" and "),
        };
        let fix = format!("check {names}, and that the provider can be reached from the server");
        findings.push(probed("models", &described(&provider.provider), &provider.probe, &fix));
    }
    let others: Vec<String> = providers
        .iter()
        .filter(|provider| !provider.configured)
        .map(|provider| format!("{} ({})", provider.provider, provider.setting.as_deref().unwrap_or("–")))
        .collect();
    if !others.is_empty() {
        findings.push(neutral_finding("models", format!("not configured: {}", others.join(", "))));
    }
    findings
}

/// What the providers are that call no model.
const NO_MODELS: [(&str, &str); 2] = [
    ("rehearsal", "scripts that stand for a model, and need no key"),
    (
        "a2a",
        "agents of other systems that work in the place of a model, added with `emergent mcp-server add`",
    ),
];

/// A provider, with what it is if its name says nothing to somebody who knows only models.
fn described(provider: &str) -> String {
    match NO_MODELS.iter().find(|(name, _)| *name == provider) {
        Some((_, what)) => format!("{provider}: {what}"),
        None => provider.to_owned(),
    }
}

/// The settings with the address of a provider.
const ADDRESS_SETTINGS: [(&str, &str); 5] = [
    ("google", "EMERGENT_GOOGLE_BASE_URL"),
    ("vertex", "EMERGENT_VERTEX_BASE_URL"),
    ("openai", "EMERGENT_OPENAI_BASE_URL"),
    ("anthropic", "EMERGENT_ANTHROPIC_BASE_URL"),
    ("ollama", "OLLAMA_HOST"),
];

/// The settings that make a provider usable: its credentials and its address.
fn provider_settings(provider: &ModelProviderView) -> impl Iterator<Item = &str> {
    let own = provider.setting.as_deref();
    let addresses = ADDRESS_SETTINGS.iter().filter(move |(name, _)| *name == provider.provider);
    own.into_iter().chain(addresses.map(|(_, variable)| *variable).filter(move |name| own != Some(*name)))
}

fn is_set(settings: &[SettingView], variable: &str) -> bool {
    settings.iter().any(|setting| setting.variable == variable && setting.is_set)
}

/// Whether a setting names the provider: its credentials, its address, or the model for everything.
fn is_wanted(provider: &ModelProviderView, settings: &[SettingView], model: Option<&str>) -> bool {
    let is_model = |model: &str| model.split('/').next() == Some(provider.provider.as_str());
    provider_settings(provider).any(|name| is_set(settings, name)) || model.is_some_and(is_model)
}

/// A finding for something that was probed, or not.
fn probed(what: &'static str, name: &str, probe: &ProbeView, fix: &str) -> Finding {
    let message = probe.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    match probe.status {
        ProbeStatus::Ok => ok_finding(what, format!("{name}, answers in {} ms{message}", probe.millis)),
        ProbeStatus::NotProbed => ok_finding(what, format!("{name}{message}")),
        ProbeStatus::Failed => problem_finding(what, format!("{name} does not work{message}"), fix),
    }
}

/// A finding for each setting that has a value.
pub fn settings(settings: &[SettingView]) -> Vec<Finding> {
    settings
        .iter()
        .filter(|setting| setting.is_set || setting.value.is_some())
        .map(|setting| {
            let value = match &setting.value {
                Some(value) => value.as_str(),
                None => "(hidden)",
            };
            let source = match setting.source {
                SettingSource::Flag => "flag".to_owned(),
                SettingSource::Environment => setting.variable.clone(),
                SettingSource::File => "emergent.toml".to_owned(),
                SettingSource::Default => "default".to_owned(),
            };
            let mut finding = ok_finding("setting", format!("{} = {value}", setting.name));
            finding.source = Some(source);
            finding
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::commands::doctor::Mark;

    #[test]
    fn a_judge_without_its_key_is_a_problem() {
        let judge = |model: &str, for_all: Option<&str>| {
            let probe = json!({ "status": "not_probed", "message": null, "millis": 0 });
            let provider = |name: &str, configured: bool| -> ModelProviderView {
                let view = json!({ "provider": name, "configured": configured, "setting": "GEMINI_API_KEY", "probe": probe });
                serde_json::from_value(view).unwrap()
            };
            let setting: SettingView = serde_json::from_value(json!({ "name": "judge-model",
                "variable": "EMERGENT_JUDGE_MODEL", "value": model, "secret": false, "isSet": true,
                "source": "environment" }))
            .unwrap();
            super::judge(&[provider("google", false), provider("rehearsal", true)], &[setting], for_all)
        };
        let missing = judge("google/x", None).unwrap();
        assert_eq!((missing.ok, &*missing.found), (false, "google/x, which judges, needs GEMINI_API_KEY"));
        assert!(judge("rehearsal/echo", None).unwrap().ok);
        assert!(judge("google/x", Some("rehearsal/echo")).is_none(), "the model for everything judges");
    }

    fn state(model_probe: Value) -> DiagnosticsView {
        let fine = json!({ "status": "ok", "message": null, "millis": 3 });
        serde_json::from_value(json!({
            "version": "1.2.3", "commit": "abc1234", "configFile": null,
            "listen": { "address": "http://0.0.0.0:4400", "tls": false, "loopback": false },
            "database": { "engine": "sqlite", "schemaVersion": 13, "probe": fine },
            "embedder": { "model": "builtin", "dimensions": 256, "minSimilarity": 0.2, "probe": fine },
            "models": [
                { "provider": "openai", "configured": true, "setting": "OPENAI_API_KEY", "probe": model_probe },
                { "provider": "google", "configured": false, "setting": "GEMINI_API_KEY",
                  "probe": { "status": "not_probed", "message": null, "millis": 0 } },
            ],
            "model": "openai/x", "mcpServers": [],
            "settings": [
                { "name": "max-runs", "variable": "EMERGENT_MAX_RUNS", "value": "9", "secret": false,
                  "isSet": true, "source": "environment" },
                { "name": "OPENAI_API_KEY", "variable": "OPENAI_API_KEY", "value": null, "secret": true,
                  "isSet": true, "source": "environment" },
                { "name": "model", "variable": "EMERGENT_MODEL", "value": null, "secret": false,
                  "isSet": false, "source": "default" },
            ],
        }))
        .unwrap()
    }

    #[test]
    fn a_probe_that_failed_is_a_problem_with_its_reason_and_a_fix() {
        let well = findings("http://db:1", &state(json!({ "status": "ok", "message": null, "millis": 120 })));
        assert_eq!(well[0].found, "http://db:1 answers, version 1.2.3 (abc1234)");
        assert!(well.iter().all(|finding| finding.ok), "{well:?}");
        let wrong = findings(
            "http://db:1",
            &state(json!({ "status": "failed", "message": "401 wrong key", "millis": 9 })),
        );
        let problems: Vec<_> = wrong.iter().filter(|finding| !finding.ok).collect();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].found.contains("openai does not work: 401 wrong key"), "{problems:?}");
        assert!(problems[0].fix.as_deref().unwrap().contains("OPENAI_API_KEY"), "{problems:?}");
        assert!(wrong.iter().any(|finding| finding.found.contains("tokens travel in the clear")));
    }

    #[test]
    fn a_provider_that_calls_no_model_is_named_with_what_it_is() {
        let probe = json!({ "status": "not_probed", "message": null, "millis": 0 });
        let view = json!({ "provider": "a2a", "configured": true, "setting": null, "probe": probe });
        let found = providers(&[serde_json::from_value(view).unwrap()], &[], None);
        assert!(found[0].found.starts_with("a2a: agents of other systems"), "{found:?}");
        assert_eq!(described("openai"), "openai");
    }

    #[test]
    fn a_notice_that_waits_is_a_warning_and_a_webhook_that_works_is_named() {
        let webhooks = |waiting, has_webhook| {
            let state = WebhookStateView { waiting, given_up: 0, last_error: None };
            webhooks(&state, has_webhook).map(|finding| (finding.found, finding.mark))
        };
        let waits = ("1 notice of an inbox waits for delivery".to_owned(), Mark::Warning);
        assert_eq!(webhooks(1, true), Some(waits));
        assert_eq!(webhooks(0, false), None);
        assert_eq!(webhooks(0, true).map(|(_, mark)| mark), Some(Mark::Good));
    }

    #[test]
    fn settings_are_listed_with_their_source_and_secrets_are_hidden() {
        let state = state(json!({ "status": "ok", "message": null, "millis": 1 }));
        let listed: Vec<_> = settings(&state.settings)
            .into_iter()
            .map(|finding| (finding.found, finding.source.unwrap_or_default()))
            .collect();
        let expected =
            [("max-runs = 9", "EMERGENT_MAX_RUNS"), ("OPENAI_API_KEY = (hidden)", "OPENAI_API_KEY")];
        assert_eq!(listed, expected.map(|(found, source)| (found.to_owned(), source.to_owned())));
    }
}
