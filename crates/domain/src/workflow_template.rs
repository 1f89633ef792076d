//! The workflow that a trigger starts: described in words, or given as tasks.

use serde::{Deserialize, Serialize};

use crate::{
    agent::ModelConfig,
    invalid::{Invalid, Problem},
    output_schema::OutputSchema,
    query::SYSTEM_TYPES,
    task::NewTask,
    trigger::{EventConfig, EventKind, ScheduleConfig},
    workflow::{OnFailure, SelectorKind, ThreadingKind, WorkflowSettings, parse_limit},
};

/// The most characters of a title in the description of a workflow.
const MAX_TITLE_CHARS: usize = 200;
/// The largest template that is stored.
const MAX_TEMPLATE_BYTES: usize = 1 << 20;
/// The relationships that workflows create.
const SYSTEM_EDGES: [&str; 11] = [
    "blocks",
    "assigned_to_agent",
    "verifies",
    "has_session",
    "has_message",
    "follows_up",
    "informed_by",
    "has_result",
    "spawned_discussion",
    "has_entry",
    "resulted_in_task",
];

/// What a trigger dispatches: `description` or `tasks`, with the settings of the workflow. The fields are those of a
/// dispatch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkflowTemplate {
    /// The planner creates tasks from this text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<NewTask>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<SelectorKind>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub evaluate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threading: Option<ThreadingKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelConfig>,
}

impl WorkflowTemplate {
    /// Checks what can be checked without a project.
    pub fn check(&self) -> Result<(), Invalid> {
        match (&self.description, &self.tasks) {
            (None, None) => return Err(Invalid::new("description", "is required, or `tasks`")),
            (Some(_), Some(_)) => {
                return Err(Invalid::new("tasks", "is given beside `description`: give one of them"));
            }
            (None, Some(tasks)) if tasks.is_empty() => return Err(Invalid::new("tasks", "is empty")),
            _ => {}
        }
        self.settings()?;
        for (index, task) in self.tasks.iter().flatten().enumerate() {
            if let Some(schema) = &task.output_schema {
                let field = format!("tasks[{index}].outputSchema");
                OutputSchema::compile(schema).map_err(|invalid| invalid.prefixed(&field))?;
            }
        }
        let bytes = serde_json::to_string(self).map_or(usize::MAX, |text| text.len());
        if bytes > MAX_TEMPLATE_BYTES {
            return Err(Invalid::new("", format!("has more than {MAX_TEMPLATE_BYTES} bytes")));
        }
        Ok(())
    }

    /// The settings of the workflow.
    pub fn settings(&self) -> Result<WorkflowSettings, Invalid> {
        let budget = parse_limit(self.budget_usd, "budgetUsd", self.budget_tokens, "budgetTokens")?;
        let defaults = WorkflowSettings::default();
        let max_concurrent = match self.max_concurrent {
            // A number out of range becomes 0, which the check of the settings refuses.
            Some(max) => usize::try_from(max).unwrap_or(0),
            None => defaults.max_concurrent,
        };
        Ok(WorkflowSettings {
            max_concurrent,
            budget,
            selector: self.selector.unwrap_or(defaults.selector),
            evaluate: self.evaluate,
            threading: self.threading.unwrap_or(defaults.threading),
            on_failure: self.on_failure.unwrap_or(defaults.on_failure),
            planner: self.planner.clone(),
            model: self.model.clone(),
            ..defaults
        })
    }

    /// The description of the workflow: the text, or the titles of the first tasks.
    pub fn description_text(&self) -> String {
        const MAX_TITLES: usize = 3;
        if let Some(description) = &self.description {
            return description.clone();
        }
        let tasks = self.tasks.as_deref().unwrap_or_default();
        let title = |task: &NewTask| task.title.chars().take(MAX_TITLE_CHARS).collect::<String>();
        let titles: Vec<String> = tasks.iter().take(MAX_TITLES).map(title).collect();
        match tasks.len().saturating_sub(MAX_TITLES) {
            0 => titles.join(", "),
            more => format!("{} and {more} more", titles.join(", ")),
        }
    }
}

/// Checks the settings of a schedule that starts a workflow: what is for the run of an agent has no meaning.
pub fn check_schedule_config(config: &ScheduleConfig) -> Result<(), Invalid> {
    let given = [
        ("input", config.input.is_some()),
        ("context", config.context.is_some()),
        ("max_steps", config.max_steps.is_some()),
        ("timeout_seconds", config.timeout_seconds.is_some()),
    ];
    let problem = |(field, _): (&str, bool)| {
        Problem::new(field, "is only for a schedule that starts an agent: say it in `dispatch`")
    };
    let mut problems: Vec<Problem> = given.into_iter().filter(|(_, given)| *given).map(problem).collect();
    if let Err(invalid) = config.check() {
        problems.extend(invalid.problems);
    }
    Invalid::if_any(problems)
}

/// Checks the settings of an event trigger that starts a workflow. A workflow writes objects and relationships of its
/// own, which must not start the next one.
pub fn check_event_config(event: EventKind, config: &EventConfig) -> Result<(), Invalid> {
    config.check(event)?;
    if config.max_concurrent.is_some() {
        return Err(Invalid::new("max_concurrent", "is only for an event that starts an agent"));
    }
    if event == EventKind::RelationshipCreated && config.types.is_empty() {
        return Err(Invalid::new("types", "is required: workflows create relationships themselves"));
    }
    let written = |type_: &&String| is_written_by_workflows(event, type_);
    match config.types.iter().find(written) {
        Some(type_) => Err(Invalid::new("types", format!("workflows themselves write `{type_}`"))),
        None => Ok(()),
    }
}

/// Whether workflows write objects or relationships of this type.
pub fn is_written_by_workflows(event: EventKind, type_: &str) -> bool {
    match event {
        EventKind::EntityCreated | EventKind::EntityUpdated => SYSTEM_TYPES.contains(&type_),
        EventKind::RelationshipCreated => SYSTEM_EDGES.contains(&type_),
        EventKind::DocumentIngested => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(template: serde_json::Value) -> String {
        let template: WorkflowTemplate = serde_json::from_value(template).unwrap();
        template.check().unwrap_err().problems[0].field.clone()
    }

    #[test]
    fn a_template_has_a_description_or_tasks_and_settings_within_their_limits() {
        assert_eq!(refused(json!({})), "description");
        assert_eq!(refused(json!({ "description": "d", "tasks": [{ "key": "a", "title": "A" }] })), "tasks");
        assert_eq!(refused(json!({ "tasks": [] })), "tasks");
        assert_eq!(refused(json!({ "description": "d", "budget_usd": 0.0 })), "budgetUsd");
        let template: WorkflowTemplate =
            serde_json::from_value(json!({ "tasks": [{ "key": "a", "title": "A", "blocked_by": [] }] }))
                .unwrap();
        assert_eq!((template.check(), template.description_text()), (Ok(()), "A".to_owned()));
        let stored = serde_json::to_value(&template).unwrap();
        assert_eq!(serde_json::from_value::<WorkflowTemplate>(stored).unwrap(), template);
    }

    #[test]
    fn what_workflows_write_starts_no_workflow() {
        let of_type = |type_: &str| EventConfig { types: vec![type_.into()], ..EventConfig::default() };
        assert!(check_event_config(EventKind::EntityCreated, &of_type("Person")).is_ok());
        assert!(check_event_config(EventKind::EntityCreated, &EventConfig::default()).is_ok());
        assert!(check_event_config(EventKind::EntityCreated, &of_type("SpecTask")).is_err());
        assert!(check_event_config(EventKind::RelationshipCreated, &EventConfig::default()).is_err());
        assert!(check_event_config(EventKind::RelationshipCreated, &of_type("blocks")).is_err());
        let limited = EventConfig { max_concurrent: Some(1), ..of_type("Person") };
        let refused = check_event_config(EventKind::EntityCreated, &limited).unwrap_err();
        assert_eq!(refused.problems[0].field, "max_concurrent");
        let input = ScheduleConfig { input: Some("i".into()), ..ScheduleConfig::default() };
        assert_eq!(check_schedule_config(&input).unwrap_err().problems[0].field, "input");
    }
}
