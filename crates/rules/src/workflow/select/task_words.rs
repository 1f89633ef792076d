//! The words of a task, weighted by where they stand.

use std::collections::HashMap;

use emergent_domain::task::{Task, VerdictKind};

use super::words::{Word, significant_words};

const KIND_WEIGHT: f64 = 3.0;
const VERDICT_WEIGHT: f64 = 3.0;
/// A title mostly starts with the verb: what there is to do.
const FIRST_WORD_WEIGHT: f64 = 2.0;
const TITLE_WEIGHT: f64 = 1.0;
/// A key is a short name such as `research-tags`. A task without one has its id instead.
const KEY_WEIGHT: f64 = 1.0;
/// Words of keys that say nothing about the work, as in `task-3`.
const EMPTY_KEY_WORDS: &[&str] = &["task", "step", "todo", "item", "job"];
const DESCRIPTION_WEIGHT: f64 = 0.4;
const ADDRESS_WEIGHT: f64 = 2.0;
const QUESTION_WEIGHT: f64 = 1.0;

/// With more words than this, each word of a description weighs less: a long description must not
/// outweigh the title.
const DESCRIPTION_WORDS: f64 = 10.0;

/// The distinct words of a task with their weights. A word that stands in several places has the highest
/// of its weights.
pub(super) fn task_words(task: &Task) -> Vec<(Word, f64)> {
    let mut all = WeightedWords::default();
    all.add(&task.kind, |_| KIND_WEIGHT);
    all.add(&task.title, |position| if position == 0 { FIRST_WORD_WEIGHT } else { TITLE_WEIGHT });
    if task.key != task.id.to_string() {
        let parts = task.key.split(['-', '_', '.']).filter(|part| !EMPTY_KEY_WORDS.contains(part));
        all.add(&parts.collect::<Vec<_>>().join(" "), |_| KEY_WEIGHT);
    }
    for tag in &task.tags {
        all.add(tag, |_| TITLE_WEIGHT);
    }
    let description = significant_words(&task.description);
    let count = description.len() as f64;
    all.add_words(description, |_| DESCRIPTION_WEIGHT * (DESCRIPTION_WORDS / count).min(1.0));
    // These signals are not words of the task. They stand for words that agents use of themselves.
    match task.verdict {
        VerdictKind::Test => all.add("test verdict", |_| VERDICT_WEIGHT),
        VerdictKind::Review => all.add("review verdict", |_| VERDICT_WEIGHT),
        VerdictKind::None => {}
    }
    if is_question(&task.title) {
        all.add("answer question", |_| QUESTION_WEIGHT);
    }
    if task.title.contains("://") || task.description.contains("://") {
        all.add("web page url", |_| ADDRESS_WEIGHT);
    }
    all.words
}

#[derive(Default)]
struct WeightedWords {
    /// In the order in which they were added first.
    words: Vec<(Word, f64)>,
    /// Where each stem is in `words`: a description may have thousands.
    positions: HashMap<String, usize>,
}

impl WeightedWords {
    /// `weigh` gets the position of a word among the significant ones.
    fn add(&mut self, text: &str, weigh: impl Fn(usize) -> f64) {
        self.add_words(significant_words(text), weigh);
    }

    fn add_words(&mut self, words: Vec<Word>, weigh: impl Fn(usize) -> f64) {
        for (position, word) in words.into_iter().enumerate() {
            let weight = weigh(position);
            match self.positions.get(&word.stem).copied() {
                Some(at) => {
                    let known = &mut self.words[at].1;
                    *known = known.max(weight);
                }
                None => {
                    self.positions.insert(word.stem.clone(), self.words.len());
                    self.words.push((word, weight));
                }
            }
        }
    }
}

fn is_question(title: &str) -> bool {
    const ASKING: &[&str] =
        &["who", "which", "what", "when", "where", "how", "why", "is", "are", "does", "do"];
    let first = title.split_whitespace().next().unwrap_or_default().to_lowercase();
    title.trim_end().ends_with('?') || ASKING.contains(&first.as_str())
}
