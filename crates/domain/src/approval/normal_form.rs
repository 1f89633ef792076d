//! The normal form of an input: as its tool reads it, whichever way it is written.
//!
//! Several inputs can make the same call: one item alone or in a list, a name or an object with the name, a field that is
//! left out because it means the task of the agent. A rule would hold for one of them and not for the others, so rules judge
//! the normal form. What each tool reads in another way is in [`SHAPES`]. A test in the crate of the tools finds the tools
//! of which something is missing there.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::{
    filter::Path,
    ids::{ObjectId, RunId, WorkflowId},
};

/// What a run works at. Inputs leave it out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnWork {
    pub run: Option<RunId>,
    pub task: Option<ObjectId>,
    /// The workflow of the task, or the one that the run started.
    pub workflow: Option<WorkflowId>,
}

/// What a tool takes for a field that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    Run,
    Task,
    Workflow,
}

/// How a tool reads its input.
#[derive(Debug, Clone, Copy)]
struct Shape {
    tools: &'static [&'static str],
    /// The list in which the input itself is an item, if it has this field.
    single: Option<(&'static str, &'static str)>,
    /// A field with one more item of a list.
    further: Option<(&'static str, &'static str)>,
    /// A list whose items may be written as a text, which is this field of the item.
    short: Option<(&'static str, &'static str)>,
    /// The fields that mean something of the run when they are left out.
    own: &'static [(&'static str, Own)],
    /// A field beside which the others do not mean anything of the run.
    unless: Option<&'static str>,
    /// Whether what its items judge is what they wait for, if they do not name it.
    judges_blockers: bool,
}

const PLAIN: Shape = Shape {
    tools: &[],
    single: None,
    further: None,
    short: None,
    own: &[],
    unless: None,
    judges_blockers: false,
};

const SHAPES: &[Shape] = &[
    Shape { tools: &["entities_create"], single: Some(("type", "objects")), ..PLAIN },
    Shape { tools: &["relationships_create"], single: Some(("type", "relationships")), ..PLAIN },
    Shape {
        tools: &["tasks_create"],
        single: Some(("title", "tasks")),
        own: &[("workflowId", Own::Workflow)],
        judges_blockers: true,
        ..PLAIN
    },
    Shape {
        tools: &["create_subtasks"],
        further: Some(("synthesis", "tasks")),
        judges_blockers: true,
        ..PLAIN
    },
    Shape { tools: &["tasks_update"], own: &[("workflowId", Own::Workflow)], ..PLAIN },
    Shape {
        tools: &["tasks_dependencies"],
        own: &[("id", Own::Task), ("workflowId", Own::Workflow)],
        ..PLAIN
    },
    Shape {
        tools: &["tasks_list", "tasks_available"],
        own: &[("workflowId", Own::Workflow)],
        unless: Some("allWorkflows"),
        ..PLAIN
    },
    Shape {
        tools: &["discussions_start"],
        short: Some(("participants", "agent")),
        own: &[("task", Own::Task)],
        ..PLAIN
    },
    Shape { tools: &["discussions_get"], own: &[("task", Own::Task)], unless: Some("id"), ..PLAIN },
    Shape { tools: &["runs_get", "runs_messages"], own: &[("id", Own::Run)], ..PLAIN },
];

/// What follows the name of a list with short forms, in the name of the list with all items in their short form. No tool
/// has such a field.
const IN_SHORT: &str = "-in-short";

/// An input in its normal form.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalInput<'a> {
    /// What is written in the input, with the items of its lists in full.
    written: Cow<'a, Value>,
    /// Also with what is left out, and with a single item in the list for several; `None` if that is the same.
    completed: Option<Value>,
    /// The list of which `written` has another one with short forms.
    short: Option<&'static str>,
}

impl<'a> NormalInput<'a> {
    /// An input of a tool that is not of this server, as it is written.
    pub fn as_written(input: &'a Value) -> Self {
        Self { written: Cow::Borrowed(input), completed: None, short: None }
    }

    /// The input of a tool of this server. `own` is what the run that makes the call works at.
    pub fn new(tool: &str, input: &'a Value, own: &OwnWork) -> Self {
        let (Some(shape), Some(given)) = (shape_of(tool), input.as_object()) else {
            return Self::as_written(input);
        };
        let written = match with_full_items(shape, given) {
            Some(written) => Cow::Owned(Value::Object(written)),
            None => Cow::Borrowed(input),
        };
        let completed = written.as_object().and_then(|written| complete(shape, written, own));
        let short = shape.short.map(|(list, _)| list);
        Self { completed: completed.map(Value::Object), written, short }
    }

    /// The same input, for another thread.
    pub fn into_owned(self) -> NormalInput<'static> {
        NormalInput {
            written: Cow::Owned(self.written.into_owned()),
            completed: self.completed,
            short: self.short,
        }
    }

    /// The input without what is left out of it. This is what `exists` looks at.
    pub fn written(&self) -> &Value {
        &self.written
    }

    /// The input with what is left out of it.
    pub fn completed(&self) -> &Value {
        self.completed.as_ref().unwrap_or(&self.written)
    }

    /// The path at which the input has the short forms of a list, if a path leads to the list or to one of its items.
    pub(super) fn path_in_short(&self, path: &Path) -> Option<Path> {
        let list = self.short?;
        let (first, rest) = path.segments().split_first()?;
        let is_item = rest.iter().all(|segment| segment.parse::<usize>().is_ok());
        if first != list || !is_item {
            return None;
        }
        let segments = std::iter::once(in_short(list)).chain(rest.iter().cloned());
        Path::parse(&segments.collect::<Vec<_>>().join(".")).ok()
    }
}

/// Whether an input leaves out something that means the task, the workflow or the run of the agent.
pub fn leaves_out_own(tool: &str, input: &Value) -> bool {
    let (Some(shape), Some(input)) = (shape_of(tool), input.as_object()) else { return false };
    left_out(shape, input).next().is_some()
}

/// Whether a rule is told what a tool reads in this field when it is left out, or is written in its short form.
pub fn is_normalised(tool: &str, field: &str) -> bool {
    shape_of(tool).is_some_and(|shape| {
        shape.own.iter().any(|(own, _)| *own == field)
            || shape.short.is_some_and(|(list, _)| list == field)
            || shape.further.is_some_and(|(further, _)| further == field)
            || shape.single.is_some_and(|(_, list)| list == field)
    })
}

fn shape_of(tool: &str) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| shape.tools.contains(&tool))
}

fn in_short(list: &str) -> String {
    format!("{list}{IN_SHORT}")
}

/// Whether a field is given. `null` leaves it out.
fn has(input: &Map<String, Value>, field: &str) -> bool {
    input.get(field).is_some_and(|value| !value.is_null())
}

/// The input with the items of its lists in full. `None` if it is written so.
fn with_full_items(shape: &Shape, input: &Map<String, Value>) -> Option<Map<String, Value>> {
    let further = shape.further.filter(|(field, _)| has(input, field));
    let short = shape.short.filter(|(list, _)| has(input, list));
    if further.is_none() && short.is_none() {
        return None;
    }
    let mut full = input.clone();
    if let Some((field, list)) = further {
        add_item(&mut full, list, input[field].clone());
    }
    if let Some((list, field)) = short {
        let in_full = |item: &Value| match item {
            Value::String(_) => Value::Object(Map::from_iter([(field.to_owned(), item.clone())])),
            other => other.clone(),
        };
        let shortened = |item: &Value| item.get(field).unwrap_or(item).clone();
        match &input[list] {
            Value::Array(items) => {
                full.insert(in_short(list), items.iter().map(shortened).collect());
                full.insert(list.to_owned(), items.iter().map(in_full).collect());
            }
            // The tool refuses it.
            other => drop(full.insert(in_short(list), other.clone())),
        }
    }
    Some(full)
}

/// The input itself as an item of a list for several.
fn single_item(input: &Map<String, Value>) -> Value {
    let of_item = input.iter().filter(|(_, value)| !is_list_of_objects(value));
    Value::Object(of_item.map(|(field, value)| (field.clone(), value.clone())).collect())
}

fn is_list_of_objects(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().any(Value::is_object))
}

fn add_item(input: &mut Map<String, Value>, list: &str, item: Value) {
    let items = input.entry(list).or_insert_with(|| Value::Array(Vec::new()));
    if items.is_null() {
        *items = Value::Array(Vec::new());
    }
    if let Value::Array(items) = items {
        items.push(item);
    }
}

/// The fields that an input leaves out because they mean something of the run.
fn left_out<'s>(
    shape: &'s Shape,
    input: &Map<String, Value>,
) -> impl Iterator<Item = &'s (&'static str, Own)> {
    let is_about_other = shape.unless.is_some_and(|field| has(input, field) && input[field] != false);
    shape.own.iter().filter(move |(field, _)| !is_about_other && !has(input, field))
}

/// The input with what is left out of it. `None` if nothing is.
fn complete(shape: &Shape, input: &Map<String, Value>, own: &OwnWork) -> Option<Map<String, Value>> {
    let mut completed: Option<Map<String, Value>> = None;
    if let Some((_, list)) = shape.single.filter(|(field, _)| has(input, field)) {
        add_item(completed.get_or_insert_with(|| input.clone()), list, single_item(input));
    }
    for (field, meaning) in left_out(shape, input) {
        let value = match meaning {
            Own::Run => own.run.map(|id| id.to_string()),
            Own::Task => own.task.map(|id| id.to_string()),
            Own::Workflow => own.workflow.map(|id| id.to_string()),
        };
        if let Some(value) = value {
            completed.get_or_insert_with(|| input.clone()).insert((*field).to_owned(), value.into());
        }
    }
    if shape.judges_blockers {
        complete_verifies(input, &mut completed);
    }
    completed
}

/// Adds the tasks that a task with a verdict judges because it waits for them, to the input and to each of its tasks.
fn complete_verifies(input: &Map<String, Value>, completed: &mut Option<Map<String, Value>>) {
    let own = judged_blockers(input);
    let tasks = completed.as_ref().unwrap_or(input).get("tasks").and_then(Value::as_array);
    let of_tasks: Vec<Option<Value>> =
        tasks.into_iter().flatten().map(|task| task.as_object().and_then(judged_blockers)).collect();
    if own.is_none() && of_tasks.iter().all(Option::is_none) {
        return;
    }
    let completed = completed.get_or_insert_with(|| input.clone());
    completed.extend(own.map(|judged| (VERIFIES.to_owned(), judged)));
    let tasks = completed.get_mut("tasks").and_then(Value::as_array_mut);
    for (task, judged) in tasks.into_iter().flatten().zip(of_tasks) {
        if let (Value::Object(task), Some(judged)) = (task, judged) {
            task.insert(VERIFIES.to_owned(), judged);
        }
    }
}

const VERIFIES: &str = "verifies";

/// What a task waits for, if it judges that because it does not say what it judges.
fn judged_blockers(task: &Map<String, Value>) -> Option<Value> {
    let names = |field: &str| task.get(field).and_then(Value::as_array).filter(|names| !names.is_empty());
    let judges = task.get("verdict").and_then(Value::as_str).is_some_and(|verdict| verdict != "none");
    let blockers = names("blockedBy").filter(|_| judges && names(VERIFIES).is_none())?;
    Some(Value::Array(blockers.clone()))
}

#[cfg(test)]
mod tests;
