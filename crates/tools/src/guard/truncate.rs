//! Answers that are too long, made shorter without breaking them: lists lose their tail, long
//! texts their end. The same answer is always cut in the same way.

use serde_json::{Map, Value, json};

/// Room for the note itself.
const NOTE_BYTES: usize = 700;
/// Texts are not cut below this, as long as there is anything else to cut.
const MIN_TEXT_BYTES: usize = 200;
/// Each round walks the whole answer.
const MAX_ROUNDS: usize = 100;

/// The answer in at most `most` bytes, as an object with a note under `_cut` when anything is
/// missing. `schema` is that of the tool's input, for the ways to ask for less.
pub(super) fn truncate(answer: Value, most: usize, schema: &Value) -> Value {
    if json_bytes(&answer) <= most {
        return answer;
    }
    let budget = most.saturating_sub(NOTE_BYTES).max(most / 4);
    let mut map = match answer {
        Value::Object(map) => map,
        // Only an object has room for the note.
        other => Map::from_iter([("result".to_owned(), other)]),
    };
    // It leads past what is cut now.
    let paged = map.remove("nextCursor").is_some();
    let mut answer = Value::Object(map);
    let mut lost = Truncations::default();
    for _ in 0..MAX_ROUNDS {
        let size = json_bytes(&answer);
        if size <= budget || !shorten(&mut answer, size - budget, budget, &mut lost) {
            break;
        }
    }
    let mut note = lost.message();
    if json_bytes(&answer) > budget {
        let text = answer.to_string();
        note = "only the beginning of the answer's JSON shown".to_owned();
        // Its quotes are escaped once more.
        answer = json!({ "beginning": &text[..text.floor_char_boundary(budget / 3)] });
    }
    note.truncate(note.floor_char_boundary(NOTE_BYTES / 2));
    if let Value::Object(map) = &mut answer {
        map.insert("_cut".to_owned(), Value::from(format!("{note}: {}", paging_hint(schema, paged))));
    }
    answer
}

fn paging_hint(schema: &Value, paged: bool) -> String {
    let takes = |name: &str| schema.get("properties").is_some_and(|known| known.get(name).is_some());
    let mut ways = Vec::new();
    if takes("limit") && paged && takes("cursor") {
        ways.push("ask again with a smaller `limit` and go on with `cursor`");
    } else if takes("limit") {
        ways.push("ask again with a smaller `limit`");
    }
    for (name, way) in [
        ("fields", "name the `fields` you need"),
        ("maxNodes", "lower `maxNodes` or `maxDepth`"),
        ("maxBytes", "read on from an `offset`"),
    ] {
        if takes(name) {
            ways.push(way);
        }
    }
    if ways.is_empty() { "ask for less at once".to_owned() } else { ways.join(", or ") }
}

/// Takes something away, at best `excess` bytes; false when nothing is left to take.
fn shorten(answer: &mut Value, excess: usize, budget: usize, lost: &mut Truncations) -> bool {
    let found = find(answer);
    match (found.text, found.list) {
        // One text that is most of the answer is cut before a list of such texts loses items.
        (Some((path, length)), _) if length > budget / 4 => {
            truncate_text(answer, &path, length.saturating_sub(excess).max(budget / 4), lost)
        }
        (_, Some((path, _))) => truncate_list(answer, &path, excess, lost),
        (Some((_, length)), None) if length > MIN_TEXT_BYTES => {
            truncate_texts(answer, (length / 2).max(MIN_TEXT_BYTES));
            lost.texts = true;
            true
        }
        _ => false,
    }
}

/// What was cut where.
#[derive(Default)]
struct Truncations {
    truncations: Vec<Truncation>,
    /// Besides, every longer text was cut.
    texts: bool,
}

struct Truncation {
    path: String,
    unit: TruncatedUnit,
    before: usize,
    kept: usize,
}

#[derive(PartialEq)]
enum TruncatedUnit {
    Items,
    Bytes,
}

impl Truncations {
    fn add(&mut self, place: String, what: TruncatedUnit, before: usize, kept: usize) {
        match self.truncations.iter_mut().find(|loss| loss.path == place && loss.unit == what) {
            Some(loss) => loss.kept = kept,
            None => self.truncations.push(Truncation { path: place, unit: what, before, kept }),
        }
    }

    fn message(&self) -> String {
        let one = |Truncation { path: place, unit: what, before, kept }: &Truncation| match what {
            TruncatedUnit::Items => format!("{kept} of {before} `{place}` shown"),
            TruncatedUnit::Bytes => format!("the first {kept} of {before} bytes of `{place}` shown"),
        };
        let mut told: Vec<String> = self.truncations.iter().map(one).collect();
        if self.texts {
            told.push("longer texts end in …".to_owned());
        }
        told.join("; ")
    }
}

/// The place of each child among its siblings, from the outside in: the answer is walked often,
/// and names would be copied each time.
type Path = Vec<usize>;

/// The longest text, and the heaviest list that has an item to spare; of equals, the first.
#[derive(Default)]
struct LargestValues {
    text: Option<(Path, usize)>,
    list: Option<(Path, usize)>,
}

fn find(answer: &Value) -> LargestValues {
    let mut found = LargestValues::default();
    visit(answer, &mut Vec::new(), &mut found);
    found
}

/// Returns about how many bytes the value is.
fn visit(value: &Value, path: &mut Path, found: &mut LargestValues) -> usize {
    let heavier = |best: &Option<(Path, usize)>, size| best.as_ref().is_none_or(|(_, most)| size > *most);
    match value {
        Value::String(text) => {
            if heavier(&found.text, text.len()) {
                found.text = Some((path.clone(), text.len()));
            }
            text.len() + 2
        }
        Value::Array(items) => {
            let mut size = 2;
            for (at, item) in items.iter().enumerate() {
                path.push(at);
                size += visit(item, path, found) + 1;
                path.pop();
            }
            if items.len() > 1 && heavier(&found.list, size) {
                found.list = Some((path.clone(), size));
            }
            size
        }
        Value::Object(map) => {
            let mut size = 2;
            for (at, (key, item)) in map.iter().enumerate() {
                path.push(at);
                size += key.len() + 4 + visit(item, path, found);
                path.pop();
            }
            size
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// What is at a place, and the place as one would write it in code: `hits[3].text`.
fn value_at<'a>(value: &'a mut Value, path: &[usize]) -> Option<(&'a mut Value, String)> {
    let mut name = String::new();
    let found = path.iter().try_fold(value, |value, at| match value {
        Value::Array(items) => {
            name.push_str(&format!("[{at}]"));
            items.get_mut(*at)
        }
        Value::Object(map) => {
            let (key, inner) = map.iter_mut().nth(*at)?;
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(key);
            Some(inner)
        }
        _ => None,
    });
    found.map(|found| (found, name))
}

fn truncate_text(answer: &mut Value, path: &[usize], keep: usize, lost: &mut Truncations) -> bool {
    let Some((Value::String(text), place)) = value_at(answer, path) else { return false };
    let before = text.len();
    shorten_text(text, keep);
    lost.add(place, TruncatedUnit::Bytes, before, text.len());
    true
}

fn truncate_texts(value: &mut Value, keep: usize) {
    match value {
        Value::String(text) if text.len() > keep => shorten_text(text, keep),
        Value::Array(items) => items.iter_mut().for_each(|item| truncate_texts(item, keep)),
        Value::Object(map) => map.values_mut().for_each(|item| truncate_texts(item, keep)),
        _ => {}
    }
}

fn shorten_text(text: &mut String, keep: usize) {
    text.truncate(text.floor_char_boundary(keep.saturating_sub('…'.len_utf8())));
    text.push('…');
}

fn truncate_list(answer: &mut Value, path: &[usize], excess: usize, lost: &mut Truncations) -> bool {
    let Some((Value::Array(items), place)) = value_at(answer, path) else { return false };
    let before = items.len();
    let mut gone = 0;
    while items.len() > 1 && gone < excess {
        gone += items.pop().map_or(0, |item| json_bytes(&item) + 1);
    }
    lost.add(place, TruncatedUnit::Items, before, items.len());
    true
}

/// How long the value's JSON is, without writing it.
fn json_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, some: &[u8]) -> std::io::Result<usize> {
            self.0 += some.len();
            Ok(some.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail, and values always have a JSON text.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests;
