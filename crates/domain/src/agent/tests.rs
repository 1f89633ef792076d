use serde_json::json;

use super::*;

fn around() -> AvailableNames {
    AvailableNames {
        tools: vec!["entities_create".into(), "search_hybrid".into(), "web.fetch".into()],
        tools_complete: true,
        agents: vec!["researcher".into(), "writer".into()],
        ..AvailableNames::default()
    }
}

fn definition(json: Value) -> AgentDefinition {
    serde_json::from_value(json).unwrap()
}

/// Returns the names of the fields that are invalid in a definition.
fn wrong(json: Value) -> Vec<String> {
    match definition(json).check(&around()) {
        Ok(()) => Vec::new(),
        Err(invalid) => invalid.problems.into_iter().map(|problem| problem.field).collect(),
    }
}

#[test]
fn a_name_is_enough() {
    assert_eq!(wrong(json!({ "name": "researcher.v2" })), [""; 0]);
    assert_eq!(definition(json!({ "name": "a" })), AgentDefinition::new("a"));
    assert!(serde_json::from_value::<AgentDefinition>(json!({ "name": "a", "tool": [] })).is_err());
}

#[test]
fn every_breach_is_named() {
    let all = json!({
        "name": "-a", "max_steps": 0, "default_timeout": 86_401,
        "model": { "provider": "", "name": "m", "temperature": 2.5, "max_tokens": 0 },
        "acp": { "display_name": "A" },
    });
    let fields = ["name", "model.provider", "model.temperature", "model.maxTokens", "maxSteps"];
    assert_eq!(wrong(all), [&fields[..], &["defaultTimeout", "acp"]].concat());
    for name in ["", ".a", "a b", "a/b", "ä", &"a".repeat(101)] {
        assert_eq!(wrong(json!({ "name": name })), ["name"], "{name}");
    }
}

#[test]
fn a_card_that_anybody_may_ask_for_is_short() {
    let external = |acp| json!({ "name": "a", "visibility": "external", "acp": acp });
    let long = "x".repeat(4_001);
    let modes = vec!["text"; 51];
    let fields = ["acp.displayName", "acp.description", "acp.capabilities", "acp.inputModes"];
    let acp = json!({
        "display_name": long, "description": long, "capabilities": [long], "input_modes": modes,
    });
    assert_eq!(wrong(external(acp)), fields);
    let acp =
        json!({ "display_name": &long[..200], "description": &long[..4_000], "input_modes": &modes[..50] });
    assert_eq!(wrong(external(acp)), [""; 0]);
}

#[test]
fn a_rule_for_approvals_names_tools_that_exist() {
    let rule = |tools| json!({ "name": "a", "approvals": [{ "tools": tools, "action": "ask" }] });
    assert_eq!(wrong(rule(json!(["entities_*"]))), [""; 0]);
    assert_eq!(wrong(rule(json!(["entities_*", "entities_craete"]))), ["approvals[0].tools[1]"]);
    assert_eq!(wrong(rule(json!([]))), ["approvals[0].tools"]);
}

#[test]
fn a_tool_that_nobody_accepted_is_not_suggested() {
    let mut around = around();
    around.tools.push("search_hybird".into());
    around.unaccepted_tools.insert("search_hybird".into());
    let check = |tool: &str| definition(json!({ "name": "a", "tools": [tool] })).check(&around);
    let refused = check("search_hybirt").unwrap_err().to_string();
    assert!(refused.contains("did you mean `search_hybrid`"), "{refused}");
    assert!(check("search_hybird").is_ok(), "it exists");
}

#[test]
fn a_tool_that_is_not_there_is_refused_with_the_nearest_name() {
    let agent =
        definition(json!({ "name": "a", "tools": ["entities_*", "create_entity", "entities_craete"] }));
    let invalid = agent.check(&around()).unwrap_err();
    assert_eq!(invalid.problems.len(), 1);
    assert_eq!(invalid.problems[0].field, "tools[2]");
    assert!(invalid.problems[0].reason.contains("`entities_create`"), "{invalid}");
    let unknown = AvailableNames { tools_complete: false, ..around() };
    assert!(agent.check(&unknown).is_ok(), "a server that was not reached yet may have it");
    assert_eq!(wrong(json!({ "name": "a", "tools": ["bad name"] })), ["tools[0]"]);
}

#[test]
fn a_flow_names_agents_of_the_project_and_never_itself() {
    let flow = |flow_type: &str, config: Value| {
        wrong(json!({ "name": "lead", "flow_type": flow_type, "flow_config": config }))
    };
    assert_eq!(flow("sequential", json!({ "agents": ["researcher", "writer"] })), [""; 0]);
    assert_eq!(flow("sequential", json!({ "agents": ["researchers"] })), ["flowConfig.agents[0]"]);
    assert_eq!(flow("sequential", json!({ "agents": ["lead"] })), ["flowConfig.agents[0]"]);
    assert_eq!(flow("parallel", json!({})), ["flowConfig.agents"]);
    assert_eq!(flow("single", json!({ "agents": ["writer"] })), ["flowConfig"]);
    assert_eq!(flow("loop", json!({ "until": "DONE", "max_iterations": 50 })), [""; 0]);
    assert_eq!(flow("loop", json!({ "max_iterations": 51 })), ["flowConfig.maxIterations"]);
    assert_eq!(flow("sequential", json!({ "until": "DONE" })), ["flowConfig.until"]);
}

#[test]
fn a_flow_that_is_too_long_is_one_problem() {
    let agents = |count: usize| vec!["nobody"; count];
    let flow = |count: usize| {
        wrong(
            json!({ "name": "lead", "flow_type": "sequential", "flow_config": { "agents": agents(count) } }),
        )
    };
    assert_eq!(flow(50).len(), 50, "each unknown name");
    assert_eq!(flow(51), ["flowConfig.agents"]);
    assert_eq!(flow(100_000), ["flowConfig.agents"]);
}

#[test]
fn an_internal_agent_has_no_trigger() {
    let trigger = "on_document_ingested";
    assert_eq!(wrong(json!({ "name": "a", "trigger": trigger })), [""; 0]);
    assert_eq!(wrong(json!({ "name": "a", "visibility": "internal", "trigger": trigger })), ["trigger"]);
    assert_eq!(wrong(json!({ "name": "a", "trigger": " " })), ["trigger"]);
}

#[test]
fn the_size_of_the_settings_is_checked_before_what_they_say_of_a_trigger() {
    let started = std::time::Instant::now();
    let key = "unknown field `".repeat(500_000);
    let large = json!({ "name": "a", "trigger": "0 8 * * *", "config": { "trigger": { key: 1 } } });
    assert_eq!(wrong(large), ["config"]);
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
    let small = json!({ "name": "a", "trigger": "0 8 * * *", "config": { "trigger": { "timezone": 1 } } });
    assert_eq!(wrong(small), ["config.trigger"]);
}

#[test]
fn no_text_has_a_nul() {
    let texts = json!({
        "name": "a", "system_prompt": "a\0", "description": "\0", "trigger": "\0",
        "config": { "deep": [{ "k": "\0" }] },
    });
    assert_eq!(wrong(texts), ["trigger", "systemPrompt", "description", "config"]);
    assert_eq!(wrong(json!({ "name": "a", "config": { "\0": 1 } })), ["config"]);
}

#[test]
fn a_loop_ends_on_a_text_it_contains_or_is() {
    let until = |json: Value| serde_json::from_value::<Until>(json).unwrap();
    assert!(until(json!("DONE")).is_met("all DONE."));
    assert!(until(json!({ "contains": "DONE" })).is_met("all DONE."));
    assert!(!until(json!({ "equals": "DONE" })).is_met("all DONE."));
    assert!(until(json!({ "equals": "DONE" })).is_met(" DONE\n"));
}

#[test]
fn an_external_agent_is_the_default_before_others() {
    let agent = |visibility: Visibility, is_default: bool| Agent {
        id: AgentId::new(),
        project: ProjectId::new(),
        version: 1,
        definition: AgentDefinition { visibility, is_default, ..AgentDefinition::new("a") },
        created_at: Timestamp::from_micros(0),
        updated_at: Timestamp::from_micros(0),
        deleted_at: None,
    };
    let agents = [
        agent(Visibility::External, false),
        agent(Visibility::Project, true),
        agent(Visibility::External, true),
    ];
    assert_eq!(default_agent(&agents).unwrap().id, agents[2].id);
    assert_eq!(default_agent(&agents[..2]).unwrap().id, agents[1].id);
    assert_eq!(default_agent(&agents[..1]), None);
}

#[test]
fn a_model_is_written_as_provider_and_name() {
    let model: ModelConfig = "openai/meta/llama-3".parse().unwrap();
    assert_eq!((model.provider.as_str(), model.name.as_str()), ("openai", "meta/llama-3"));
    assert_eq!(model.to_string(), "openai/meta/llama-3");
    for wrong in ["", "openai", "/name", "openai/"] {
        assert!(wrong.parse::<ModelConfig>().is_err(), "{wrong}");
    }
}

#[test]
fn a_pattern_that_grants_nothing_is_warned_about() {
    let warned = |pattern: &str| {
        !definition(json!({ "name": "a", "tools": [pattern] })).warnings(&around()).is_empty()
    };
    for pattern in ["search_*", "*", "web.*", "*.fetch", "w*.f*"] {
        assert!(!warned(pattern), "{pattern} grants a tool");
    }
    for pattern in ["web*", "w*fetch", "web.s*", "entities_create.*", "create_*", "*.search_hybrid"] {
        assert!(warned(pattern), "{pattern} grants nothing");
    }
}

#[test]
fn a_rule_about_no_tool_is_warned_about() {
    let rule = |tools: &[&str]| json!({ "tools": tools, "action": "deny" });
    let approvals = json!([rule(&["search_*"]), rule(&["web.fetch", "zzz_*"])]);
    let warnings = definition(json!({ "name": "a", "approvals": approvals })).warnings(&around());
    let fields: Vec<&str> = warnings.iter().map(|warning| warning.field.as_str()).collect();
    assert_eq!(fields, ["approvals[1].tools[1]"]);
    assert!(warnings[0].reason.contains("`zzz_*` matches no tool"), "{}", warnings[0].reason);
}

#[test]
fn an_unknown_tool_is_a_warning_that_names_the_server_that_was_never_reached() {
    let tools = ["entities_get", "get_entity", "send_mial", "entities_gte"].map(str::to_owned).to_vec();
    let definition = AgentDefinition { tools, ..AgentDefinition::new("a") };
    let mut available = AvailableNames {
        tools: vec!["entities_get".to_owned()],
        unreached_servers: vec!["mail".to_owned()],
        ..AvailableNames::default()
    };
    assert!(definition.check(&available).is_ok(), "the server may have the tool");
    let warnings = definition.warnings(&available);
    assert_eq!(warnings.iter().map(|one| one.field.as_str()).collect::<Vec<_>>(), ["tools[2]", "tools[3]"]);
    let reason = &warnings[0].reason;
    assert!(reason.contains("`send_mial`") && reason.contains("`mail` was never reached"), "{reason}");
    assert!(!reason.contains("did you mean"), "{reason}");
    // A server that nobody reached does not keep a built-in tool from being suggested.
    assert!(warnings[1].reason.contains("did you mean `entities_get`?"), "{}", warnings[1].reason);
    // The server was reached since, and has no such tool.
    available.tools_complete = true;
    available.unreached_servers.clear();
    assert!(definition.check(&available).is_err());
    let reason = &definition.warnings(&available)[0].reason;
    assert!(reason.contains("`send_mial` is not known: no tool of this project has this name"), "{reason}");
    assert!(!reason.contains("reach"), "{reason}");
}

#[test]
fn a_misspelt_pattern_is_warned_about_although_a_server_was_never_reached() {
    let available =
        AvailableNames { tools_complete: false, unreached_servers: vec!["mail".to_owned()], ..around() };
    let reason = |pattern: &str| {
        let definition = AgentDefinition { tools: vec![pattern.to_owned()], ..AgentDefinition::new("a") };
        definition.warnings(&available).pop().map(|warning| warning.reason)
    };
    let told = reason("entitties_*").unwrap();
    assert!(
        told.contains("`entitties_*` matches no known tool; the MCP server `mail` was never reached"),
        "{told}"
    );
    assert!(reason("web.s*").is_some(), "the server was reached, and has no such tool");
    for pattern in ["entities_*", "*", "mail.*", "m*.send_*", "web.*"] {
        assert_eq!(reason(pattern), None, "{pattern} grants a tool, or the server may have it");
    }
}

/// What is around a definition, for somebody who may not read agents.
fn hidden() -> AvailableNames {
    let shown = ShownNames::Builtin(["entities_create", "search_hybrid"].map(str::to_owned).into());
    AvailableNames { shown, ..around() }
}

#[test]
fn whoever_may_not_read_agents_is_told_no_name_of_one() {
    let flow =
        |part: &str| json!({ "name": "a", "flow_type": "sequential", "flow_config": { "agents": [part] } });
    let reason = |json: Value, available: &AvailableNames| {
        definition(json).check(available).unwrap_err().problems.remove(0).reason
    };
    let misspelt = "there is no agent `writter`";
    assert_eq!(reason(flow("writter"), &around()), format!("{misspelt}; did you mean `writer`?"));
    assert_eq!(reason(flow("writter"), &hidden()), misspelt);
    assert!(definition(flow("writer")).check(&hidden()).is_ok(), "it can be named");
    let tools = |tool: &str| json!({ "name": "a", "tools": [tool] });
    assert_eq!(reason(tools("web.fetsh"), &hidden()), "there is no tool `web.fetsh`");
    assert!(reason(tools("entities_crate"), &hidden()).contains("did you mean `entities_create`?"));
}

#[test]
fn whoever_may_not_read_agents_is_warned_about_built_in_tools_only() {
    let hidden =
        AvailableNames { tools_complete: false, unreached_servers: vec!["mail".to_owned()], ..hidden() };
    let warned = |tool: &str| {
        let rule = json!({ "tools": [tool], "action": "ask" });
        let warnings = definition(json!({ "name": "a", "approvals": [rule] })).warnings(&hidden);
        warnings.into_iter().next().map(|warning| warning.reason)
    };
    // The same whether a server or a tool has such a name, or none.
    for tool in ["web.fetch", "web.fetsh", "we*.*", "zz*.*", "mail.send", "entities_create", "search_*"] {
        assert_eq!(warned(tool), None, "{tool}");
    }
    let (right, wrong) = (warned("fetch").unwrap(), warned("fetsh").unwrap());
    assert_eq!(right.replace("`fetch`", "`fetsh`"), wrong);
    assert!(!wrong.contains("mail") && wrong.contains("agents:read"), "{wrong}");
    assert!(warned("entities_crate").unwrap().contains("did you mean `entities_create`?"));
    assert!(warned("zz*").is_some());
}

#[test]
fn a_definition_with_thousands_of_misspelt_tools_is_told_about_the_first_of_them() {
    let rule = json!({ "tools": vec!["entities_crate"; 100], "action": "ask" });
    let many = definition(json!({ "name": "a", "approvals": vec![rule; 100] }));
    let suggested = |problems: &[crate::invalid::Problem]| {
        problems.iter().filter(|problem| problem.reason.contains("did you mean")).count()
    };
    let problems = many.check(&around()).unwrap_err().problems;
    assert_eq!((problems.len(), suggested(&problems)), (101, 20));
    assert_eq!(problems[100].reason, "there are 9900 more problems");
    let warnings = many.warnings(&around());
    assert_eq!((warnings.len(), suggested(&warnings)), (100, 20));
}
