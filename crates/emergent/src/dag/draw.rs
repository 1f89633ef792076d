//! The picture itself. When it does not fit, layers that are done, then layers that wait, become
//! one line; what is at work stays.

use std::time::Duration;

use emergent_domain::{task::TaskStatus, time::Timestamp, workflow::WorkflowStatus};

use super::{Dag, DiscussionState, Task, layers::layers};
use crate::output::{duration, first_line};

const MAX_KEY_WIDTH: usize = 32;
const MAX_AGENT_WIDTH: usize = 24;
const MAX_WAITS_WIDTH: usize = 48;

/// How it is drawn.
#[derive(Debug, Clone, Copy)]
pub struct RenderOptions {
    pub colour: bool,
    pub width: usize,
    /// Lines there are room for.
    pub height: usize,
    pub now: Timestamp,
}

impl RenderOptions {
    /// For a page that has no end.
    pub fn plain(now: Timestamp) -> Self {
        Self { colour: false, width: usize::MAX, height: usize::MAX, now }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// One or more layers in the picture.
enum Row<'a> {
    Tasks { layer: usize, tasks: Vec<&'a Task> },
    Folded { first: usize, last: usize, sign: &'static str, count: usize, word: &'static str },
}

impl Row<'_> {
    fn height(&self) -> usize {
        match self {
            Row::Tasks { tasks, .. } => tasks.len(),
            Row::Folded { .. } => 1,
        }
    }
}

impl Dag {
    /// The whole picture: what it is about, then its tasks.
    pub fn lines(&self, look: &RenderOptions) -> Vec<String> {
        let mut lines = vec![self.head(look)];
        if self.tasks.is_empty() {
            let waits = match self.status {
                WorkflowStatus::Planning => "its tasks are being planned",
                _ => "no tasks",
            };
            lines.push(look.paint("2", waits));
        }
        let rows = self.fit_rows(look.height.saturating_sub(1));
        let widths = Widths::measure(&self.tasks);
        let last = rows.iter().map(last_layer).max().unwrap_or(0);
        let number = last.to_string().len().max(if rows.iter().any(is_folded) {
            2 * last.to_string().len() + 1
        } else {
            0
        });
        for row in &rows {
            match row {
                Row::Tasks { layer, tasks } => {
                    for (at, task) in tasks.iter().enumerate() {
                        let label = if at == 0 { layer.to_string() } else { String::new() };
                        let joint = match (at, tasks.len()) {
                            (_, 1) => "─",
                            (0, _) => "┬",
                            (at, all) if at + 1 == all => "└",
                            _ => "├",
                        };
                        let frame = look.paint("2", &format!("{label:>number$} {joint}"));
                        lines.push(format!("{frame} {}", self.task(task, &widths, look)));
                    }
                }
                Row::Folded { first, last, sign, count, word } => {
                    let label = if first == last { first.to_string() } else { format!("{first}–{last}") };
                    let frame = look.paint("2", &format!("{label:>number$} ─"));
                    lines.push(format!("{frame} {sign} {count} {word}"));
                }
            }
        }
        if lines.len() > look.height {
            let room = look.height.saturating_sub(1).max(1);
            let left = lines.len() - room;
            lines.truncate(room);
            lines.push(look.paint("2", &format!("… {left} lines more")));
        }
        if look.width < usize::MAX {
            for line in &mut lines {
                *line = console::truncate_str(line, look.width, "…").into_owned();
            }
        }
        lines
    }

    fn head(&self, look: &RenderOptions) -> String {
        let done = self.tasks.iter().filter(|task| task.status == TaskStatus::Completed).count();
        let sign = match self.status {
            WorkflowStatus::Completed => look.paint("32", "✓"),
            WorkflowStatus::Failed | WorkflowStatus::Cancelled => look.paint("31", "✗"),
            WorkflowStatus::Escalated => look.paint("33", "⚑"),
            WorkflowStatus::Planning | WorkflowStatus::Running => "▸".to_owned(),
        };
        let mut facts = vec![self.status.to_string(), format!("{done} of {} done", self.tasks.len())];
        facts.push(time(self.ended.unwrap_or(look.now).since(self.started_at)));
        facts.extend(Some(self.spent.clone()).filter(|spent| !spent.is_empty()));
        let title = look.paint("1", &first_line(&self.description, 60));
        format!("{sign} {title}  {}", look.paint("2", &facts.join("  ")))
    }

    fn task(&self, task: &Task, widths: &Widths, look: &RenderOptions) -> String {
        let waits = self.is_waiting(task);
        let (sign, colour) = match task.status {
            TaskStatus::Completed => ("✓", "32"),
            TaskStatus::Failed => ("✗", "31"),
            TaskStatus::Skipped => ("⊘", "2"),
            TaskStatus::Paused => ("⏸", "33"),
            TaskStatus::InProgress if task.discussion == Some(DiscussionState::Escalated) => ("⚑", "33"),
            TaskStatus::InProgress => ("▸", "36"),
            TaskStatus::Pending if waits => ("·", "2"),
            TaskStatus::Pending => ("◦", "0"),
        };
        let key = pad(&task.key, widths.key);
        let key = if task.status == TaskStatus::InProgress { look.paint("1", &key) } else { key };
        let agent = look.paint("2", &pad(&task.agent, widths.agent));
        let again = if task.attempt > 1 { format!("×{}", task.attempt) } else { String::new() };
        let under_way = task.started_at.map_or(Duration::ZERO, |began| look.now.since(began));
        let took = task.took + under_way;
        let took = if task.started_at.is_none() && took.is_zero() { String::new() } else { time(took) };
        let mut line = format!("{} {key}  {agent}  {again:<3}  {took:>7}", look.paint(colour, sign));
        if let Some(talk) = &task.discussion {
            line.push_str(&format!("  {talk}"));
        }
        if !task.blocked_by.is_empty() {
            let waits = first_line(&task.blocked_by.join(", "), MAX_WAITS_WIDTH);
            line.push_str(&format!("  {}", look.paint("2", &format!("← {waits}"))));
        }
        if let Some(waiting) = &task.waiting {
            line.push_str(&format!("  {}", look.paint("33", waiting)));
        }
        line.trim_end().to_owned()
    }

    /// Whether something it waits for is not completed. What is of another workflow is not known.
    fn is_waiting(&self, task: &Task) -> bool {
        let completed = |key: &String| {
            let found = self.tasks.iter().find(|one| &one.key == key);
            found.is_some_and(|one| one.status == TaskStatus::Completed)
        };
        !task.blocked_by.iter().all(completed)
    }

    /// The layers, folded as far as there is need.
    fn fit_rows(&self, height: usize) -> Vec<Row<'_>> {
        let mut rows: Vec<Row<'_>> = layers(&self.tasks)
            .into_iter()
            .enumerate()
            .map(|(at, layer)| Row::Tasks {
                layer: at + 1,
                tasks: layer.into_iter().map(|place| &self.tasks[place]).collect(),
            })
            .collect();
        for (status, sign, word) in
            [(TaskStatus::Completed, "✓", "done"), (TaskStatus::Pending, "·", "waiting")]
        {
            if rows.iter().map(Row::height).sum::<usize>() <= height {
                break;
            }
            rows = fold(rows, status, sign, word);
        }
        rows
    }
}

/// Makes one line of layers beside one another whose tasks all have this status.
fn fold<'a>(rows: Vec<Row<'a>>, status: TaskStatus, sign: &'static str, word: &'static str) -> Vec<Row<'a>> {
    let mut folded: Vec<Row<'a>> = Vec::new();
    for row in rows {
        match row {
            Row::Tasks { layer, tasks } if tasks.iter().all(|task| task.status == status) => {
                match folded.last_mut() {
                    Some(Row::Folded { last, count, word: of, .. }) if *of == word => {
                        (*last, *count) = (layer, *count + tasks.len());
                    }
                    _ => {
                        folded.push(Row::Folded { first: layer, last: layer, sign, count: tasks.len(), word })
                    }
                }
            }
            other => folded.push(other),
        }
    }
    folded
}

fn last_layer(row: &Row<'_>) -> usize {
    match row {
        Row::Tasks { layer, .. } => *layer,
        Row::Folded { last, .. } => *last,
    }
}

fn is_folded(row: &Row<'_>) -> bool {
    matches!(row, Row::Folded { first, last, .. } if first != last)
}

struct Widths {
    key: usize,
    agent: usize,
}

impl Widths {
    fn measure(tasks: &[Task]) -> Self {
        let widest = |of: fn(&Task) -> &str, most: usize| {
            let widths = tasks.iter().map(|task| console::measure_text_width(of(task)));
            widths.max().unwrap_or(0).min(most)
        };
        Self {
            key: widest(|task| &task.key, MAX_KEY_WIDTH),
            agent: widest(|task| &task.agent, MAX_AGENT_WIDTH),
        }
    }
}

fn pad(text: &str, width: usize) -> String {
    console::pad_str(text, width, console::Alignment::Left, Some("…")).into_owned()
}

fn time(took: Duration) -> String {
    duration(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}
