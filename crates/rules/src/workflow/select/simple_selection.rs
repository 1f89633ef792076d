//! Compares the selection with a simple one, which looks up every word of every task in every agent.

use emergent_domain::task::{NewTask, VerdictKind};
use emergent_testkit::fixtures::task;
use proptest::prelude::*;
use serde_json::json;

use super::{
    words::{Word, significant_words},
    *,
};

/// Forms of one word, stop words, and words that agents and tasks may share.
const WORDS: &str = "plan planning Review reviewer test the of web page soup soups cook day letter translate parser \
verdict answer question what größe 知識 https://a.b/c x9";

fn simple_selection(task: &Task, agents: &[AgentCard], similarities: &AgentSimilarities) -> AgentSelection {
    let agents: Vec<&AgentCard> = agents.iter().filter(|agent| agent.is_selectable).collect();
    let words: Vec<(Word, f64)> = simple_task_words(task)
        .into_iter()
        .map(|(word, weight)| {
            let rarity = simple_rarity(&word.stem, &agents);
            (word, weight * rarity)
        })
        .collect();
    let mean_length = agents.iter().map(|agent| agent.profile.length()).sum::<f64>() / agents.len() as f64;
    let text = format!("{}\n{}", task.title, task.description).to_lowercase();
    let score = |agent: &AgentCard| {
        let (handled, mut reasons) = handles::score(task, &text, agent);
        let (words, reason) = simple_word_score(&words, &agent.profile, mean_length);
        reasons.extend(reason);
        let (similarity, reason) = similarities.score(&agent.name);
        reasons.extend(reason);
        let (record, reason) = agent.track_record.score(&task.kind);
        reasons.extend(reason);
        (handled + words + similarity + record, reasons)
    };
    let mut scored: Vec<((f64, Vec<String>), &AgentCard)> =
        agents.iter().map(|&agent| (score(agent), agent)).collect();
    scored.sort_by(|((a, _), one), ((b, _), other)| {
        b.total_cmp(a).then(tie_break(other).cmp(&tie_break(one))).then(one.name.cmp(&other.name))
    });
    let Some(((score, reasons), agent)) = scored.first().filter(|((score, _), _)| *score > 0.0) else {
        let default = agents.iter().filter(|agent| agent.is_default).min_by_key(|agent| &agent.name);
        return AgentSelection {
            agent: default.map(|agent| agent.name.clone()),
            score: 0.0,
            reason: unclear_reason(agents.len()).to_owned(),
            clear: agents.len() == 1,
        };
    };
    let second = scored.get(1).map_or(0.0, |((score, _), _)| *score);
    let clear = agents.len() == 1 || (*score >= MIN_SCORE && score - second >= CLEAR_LEAD * score);
    AgentSelection { agent: Some(agent.name.clone()), score: *score, reason: reasons.join("; "), clear }
}

fn simple_task_words(task: &Task) -> Vec<(Word, f64)> {
    let mut all: Vec<(Word, f64)> = Vec::new();
    let mut add = |text: &str, first: f64, weight: f64| {
        for (position, word) in significant_words(text).into_iter().enumerate() {
            let weight = if position == 0 { first } else { weight };
            match all.iter_mut().find(|(known, _)| known.stem == word.stem) {
                Some((_, known)) => *known = known.max(weight),
                None => all.push((word, weight)),
            }
        }
    };
    add(&task.kind, 3.0, 3.0);
    add(&task.title, 2.0, 1.0);
    if task.key != task.id.to_string() {
        let parts = task.key.split(['-', '_', '.']);
        let parts = parts.filter(|part| !["task", "step", "todo", "item", "job"].contains(part));
        add(&parts.collect::<Vec<_>>().join(" "), 1.0, 1.0);
    }
    for tag in &task.tags {
        add(tag, 1.0, 1.0);
    }
    let weight = 0.4 * (10.0 / significant_words(&task.description).len() as f64).min(1.0);
    add(&task.description, weight, weight);
    match task.verdict {
        VerdictKind::Test => add("test verdict", 3.0, 3.0),
        VerdictKind::Review => add("review verdict", 3.0, 3.0),
        VerdictKind::None => {}
    }
    let first = task.title.split_whitespace().next().unwrap_or_default().to_lowercase();
    let asks = ["who", "which", "what", "when", "where", "how", "why", "is", "are", "does", "do"];
    if task.title.trim_end().ends_with('?') || asks.contains(&first.as_str()) {
        add("answer question", 1.0, 1.0);
    }
    if task.title.contains("://") || task.description.contains("://") {
        add("web page url", 2.0, 2.0);
    }
    all
}

fn simple_rarity(stem: &str, agents: &[&AgentCard]) -> f64 {
    let all = agents.len() as f64;
    let using: f64 = agents.iter().map(|agent| agent.profile.frequency(stem).min(1.0)).sum();
    (1.0 + all / using.max(1.0)).ln() / (1.0 + all).ln()
}

fn simple_word_score(words: &[(Word, f64)], profile: &AgentProfile, mean: f64) -> (f64, Option<String>) {
    let length = 1.0 - 0.5 + 0.5 * profile.length() / mean;
    let mut shared: Vec<(f64, &Word)> = Vec::new();
    for (word, weight) in words {
        let frequency = profile.frequency(&word.stem);
        if frequency > 0.0 {
            let frequency = frequency / length;
            shared.push((weight * frequency * (1.2 + 1.0) / (frequency + 1.2), word));
        }
    }
    let score = shared.iter().map(|(part, _)| part).sum();
    shared.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.text.cmp(&b.1.text)));
    let nameable = shared.iter().filter(|(_, word)| profile.is_nameable(&word.stem));
    let named: Vec<String> = nameable.take(3).map(|(_, word)| format!("`{}`", word.text)).collect();
    let reason = match (shared.is_empty(), named.is_empty()) {
        (true, _) => None,
        (false, true) => Some("its system prompt fits the task".to_owned()),
        (false, false) => Some(format!("its definition is about {}", named.join(", "))),
    };
    (score, reason)
}

fn any_text(count: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let words: Vec<&'static str> = WORDS.split_whitespace().collect();
    prop::collection::vec(prop::sample::select(words), count).prop_map(|words| words.join(" "))
}

fn any_task() -> impl Strategy<Value = Task> {
    let verdict = prop::sample::select(vec![VerdictKind::None, VerdictKind::Test, VerdictKind::Review]);
    let key = prop::sample::select(vec!["", "task-3", "review-soup"]);
    let tags = prop::collection::vec(any_text(1..2), 0..3);
    let parts = (any_text(0..6), any_text(0..40), any_text(0..2), tags, key, verdict);
    parts.prop_map(|(title, description, kind, tags, key, verdict)| {
        let key = key.to_owned();
        task(NewTask { title, description, kind, tags, key, verdict, ..NewTask::default() })
    })
}

fn any_card() -> impl Strategy<Value = AgentCard> {
    let texts = (any_text(0..20), any_text(0..60), any_text(0..3), any_text(0..2), any_text(1..3));
    (texts, any::<(bool, bool)>(), 0..4usize).prop_map(|(texts, (is_default, is_selectable), completed)| {
        let (description, system_prompt, tool, kind, pattern) = texts;
        let config = json!({ "tags": [kind], "handles": { "kinds": [kind], "patterns": [pattern] } });
        let definition = AgentDefinition {
            description,
            system_prompt,
            tools: vec![tool],
            is_default,
            config: config.as_object().cloned().unwrap_or_default(),
            ..AgentDefinition::new("")
        };
        let mut card = AgentCard { is_selectable, ..AgentCard::from_definition(&definition) };
        card.track_record.add(&kind, completed, 1);
        card
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agents_are_chosen_as_by_a_simple_selection(
        tasks in prop::collection::vec(any_task(), 1..4),
        mut cards in prop::collection::vec(any_card(), 0..6),
        similarities in prop::collection::vec(-1.0..1.0f64, 0..6),
    ) {
        for (number, card) in cards.iter_mut().enumerate() {
            card.name = format!("a{number}");
        }
        let named = similarities.into_iter().enumerate().map(|(number, one)| (format!("a{number}"), one));
        let similarities = AgentSimilarities::new(named);
        let index = AgentIndex::new(&cards);
        for task in &tasks {
            let expected = simple_selection(task, &cards, &AgentSimilarities::default());
            prop_assert_eq!(&index.select_by_rules(task), &expected);
            prop_assert_eq!(&select_by_rules(task, &cards), &expected);
            let expected = simple_selection(task, &cards, &similarities);
            prop_assert_eq!(&select_with_similarity(task, &cards, &similarities), &expected);
        }
    }
}
