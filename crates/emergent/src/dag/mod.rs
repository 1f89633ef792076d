//! A workflow as a picture: its tasks in layers, one line each, kept up to date by its events.
//!
//! Pure: it takes the workflow as the API shows it, and its events, and gives lines. Who prints
//! them, and how often, is the caller's business.

mod advice;
mod draw;
mod layers;
mod tell;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Duration};

use emergent_domain::time::Timestamp;
use serde_json::Value;

pub use advice::advice;
pub use draw::Look;

/// A workflow as far as it is known.
#[derive(Debug, Clone)]
pub struct Dag {
    description: String,
    status: String,
    began: Option<Timestamp>,
    ended: Option<Timestamp>,
    spent: String,
    tasks: Vec<Task>,
    place: HashMap<String, usize>,
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
    began: Option<Timestamp>,
    /// How long attempts took that are over.
    took: Duration,
    /// What its discussion is at.
    talk: Option<String>,
}

impl Dag {
    pub fn new(workflow: &Value) -> Self {
        let mut dag = Self {
            description: String::new(),
            status: String::new(),
            began: None,
            ended: None,
            spent: String::new(),
            tasks: Vec::new(),
            place: HashMap::new(),
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
        self.began = moment(&workflow["createdAt"]);
        self.ended = moment(&workflow["completedAt"]);
        self.spent = spent(&workflow["budget"]);
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
        self.place = self.tasks.iter().enumerate().map(|(at, task)| (task.id.clone(), at)).collect();
    }

    /// Takes in what happened. False when the picture lacks something that only a fresh look at the
    /// workflow has: a new task, or a new plan.
    pub fn event(&mut self, event: &Value) -> bool {
        let (kind, data, at) = (text(&event["type"]), &event["data"], moment(&event["at"]));
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
        let Some(place) = self.place.get(id) else { return false };
        let task = &mut self.tasks[*place];
        match kind {
            "task_started" | "task_resumed" => {
                task.status = "in_progress".to_owned();
                task.agent = text(&data["agent"]).to_owned();
                task.attempt = data["attempt"].as_i64().unwrap_or(task.attempt + 1);
                task.waiting = None;
                task.began = at;
            }
            "task_completed" => task.ends("completed", at),
            "task_failed" => task.ends("failed", at),
            "task_skipped" => task.ends("skipped", at),
            "task_paused" | "task_asked_again" => task.ends("paused", at),
            "task_retried" | "task_sent_back" | "task_reopened" | "task_verdict" => task.ends("pending", at),
            // What is taken by hand moves without an event of its own.
            "task_waiting" => return false,
            "discussion_started" => task.talk = Some("discussed".to_owned()),
            "discussion_turn" | "discussion_entry" => {
                let round = data["round"].as_i64().filter(|round| *round > 1);
                let round = round.map(|round| format!(", round {round}")).unwrap_or_default();
                task.talk = Some(format!("discussed{round}"));
            }
            "discussion_escalated" => task.talk = Some("waits for a decision".to_owned()),
            "discussion_decided" | "discussion_resolved" => task.talk = None,
            _ => {}
        }
        true
    }

    /// What a task is called here.
    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.place.get(id).map_or(id, |place| self.tasks[*place].key.as_str())
    }
}

impl Task {
    fn ends(&mut self, status: &str, at: Option<Timestamp>) {
        self.status = status.to_owned();
        self.talk = None;
        self.waiting = None;
        if let (Some(began), Some(at)) = (self.began.take(), at) {
            self.took += at.since(began);
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn moment(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// `1200 tokens, $0.0123`; nothing before anything was spent.
fn spent(budget: &Value) -> String {
    let tokens = budget["spent"]["tokens"].as_i64().unwrap_or(0);
    if tokens == 0 {
        return String::new();
    }
    let dollars = budget["spent"]["usd"].as_f64().filter(|dollars| *dollars > 0.0);
    let dollars = dollars.map(|dollars| format!(", ${dollars:.4}")).unwrap_or_default();
    format!("{tokens} tokens{dollars}")
}
