//! How often the rules alone choose the agent a person would, over the three products' agents.
//!
//! `selection.json` holds tasks as people write them, each with the agent that should do it. A
//! third of them is held out: the rules were not changed by looking at those.
//!
//! `selection/held_out.tsv` is a second set, written by somebody who did not know the rules. Only its
//! percentages are printed, never its misses: rules that were changed by reading them would make the
//! set worthless.

use std::{collections::BTreeMap, fs, path::Path};

use emergent_domain::{
    agent::{AgentDefinition, Visibility},
    task::{NewTask, Task},
};
use emergent_rules::workflow::select::{AgentCard, select_by_rules};
use emergent_testkit::fixtures;
use serde::Deserialize;

#[derive(Deserialize)]
struct Pair {
    product: String,
    #[serde(default)]
    kind: String,
    title: String,
    #[serde(default)]
    description: String,
    agent: String,
    #[serde(default)]
    held_out: bool,
}

impl Pair {
    fn task(&self) -> Task {
        let new = NewTask {
            key: "task".into(),
            title: self.title.clone(),
            description: self.description.clone(),
            kind: self.kind.clone(),
            ..NewTask::default()
        };
        fixtures::task(new)
    }
}

/// The agents of a product, as its manifest has them.
fn agents(product: &str) -> Vec<AgentCard> {
    let manifest =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../products").join(product).join("manifest.json");
    let text = fs::read_to_string(manifest).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    let agents: Vec<AgentDefinition> = serde_json::from_value(manifest["agents"].clone()).unwrap();
    agents.iter().map(AgentCard::from_definition).collect()
}

#[derive(Default)]
struct Count {
    right: usize,
    all: usize,
    clear: usize,
    clear_and_right: usize,
}

impl Count {
    fn percent(&self) -> f64 {
        100.0 * self.right as f64 / self.all as f64
    }

    fn told(&self) -> String {
        let clear = 100.0 * self.clear as f64 / self.all as f64;
        let sure = 100.0 * self.clear_and_right as f64 / self.clear.max(1) as f64;
        let (right, all) = (self.right, self.all);
        format!(
            "{:.1} % ({right} of {all}); clear in {clear:.0} %, and then right in {sure:.1} %",
            self.percent()
        )
    }
}

fn read_test_file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)).unwrap()
}

#[test]
fn selection() {
    let pairs: Vec<Pair> = serde_json::from_str(&read_test_file("selection.json")).unwrap();
    assert!(pairs.len() >= 210, "{} pairs", pairs.len());
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let tell = std::env::var_os("SELECTION_MISSES").is_some();
    for pair in &pairs {
        let choice = select_by_rules(&pair.task(), &agents(&pair.product));
        let right = choice.agent.as_deref() == Some(pair.agent.as_str());
        let part = if pair.held_out { "held out" } else { "others" };
        for name in
            ["overall".to_owned(), pair.product.clone(), part.to_owned(), format!("{} {part}", pair.product)]
        {
            let count = counts.entry(name).or_default();
            count.all += 1;
            count.right += usize::from(right);
            count.clear += usize::from(choice.clear);
            count.clear_and_right += usize::from(choice.clear && right);
        }
        // What is held out is counted, and its misses are not shown.
        if tell && !right && !pair.held_out {
            println!("{} | {} | {}: {choice:?}, not {}", pair.kind, pair.title, pair.description, pair.agent);
        }
    }
    for (name, count) in &counts {
        println!("{name:28} {}", count.told());
    }
    assert!(counts["overall"].percent() >= 80.0, "the rules have become worse: {}", counts["overall"].told());
    assert!(counts["held out"].percent() >= 75.0, "the rules fit only what they were made for");
}

/// The walkthrough of the specification and the demo name the agents of these tasks. The products' helpers, which are
/// internal, are not chosen.
#[test]
fn the_titles_of_the_specification_choose_the_agents_it_names() {
    let mut cards = [agents("emergent.research"), agents("emergent.code")].concat();
    for card in &mut cards {
        card.is_selectable = card.visibility != Visibility::Internal;
    }
    let expected = [
        ("What tagging patterns exist?", "research-assistant"),
        ("Schema and API design", "spec-writer"),
        ("Document tagging schema design", "spec-writer"),
        ("Build the feature", "implement-agent"),
        ("Verify correctness", "reviewer-agent"),
        ("Quality check", "reviewer-agent"),
        ("Research", "research-assistant"),
        ("Design", "spec-writer"),
        ("Implement", "implement-agent"),
        ("Test", "reviewer-agent"),
        ("Review", "reviewer-agent"),
        ("Research tagging", "research-assistant"),
        ("Implement tagging", "implement-agent"),
        ("Test tagging", "reviewer-agent"),
        ("Review tagging", "reviewer-agent"),
    ];
    let keys = [
        ("research-tagging", "research-assistant"),
        ("design-tagging", "spec-writer"),
        ("implement-tagging", "implement-agent"),
        ("test-tagging", "reviewer-agent"),
        ("review-tagging", "reviewer-agent"),
    ];
    let mut misses = Vec::new();
    let by_title = expected.iter().map(|(title, agent)| ("", *title, *agent));
    let by_key = keys.iter().map(|(key, agent)| (*key, "The tagging system", *agent));
    for (key, title, agent) in by_title.chain(by_key) {
        let key = if key.is_empty() { "task" } else { key };
        let task = fixtures::task(NewTask { key: key.into(), title: title.into(), ..NewTask::default() });
        let choice = select_by_rules(&task, &cards);
        if choice.agent.as_deref() != Some(agent) {
            misses.push(format!("{key} {title}: {choice:?}, not {agent}"));
        }
    }
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

/// One line of `held_out.tsv`, which has the columns product, agents, title and description.
struct HeldOutTask<'a> {
    product: &'a str,
    /// Each of them is right.
    agents: Vec<&'a str>,
    task: Task,
}

impl<'a> HeldOutTask<'a> {
    fn from_line(line: &'a str) -> Option<Self> {
        let [product, agents, title, description] = line.split('\t').collect::<Vec<_>>()[..] else {
            return None;
        };
        let task = NewTask {
            key: "task".into(),
            title: title.to_owned(),
            description: description.to_owned(),
            ..NewTask::default()
        };
        Some(Self { product, agents: agents.split('|').collect(), task: fixtures::task(task) })
    }
}

/// Run with `--nocapture` to see the percentages.
#[test]
fn held_out_set() {
    let text = read_test_file("selection/held_out.tsv");
    // The two counts of a product: of `selection.json`, and of the held-out set.
    let mut counts: BTreeMap<&str, [Count; 2]> = BTreeMap::new();
    let mut count = |product, set: usize, right| {
        for name in [product, "overall"] {
            let count = &mut counts.entry(name).or_default()[set];
            count.all += 1;
            count.right += usize::from(right);
        }
    };
    let pairs: Vec<Pair> = serde_json::from_str(&read_test_file("selection.json")).unwrap();
    for pair in &pairs {
        let choice = select_by_rules(&pair.task(), &agents(&pair.product));
        count(&pair.product, 0, choice.agent.as_deref() == Some(&pair.agent));
    }
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let held_out = HeldOutTask::from_line(line)
            .unwrap_or_else(|| panic!("held_out.tsv: line {} does not have four columns", index + 1));
        let available = agents(held_out.product);
        let exist = held_out.agents.iter().all(|name| available.iter().any(|agent| agent.name == *name));
        assert!(exist, "held_out.tsv: line {} names an agent that the product does not have", index + 1);
        let choice = select_by_rules(&held_out.task, &available);
        count(held_out.product, 1, choice.agent.is_some_and(|agent| held_out.agents.contains(&&*agent)));
    }
    println!("{:20} selection.json   held_out.tsv", "");
    for (product, [selection, held_out]) in &counts {
        println!("{product:20} {:12.1} % {:12.1} %", selection.percent(), held_out.percent());
    }
    // What a list of words reached that was made for `selection.json`.
    let overall = counts["overall"][1].percent();
    assert!(overall >= 64.3, "the rules have become worse for tasks they were not made for: {overall:.1} %");
}
