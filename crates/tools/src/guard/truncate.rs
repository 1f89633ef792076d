//! Truncates answers that are too long, and leaves them valid JSON: lists lose their last items, long
//! texts their end. The same answer is always truncated in the same way.

use serde_json::{Map, Value, json};

/// Bytes that are reserved for the note about what is missing.
const NOTE_BYTES: usize = 700;
/// Texts are not truncated below this length.
const MIN_TEXT_BYTES: usize = 200;
/// Every round visits the whole answer, so their number has a limit.
const MAX_ROUNDS: usize = 100;

/// Returns the answer in at most `max_bytes` bytes. If anything is missing, the result is an object with a
/// note under `_cut`. `schema` is the input schema of the tool: the note names its fields that make the
/// answer smaller.
pub(super) fn truncate(answer: Value, max_bytes: usize, schema: &Value) -> Value {
    if json_bytes(&answer) <= max_bytes {
        return answer;
    }
    let budget = max_bytes.saturating_sub(NOTE_BYTES).max(max_bytes / 4);
    let mut map = match answer {
        Value::Object(map) => map,
        // Only an object can hold the note.
        other => Map::from_iter([("result".to_owned(), other)]),
    };
    // The cursor would skip the items that are removed here.
    let has_next_page = map.remove("nextCursor").is_some();
    let mut answer = Value::Object(map);
    let mut truncations = Truncations::default();
    for _ in 0..MAX_ROUNDS {
        let size = json_bytes(&answer);
        if size <= budget || !shorten(&mut answer, size - budget, budget, &mut truncations) {
            break;
        }
    }
    let mut note = truncations.message();
    if json_bytes(&answer) > budget {
        let text = answer.to_string();
        note = "only the beginning of the answer's JSON shown".to_owned();
        // A third of the budget, because the quotes in the JSON are escaped once more.
        answer = json!({ "beginning": &text[..text.floor_char_boundary(budget / 3)] });
    }
    note.truncate(note.floor_char_boundary(NOTE_BYTES / 2));
    if let Value::Object(map) = &mut answer {
        map.insert("_cut".to_owned(), Value::from(format!("{note}: {}", paging_hint(schema, has_next_page))));
    }
    answer
}

/// How the model can get the rest, with the fields that its tool has.
fn paging_hint(schema: &Value, has_next_page: bool) -> String {
    let has_field =
        |name: &str| schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
    let mut hints = Vec::new();
    if has_field("limit") && has_next_page && has_field("cursor") {
        hints.push("ask again with a smaller `limit` and go on with `cursor`");
    } else if has_field("limit") {
        hints.push("ask again with a smaller `limit`");
    }
    for (name, hint) in [
        ("fields", "name the `fields` you need"),
        ("maxNodes", "lower `maxNodes` or `maxDepth`"),
        ("maxBytes", "read on from an `offset`"),
    ] {
        if has_field(name) {
            hints.push(hint);
        }
    }
    if hints.is_empty() { "ask for less at once".to_owned() } else { hints.join(", or ") }
}

/// Removes one part of the answer, if possible of `excess` bytes. Returns false if nothing can be removed.
fn shorten(answer: &mut Value, excess: usize, budget: usize, truncations: &mut Truncations) -> bool {
    let largest = find_largest(answer);
    match (largest.text, largest.list) {
        // A text of more than a quarter of the budget is truncated before lists lose items.
        (Some((path, length)), _) if length > budget / 4 => {
            truncate_text(answer, &path, length.saturating_sub(excess).max(budget / 4), truncations)
        }
        (_, Some((path, _))) => truncate_list(answer, &path, excess, truncations),
        (Some((_, length)), None) if length > MIN_TEXT_BYTES => {
            truncate_texts(answer, (length / 2).max(MIN_TEXT_BYTES));
            truncations.all_texts = true;
            true
        }
        _ => false,
    }
}

/// Everything that was removed from an answer.
#[derive(Default)]
struct Truncations {
    truncations: Vec<Truncation>,
    /// Every text above a certain length was truncated as well.
    all_texts: bool,
}

/// What was removed from one list or text: its size before and after, in its unit.
struct Truncation {
    path: String,
    unit: TruncatedUnit,
    old_size: usize,
    new_size: usize,
}

#[derive(PartialEq)]
enum TruncatedUnit {
    Items,
    Bytes,
}

impl Truncations {
    fn add(&mut self, path: String, unit: TruncatedUnit, old_size: usize, new_size: usize) {
        match self.truncations.iter_mut().find(|earlier| earlier.path == path && earlier.unit == unit) {
            Some(earlier) => earlier.new_size = new_size,
            None => self.truncations.push(Truncation { path, unit, old_size, new_size }),
        }
    }

    fn message(&self) -> String {
        let describe = |Truncation { path, unit, old_size, new_size }: &Truncation| match unit {
            TruncatedUnit::Items => format!("{new_size} of {old_size} `{path}` shown"),
            TruncatedUnit::Bytes => format!("the first {new_size} of {old_size} bytes of `{path}` shown"),
        };
        let mut sentences: Vec<String> = self.truncations.iter().map(describe).collect();
        if self.all_texts {
            sentences.push("longer texts end in …".to_owned());
        }
        sentences.join("; ")
    }
}

/// Where a value is in the answer: the index of each child among its siblings, from the outside in. Keys
/// instead of indexes would be copied in every round.
type Path = Vec<usize>;

/// The longest text, and the largest list of two items or more; of equals, the first.
#[derive(Default)]
struct LargestValues {
    text: Option<(Path, usize)>,
    list: Option<(Path, usize)>,
}

fn find_largest(answer: &Value) -> LargestValues {
    let mut largest = LargestValues::default();
    visit(answer, &mut Vec::new(), &mut largest);
    largest
}

/// Records the largest text and list inside of a value. Returns about how many bytes its JSON has.
fn visit(value: &Value, path: &mut Path, largest: &mut LargestValues) -> usize {
    let is_larger = |best: &Option<(Path, usize)>, size| {
        best.as_ref().is_none_or(|(_, largest_size)| size > *largest_size)
    };
    match value {
        Value::String(text) => {
            if is_larger(&largest.text, text.len()) {
                largest.text = Some((path.clone(), text.len()));
            }
            text.len() + 2
        }
        Value::Array(items) => {
            let mut size = 2;
            for (index, item) in items.iter().enumerate() {
                path.push(index);
                size += visit(item, path, largest) + 1;
                path.pop();
            }
            if items.len() > 1 && is_larger(&largest.list, size) {
                largest.list = Some((path.clone(), size));
            }
            size
        }
        Value::Object(map) => {
            let mut size = 2;
            for (index, (key, item)) in map.iter().enumerate() {
                path.push(index);
                size += key.len() + 4 + visit(item, path, largest);
                path.pop();
            }
            size
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// The value at a path, and the path as one would write it in code: `hits[3].text`.
fn value_at<'a>(value: &'a mut Value, path: &[usize]) -> Option<(&'a mut Value, String)> {
    let mut name = String::new();
    let target = path.iter().try_fold(value, |value, index| match value {
        Value::Array(items) => {
            name.push_str(&format!("[{index}]"));
            items.get_mut(*index)
        }
        Value::Object(map) => {
            let (key, inner) = map.iter_mut().nth(*index)?;
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(key);
            Some(inner)
        }
        _ => None,
    });
    target.map(|target| (target, name))
}

fn truncate_text(
    answer: &mut Value,
    path: &[usize],
    max_bytes: usize,
    truncations: &mut Truncations,
) -> bool {
    let Some((Value::String(text), path_text)) = value_at(answer, path) else { return false };
    let old_bytes = text.len();
    shorten_text(text, max_bytes);
    truncations.add(path_text, TruncatedUnit::Bytes, old_bytes, text.len());
    true
}

/// Truncates every text that is longer than `max_bytes`.
fn truncate_texts(value: &mut Value, max_bytes: usize) {
    match value {
        Value::String(text) if text.len() > max_bytes => shorten_text(text, max_bytes),
        Value::Array(items) => items.iter_mut().for_each(|item| truncate_texts(item, max_bytes)),
        Value::Object(map) => map.values_mut().for_each(|item| truncate_texts(item, max_bytes)),
        _ => {}
    }
}

fn shorten_text(text: &mut String, max_bytes: usize) {
    text.truncate(text.floor_char_boundary(max_bytes.saturating_sub('…'.len_utf8())));
    text.push('…');
}

/// Removes the last items of a list, until `excess` bytes are removed or one item is left.
fn truncate_list(answer: &mut Value, path: &[usize], excess: usize, truncations: &mut Truncations) -> bool {
    let Some((Value::Array(items), path_text)) = value_at(answer, path) else { return false };
    let old_count = items.len();
    let mut removed_bytes = 0;
    while items.len() > 1 && removed_bytes < excess {
        removed_bytes += items.pop().map_or(0, |item| json_bytes(&item) + 1);
    }
    truncations.add(path_text, TruncatedUnit::Items, old_count, items.len());
    true
}

/// The length of the value's JSON, without allocating it.
fn json_bytes(value: &Value) -> usize {
    struct ByteCounter(usize);
    impl std::io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = ByteCounter(0);
    // The writer never fails, and every `Value` can be written as JSON.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

#[cfg(test)]
mod tests;
