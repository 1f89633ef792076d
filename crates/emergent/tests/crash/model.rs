//! What one client may rely on: the state its acknowledged requests add up to. A client works
//! alone on objects of a type of its own, one request after the other, so this is exact.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

pub type Edge = (String, String);

/// What a version of an object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub value: i64,
    /// No other object has it, and no other version of this one that says something else.
    pub word: String,
}

/// An object as every version it had; `None` is a tombstone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thing {
    pub versions: Vec<Option<State>>,
}

/// What the object with this word is called. Several objects of a client have the same name, and an update that replaces
/// the word renames the object.
pub fn name(word: &str) -> String {
    let (client, number) = word
        .strip_prefix('c')
        .and_then(|rest| rest.strip_suffix('x'))
        .and_then(|rest| rest.split_once('n'))
        .expect("a word of `new_thing`");
    let number: usize = number.parse().expect("a number");
    let client: usize = client.parse().expect("a number");
    let first = ["Quince", "Medlar", "Loquat", "Papaya", "Durian"][number % 5];
    let last = ["Ash", "Birch", "Cedar", "Elder", "Hazel", "Larch", "Maple", "Rowan"][client % 8];
    format!("{first} {last}")
}

impl Thing {
    pub fn now(&self) -> Option<&State> {
        self.versions.last().and_then(Option::as_ref)
    }
}

#[derive(Debug, Clone)]
pub struct NewThing {
    pub key: String,
    pub word: String,
}

/// One request. Each is one transaction: all of it happens or nothing.
#[derive(Debug, Clone)]
pub enum Op {
    Create(NewThing),
    /// Adds one to the value; a word replaces the word.
    Update {
        key: String,
        word: Option<String>,
    },
    Delete {
        key: String,
    },
    Restore {
        key: String,
    },
    Connect(Edge),
    Disconnect(Edge),
    /// New objects in a row, each connected with the next, the first with one that was there.
    Subgraph {
        things: Vec<NewThing>,
        from: Option<String>,
    },
    Bulk(Vec<NewThing>),
    /// The last one's key is taken, so nothing of it may ever be seen.
    RefusedBulk {
        things: Vec<NewThing>,
        taken: String,
    },
}

/// What the server shows of a client's world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub living: BTreeMap<String, (i64, State)>,
    pub edges: BTreeSet<Edge>,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub client: usize,
    pub things: BTreeMap<String, Thing>,
    pub edges: BTreeSet<Edge>,
    /// Edges that went with an end; they come back once both ends live.
    waiting: BTreeSet<Edge>,
    made: usize,
}

impl Model {
    pub fn new(client: usize) -> Self {
        let (things, edges, waiting) = Default::default();
        Self { client, things, edges, waiting, made: 0 }
    }

    pub fn view(&self) -> View {
        let living = self.things.iter().filter_map(|(key, thing)| {
            let version = i64::try_from(thing.versions.len()).expect("a small number");
            Some((key.clone(), (version, thing.now()?.clone())))
        });
        View { living: living.collect(), edges: self.edges.clone() }
    }

    pub fn alive(&self, key: &str) -> bool {
        self.things.get(key).is_some_and(|thing| thing.now().is_some())
    }

    /// Something to do next. Counts even what is then not acknowledged, so that no key or word
    /// is used for two things.
    pub fn choose(&mut self, dice: &mut StdRng) -> Op {
        let living: Vec<_> = self.things.keys().filter(|key| self.alive(key)).cloned().collect();
        let dead: Vec<_> = self.things.keys().filter(|key| !self.alive(key)).cloned().collect();
        let edges: Vec<_> = self.edges.iter().cloned().collect();
        let one = |of: &[String], dice: &mut StdRng| of.choose(dice).cloned();
        // A world that stays small is checked whole, and often.
        let crowded = living.len() > 60;
        loop {
            let op = match dice.random_range(0..20) {
                0..=2 if !crowded => Some(Op::Create(self.new_thing())),
                3..=7 => one(&living, dice).map(|key| {
                    let word = dice.random_bool(0.5).then(|| self.new_thing().word);
                    Op::Update { key, word }
                }),
                8..=10 => one(&living, dice).map(|key| Op::Delete { key }),
                11 => one(&dead, dice).map(|key| Op::Restore { key }),
                12..=13 => one(&living, dice)
                    .zip(one(&living, dice))
                    .filter(|(from, to)| from != to)
                    .map(Op::Connect),
                14 => edges.choose(dice).cloned().map(Op::Disconnect),
                15..=16 if !crowded => {
                    let things = self.new_things(dice);
                    Some(Op::Subgraph { things, from: one(&living, dice) })
                }
                17..=18 if !crowded => Some(Op::Bulk(self.new_things(dice))),
                19 => {
                    one(&living, dice).map(|taken| Op::RefusedBulk { things: self.new_things(dice), taken })
                }
                _ => None,
            };
            if let Some(op) = op {
                return op;
            }
        }
    }

    fn new_things(&mut self, dice: &mut StdRng) -> Vec<NewThing> {
        (0..dice.random_range(2..6)).map(|_| self.new_thing()).collect()
    }

    fn new_thing(&mut self) -> NewThing {
        self.made += 1;
        let key = format!("c{}-{}", self.client, self.made);
        // Ends in a letter, so that none begins another.
        NewThing { key, word: format!("c{}n{}x", self.client, self.made) }
    }

    /// What the world is after the request.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Create(thing) => self.create(thing),
            Op::Update { key, word } => {
                let mut state = self.things[key].now().expect("only the living are updated").clone();
                state.value += 1;
                state.word = word.clone().unwrap_or(state.word);
                self.push(key, Some(state));
            }
            Op::Delete { key } => {
                self.push(key, None);
                let gone = self.edges.extract_if(.., |(from, to)| from == key || to == key);
                self.waiting.extend(gone);
            }
            Op::Restore { key } => {
                let last = self.things[key].versions.iter().rev().flatten().next();
                let last = last.expect("it lived before it was deleted").clone();
                self.push(key, Some(last));
                let waiting = std::mem::take(&mut self.waiting);
                let (back, kept) =
                    waiting.into_iter().partition(|(from, to)| self.alive(from) && self.alive(to));
                self.edges.extend::<BTreeSet<_>>(back);
                self.waiting = kept;
            }
            Op::Connect(edge) => {
                self.edges.insert(edge.clone());
            }
            Op::Disconnect(edge) => {
                self.edges.remove(edge);
            }
            Op::Subgraph { things, from } => {
                things.iter().for_each(|thing| self.create(thing));
                self.edges.extend(subgraph_edges(things, from.as_ref()));
            }
            Op::Bulk(things) => things.iter().for_each(|thing| self.create(thing)),
            Op::RefusedBulk { .. } => {}
        }
    }

    fn create(&mut self, new: &NewThing) {
        self.push(&new.key, Some(State { value: 0, word: new.word.clone() }));
    }

    fn push(&mut self, key: &str, state: Option<State>) {
        self.things.entry(key.to_owned()).or_default().versions.push(state);
    }
}

pub fn subgraph_edges(things: &[NewThing], from: Option<&String>) -> Vec<Edge> {
    let keys: Vec<_> = from.into_iter().chain(things.iter().map(|thing| &thing.key)).collect();
    keys.windows(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

impl Op {
    /// The objects whose versions it changes.
    pub fn touches(&self) -> Vec<&String> {
        match self {
            Op::Create(thing) => vec![&thing.key],
            Op::Update { key, .. } | Op::Delete { key } | Op::Restore { key } => vec![key],
            Op::Connect(_) | Op::Disconnect(_) => Vec::new(),
            Op::Subgraph { things, .. } | Op::Bulk(things) | Op::RefusedBulk { things, .. } => {
                things.iter().map(|thing| &thing.key).collect()
            }
        }
    }
}
