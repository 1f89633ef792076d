//! What a product uses of the world outside its agents: programs, hosts, secrets, schedules and
//! events. People see and accept it before a product is installed.

use std::collections::BTreeSet;

use emergent_domain::{
    cron::Cron,
    mcp_server::{SecretUse, ServerSpec},
    trigger::{EventConfig, EventKind, TriggerSpec},
};
use emergent_net::address;
use emergent_secrets::destination::{secret_uses, target_of};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::manifest::{Manifest, ManifestServer};

/// Everything that a product uses. This is also the stored form of what was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Uses {
    /// The programs that the server runs, with their variables and arguments.
    pub programs: BTreeSet<String>,
    /// The addresses of the servers that are contacted, such as `https://example.com/mcp`.
    pub hosts: BTreeSet<String>,
    /// The secrets, each with the program or host that gets it.
    pub secrets: BTreeSet<SecretUse>,
    pub schedules: BTreeSet<ScheduleUse>,
    pub events: BTreeSet<EventUse>,
}

/// A schedule that starts an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScheduleUse {
    pub agent: String,
    pub cron: String,
    pub time_zone: String,
}

/// An event that starts an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventUse {
    pub agent: String,
    /// Such as `on_document_ingested`.
    pub event: String,
    /// Which of the objects or documents start it, such as `types ["Note"]`; empty if all do. `None` in a consent that
    /// an earlier version stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// The answer to the question whether a product may use what it uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Consent {
    #[default]
    NotGiven,
    /// Yes, whatever it is.
    Everything,
    /// Yes, to what has this digest: what a plan showed before.
    Digest(String),
}

impl Uses {
    /// Returns what the product of a valid manifest uses.
    pub fn of_manifest(manifest: &Manifest) -> Self {
        let mut uses = Self::default();
        for ManifestServer { spec, .. } in manifest.servers() {
            match spec {
                ServerSpec::Stdio { .. } => uses.programs.insert(target_of(spec)),
                ServerSpec::Http { .. } | ServerSpec::Sse { .. } | ServerSpec::A2a { .. } => {
                    uses.hosts.insert(target_of(spec))
                }
            };
            uses.secrets.extend(secret_uses(spec));
        }
        for definition in manifest.definitions() {
            // A trigger that cannot be parsed is a problem of the manifest, which is not installed.
            let Ok(Some(trigger)) = TriggerSpec::from_definition(&definition) else { continue };
            match trigger {
                TriggerSpec::Schedule { cron, config } => {
                    uses.add_schedule(definition.name, cron.to_string(), config.time_zone);
                }
                TriggerSpec::Event { event, config } => uses.add_event(definition.name, event, &config),
            }
        }
        for job in &manifest.jobs {
            let starts = match job.dispatch {
                Some(_) => format!("workflow {}", job.name),
                None => job.agent.clone(),
            };
            if let Some(event) = job.event {
                uses.add_event(starts, event, &job.event_config);
                continue;
            }
            let cron = job.cron.parse::<Cron>().map_or_else(|_| job.cron.clone(), |cron| cron.to_string());
            uses.add_schedule(starts, cron, job.config.time_zone.clone());
        }
        uses
    }

    fn add_schedule(&mut self, agent: String, cron: String, time_zone: String) {
        self.schedules.insert(ScheduleUse { agent, cron, time_zone });
    }

    fn add_event(&mut self, agent: String, event: EventKind, config: &EventConfig) {
        let filter = Some(filter_text(config));
        self.events.insert(EventUse { agent, event: event.as_str().to_owned(), filter });
    }

    /// Returns what was accepted, with what earlier versions did not store: addresses and headers instead of origins or
    /// addresses, and the filters of events. What was accepted without these was accepted for what the installed
    /// manifest has there.
    #[must_use]
    pub fn completed_from(self, installed: &Manifest) -> Self {
        self.with_filters(installed).with_addresses(installed)
    }

    fn with_filters(mut self, installed: &Manifest) -> Self {
        let (without, mut events): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.events).into_iter().partition(|one| one.filter.is_none());
        if !without.is_empty() {
            let is_of = |one: &EventUse, old: &EventUse| one.agent == old.agent && one.event == old.event;
            let installed = Self::of_manifest(installed).events.into_iter();
            events.extend(installed.filter(|one| without.iter().any(|old| is_of(one, old))));
        }
        Self { events, ..self }
    }

    fn with_addresses(mut self, installed: &Manifest) -> Self {
        let specs: Vec<&ServerSpec> = installed.servers().map(|server| server.spec).collect();
        let is_at = |spec: &ServerSpec, origin: &str| {
            let Some((url, _)) = spec.endpoint() else { return false };
            address::origin(url).as_deref() == Some(origin)
        };
        for origin in self.hosts.clone() {
            let at_origin: Vec<String> =
                specs.iter().filter(|spec| is_at(spec, &origin)).map(|spec| target_of(spec)).collect();
            if !at_origin.is_empty() {
                self.hosts.remove(&origin);
                self.hosts.extend(at_origin);
            }
        }
        let is_there = |spec: &ServerSpec, target: &str| is_at(spec, target) || target_of(spec) == target;
        for one in self.secrets.clone() {
            let mut at_origin: Vec<SecretUse> = specs
                .iter()
                .filter(|spec| is_there(spec, &one.target))
                .flat_map(|spec| secret_uses(spec))
                .collect();
            at_origin.retain(|used| used.name == one.name);
            if !at_origin.is_empty() {
                self.secrets.remove(&one);
                self.secrets.extend(at_origin);
            }
        }
        self
    }

    /// Returns what is not in `other`.
    pub fn without(&self, other: &Self) -> Self {
        Self {
            programs: &self.programs - &other.programs,
            hosts: &self.hosts - &other.hosts,
            secrets: &self.secrets - &other.secrets,
            schedules: &self.schedules - &other.schedules,
            events: &self.events - &other.events,
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns what was accepted, for the audit log, at most `limit` of each kind. Arguments and variables of
    /// programs are left out, because somebody may have written a secret there.
    pub fn audit_json(&self, manifest: Option<&Manifest>, limit: usize) -> Value {
        let specs = manifest.into_iter().flat_map(Manifest::servers).map(|server| server.spec);
        let programs = specs.filter_map(|spec| match spec {
            ServerSpec::Stdio { command, .. } if self.programs.contains(&target_of(spec)) => Some(command),
            _ => None,
        });
        let schedules = self.schedules.iter().map(|one| format!("{} {}", one.agent, one.cron));
        let events = self.events.iter().map(EventUse::describe);
        let secrets: BTreeSet<&String> = self.secrets.iter().map(|one| &one.name).collect();
        json!({
            "programs": programs.take(limit).collect::<Vec<_>>(),
            "hosts": self.hosts.iter().take(limit).collect::<Vec<_>>(),
            "secrets": secrets.into_iter().take(limit).collect::<Vec<_>>(),
            "schedules": schedules.take(limit).collect::<Vec<_>>(),
            "events": events.take(limit).collect::<Vec<_>>(),
        })
    }

    /// Returns a digest for a consent to exactly this.
    pub fn digest(&self) -> String {
        // Sets are serialised in order, so equal values have equal texts.
        let text = serde_json::to_vec(self).unwrap_or_default();
        sha256(&text)
    }
}

/// The digest of some bytes, in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl EventUse {
    /// `triage on_entity_created types ["Note"]`.
    fn describe(&self) -> String {
        match self.filter.as_deref().unwrap_or_default() {
            "" => format!("{} {}", self.agent, self.event),
            filter => format!("{} {} {filter}", self.agent, self.event),
        }
    }
}

/// The most characters of a filter that are shown as they are. What is behind them counts with its digest.
const MAX_FILTER_CHARS: usize = 2_000;

/// Which objects or documents an event trigger is for; empty if it is for all. The lists are in JSON, so different
/// filters have different texts, and in order, so equal ones have equal texts.
fn filter_text(config: &EventConfig) -> String {
    let list = |name: &str, items: BTreeSet<String>| {
        (!items.is_empty()).then(|| format!("{name} [{}]", items.into_iter().collect::<Vec<_>>().join(",")))
    };
    let names = |names: &[String]| names.iter().map(|name| json!(name).to_string()).collect();
    let conditions = config.conditions.iter().map(|condition| json!(condition).to_string()).collect();
    let parts = [
        list("types", names(&config.types)),
        list("labels", names(&config.labels)),
        list("conditions", conditions),
    ];
    shortened(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(MAX_FILTER_CHARS) {
        None => text,
        Some((end, _)) => format!("{}… (sha256 of all of it: {})", &text[..end], sha256(text.as_bytes())),
    }
}

impl Consent {
    /// Returns whether the answer allows a product to use `uses`, of which `added` was not accepted
    /// before. A digest must fit in any case: whoever sends one has looked at something else.
    pub fn covers(&self, uses: &Uses, added: &Uses) -> bool {
        match self {
            Self::NotGiven => added.is_empty(),
            Self::Everything => true,
            Self::Digest(digest) => *digest == uses.digest(),
        }
    }
}
