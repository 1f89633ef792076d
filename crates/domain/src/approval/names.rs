//! The names of the objects in an input: an object can be named by its id and as `Type/key`, and a rule that names one
//! of them is about the object. A task can also be named by its key alone, and an entity that a call completes by its type
//! and key.
//!
//! One text can name several objects: a key is that of a live object, or of a deleted one, or looks like the id of a third,
//! and a call about an earlier time means the object that had the key then. Which of them a call finds depends on the tool
//! and on the moment, so all of them are candidates.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::NamedObject;
use crate::{
    filter::{Path, Scalar},
    ids::{ObjectId, PackId, WorkflowId},
    merge::merge_key,
    object::{NewObject, limits},
    object_ref::ObjectRef,
    task::TASK_TYPE,
    time::Timestamp,
};

/// The most objects that an input may name.
pub const MAX_REFERENCES: usize = 2_000;

/// The most objects that an input with `asOf` may name: finding each of them in the past takes several statements.
pub const MAX_EARLIER_REFERENCES: usize = 200;

/// The names of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectNames {
    id: Value,
    /// `Type/id`, as lists name an object without a key, with its type now and with each that it had.
    typed_ids: Vec<Value>,
    /// `Type/key`, the present one first.
    keys: Vec<Value>,
    /// The names with a key, and `Type/id` for each type under which the object had none, now or before.
    with_key: Vec<Value>,
    /// As `with_key`, but those of a task with its key alone.
    alone: Vec<Value>,
    /// As `alone`, but those of a task of a workflow with its key there. If the task has another key there than its object
    /// tells, that one follows.
    in_workflow: Vec<Value>,
    /// Whether the object had further keys, which are not known.
    had_others: bool,
    is_deleted: bool,
    is_pack: bool,
}

/// What is known of the objects that an input names.
#[derive(Debug, Clone, PartialEq)]
pub enum InputNames {
    /// The names of the objects that each text of the input may name, by how it is written there.
    Known(HashMap<String, Vec<ObjectNames>>),
    /// There are more than can be looked up, or it is not known of which time they are. A rule may be about each.
    Unknown,
}

impl InputNames {
    /// The most names that there are.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Known(names) => names.values().flatten().map(ObjectNames::count).sum(),
            Self::Unknown => 0,
        }
    }
}

impl Default for InputNames {
    fn default() -> Self {
        Self::Known(HashMap::new())
    }
}

impl ObjectNames {
    /// `keys` are the names of the object with its key, now and before, each as `Type/key`.
    pub fn new(id: ObjectId, type_: &str, keys: Vec<String>) -> Self {
        Self {
            id: id.to_string().into(),
            typed_ids: vec![format!("{type_}/{id}").into()],
            keys: keys.into_iter().map(|key| canonical_text(&key).unwrap_or(key).into()).collect(),
            with_key: Vec::new(),
            alone: Vec::new(),
            in_workflow: Vec::new(),
            had_others: false,
            is_deleted: false,
            is_pack: false,
        }
        .without_key_as(&[])
    }

    /// The names of a template pack, which a call names by its id, as `name@version`, or by its name for the newest version.
    pub fn of_pack(id: PackId, name: &str, version: &str, is_newest: bool) -> Self {
        let with_version = vec![Value::from(format!("{name}@{version}"))];
        // A rule that allows the name allows the version for which it stands. Any other rule holds for all versions.
        let alone = if is_newest { vec![Value::from(name)] } else { with_version.clone() };
        Self {
            id: id.to_string().into(),
            typed_ids: vec![name.into()],
            keys: with_version.clone(),
            with_key: with_version,
            in_workflow: alone.clone(),
            alone,
            had_others: false,
            is_deleted: false,
            is_pack: true,
        }
    }

    /// The same object, which had no key under each of these types, now or before.
    #[must_use]
    pub fn without_key_as(mut self, types: &[String]) -> Self {
        let Some(id) = self.id.as_str() else { return self };
        let typed_id = |type_: &str| Value::from(format!("{type_}/{id}"));
        let with_keys = self.keys.iter().filter_map(|name| Some(name.as_str()?.split_once('/')?.0));
        let mut typed_ids = self.typed_ids.clone();
        for name in types.iter().map(String::as_str).chain(with_keys).map(typed_id) {
            if !typed_ids.contains(&name) {
                typed_ids.push(name);
            }
        }
        // An object that has a key now and had none before was renamed, so this is one of its names.
        let mut typed: Vec<Value> = Vec::new();
        let present = self.typed_ids.first().filter(|_| self.keys.is_empty()).cloned();
        for name in present.into_iter().chain(types.iter().map(|type_| typed_id(type_))) {
            if !typed.contains(&name) {
                typed.push(name);
            }
        }
        self.alone = self.keys.iter().map(|name| task_key(name).unwrap_or_else(|| name.clone())).collect();
        self.alone.extend(typed.iter().cloned());
        let in_workflow = |alone: &Value| without_workflow(alone).unwrap_or_else(|| alone.clone());
        let keys_alone =
            self.keys.iter().map(|name| task_key(name).map_or_else(|| name.clone(), |key| in_workflow(&key)));
        self.in_workflow = keys_alone.chain(typed.iter().cloned()).collect();
        self.with_key = self.keys.iter().cloned().chain(typed).collect();
        self.typed_ids = typed_ids;
        self
    }

    /// The same object, which is a task with this key in its workflow. Comes after the types.
    #[must_use]
    pub fn with_key_in_workflow(mut self, key: &str) -> Self {
        let key = Value::from(key);
        // No call finds a task by another text.
        if key == "" || !may_be_task_key(&key) {
            return self;
        }
        let Some(id) = self.id.as_str() else { return self };
        // Without a key of its object, this is how a task is written alone.
        let without_key = format!("{TASK_TYPE}/{id}");
        for name in self.in_workflow.iter_mut().filter(|name| name.as_str() == Some(without_key.as_str())) {
            *name = key.clone();
        }
        if !self.in_workflow.contains(&key) {
            self.in_workflow.push(key);
        }
        self
    }

    /// The same object, which is deleted.
    #[must_use]
    pub fn deleted(self) -> Self {
        Self { is_deleted: true, ..self }
    }

    /// The same object, which had other keys as well. Nothing is known of them, so a rule may be about each.
    #[must_use]
    pub fn with_unknown_keys(self) -> Self {
        Self { had_others: true, ..self }
    }

    pub(super) fn has_unknown_keys(&self) -> bool {
        self.had_others
    }

    /// The object itself.
    pub fn object(&self) -> Option<NamedObject> {
        Some(NamedObject { id: self.id.as_str()?.parse().ok()?, is_deleted: self.is_deleted })
    }

    pub(super) fn id(&self) -> &Value {
        &self.id
    }

    /// All names. Only those of tasks are also written alone and in a workflow, so the others are there once.
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        let with_key = self.typed_ids.iter().chain(&self.keys);
        let alone = differing(&self.alone, &self.with_key);
        let in_workflow = differing(&self.in_workflow, &self.alone);
        std::iter::once(&self.id).chain(with_key).chain(alone).chain(in_workflow)
    }

    /// The most names that [`ObjectNames::all`] has.
    pub(super) fn count(&self) -> usize {
        1 + self.typed_ids.len() + self.keys.len() + self.alone.len() + self.in_workflow.len()
    }

    /// The names with a key, each with how it is written alone, and in a workflow, if it is that of a task. A type under
    /// which the object had no key is there with the id.
    pub(super) fn with_key(&self) -> impl Iterator<Item = [&Value; 3]> {
        let alone = self.alone.iter().zip(&self.in_workflow);
        self.with_key.iter().zip(alone).map(|(name, (alone, in_workflow))| [name, alone, in_workflow])
    }

    /// The names that are written like this one: the id, or those with a key. `may_be_alone`: a text that does not begin
    /// like the name of a task may be the key of one, that of its object or the one in its workflow.
    pub(super) fn like(&self, text: &str, may_be_alone: bool) -> &[Value] {
        if text.parse::<ObjectId>().is_ok() {
            std::slice::from_ref(&self.id)
        } else if !may_be_alone || names_task(text) || self.is_pack && text.contains('@') {
            &self.with_key
        } else if begins_with_workflow(text) {
            &self.alone
        } else {
            &self.in_workflow
        }
    }
}

/// The names that differ from those in the same place of another list.
fn differing<'a>(names: &'a [Value], others: &'a [Value]) -> impl Iterator<Item = &'a Value> {
    names.iter().enumerate().filter(|(place, name)| others.get(*place) != Some(name)).map(|(_, name)| name)
}

/// Whether a text names a task as `Type/key`.
fn names_task(text: &str) -> bool {
    text.strip_prefix(TASK_TYPE).is_some_and(|rest| rest.starts_with('/'))
}

/// The key alone, of the name of a task.
fn task_key(name: &Value) -> Option<Value> {
    Some(name.as_str()?.strip_prefix(TASK_TYPE)?.strip_prefix('/')?.into())
}

/// Whether a text begins as the key of the object of a task that a workflow made.
fn begins_with_workflow(text: &str) -> bool {
    text.split_once('/').is_some_and(|(workflow, _)| workflow.parse::<WorkflowId>().is_ok())
}

/// The key in the workflow, of the key of the object of a task that a workflow made.
fn without_workflow(alone: &Value) -> Option<Value> {
    let (workflow, key) = alone.as_str()?.split_once('/')?;
    (workflow.parse::<WorkflowId>().is_ok() && !key.is_empty()).then(|| key.into())
}

/// Whether a value of an input may be the key of a task alone.
pub(super) fn may_be_task_key(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !names_task(text) && text.parse::<ObjectId>().is_err())
}

/// A text with an id, alone or after a type, as ids are written in names, so that upper case makes no difference. `None`
/// if it has no id, or is written so already.
pub(super) fn canonical_text(text: &str) -> Option<String> {
    let canonical = match text.split_once('/') {
        Some((type_, id)) => format!("{type_}/{}", id.parse::<ObjectId>().ok()?),
        None => text.parse::<ObjectId>().ok()?.to_string(),
    };
    (canonical != text).then_some(canonical)
}

/// A scalar with its id as ids are written in names.
pub(super) fn canonical(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Text(text) => Scalar::Text(canonical_text(&text).unwrap_or(text)),
        other => other,
    }
}

/// What an input names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct References {
    /// How each object is written, and how that can be read. A text that can be read in two ways is there twice.
    pub objects: Vec<(String, ObjectRef)>,
    /// The time of which the call reads.
    pub as_of: Option<Timestamp>,
    /// The workflow in which the keys of tasks are looked up, if the input names it.
    pub workflow: Option<WorkflowId>,
}

/// Returns the references to objects in an input. `None` if there are more than [`MAX_REFERENCES`], or than
/// [`MAX_EARLIER_REFERENCES`] with `asOf`, or if it cannot be read of which time they are.
pub fn references(input: &Value) -> Option<References> {
    let mut found = Found::new();
    visit(input, Names::Nothing, &mut found);
    if input["merge"] == Value::Bool(true) {
        let several = input["objects"].as_array().into_iter().flatten();
        for reference in several.chain([input]).filter_map(completed_object) {
            add(&mut found, &reference.to_string(), reference);
        }
    }
    let as_of = match &input["asOf"] {
        Value::Null => None,
        time => Some(time.as_str()?.parse::<Timestamp>().ok()?),
    };
    let limit = if as_of.is_some() { MAX_EARLIER_REFERENCES } else { MAX_REFERENCES };
    if found.len() > limit {
        return None;
    }
    let pairs = |(text, readings): (String, Vec<ObjectRef>)| {
        readings.into_iter().map(move |reading| (text.clone(), reading))
    };
    Some(References {
        objects: found.into_iter().flat_map(pairs).collect(),
        as_of,
        workflow: input["workflowId"].as_str().and_then(|id| id.parse().ok()),
    })
}

/// The references, by how they are written.
type Found = BTreeMap<String, Vec<ObjectRef>>;

fn add(found: &mut Found, text: &str, reference: ObjectRef) {
    let readings = found.entry(text.to_owned()).or_default();
    if !readings.contains(&reference) {
        readings.push(reference);
    }
}

/// What the texts of a field name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Nothing,
    /// An object: its id or `Type/key`.
    Object,
    /// An object, or a task by its key alone.
    Task,
}

/// Collects the texts of an input that may name an object. Content names none.
fn visit(value: &Value, names: Names, found: &mut Found) {
    if found.len() > MAX_REFERENCES {
        return;
    }
    match value {
        Value::String(text) if names != Names::Nothing => {
            for reference in readings(text, names) {
                add(found, text, reference);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| visit(item, names, found)),
        Value::Object(fields) => {
            for (field, value) in fields.iter().filter(|(field, _)| !is_content(field)) {
                visit(value, names_in(field), found);
            }
        }
        _ => {}
    }
}

/// How a text can be read. The key of a task may have slashes, and then looks like `Type/key`.
fn readings(text: &str, names: Names) -> impl Iterator<Item = ObjectRef> {
    let reference: Option<ObjectRef> = text.parse().ok();
    let is_id = matches!(reference, Some(ObjectRef::Id(_)));
    let may_be_task = names == Names::Task && !is_id && !names_task(text);
    let is_key = !text.is_empty() && text.len() <= limits::KEY && !text.contains('\0');
    let task =
        (may_be_task && is_key).then(|| ObjectRef::Key { type_: TASK_TYPE.to_owned(), key: text.to_owned() });
    reference.into_iter().chain(task)
}

/// The object that an entity with `merge` completes, if one has its key.
fn completed_object(entity: &Value) -> Option<ObjectRef> {
    let new = NewObject {
        type_: entity["type"].as_str()?.to_owned(),
        key: entity["key"].as_str().map(str::to_owned),
        status: None,
        labels: Vec::new(),
        properties: entity["properties"].as_object().cloned().unwrap_or_default(),
    };
    let key = merge_key(&new)?;
    // What is no reference is no valid entity either.
    format!("{}/{key}", new.type_).parse().ok()
}

/// Whether a field of the inputs of tools holds what is stored as it is.
fn is_content(field: &str) -> bool {
    matches!(field, "properties" | "output" | "data" | "metadata")
}

/// What the fields of the inputs of tools name.
fn names_in(field: &str) -> Names {
    match field {
        "id" | "task" | "blockedBy" | "verifies" => Names::Task,
        "ids" | "fromId" | "toId" | "startIds" => Names::Object,
        _ => Names::Nothing,
    }
}

/// Whether a path leads to references, or to one of a list of them.
pub(super) fn leads_to_reference(path: &Path) -> bool {
    reference_field(path).is_some()
}

/// Whether a path leads to what is stored as it is.
pub(super) fn leads_to_content(path: &Path) -> bool {
    path.segments().iter().any(|segment| is_content(segment))
}

/// The place in a path of the field with references to which it leads.
fn reference_field(path: &Path) -> Option<usize> {
    let segments = path.segments();
    let place = segments.iter().rposition(|segment| segment.parse::<usize>().is_err())?;
    let is_reference = names_in(&segments[place]) != Names::Nothing && !leads_to_content(path);
    is_reference.then_some(place)
}

/// The path of the other field by which the same tools name objects: `ids` for `id`, and `id` for `ids`.
pub(super) fn other_field(path: &Path) -> Option<Path> {
    let place = reference_field(path)?;
    let other = match path.segments()[place].as_str() {
        "id" => "ids",
        "ids" => "id",
        _ => return None,
    };
    let before = path.segments()[..place].iter().map(String::as_str);
    Path::parse(&before.chain([other]).collect::<Vec<_>>().join(".")).ok()
}

#[cfg(test)]
mod tests;
