//! What a plan says that a product uses, and what of it has to be accepted.

use emergent_products::{Consent, Manifest, ProjectState, Uses, builtin, plan::plan, uses::EventUse};
use serde_json::{Value, json};

use super::{after, manifest};

fn version(number: &str, servers: Value) -> Manifest {
    manifest("p", number, json!({ "agents": [{ "name": "a" }], "mcp": { "servers": servers } }))
}

fn http(name: &str, url: &str, headers: Value) -> Value {
    json!({ "name": name, "transport": "http", "url": url, "headers": headers })
}

/// Formats uses as one word per line of a plan.
fn lines(uses: &Uses) -> Vec<String> {
    let mut lines: Vec<String> = uses.programs.iter().map(|program| format!("program {program}")).collect();
    lines.extend(uses.hosts.iter().map(|host| format!("host {host}")));
    lines.extend(uses.secrets.iter().map(|one| format!("secret {} {}", one.name, one.target)));
    lines.extend(
        uses.schedules.iter().map(|one| format!("schedule {} {} {}", one.cron, one.time_zone, one.agent)),
    );
    let filter = |one: &EventUse| one.filter.as_ref().map(|filter| format!(" {filter}")).unwrap_or_default();
    lines.extend(uses.events.iter().map(|one| format!("event {}{} {}", one.event, filter(one), one.agent)));
    lines
}

/// A product whose agent starts at new objects with these settings.
fn with_trigger(number: &str, settings: &Value) -> Manifest {
    let agent =
        json!({ "name": "a", "trigger": "on_entity_created", "config": { "trigger": settings.clone() } });
    manifest("p", number, json!({ "agents": [agent] }))
}

#[test]
fn everything_that_a_product_uses_is_listed() {
    let manifest = manifest(
        "p",
        "1.0.0",
        json!({
            "agents": [
                { "name": "by-event", "trigger": "on_document_ingested" },
                { "name": "by-clock", "trigger": "0  7 * * *", "config": { "trigger": { "time_zone": "Europe/Berlin" } } },
                { "name": "by-hand" }],
            "jobs": [{ "name": "j", "cron": "0  8 * * *", "agent": "by-hand" }],
            "mcp": { "servers": [
                { "name": "s", "transport": "stdio", "command": "npx", "args": ["-y", "x"], "env": { "K": "${A}" } },
                http("h", "https://Example.com/mcp", json!({ "Authorization": "Bearer ${B}" }))] } }),
    );
    let plan = plan("p", &ProjectState::default(), Some(&manifest)).unwrap();
    assert_eq!(
        lines(&plan.uses),
        [
            "program K=${A} npx -y x",
            "host https://example.com/mcp",
            "secret A K=${A} npx -y x",
            r#"secret B https://example.com/mcp authorization: "Bearer ${B}""#,
            "schedule 0 7 * * * Europe/Berlin by-clock",
            "schedule 0 8 * * * UTC by-hand",
            "event on_document_ingested  by-event",
        ]
    );
    assert_eq!(plan.added, plan.uses);
}

#[test]
fn only_what_an_upgrade_adds_has_to_be_accepted() {
    let (a, b) = ("https://a.test/mcp", "https://b.test/mcp");
    let key = json!({ "X-Key": "${KEY}" });
    let v1 = version("1.0.0", json!([http("one", a, key.clone()), http("two", b, json!({}))]));
    for (servers, expected) in [
        (json!([http("one", a, key.clone()), http("two", b, json!({}))]), vec![]),
        (json!([http("renamed", "https://A.test:443/mcp", key.clone())]), vec![]),
        // A host may serve other customers at other paths.
        (
            json!([http("one", "https://a.test/other", key.clone())]),
            vec!["host https://a.test/other", r#"secret KEY https://a.test/other x-key: "${KEY}""#],
        ),
        (json!([]), vec![]),
        (
            json!([http("one", "https://c.test/", key.clone())]),
            vec!["host https://c.test/", r#"secret KEY https://c.test/ x-key: "${KEY}""#],
        ),
        (json!([http("one", "http://a.test/", json!({}))]), vec!["host http://a.test/"]),
        // Both are known, but the second address did not get the secret.
        (json!([http("two", b, key.clone())]), vec![r#"secret KEY https://b.test/mcp x-key: "${KEY}""#]),
        // The same address, in another header.
        (
            json!([http("one", a, json!({ "X-Other": "${KEY}" }))]),
            vec![r#"secret KEY https://a.test/mcp x-other: "${KEY}""#],
        ),
    ] {
        let v2 = version("2.0.0", servers.clone());
        let plan = plan("p", &after(&[&v1]), Some(&v2)).unwrap();
        assert_eq!(lines(&plan.added), expected, "{servers}");
    }
    assert!(plan("p", &after(&[&v1]), None).unwrap().added.is_empty(), "an uninstall uses nothing");
}

#[test]
fn an_event_that_starts_an_agent_for_other_objects_has_to_be_accepted() {
    let condition = |value: i64| json!({ "path": "n", "op": "gt", "value": value });
    let before =
        json!({ "types": ["Rare", "Odd"], "labels": ["new"], "conditions": [condition(1), condition(2)] });
    let v1 = with_trigger("1.0.0", &before);
    let same = json!({
        "types": ["Odd", "Rare", "Odd"], "labels": ["new"], "conditions": [condition(2), condition(1)],
        "max_concurrent": 3, "input": "Read it.",
    });
    let two = r#"conditions [{"op":"gt","path":"n","value":1},{"op":"gt","path":"n","value":2}]"#;
    for (settings, expected) in [
        (same, None),
        (json!({}), Some(String::new())),
        (json!({ "types": ["Rare"] }), Some(r#"types ["Rare"]"#.to_owned())),
        (json!({ "types": ["Rare, Odd"] }), Some(r#"types ["Rare, Odd"]"#.to_owned())),
        (
            json!({ "labels": ["new"], "conditions": [condition(1), condition(2)] }),
            Some(format!(r#"labels ["new"], {two}"#)),
        ),
    ] {
        let plan = plan("p", &after(&[&v1]), Some(&with_trigger("2.0.0", &settings))).unwrap();
        let expected: Vec<_> =
            expected.into_iter().map(|filter| format!("event on_entity_created {filter} a")).collect();
        assert_eq!(lines(&plan.added), expected, "{settings}");
    }
}

#[test]
fn a_long_filter_is_shown_in_part_and_counts_as_a_whole() {
    let settings = |last: &str| {
        let names: Vec<_> = (0..80).map(|n| format!("{n:02}{}", "x".repeat(100))).collect();
        json!({ "types": names.into_iter().chain([last.to_owned()]).collect::<Vec<_>>() })
    };
    let v1 = with_trigger("1.0.0", &settings("y"));
    let plan =
        |number, last| plan("p", &after(&[&v1]), Some(&with_trigger(number, &settings(last)))).unwrap();
    assert!(plan("1.1.0", "y").added.is_empty());
    let added = lines(&plan("1.1.0", "z").added);
    assert!(added.len() == 1 && added[0].len() < 2_300 && added[0].contains("sha256"), "{added:?}");
}

#[test]
fn the_events_of_a_consent_without_filters_were_accepted_as_they_are_installed() {
    let rare = json!({ "types": ["Rare"] });
    let v1 = with_trigger("1.0.0", &rare);
    let stored = json!({ "events": [{ "agent": "a", "event": "on_entity_created" }] });
    let stored: Uses = serde_json::from_value(stored).unwrap();
    let mut state = after(&[&v1]);
    state.installed[0].accepted = stored.completed_from(&v1);
    let added = |settings| plan("p", &state, Some(&with_trigger("2.0.0", &settings))).unwrap().added;
    assert!(added(rare).is_empty(), "nobody is asked about what did not change");
    assert_eq!(lines(&added(json!({}))), ["event on_entity_created  a"]);
}

#[test]
fn a_consent_covers_what_was_looked_at() {
    let uses = |servers| Uses::of_manifest(&version("1.0.0", servers));
    let one = uses(json!([http("one", "https://a.test/", json!({}))]));
    let other = uses(json!([http("one", "https://b.test/", json!({}))]));
    let nothing = Uses::default();
    assert!(Consent::NotGiven.covers(&one, &nothing) && !Consent::NotGiven.covers(&one, &one));
    assert!(Consent::Everything.covers(&one, &one));
    assert!(Consent::Digest(one.digest()).covers(&one, &one));
    assert!(!Consent::Digest(one.digest()).covers(&other, &other));
    assert!(!Consent::Digest(one.digest()).covers(&other, &nothing), "somebody looked at something else");
}

#[test]
fn a_product_of_the_server_has_its_schedules_and_events_accepted() {
    let state = ProjectState { is_builtin: true, ..ProjectState::default() };
    for (name, is_asked) in
        [("emergent.memory", false), ("emergent.code", false), ("emergent.research", true)]
    {
        let product = builtin::ALL.into_iter().find(|product| product.name == name).unwrap();
        let manifest = emergent_products::validate::parse(product.manifest.as_bytes()).unwrap();
        let plan = plan(name, &state, Some(&manifest)).unwrap();
        assert_eq!(!plan.added.is_empty(), is_asked, "{name}");
        assert!(plan.added.schedules.is_empty() && plan.added.events.is_empty(), "{name}");
    }
}
