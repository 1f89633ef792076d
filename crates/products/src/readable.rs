//! Reads as much of a manifest as can be read, so that an author sees all of its problems at once. A placeholder stands
//! for each part that cannot be read. A manifest with placeholders has problems, so it is never installed.

use emergent_domain::{invalid::Problem, parse_message::in_plain_words};
use serde_json::{Map, Value, json};
use serde_path_to_error::Segment;

use crate::{
    manifest::Manifest,
    problem::{ManifestProblem, pointer_segment},
};

/// The most parts that are replaced. A manifest with more unreadable parts is reported without the problems that depend
/// on the rest.
const MAX_UNREADABLE: usize = 200;
/// How much is read for that. Each part that cannot be read makes the whole manifest be read once more.
const MAX_READ_BYTES: usize = 16 << 20;
/// Where a list is, and what an item needs besides its name.
type List = (&'static [&'static str], fn() -> Value);
/// The lists whose items are replaced one by one. The positions of the other items stay the same.
const LISTS: [List; 6] = [
    (&["agents"], || json!({})),
    (&["jobs"], || json!({})),
    (&["template_packs"], || json!({ "version": "0.0.0" })),
    (&["mcp", "servers"], || json!({ "transport": "http", "url": "https://unreadable.invalid/" })),
    (&["mcp", "prompts"], || json!({ "messages": [] })),
    (&["a2a", "agents"], || json!({ "url": "https://unreadable.invalid/" })),
];

/// What could be read of a manifest.
pub(crate) struct Readable {
    /// `None` if too little could be read.
    pub manifest: Option<Manifest>,
    /// The manifest with the placeholders.
    pub repaired: Value,
    /// The pointers to the parts for which placeholders stand.
    pub unread: Vec<String>,
    /// Why these parts could not be read.
    pub problems: Vec<ManifestProblem>,
}

/// Whether a pointer is one of `unread`, or leads into one.
pub(crate) fn is_unread(unread: &[String], pointer: &str) -> bool {
    unread.iter().any(|unread| {
        pointer.strip_prefix(unread.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Reads a manifest. `raw` is the original, in which problems are located; `readable` is without unknown fields.
pub(crate) fn read(raw: &Value, mut readable: Value) -> Readable {
    let (mut problems, mut unread) = (Vec::new(), Vec::new());
    let bytes = serde_json::to_vec(&readable).map_or(MAX_READ_BYTES, |text| text.len()).max(1);
    for _ in 0..(MAX_READ_BYTES / bytes).clamp(1, MAX_UNREADABLE) {
        let error = match serde_path_to_error::deserialize::<_, Manifest>(&readable) {
            Ok(manifest) => {
                let manifest = Some(Manifest { unread: unread.clone(), ..manifest });
                return Readable { manifest, repaired: readable, unread, problems };
            }
            Err(error) => error,
        };
        let path: Vec<Segment> = error.path().iter().cloned().collect();
        let field = error.path().to_string();
        let field = if field == "." { String::new() } else { field.replace(".?", "") };
        let message = in_plain_words(&error.into_inner().to_string());
        problems.push(ManifestProblem::from_field(raw, "", Problem::new(field, message)));
        match replace(&mut readable, &path) {
            Some(pointer) => unread.push(pointer),
            None => break,
        }
    }
    Readable { manifest: None, repaired: readable, unread, problems }
}

/// Replaces or removes the part at a path that cannot be read. Returns its pointer, or `None` if nothing was changed.
fn replace(readable: &mut Value, path: &[Segment]) -> Option<String> {
    let root = readable.as_object_mut()?;
    for (list, placeholder) in LISTS {
        let is_below =
            path.len() > list.len() && list.iter().zip(path).all(|(name, step)| is_key(step, name));
        if is_below && let Segment::Seq { index } = &path[list.len()] {
            let pointer = format!("/{}/{index}", list.join("/"));
            let item = readable.pointer_mut(&pointer)?;
            return replace_in_item(item, &pointer, &path[list.len() + 1..], placeholder());
        }
    }
    match path {
        // A name or a version is missing.
        [] => {
            let (name, value) = required().into_iter().find(|(name, _)| !root.contains_key(*name))?;
            root.insert(name.to_owned(), value);
            Some(pointer_segment(name))
        }
        [Segment::Map { key }, ..] if required().iter().any(|(name, _)| name == key) => {
            let value = required().into_iter().find(|(name, _)| name == key)?.1;
            let before = root.insert(key.clone(), value.clone());
            (before != Some(value)).then(|| pointer_segment(key))
        }
        [Segment::Map { key }, Segment::Map { key: below }, ..] if root[key].is_object() => {
            let removed = root.get_mut(key)?.as_object_mut()?.remove(below);
            removed.map(|_| format!("{}{}", pointer_segment(key), pointer_segment(below)))
        }
        [Segment::Map { key }, ..] => root.remove(key).map(|_| pointer_segment(key)),
        _ => None,
    }
}

/// The fields that a manifest needs, with placeholders.
fn required() -> [(&'static str, Value); 2] {
    [("name", json!("unreadable")), ("version", json!("0.0.0"))]
}

/// Removes the field of an item that cannot be read, or replaces the whole item, which keeps its name. Of the schemas of a
/// pack, only the one is removed that cannot be read: they do not depend on each other.
fn replace_in_item(item: &mut Value, pointer: &str, path: &[Segment], placeholder: Value) -> Option<String> {
    if let [Segment::Map { key }, Segment::Map { key: type_ }, ..] = path
        && key.ends_with("_type_schemas")
        && let Some(Value::Object(schemas)) = item.get_mut(key)
        && schemas.remove(type_).is_some()
    {
        return Some(format!("{pointer}{}{}", pointer_segment(key), pointer_segment(type_)));
    }
    if let Some(Segment::Map { key }) = path.first()
        && key != "name"
        && item.as_object_mut().and_then(|fields| fields.remove(key)).is_some()
    {
        return Some(format!("{pointer}{}", pointer_segment(key)));
    }
    let mut replaced = Map::from_iter(placeholder.as_object().cloned().unwrap_or_default());
    let name = item["name"].as_str().map_or_else(|| pointer[1..].replace('/', "-"), str::to_owned);
    replaced.insert("name".to_owned(), name.into());
    let replaced = Value::Object(replaced);
    let is_new = *item != replaced;
    *item = replaced;
    is_new.then(|| pointer.to_owned())
}

fn is_key(step: &Segment, name: &str) -> bool {
    matches!(step, Segment::Map { key } if key == name)
}
