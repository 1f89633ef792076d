//! A client that writes one request after the other until the server is gone.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rand::rngs::StdRng;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    common::{Answer, Api},
    model::{Edge, Model, NewThing, Op, name, subgraph_edges},
};

pub struct Writer {
    pub model: Model,
    pub dice: StdRng,
    pub ids: HashMap<String, String>,
    pub edge_ids: HashMap<Edge, String>,
    /// The request that got no answer: it happened, or it did not.
    pub in_doubt: Option<Op>,
    /// Objects that requests since the last check were about.
    pub touched: BTreeSet<String>,
    pub acknowledged: usize,
}

impl Writer {
    pub fn new(client: usize, dice: StdRng) -> Self {
        let (ids, edge_ids, touched) = Default::default();
        Self { model: Model::new(client), dice, ids, edge_ids, in_doubt: None, touched, acknowledged: 0 }
    }

    pub fn type_(&self) -> String {
        format!("Note{}", self.model.client)
    }

    pub fn edge_type(&self) -> String {
        format!("links{}", self.model.client)
    }

    /// Writes until the server is gone, or for as long as anybody waits for that.
    pub async fn work(mut self, api: Api, told: Arc<AtomicUsize>) -> Self {
        let end = tokio::time::Instant::now() + Duration::from_secs(10);
        while tokio::time::Instant::now() < end {
            let op = self.model.choose(&mut self.dice);
            self.touched.extend(op.touches().into_iter().cloned());
            match self.send(&api, &op).await {
                Ok(answer) => {
                    self.acknowledge(&op, answer);
                    told.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) => {
                    self.in_doubt = Some(op);
                    return self;
                }
            }
        }
        self
    }

    async fn send(&self, api: &Api, op: &Op) -> reqwest::Result<Answer> {
        let object = |key: &String| format!("/api/graph/objects/{}", self.ids[key]);
        let bodies = |things: &[NewThing]| things.iter().map(|thing| self.body(thing)).collect::<Vec<_>>();
        match op {
            Op::Create(thing) => api.send(Method::POST, "/api/graph/objects", Some(&self.body(thing))).await,
            Op::Update { key, word } => {
                let thing = &self.model.things[key];
                let mut properties = json!({ "value": thing.now().expect("it lives").value + 1 });
                if let Some(word) = word {
                    properties["word"] = json!(word);
                    properties["title"] = json!(name(word));
                }
                let body = json!({ "properties": properties, "expectedVersion": thing.versions.len() });
                api.send(Method::PATCH, &object(key), Some(&body)).await
            }
            Op::Delete { key } => api.send(Method::DELETE, &object(key), None).await,
            Op::Restore { key } => api.send(Method::POST, &format!("{}/restore", object(key)), None).await,
            Op::Connect((from, to)) => {
                let body =
                    json!({ "type": self.edge_type(), "fromId": self.ids[from], "toId": self.ids[to] });
                api.send(Method::POST, "/api/graph/relationships", Some(&body)).await
            }
            Op::Disconnect(edge) => {
                let path = format!("/api/graph/relationships/{}", self.edge_ids[edge]);
                api.send(Method::DELETE, &path, None).await
            }
            Op::Subgraph { things, from } => {
                let mut objects = bodies(things);
                for (object, thing) in objects.iter_mut().zip(things) {
                    object["ref"] = json!(thing.key);
                }
                let end = |side: &str, key: &String| match self.ids.get(key) {
                    Some(id) => (format!("{side}Id"), json!(id)),
                    None => (format!("{side}Ref"), json!(key)),
                };
                let edges = subgraph_edges(things, from.as_ref()).into_iter().map(|(from, to)| {
                    let ends =
                        [end("from", &from), end("to", &to), ("type".to_owned(), json!(self.edge_type()))];
                    Value::Object(ends.into_iter().collect())
                });
                let body = json!({ "objects": objects, "relationships": edges.collect::<Vec<_>>() });
                api.send(Method::POST, "/api/graph/subgraph", Some(&body)).await
            }
            Op::Bulk(things) => {
                let body = json!({ "objects": bodies(things), "atomic": true });
                api.send(Method::POST, "/api/graph/objects/bulk", Some(&body)).await
            }
            Op::RefusedBulk { things, taken } => {
                let mut objects = bodies(things);
                objects.push(json!({ "type": self.type_(), "key": taken, "properties": {} }));
                let body = json!({ "objects": objects, "atomic": true });
                api.send(Method::POST, "/api/graph/objects/bulk", Some(&body)).await
            }
        }
    }

    fn body(&self, thing: &NewThing) -> Value {
        let properties = json!({
            "word": thing.word,
            "title": name(&thing.word),
            "value": 0,
            "about": format!("client{}", self.model.client),
        });
        json!({ "type": self.type_(), "key": thing.key, "properties": properties })
    }

    /// Takes the answer's word for it, and checks that word against what has to come of the request.
    fn acknowledge(&mut self, op: &Op, answer: Answer) {
        self.acknowledged += 1;
        if matches!(op, Op::RefusedBulk { .. }) {
            assert_eq!((answer.status, answer.code()), (409, "key_taken"), "{op:?}: {}", answer.body);
            return;
        }
        self.model.apply(op);
        let data = answer.data();
        let objects = match op {
            Op::Connect(edge) => {
                self.edge_ids.insert(edge.clone(), text(&data["id"]));
                return;
            }
            Op::Disconnect(_) => return,
            Op::Subgraph { things, from } => {
                for (edge, made) in
                    subgraph_edges(things, from.as_ref()).into_iter().zip(list(&data["relationships"]))
                {
                    self.edge_ids.insert(edge, text(&made["id"]));
                }
                list(&data["objects"])
            }
            Op::Bulk(_) => list(&data),
            Op::Create(_)
            | Op::Update { .. }
            | Op::Delete { .. }
            | Op::Restore { .. }
            | Op::RefusedBulk { .. } => vec![data],
        };
        let keys = op.touches();
        assert_eq!(objects.len(), keys.len(), "{op:?}: {objects:?}");
        for (key, object) in keys.into_iter().zip(&objects) {
            let expected = self.model.things[key].versions.len();
            assert_eq!((&object["key"], &object["version"]), (&json!(key), &json!(expected)), "{op:?}");
            self.ids.insert(key.clone(), text(&object["id"]));
        }
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}")).to_owned()
}

pub fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("a list, not {value}")).clone()
}
