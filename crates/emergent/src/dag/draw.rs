//! Draws a workflow as lines: a head, then its tasks layer by layer. When the lines do not fit, layers that
//! are done, then layers that wait, are folded into one line each; layers with active tasks stay.

use std::time::Duration;

use emergent_domain::{task::TaskStatus, text::counted, time::Timestamp, workflow::WorkflowStatus};

use super::{Dag, DiscussionState, Task, layers::layers};
use crate::{
    hints,
    output::{self, duration, first_line},
    printable::printable_line,
    text::fit_line,
};

const MAX_DESCRIPTION_CHARS: usize = 60;
const MIN_DESCRIPTION_CHARS: usize = 12;
/// Says that a script answers instead of a model.
const REHEARSAL_MARK: &str = "rehearsal";
/// The sign of the head and the spaces between its parts.
const HEAD_GAPS: usize = 6;
/// Between the facts of the head.
const FACT_GAP: &str = "  ";
/// Before the facts that stand below the description.
const HEAD_INDENT: &str = "  ";
const MAX_KEY_WIDTH: usize = 32;
const MAX_AGENT_WIDTH: usize = 24;
const MAX_BLOCKERS_WIDTH: usize = 48;
/// What the API says of a task whose run waits for an approval or an answer.
const WAITS_FOR_PERSON: &str = "waits for a person";

/// How a workflow is drawn.
#[derive(Debug, Clone, Copy)]
pub struct RenderOptions {
    pub colour: bool,
    pub width: usize,
    /// The maximum number of lines.
    pub height: usize,
    /// The current time, from which elapsed times are computed.
    pub now: Timestamp,
}

impl RenderOptions {
    /// No colour and no limit of width or height.
    pub fn plain(now: Timestamp) -> Self {
        Self { colour: false, width: usize::MAX, height: usize::MAX, now }
    }

    /// Colours the text with an ANSI code (`1` bold, `2` dim, `32` green), if colour is on.
    fn paint(&self, code: &str, text: &str) -> String {
        output::paint(code, text, self.colour)
    }
}

/// A layer with its tasks, or several adjacent layers folded into one line.
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
    /// The lines of the drawing: the head, then the tasks.
    pub fn lines(&self, options: &RenderOptions) -> Vec<String> {
        let mut lines = self.head(options);
        if self.tasks.is_empty() {
            let notice = match self.status {
                WorkflowStatus::Planning => "its tasks are being planned",
                _ => "no tasks",
            };
            lines.push(options.paint("2", notice));
        }
        let rows = self.fit_rows(options.height.saturating_sub(lines.len()));
        let widths = Widths::measure(&self.tasks);
        // Wide enough for the highest layer number, or for a range such as `1–12`.
        let digits = rows.iter().map(last_layer).max().unwrap_or(0).to_string().len();
        let label_width = if rows.iter().any(spans_layers) { 2 * digits + 1 } else { digits };
        for row in &rows {
            match row {
                Row::Tasks { layer, tasks } => {
                    for (index, task) in tasks.iter().enumerate() {
                        let label = if index == 0 { layer.to_string() } else { String::new() };
                        let connector = match (index, tasks.len()) {
                            (_, 1) => "─",
                            (0, _) => "┬",
                            (index, count) if index + 1 == count => "└",
                            _ => "├",
                        };
                        let frame = options.paint("2", &format!("{label:>label_width$} {connector}"));
                        lines.push(format!("{frame} {}", self.task(task, &widths, options)));
                    }
                }
                Row::Folded { first, last, sign, count, word } => {
                    let label = if first == last { first.to_string() } else { format!("{first}–{last}") };
                    let frame = options.paint("2", &format!("{label:>label_width$} ─"));
                    lines.push(format!("{frame} {sign} {count} {word}"));
                }
            }
        }
        if lines.len() > options.height {
            let shown = options.height.saturating_sub(1).max(1);
            let hidden = lines.len() - shown;
            lines.truncate(shown);
            lines.push(options.paint("2", &format!("… {} more", counted(hidden as u64, "line"))));
        }
        if options.width < usize::MAX {
            for line in &mut lines {
                *line = fit_line(line, options.width);
            }
        }
        lines
    }

    /// The first line: status, description, progress, elapsed time and spend. On a narrow terminal, the description has
    /// a line of its own, and the others have as many as they need.
    fn head(&self, options: &RenderOptions) -> Vec<String> {
        let done = self.tasks.iter().filter(|task| task.status == TaskStatus::Completed).count();
        let sign = match self.status {
            WorkflowStatus::Completed => options.paint("32", "✓"),
            WorkflowStatus::Failed | WorkflowStatus::Cancelled => options.paint("31", "✗"),
            WorkflowStatus::Escalated => options.paint("33", "⚑"),
            WorkflowStatus::Planning | WorkflowStatus::Running => "▸".to_owned(),
        };
        let skipped = match self.tasks.iter().filter(|task| task.status == TaskStatus::Skipped).count() {
            0 => String::new(),
            skipped => format!(", {skipped} skipped"),
        };
        let mut facts =
            vec![self.status.to_string(), format!("{done} of {} done{skipped}", self.tasks.len())];
        facts.push(time(self.ended.unwrap_or(options.now).since(self.started_at)));
        facts.extend(Some(self.spent.clone()).filter(|spent| !spent.is_empty()));
        let title = |width: usize| options.paint("1", &first_line(&self.description, width));
        // The description gives way, so that the facts are always there.
        let reserved = console::measure_text_width(&facts.join(FACT_GAP)) + REHEARSAL_MARK.len() + HEAD_GAPS;
        let available = options.width.saturating_sub(reserved);
        let mark = self.rehearsal.then_some((REHEARSAL_MARK, "33"));
        let facts: Vec<_> = mark.into_iter().chain(facts.iter().map(|fact| (fact.as_str(), "2"))).collect();
        if available < MIN_DESCRIPTION_CHARS {
            let width = options.width.saturating_sub(HEAD_INDENT.len());
            let title = title(width.clamp(MIN_DESCRIPTION_CHARS, MAX_DESCRIPTION_CHARS));
            let facts = fact_lines(&facts, width, options).into_iter();
            let facts = facts.map(|line| format!("{HEAD_INDENT}{line}"));
            return std::iter::once(format!("{sign} {title}")).chain(facts).collect();
        }
        let facts = fact_lines(&facts, usize::MAX, options).concat();
        vec![format!("{sign} {}{FACT_GAP}{facts}", title(available.min(MAX_DESCRIPTION_CHARS)))]
    }

    /// The line of a task.
    fn task(&self, task: &Task, widths: &Widths, options: &RenderOptions) -> String {
        let is_blocked = self.is_blocked(task);
        let (sign, colour) = match task.status {
            TaskStatus::Completed => ("✓", "32"),
            TaskStatus::Failed => ("✗", "31"),
            TaskStatus::Skipped => ("⊘", "2"),
            TaskStatus::Paused => ("⏸", "33"),
            TaskStatus::InProgress if task.needs_person() => ("⚑", "33"),
            TaskStatus::InProgress => ("▸", "36"),
            TaskStatus::Pending if is_blocked => ("·", "2"),
            TaskStatus::Pending => ("◦", "0"),
        };
        let key = pad(&task.key, widths.key);
        let key = if task.status == TaskStatus::InProgress { options.paint("1", &key) } else { key };
        let agent = options.paint("2", &pad(&task.agent, widths.agent));
        let attempt = if task.attempt > 1 { format!("×{}", task.attempt) } else { String::new() };
        // Nothing goes on after the end of the workflow, also if a task has no event about its own end.
        let now = self.ended.unwrap_or(options.now);
        let current = task.started_at.map_or(Duration::ZERO, |started_at| now.since(started_at));
        let took = task.took + current;
        let took = if task.started_at.is_none() && took.is_zero() { String::new() } else { time(took) };
        let mut line = format!("{} {key}  {agent}  {attempt:<3}  {took:>7}", options.paint(colour, sign));
        if let Some(discussion) = &task.discussion {
            line.push_str(&format!("  {discussion}"));
        }
        if !task.blocked_by.is_empty() {
            let blockers = first_line(&task.blocked_by.join(", "), MAX_BLOCKERS_WIDTH);
            line.push_str(&format!("  {}", options.paint("2", &format!("← {blockers}"))));
        }
        let waiting = match task.run_waits() {
            true => Some(format!("{WAITS_FOR_PERSON}: {}", hints::command("inbox list"))),
            false => task.waiting.clone(),
        };
        if let Some(waiting) = waiting {
            line.push_str(&format!("  {}", options.paint("33", &printable_line(&waiting))));
        }
        line.trim_end().to_owned()
    }

    /// Whether a blocker is not completed. The status of blockers in other workflows is unknown here, so they
    /// count as not completed.
    fn is_blocked(&self, task: &Task) -> bool {
        let completed = |key: &String| {
            let blocker = self.tasks.iter().find(|task| &task.key == key);
            blocker.is_some_and(|task| task.status == TaskStatus::Completed)
        };
        !task.blocked_by.iter().all(completed)
    }

    /// The layers as rows, folded only as far as the height requires.
    fn fit_rows(&self, height: usize) -> Vec<Row<'_>> {
        let mut rows: Vec<Row<'_>> = layers(&self.tasks)
            .into_iter()
            .enumerate()
            .map(|(layer, indices)| Row::Tasks {
                layer: layer + 1,
                tasks: indices.into_iter().map(|index| &self.tasks[index]).collect(),
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

impl Task {
    /// Whether its run waits for an approval or an answer.
    fn run_waits(&self) -> bool {
        let waits = |waiting: &String| waiting.contains(WAITS_FOR_PERSON);
        self.status == TaskStatus::InProgress && self.waiting.as_ref().is_some_and(waits)
    }

    /// Whether it goes on only when a person has decided.
    fn needs_person(&self) -> bool {
        self.discussion == Some(DiscussionState::Escalated) || self.run_waits()
    }
}

/// Folds adjacent layers whose tasks all have this status into one row.
fn fold<'a>(rows: Vec<Row<'a>>, status: TaskStatus, sign: &'static str, word: &'static str) -> Vec<Row<'a>> {
    let mut folded: Vec<Row<'a>> = Vec::new();
    for row in rows {
        match row {
            Row::Tasks { layer, tasks } if tasks.iter().all(|task| task.status == status) => {
                match folded.last_mut() {
                    Some(Row::Folded { last, count, word: folded_word, .. }) if *folded_word == word => {
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

/// Whether the row stands for more than one layer.
fn spans_layers(row: &Row<'_>) -> bool {
    matches!(row, Row::Folded { first, last, .. } if first != last)
}

/// The widths of the columns.
struct Widths {
    key: usize,
    agent: usize,
}

impl Widths {
    fn measure(tasks: &[Task]) -> Self {
        let widest = |text: fn(&Task) -> &str, max: usize| {
            let widths = tasks.iter().map(|task| console::measure_text_width(&printable_line(text(task))));
            widths.max().unwrap_or(0).min(max)
        };
        Self {
            key: widest(|task| &task.key, MAX_KEY_WIDTH),
            agent: widest(|task| &task.agent, MAX_AGENT_WIDTH),
        }
    }
}

/// The facts of the head, each painted with its code, in lines of this width.
fn fact_lines(facts: &[(&str, &str)], width: usize, options: &RenderOptions) -> Vec<String> {
    let (mut lines, mut used): (Vec<String>, usize) = (Vec::new(), 0);
    for (fact, code) in facts {
        let (painted, columns) = (options.paint(code, fact), console::measure_text_width(fact));
        match lines.last_mut() {
            Some(line) if used + FACT_GAP.len() + columns <= width => {
                line.push_str(FACT_GAP);
                line.push_str(&painted);
                used += FACT_GAP.len() + columns;
            }
            _ => {
                lines.push(painted);
                used = columns;
            }
        }
    }
    lines
}

fn pad(text: &str, width: usize) -> String {
    console::pad_str(&printable_line(text), width, console::Alignment::Left, Some("…")).into_owned()
}

fn time(took: Duration) -> String {
    duration(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
}
