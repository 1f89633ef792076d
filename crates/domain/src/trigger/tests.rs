use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{decide::Content, *};
use crate::{
    author::Author,
    change::{Change, FeedPosition},
    ids::{AgentId, ProjectId, RunId},
    time::Timestamp,
};

fn at(text: &str) -> Timestamp {
    format!("2026-01-31T{text}Z").parse().unwrap()
}

fn definition(trigger: &str, settings: Value) -> AgentDefinition {
    let mut config = Map::new();
    config.insert("trigger".into(), settings);
    AgentDefinition { trigger: Some(trigger.into()), config, ..AgentDefinition::new("any") }
}

#[track_caller]
fn refused(trigger: &str, settings: Value, field: &str, expected: &str) {
    let invalid = TriggerSpec::from_definition(&definition(trigger, settings)).unwrap_err();
    let problem = &invalid.problems[0];
    assert_eq!(problem.field, field, "{invalid}");
    assert!(problem.reason.contains(expected), "{invalid}");
}

#[test]
fn a_trigger_is_an_event_or_a_cron_expression() {
    for event in EventKind::ALL {
        assert_eq!(event.as_str().parse(), Ok(Trigger::Event(*event)));
    }
    assert!(matches!("0 8 * * MON-FRI".parse(), Ok(Trigger::Cron(_))));
    refused("on_entity_create", json!(null), "trigger", "did you mean `on_entity_created`?");
    refused("whenever", json!(null), "trigger", "`on_relationship_created`, or a cron expression");
    refused("", json!(null), "trigger", "must be an event");
    refused("0 8 * *", json!(null), "trigger", "has 4 fields");
    refused("61 8 * * *", json!(null), "trigger", "the minute `61` must be 0 to 59");
}

#[test]
fn a_time_zone_that_is_too_long_is_refused_without_being_repeated() {
    let long = "Europe/Berlin".repeat(100_000);
    refused("0 8 * * *", json!({ "time_zone": long }), "config.trigger.time_zone", "is longer than 64 bytes");
    let invalid =
        TriggerSpec::from_definition(&definition("0 8 * * *", json!({ "time_zone": long }))).unwrap_err();
    assert!(invalid.to_string().len() < 500);
}

#[test]
fn settings_are_checked_where_they_stand() {
    let settings = "config.trigger";
    refused("0 8 * * *", json!({ "timezone": "UTC" }), settings, "unknown field `timezone`");
    refused("0 8 * * *", json!({ "types": ["A"] }), settings, "unknown field `types`");
    refused("on_entity_created", json!({ "type": ["A"] }), settings, "did you mean `types`?");
    refused(
        "0 8 * * *",
        json!({ "time_zone": "Berlin" }),
        "config.trigger.time_zone",
        "there is no time zone",
    );
    refused("0 8 * * *", json!({ "missed": "twice" }), settings, "unknown variant `twice`");
    refused("0 8 * * *", json!({ "max_steps": 0 }), "config.trigger.max_steps", "1 to 500");
    refused("0 8 * * *", json!({ "timeout_seconds": 0 }), "config.trigger.timeout_seconds", "1 to 86400");
    refused("on_entity_created", json!({ "time_zone": "UTC" }), settings, "unknown field `time_zone`");
    refused("on_entity_created", json!({ "input": " " }), "config.trigger.input", "1 to 100000");
    let wrong = json!({ "conditions": [{ "path": "a", "op": "lt", "value": true }] });
    refused("on_entity_created", wrong, "config.trigger.conditions[0].value", "needs a number or a string");
    refused(
        "on_document_ingested",
        json!({ "labels": ["x"] }),
        "config.trigger.labels",
        "only for events of entities",
    );
    refused(
        "on_entity_created",
        json!({ "coalesce_by": "agent" }),
        "config.trigger.coalesce_by",
        "coalesce_seconds",
    );
    refused("on_entity_created", json!({ "max_depth": 11 }), "config.trigger.max_depth", "0 to 10");
    refused(
        "on_entity_created",
        json!({ "coalesce_seconds": 3601 }),
        "config.trigger.coalesce_seconds",
        "0 to 3600",
    );
    for wrong in [0, 101, -1] {
        let settings = json!({ "max_concurrent": wrong });
        refused("on_entity_created", settings, "config.trigger.max_concurrent", "from 1 to 100");
    }
    for wrong in [json!("1"), json!(1.5), json!([1]), json!(u64::MAX)] {
        let settings = json!({ "max_concurrent": wrong });
        refused("on_entity_created", settings, "config.trigger", "`max_concurrent` must be a whole number");
    }
    refused(
        "0 8 * * *",
        json!({ "max_concurrent": 1 }),
        "config.trigger.max_concurrent",
        "a schedule never starts a run while its last one has not ended",
    );
    for right in [json!(1), json!(100), json!(null)] {
        let settings = json!({ "max_concurrent": right });
        assert!(TriggerSpec::from_definition(&definition("on_document_ingested", settings)).is_ok());
    }
    assert!(
        TriggerSpec::from_definition(&definition("on_entity_updated", json!({ "coalesce_by": "agent" })))
            .is_ok()
    );
    assert!(
        TriggerSpec::from_definition(&definition("0 8 * * *", json!({ "context": { "any": [1] } }))).is_ok()
    );
    let idle = AgentDefinition { trigger: None, ..definition("", json!({ "whatever": 1 })) };
    assert_eq!(
        TriggerSpec::from_definition(&idle),
        Ok(None),
        "settings of a trigger that is switched off may stay"
    );
}

fn change(kind: ChangeKind, type_: &str, seq: i64) -> Change {
    Change {
        position: FeedPosition { txid: 0, seq },
        project: ProjectId::new(),
        kind,
        entity: Uuid::now_v7(),
        entity_type: type_.into(),
        version: 1,
        at: at("08:00:00"),
        author: Author::System,
    }
}

fn after(seq: i64) -> FeedStart {
    FeedStart { after: FeedPosition { txid: 0, seq }, open: Vec::new() }
}

/// Returns whether a trigger with these settings fires for a new `Task` with the label `urgent` and
/// priority 3.
fn fires(event: &str, settings: Value) -> Decision {
    let Ok(Some(TriggerSpec::Event { event, config })) =
        TriggerSpec::from_definition(&definition(event, settings))
    else {
        panic!("an event trigger")
    };
    let since = after(10);
    let trigger = EventTrigger {
        agent: AgentId::new(),
        dispatch: None,
        name: None,
        product: None,
        project: ProjectId::new(),
        event,
        config,
        since,
    };
    let properties = json!({ "priority": 3 }).as_object().unwrap().clone();
    let content = Content { labels: vec!["urgent".into(), "new".into()], properties };
    let change = change(ChangeKind::ObjectCreated, "Task", 11);
    decide(
        &ObservedChange { change: &change, content: Some(&content), cause: None },
        &trigger,
        at("08:00:00"),
    )
}

#[test]
fn an_event_fires_when_kind_type_labels_and_properties_fit() {
    let yes = Decision::Fire { due_at: at("08:00:00"), depth: 0 };
    let check = |settings: Value, expected: &Decision| {
        assert_eq!(fires("on_entity_created", settings.clone()), *expected, "{settings}");
    };
    check(json!({}), &yes);
    check(json!({ "types": ["Note", "Task"] }), &yes);
    check(json!({ "types": ["task"] }), &Decision::Ignore);
    check(json!({ "labels": ["urgent", "new"] }), &yes);
    check(json!({ "labels": ["urgent", "old"] }), &Decision::Ignore);
    check(json!({ "conditions": [{ "path": "priority", "op": "gte", "value": 3 }] }), &yes);
    check(json!({ "conditions": [{ "path": "priority", "op": "gt", "value": 3 }] }), &Decision::Ignore);
    check(json!({ "coalesce_seconds": 30 }), &Decision::Fire { due_at: at("08:00:30"), depth: 0 });
    assert_eq!(fires("on_entity_updated", json!({})), Decision::Ignore);
    assert_eq!(fires("on_document_ingested", json!({})), Decision::Ignore);
}

#[test]
fn what_was_written_before_the_trigger_is_not_its_business_and_gone_content_fits_nothing() {
    let config = EventConfig { labels: vec!["urgent".into()], ..EventConfig::default() };
    let since = after(10);
    let event = EventKind::EntityCreated;
    let trigger = EventTrigger {
        agent: AgentId::new(),
        dispatch: None,
        name: None,
        product: None,
        project: ProjectId::new(),
        event,
        config,
        since,
    };
    let decided = |trigger: &EventTrigger, seq| {
        let change = change(ChangeKind::ObjectCreated, "Task", seq);
        decide(&ObservedChange { change: &change, content: None, cause: None }, trigger, at("08:00:00"))
    };
    assert_eq!(decided(&trigger, 11), Decision::Ignore, "nobody knows its labels any more");
    let all = EventTrigger { config: EventConfig::default(), ..trigger };
    assert_eq!(decided(&all, 10), Decision::Ignore);
    assert!(matches!(decided(&all, 11), Decision::Fire { .. }));
}

#[test]
fn a_chain_of_runs_ends_at_its_depth() {
    let decided = |cause: Option<i64>, most: Option<i64>| {
        let config = EventConfig { max_depth: most, ..EventConfig::default() };
        let event = EventKind::EntityCreated;
        let since = FeedStart::default();
        let trigger = EventTrigger {
            agent: AgentId::new(),
            dispatch: None,
            name: None,
            product: None,
            project: ProjectId::new(),
            event,
            config,
            since,
        };
        let change = change(ChangeKind::ObjectCreated, "Task", 11);
        let cause = cause.map(|depth| (RunId::new(), depth));
        match decide(&ObservedChange { change: &change, content: None, cause }, &trigger, at("08:00:00")) {
            Decision::Fire { depth, .. } => Ok(depth),
            Decision::Skip { why, depth } => Err((why, depth)),
            Decision::Ignore => panic!("it is concerned"),
        }
    };
    assert_eq!(decided(None, None), Ok(0));
    assert_eq!(decided(Some(0), None), Ok(1));
    assert_eq!(decided(Some(2), None), Ok(3));
    assert_eq!(decided(Some(3), None), Err((SkipReason::Depth, 4)));
    assert_eq!(decided(None, Some(0)), Ok(0));
    assert_eq!(decided(Some(0), Some(0)), Err((SkipReason::Depth, 1)), "0: never by a run");
}

#[test]
fn a_schedule_that_is_due_fires_for_the_newest_time_that_has_come() {
    let check =
        |cron: &str, missed, next: &str, live, now: &str, expected: (&str, Option<SkipReason>, &str)| {
            let (cron, zone): (Cron, _) = (cron.parse().unwrap(), Zone::utc());
            let step = decide_schedule(
                &DueSchedule { cron: &cron, zone: &zone, missed, next_at: at(next), waiting_since: None },
                live,
                at(now),
            );
            assert_eq!(
                (step.at, step.skip, step.next_at),
                (at(expected.0), expected.1, Some(at(expected.2))),
                "{now}"
            );
        };
    let (once, skip) = (MissedPolicy::Once, MissedPolicy::Skip);
    check("0 * * * *", once, "09:00:00", false, "09:00:00", ("09:00:00", None, "10:00:00"));
    check("0 * * * *", skip, "09:00:00", false, "09:01:00", ("09:00:00", None, "10:00:00"));
    // A firing time that is more than a minute late counts as missed.
    check(
        "0 * * * *",
        skip,
        "09:00:00",
        false,
        "09:01:01",
        ("09:00:00", Some(SkipReason::Missed), "10:00:00"),
    );
    check("0 * * * *", once, "09:00:00", false, "09:01:01", ("09:00:00", None, "10:00:00"));
    // Several missed times lead to one run, for the newest of them.
    check("0 * * * *", once, "09:00:00", false, "13:30:00", ("13:00:00", None, "14:00:00"));
    check(
        "0 * * * *",
        skip,
        "09:00:00",
        false,
        "13:30:00",
        ("13:00:00", Some(SkipReason::Missed), "14:00:00"),
    );
    // A time that is on time is not missed because older ones were.
    check("0 * * * *", skip, "09:00:00", false, "13:00:20", ("13:00:00", None, "14:00:00"));
    // No run starts while the previous one is active, and none is started later to compensate.
    check(
        "0 * * * *",
        once,
        "09:00:00",
        true,
        "09:00:00",
        ("09:00:00", Some(SkipReason::StillRunning), "10:00:00"),
    );
    check(
        "0 * * * *",
        skip,
        "09:00:00",
        true,
        "13:30:00",
        ("13:00:00", Some(SkipReason::StillRunning), "14:00:00"),
    );
}

#[test]
fn a_schedule_that_had_to_wait_for_room_is_not_missed() {
    let (cron, zone): (Cron, _) = ("0 * * * *".parse().unwrap(), Zone::utc());
    let skip = |waiting_since: Option<Timestamp>| {
        let (missed, next_at) = (MissedPolicy::Skip, at("09:00:00"));
        decide_schedule(
            &DueSchedule { cron: &cron, zone: &zone, missed, next_at, waiting_since },
            false,
            at("09:30:00"),
        )
        .skip
    };
    assert_eq!(skip(None), Some(SkipReason::Missed));
    assert_eq!(skip(Some(at("09:00:01"))), None, "somebody looked, and there was no room");
    assert_eq!(skip(Some(at("09:10:00"))), Some(SkipReason::Missed), "nobody looked until it was late");
}

#[test]
fn what_was_open_when_a_trigger_was_saved_is_heard_and_what_had_ended_is_not() {
    let since = FeedStart { after: FeedPosition { txid: 20, seq: i64::MAX }, open: vec![12, 15] };
    let heard = |txid| since.includes(FeedPosition { txid, seq: 1 });
    assert_eq!([11, 12, 13, 15, 20, 21].map(heard), [false, true, false, true, false, true]);
}

#[test]
fn a_firing_that_waited_is_held_against_what_its_trigger_says_by_then() {
    let objected = |settings: Value, content: Option<Content>| {
        let Ok(Some(TriggerSpec::Event { event, config })) =
            TriggerSpec::from_definition(&definition("on_entity_created", settings))
        else {
            panic!("an event trigger")
        };
        let (agent, project) = (AgentId::new(), ProjectId::new());
        let trigger = EventTrigger {
            agent,
            dispatch: None,
            name: None,
            product: None,
            project,
            event,
            config,
            since: after(10),
        };
        let firing = |seq| Firing {
            id: crate::ids::FiringId::new(),
            project,
            agent,
            fired: FiringCause::Event {
                event,
                entity: Uuid::now_v7(),
                entity_type: "Task".into(),
                version: 1,
                at: Some(FeedPosition { txid: 0, seq }),
            },
            cause: Some(RunId::new()),
            cause_depth: 2,
            status: FiringStatus::Pending,
            reason: None,
            run: None,
            workflow: None,
            trigger_name: None,
            due_at: at("08:00:00"),
            created_at: at("08:00:00"),
            settled_at: None,
        };
        assert_eq!(
            skip_reason(&firing(10), &trigger, content.as_ref()),
            Some(SkipReason::Changed),
            "made anew since"
        );
        skip_reason(&firing(11), &trigger, content.as_ref())
    };
    let urgent = || Some(Content { labels: vec!["urgent".into()], properties: Map::new() });
    assert_eq!(objected(json!({}), None), None);
    assert_eq!(objected(json!({ "types": ["Task"] }), None), None);
    assert_eq!(objected(json!({ "types": ["Note"] }), None), Some(SkipReason::Changed));
    assert_eq!(objected(json!({ "labels": ["urgent"] }), urgent()), None);
    assert_eq!(objected(json!({ "labels": ["red"] }), urgent()), Some(SkipReason::Changed));
    assert_eq!(objected(json!({ "labels": ["urgent"] }), None), Some(SkipReason::Gone));
    let condition = json!([{ "path": "priority", "op": "gte", "value": 3 }]);
    assert_eq!(objected(json!({ "conditions": condition }), urgent()), Some(SkipReason::Changed));
    assert_eq!(objected(json!({ "max_depth": 2 }), None), None);
    assert_eq!(objected(json!({ "max_depth": 1 }), None), Some(SkipReason::Depth));
}
