//! How often the right agent is chosen when a sentence model is configured, over the same tasks as
//! `crates/rules/tests/selection.rs`. It needs a model, so it does not run by default:
//!
//! ```sh
//! EMERGENT_EMBEDDINGS=local:$(scripts/sentence-model.sh) \
//!     cargo test -p emergent-coordination --test selection_by_meaning -- --ignored --nocapture
//! ```
//!
//! Only percentages are printed, never the tasks that are missed: rules that were changed by reading
//! them would make the held-out set worthless.

use std::{collections::HashMap, env, fs, path::Path};

use emergent_domain::{
    agent::AgentDefinition,
    task::{NewTask, Task},
};
use emergent_llm::{Credentials, EmbedTask, Embedder};
use emergent_rules::workflow::select::{
    AgentCard, AgentSimilarities, agent_sentences, select_by_rules, select_with_similarity, task_text,
};
use emergent_testkit::fixtures;
use serde_json::Value;

struct Case {
    product: String,
    /// Each of them is right.
    agents: Vec<String>,
    task: Task,
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

fn new_task(title: &str, description: &str, kind: &str) -> Task {
    let text = |text: &str| text.to_owned();
    let (title, description, kind) = (text(title), text(description), text(kind));
    fixtures::task(NewTask { key: "task".into(), title, description, kind, ..NewTask::default() })
}

fn development_set() -> Vec<Case> {
    let pairs: Vec<Value> = serde_json::from_str(&read("crates/rules/tests/selection.json")).unwrap();
    let case = |pair: &Value| {
        let text = |name: &str| pair[name].as_str().unwrap_or_default().to_owned();
        let task = new_task(&text("title"), &text("description"), &text("kind"));
        Case { product: text("product"), agents: vec![text("agent")], task }
    };
    pairs.iter().map(case).collect()
}

fn held_out_set() -> Vec<Case> {
    let text = read("crates/rules/tests/selection/held_out.tsv");
    let case = |line: &str| {
        let [product, agents, title, description] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("held_out.tsv has a line without four columns")
        };
        let agents = agents.split('|').map(str::to_owned).collect();
        Case { product: product.to_owned(), agents, task: new_task(title, description, "") }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(case).collect()
}

fn agents(product: &str) -> Vec<AgentCard> {
    let manifest: Value = serde_json::from_str(&read(&format!("products/{product}/manifest.json"))).unwrap();
    let agents: Vec<AgentDefinition> = serde_json::from_value(manifest["agents"].clone()).unwrap();
    agents.iter().map(AgentCard::from_definition).collect()
}

/// The agents of a product with the vectors of their sentences.
struct Product {
    agents: Vec<AgentCard>,
    vectors: Vec<Vec<Vec<f32>>>,
}

impl Product {
    async fn load(embedder: &dyn Embedder, product: &str) -> Self {
        let agents = agents(product);
        let mut vectors = Vec::new();
        for agent in &agents {
            vectors.push(embedder.embed(&agent_sentences(agent), EmbedTask::Document).await.unwrap());
        }
        Self { agents, vectors }
    }

    /// The similarity of each agent: that of the sentence that is most similar.
    async fn similarities(&self, embedder: &dyn Embedder, task: &Task) -> Vec<(String, f64)> {
        let task = embedder.embed(&[task_text(task)], EmbedTask::Query).await.unwrap().remove(0);
        let dot = |other: &Vec<f32>| task.iter().zip(other).map(|(a, b)| f64::from(a * b)).sum();
        let best = |sentences: &Vec<Vec<f32>>| sentences.iter().map(dot).fold(f64::MIN, f64::max);
        let names = self.agents.iter().map(|agent| agent.name.clone());
        names.zip(self.vectors.iter().map(best)).collect()
    }
}

#[tokio::test]
#[ignore = "needs a sentence model; see the top of the file"]
async fn selection_by_meaning() {
    let spec = env::var("EMERGENT_EMBEDDINGS").unwrap_or_else(|_| "builtin".to_owned());
    let embedder = emergent_llm::embedder(&spec.parse().unwrap(), &Credentials::default()).unwrap().unwrap();
    let mut products = HashMap::new();
    for product in ["emergent.code", "emergent.memory", "emergent.research"] {
        products.insert(product, Product::load(&*embedder, product).await);
    }
    println!("{}\n{:16} words alone   with the model   the model alone", embedder.model(), "");
    for (name, cases) in [("selection.json", development_set()), ("held_out.tsv", held_out_set())] {
        let mut right = [0, 0, 0];
        for case in &cases {
            let product = &products[case.product.as_str()];
            let agents = &product.agents;
            let similar = product.similarities(&*embedder, &case.task).await;
            let by_words = select_by_rules(&case.task, agents);
            // As the dispatcher does it: the model is asked where words do not decide.
            let with_model = match by_words.clear {
                true => by_words.agent.clone(),
                false => {
                    let similarities = AgentSimilarities::new(similar.clone());
                    select_with_similarity(&case.task, agents, &similarities).agent
                }
            };
            let by_model = similar.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(agent, _)| agent);
            for (right, choice) in right.iter_mut().zip([by_words.agent, with_model, by_model]) {
                *right += usize::from(choice.is_some_and(|agent| case.agents.contains(&agent)));
            }
        }
        let [words, both, model] = right.map(|right| 100.0 * right as f64 / cases.len() as f64);
        println!("{name:16} {words:9.1} % {both:14.1} % {model:15.1} %");
    }
}
