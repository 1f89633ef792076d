//! Linked search after any writes finds what a naive model finds that knows nothing of indexes.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    ids::ObjectId,
    mentions,
    object::ObjectPatch,
    query::{HitLink, ObjectFilter, SearchMode, SearchQuery},
};
use emergent_testkit::both_engines;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use crate::{
    search::query,
    support::{Harness, map, new, project, run_in},
};

/// Each name, and a word that is only in the text that leads to the name.
const NAMES: [(&str, &str); 5] = [
    ("Ada Lovelace", "quince"),
    ("Charles Babbage", "medlar"),
    ("Analytical Engine", "loquat"),
    ("London", "papaya"),
    ("Herman Hollerith", "durian"),
];

/// A note as it was written last.
#[derive(Clone)]
struct Note {
    title: String,
    text: String,
    is_live: bool,
}

impl Note {
    fn random(dice: &mut StdRng) -> Self {
        let name = |dice: &mut StdRng| NAMES.choose(dice).unwrap().0;
        let mentioned: Vec<&str> = (0..dice.random_range(0..3)).map(|_| name(dice)).collect();
        let text = format!("it is said that {} was there", mentioned.join(" and "));
        Self { title: name(dice).to_owned(), text, is_live: true }
    }

    fn properties(&self) -> Value {
        json!({ "title": self.title, "text": self.text })
    }

    fn patch(&self) -> ObjectPatch {
        ObjectPatch { properties: Some(map(self.properties())), ..Default::default() }
    }

    fn has(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        mentions::contains(&self.title, &name) || mentions::contains(&self.text, &name)
    }
}

/// A project, and what is in it according to the model.
struct World {
    harness: Harness,
    seeds: Vec<ObjectId>,
    notes: BTreeMap<ObjectId, Note>,
}

impl World {
    async fn new(harness: Harness) -> Self {
        let mut seeds = Vec::new();
        for (index, (name, word)) in NAMES.iter().enumerate() {
            let text = json!({ "text": format!("{word} and {name}") });
            seeds.push(harness.object(new("Seed", &format!("seed{index}"), text)).await);
        }
        Self { harness, seeds, notes: BTreeMap::new() }
    }

    /// One of the notes that are live, or of those that are deleted.
    fn choose(&self, dice: &mut StdRng, is_live: bool) -> Option<ObjectId> {
        let notes = self.notes.iter().filter(|(_, note)| note.is_live == is_live);
        notes.map(|(id, _)| *id).collect::<Vec<_>>().choose(dice).copied()
    }

    async fn change(&mut self, dice: &mut StdRng, step: usize) {
        let (graph, actor) = (self.harness.graph.clone(), self.harness.actor);
        let note = Note::random(dice);
        match dice.random_range(0..10) {
            0..4 => {
                let id = self.harness.object(new("Note", &format!("k{step}"), note.properties())).await;
                self.notes.insert(id, note);
            }
            4..6 => {
                let Some(id) = self.choose(dice, true) else { return };
                graph.update_object(actor, id, note.patch()).await.unwrap();
                self.notes.insert(id, note);
            }
            6 => {
                let Some(id) = self.choose(dice, true) else { return };
                graph.delete_object(actor, id, None).await.unwrap();
                self.notes.get_mut(&id).unwrap().is_live = false;
            }
            7 => {
                let Some(id) = self.choose(dice, false) else { return };
                graph.restore_object(actor, id).await.unwrap();
                self.notes.get_mut(&id).unwrap().is_live = true;
            }
            _ => self.write_and_revert(dice, step).await,
        }
    }

    /// A run renames, deletes, restores and creates notes, and is reverted. The model stays as it is.
    async fn write_and_revert(&self, dice: &mut StdRng, step: usize) {
        let graph = &self.harness.graph;
        let (run, actor) = run_in(&self.harness);
        if let Some(id) = self.choose(dice, true) {
            graph.update_object(actor, id, Note::random(dice).patch()).await.unwrap();
            if dice.random_bool(0.5) {
                graph.delete_object(actor, id, None).await.unwrap();
            }
        }
        if let Some(id) = self.choose(dice, false) {
            graph.restore_object(actor, id).await.unwrap();
        }
        let made = new("Note", &format!("r{step}"), Note::random(dice).properties());
        graph.create_object(actor, made).await.unwrap();
        graph.revert_run(self.harness.actor, run).await.unwrap();
    }

    /// A question with the word of a name finds the text with the word, and over the name every note that has it.
    async fn check(&self, after: &str) {
        for ((name, word), seed) in NAMES.iter().zip(&self.seeds) {
            let has_name = self.notes.iter().filter(|(_, note)| note.is_live && note.has(name));
            let expected: BTreeSet<ObjectId> = has_name.map(|(id, _)| *id).collect();
            for types in [Vec::new(), vec!["Note".to_owned()]] {
                let is_seed_found = types.is_empty();
                let filter = ObjectFilter { types, ..ObjectFilter::default() };
                let linked = SearchQuery { filter, limit: 1_000, ..query(word, SearchMode::Linked) };
                let found = self.harness.graph.search(self.harness.project(), linked).await.unwrap();
                let mut ids: BTreeSet<ObjectId> = found.hits.iter().map(|hit| hit.item.id).collect();
                assert_eq!(ids.len(), found.hits.len(), "nothing is found twice");
                assert_eq!(ids.remove(seed), is_seed_found, "the text with `{word}` {after}");
                assert_eq!(ids, expected, "`{name}` {after}");
                for hit in found.hits.iter().filter(|hit| hit.item.id != *seed) {
                    let link = HitLink { from: seed.0, name: name.to_lowercase() };
                    assert_eq!(hit.link.as_ref(), Some(&link), "{after}");
                }
            }
        }
    }
}

both_engines! {
    async fn a_linked_search_finds_what_a_naive_model_finds_after_any_writes(db: TestDb) {
        let seed = rand::random();
        println!("the seed is {seed}");
        let mut dice = StdRng::seed_from_u64(seed);
        let here = Harness::new(&db).await;
        let there = Harness { graph: here.graph.clone(), actor: project(&here.graph, "other", false).await };
        let (mut here, mut there) = (World::new(here).await, World::new(there).await);
        for step in 0..60 {
            let world = if dice.random_bool(0.7) { &mut here } else { &mut there };
            world.change(&mut dice, step).await;
            if step % 5 == 4 {
                let after = format!("after step {step} of the seed {seed}");
                here.check(&after).await;
                there.check(&after).await;
            }
        }
    }
}
