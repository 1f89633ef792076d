//! A workflow as a picture: its tasks in layers, one line each, kept up to date by its events.
//!
//! Pure: it takes the workflow as the API shows it, and its events, and gives lines. Who prints
//! them, and how often, is the caller's business.

mod advice;
mod describe;
mod draw;
mod layers;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Duration};

use emergent_domain::time::Timestamp;
use serde_json::Value;

pub use advice::advice;
pub use draw::RenderOptions;

/// A workflow as far as it is known.
#[derive(Debug, Clone)]
pub struct Dag {
    description: String,
    status: String,
    started_at: Option<Timestamp>,
    ended: Option<Timestamp>,
    spent: String,
    tasks: Vec<Task>,
    index: HashMap<String, usize>,
}

#[derive(Debug, Clone, Default)]
struct Task {
    id: String,
    key: String,
    status: String,
    agent: String,
    attempt: i64,
    blocked_by: Vec<String>,
    /// What it waits for that is not done in this workflow.
    waiting: Option<String>,
    /// When its attempt under way began.
    started_at: Option<Timestamp>,
    /// How long attempts took that are over.
    took: Duration,
    /// What its discussion is at.
    discussion: Option<String>,
}

impl Dag {
    pub fn new(workflow: &Value) -> Self {
        let mut dag = Self {
            description: String::new(),
            status: String::new(),
            started_at: None,
            ended: None,
            spent: String::new(),
            tasks: Vec::new(),
            index: HashMap::new(),
        };
        dag.refresh(workflow);
        dag
    }

    /// Takes over how the workflow stands; how long things took is kept.
    pub fn refresh(&mut self, workflow: &Value) {
        let mut before: HashMap<String, Task> =
            self.tasks.drain(..).map(|task| (task.id.clone(), task)).collect();
        self.description = text(&workflow["description"]).to_owned();
        self.status = text(&workflow["status"]).to_owned();
        self.started_at = parse_time(&workflow["createdAt"]);
        self.ended = parse_time(&workflow["completedAt"]);
        self.spent = spend_text(&workflow["budget"]);
        for shown in workflow["tasks"].as_array().into_iter().flatten() {
            let id = text(&shown["id"]).to_owned();
            let mut task = before.remove(&id).unwrap_or_default();
            task.id = id;
            task.key = text(&shown["key"]).to_owned();
            task.status = text(&shown["status"]).to_owned();
            task.agent = text(&shown["agent"]).to_owned();
            task.attempt = task.attempt.max(shown["attempts"].as_i64().unwrap_or(0));
            let waits = shown["blockedBy"].as_array().into_iter().flatten();
            task.blocked_by = waits.map(|key| text(key).to_owned()).collect();
            task.waiting = shown["waiting"].as_str().map(str::to_owned);
            self.tasks.push(task);
        }
        self.index = self.tasks.iter().enumerate().map(|(at, task)| (task.id.clone(), at)).collect();
    }

    /// Takes in what happened. False when the picture lacks something that only a fresh look at the
    /// workflow has: a new task, or a new plan.
    pub fn apply_event(&mut self, event: &Value) -> bool {
        let (kind, data, at) = (text(&event["type"]), &event["data"], parse_time(&event["at"]));
        match kind {
            "workflow_ended" => (self.status, self.ended) = (text(&data["status"]).to_owned(), at),
            "escalated" => self.status = "escalated".to_owned(),
            "workflow_resumed" => (self.status, self.ended) = ("running".to_owned(), None),
            "plan_made" => self.status = "running".to_owned(),
            _ => {}
        }
        if matches!(kind, "plan_made" | "plan_refused" | "task_added" | "workflow_resumed") {
            return false;
        }
        let Some(id) = event["taskId"].as_str() else { return true };
        let Some(place) = self.index.get(id) else { return false };
        let task = &mut self.tasks[*place];
        match kind {
            "task_started" | "task_resumed" => {
                task.status = "in_progress".to_owned();
                task.agent = text(&data["agent"]).to_owned();
                task.attempt = data["attempt"].as_i64().unwrap_or(task.attempt + 1);
                task.waiting = None;
                task.started_at = at;
            }
            "task_completed" => task.set_ended("completed", at),
            "task_failed" => task.set_ended("failed", at),
            "task_skipped" => task.set_ended("skipped", at),
            "task_paused" | "task_asked_again" => task.set_ended("paused", at),
            "task_retried" | "task_sent_back" | "task_reopened" | "task_verdict" => {
                task.set_ended("pending", at)
            }
            // What is taken by hand moves without an event of its own.
            "task_waiting" => return false,
            "discussion_started" => task.discussion = Some("discussed".to_owned()),
            "discussion_turn" | "discussion_entry" => {
                let round = data["round"].as_i64().filter(|round| *round > 1);
                let round = round.map(|round| format!(", round {round}")).unwrap_or_default();
                task.discussion = Some(format!("discussed{round}"));
            }
            "discussion_escalated" => task.discussion = Some("waits for a decision".to_owned()),
            "discussion_decided" | "discussion_resolved" => task.discussion = None,
            _ => {}
        }
        true
    }

    /// What a task is called here.
    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.index.get(id).map_or(id, |place| self.tasks[*place].key.as_str())
    }
}

impl Task {
    fn set_ended(&mut self, status: &str, at: Option<Timestamp>) {
        self.status = status.to_owned();
        self.discussion = None;
        self.waiting = None;
        if let (Some(began), Some(at)) = (self.started_at.take(), at) {
            self.took += at.since(began);
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn parse_time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// `1200 tokens, $0.0123`; nothing before anything was spent.
fn spend_text(budget: &Value) -> String {
    let tokens = budget["spent"]["tokens"].as_i64().unwrap_or(0);
    if tokens == 0 {
        return String::new();
    }
    let dollars = budget["spent"]["usd"].as_f64().filter(|dollars| *dollars > 0.0);
    let dollars = dollars.map(|dollars| format!(", ${dollars:.4}")).unwrap_or_default();
    format!("{tokens} tokens{dollars}")
}
