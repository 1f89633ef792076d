//! Validates values against the packs of a project.
//!
//! All writers of SQLite wait for the running transaction, so a transaction validates only what takes few
//! steps. What takes more is validated before it, on a thread for such work. An update can be validated
//! only together with the stored properties: its transaction then ends with [`Error::NotValidated`], the
//! value is validated outside, and the transaction runs again and finds the outcome.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use emergent_domain::{
    ids::ProjectId,
    invalid::Invalid,
    output_schema::OutputSchema,
    pack::{PackSet, Refusal, limits},
    project::Project,
};
use emergent_store::Tx;
use hashlink::LruCache;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::{Error, Graph, WriteContext, error::Result, objects::ObjectDraft};

mod compiled_packs;

/// A value that takes no more steps than this is validated wherever it is needed: it takes a fraction of a
/// millisecond.
const SMALL_STEPS: u64 = 3_000;
/// How many steps all larger validations of one transaction may take together.
const TX_STEPS: u64 = 300_000;
/// How many steps the validations of one request may take on an async thread.
const ASYNC_STEPS: u64 = 100_000;
/// How many steps the validations of one request may take in all.
const REQUEST_STEPS: u64 = 3 * limits::STEPS;
/// How many outcomes of large validations are remembered.
const MAX_OUTCOMES: usize = 2_000;
/// For how many transactions packs are compiled at a time. Each is at most 64 MiB in memory.
const MAX_COMPILED: usize = 4;
/// How often a transaction runs again because a value had to be validated outside of it.
const MAX_RERUNS: usize = 20;
/// The size in memory of the compiled packs of all projects that are kept, in bytes.
const MAX_CACHED_BYTES: u64 = 256 << 20;

/// How many different output schemas one request may have.
const MAX_OUTPUT_SCHEMAS: usize = 100;
/// No further output schema of a request is compiled after this time.
const MAX_OUTPUT_SCHEMA_TIME: Duration = Duration::from_secs(3);

/// The packs of a project as they were at a revision.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    stamp: RulesStamp,
    packs: Arc<PackSet>,
    bytes: u64,
}

/// Identifies the rules that a value was validated against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RulesStamp {
    project: ProjectId,
    revision: i64,
    strict: bool,
}

impl RulesStamp {
    pub(crate) fn for_project(project: &Project) -> Self {
        Self { project: project.id, revision: project.packs_revision, strict: project.strict }
    }
}

/// The outcome of a validation, and the rules it refers to.
pub(crate) type Validated = Arc<(RulesStamp, Result<(), Invalid>)>;

/// What the properties belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Subject {
    Object { type_: String },
    Relationship { type_: String, from: String, to: String },
}

/// A value that a transaction could not validate, because it would take too long.
#[derive(Debug, Clone)]
pub struct PendingValidation {
    stamp: RulesStamp,
    subject: Subject,
    properties: Map<String, Value>,
}

/// An error that may be an [`Error::NotValidated`].
pub trait MayBePending: Sized {
    fn into_pending(self) -> Result<Box<PendingValidation>, Self>;
}

impl MayBePending for Error {
    fn into_pending(self) -> Result<Box<PendingValidation>, Self> {
        match self {
            Error::NotValidated(pending) => Ok(pending),
            other => Err(other),
        }
    }
}

/// How a transaction without an error ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransactionEnd {
    Commit,
    RollBack,
}

type Outcomes = Mutex<LruCache<[u8; 32], Result<(), Invalid>>>;

/// The caches of validations that the clones of a graph share.
pub(crate) struct ValidationState {
    rules: Mutex<LruCache<ProjectId, Rules>>,
    /// Packs that were compiled for transactions, by their contents, until these have committed.
    compiled: Mutex<LruCache<[u8; 32], Arc<PackSet>>>,
    outcomes: Arc<Outcomes>,
}

impl ValidationState {
    pub(crate) fn new(max_projects: usize) -> Self {
        Self {
            rules: Mutex::new(LruCache::new(max_projects)),
            compiled: Mutex::new(LruCache::new(MAX_COMPILED)),
            outcomes: Arc::new(Mutex::new(LruCache::new(MAX_OUTCOMES))),
        }
    }

    fn cached(&self, project: ProjectId) -> Option<Rules> {
        self.rules.lock().get(&project).cloned()
    }

    fn insert(&self, rules: Rules) {
        self.compiled.lock().retain(|_, packs| !Arc::ptr_eq(packs, &rules.packs));
        let mut cache = self.rules.lock();
        cache.insert(rules.stamp.project, rules);
        while cache.len() > 1 && cache.iter().map(|(_, rules)| rules.bytes).sum::<u64>() > MAX_CACHED_BYTES {
            cache.remove_lru();
        }
    }

    pub(crate) fn forget(&self, project: ProjectId) {
        self.rules.lock().remove(&project);
    }
}

/// The validations of one transaction.
#[derive(Clone)]
pub(crate) struct TxValidation {
    steps: Arc<AtomicU64>,
    outcomes: Arc<Outcomes>,
}

impl std::fmt::Debug for TxValidation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TxValidation").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl WriteContext {
    /// Validates the properties of an object. Fails with [`Error::NotValidated`] if that would take too long
    /// in a transaction.
    pub(crate) fn check_object(&self, type_: &str, properties: &Map<String, Value>) -> Result<()> {
        let mut steps = SMALL_STEPS;
        match self.packs.check_object_within(type_, properties, self.project.strict, &mut steps) {
            Err(Refusal::OutOfSteps { .. }) => {
                self.check_large(Subject::Object { type_: type_.to_owned() }, properties)
            }
            checked => Ok(checked.map_err(Refusal::into_invalid)?),
        }
    }

    /// Works like [`WriteContext::check_object`], for a relationship between objects of two types.
    pub(crate) fn check_relationship(
        &self,
        type_: &str,
        (from, to): (&str, &str),
        properties: &Map<String, Value>,
    ) -> Result<()> {
        let (strict, mut steps) = (self.project.strict, SMALL_STEPS);
        match self.packs.check_relationship_within(type_, (from, to), properties, strict, &mut steps) {
            Err(Refusal::OutOfSteps { .. }) => {
                let (type_, from, to) = (type_.to_owned(), from.to_owned(), to.to_owned());
                self.check_large(Subject::Relationship { type_, from, to }, properties)
            }
            checked => Ok(checked.map_err(Refusal::into_invalid)?),
        }
    }

    fn check_large(&self, subject: Subject, properties: &Map<String, Value>) -> Result<()> {
        let stamp = RulesStamp::for_project(&self.project);
        let digest = digest(stamp, &subject, properties);
        if let Some(outcome) = self.validation.outcomes.lock().get(&digest) {
            return Ok(outcome.clone()?);
        }
        let mut steps = self.validation.steps.load(Ordering::Relaxed);
        let checked = check(&self.packs, &subject, properties, self.project.strict, &mut steps);
        let outcome = match checked {
            Ok(()) => Ok(()),
            Err(Refusal::Invalid(invalid)) => Err(invalid),
            Err(Refusal::OutOfSteps { .. }) => {
                let properties = properties.clone();
                return Err(Error::NotValidated(Box::new(PendingValidation { stamp, subject, properties })));
            }
        };
        self.validation.steps.store(steps, Ordering::Relaxed);
        self.validation.outcomes.lock().insert(digest, outcome.clone());
        Ok(outcome?)
    }
}

impl Graph {
    pub(crate) fn tx_validation(&self) -> TxValidation {
        let outcomes = Arc::clone(&self.0.validation.outcomes);
        TxValidation { steps: Arc::new(AtomicU64::new(TX_STEPS)), outcomes }
    }

    /// Runs a transaction. Values that take too long to validate in it are validated outside, and it runs
    /// again.
    pub async fn write_validated<T, E, F>(&self, project: ProjectId, work: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + Sync + 'static,
        T: Send + 'static,
        E: From<emergent_store::Error> + From<Error> + MayBePending + Send + 'static,
    {
        self.run_validated(project, work, TransactionEnd::Commit).await
    }

    /// Runs a transaction as [`Graph::write_validated`] does, and rolls it back in every case. Returns its result.
    pub async fn write_validated_and_roll_back<T, E, F>(&self, project: ProjectId, work: F) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + Sync + 'static,
        T: Send + 'static,
        E: From<emergent_store::Error> + From<Error> + MayBePending + Send + 'static,
    {
        self.run_validated(project, work, TransactionEnd::RollBack).await
    }

    async fn run_validated<T, E, F>(&self, project: ProjectId, work: F, end: TransactionEnd) -> Result<T, E>
    where
        F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + Sync + 'static,
        T: Send + 'static,
        E: From<emergent_store::Error> + From<Error> + MayBePending + Send + 'static,
    {
        // Packs are compiled outside of transactions. A missing project is reported by the transaction.
        self.load_rules(project).await?;
        let work = Arc::new(work);
        let mut reruns = 0;
        loop {
            let attempt = Arc::clone(&work);
            let attempt = move |tx: &mut Tx<'_>| attempt(tx);
            let ended = match end {
                TransactionEnd::Commit => self.db().write(attempt).await,
                TransactionEnd::RollBack => self.db().write_and_roll_back(attempt).await,
            };
            let error = match ended {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let pending = error.into_pending()?;
            reruns += 1;
            if reruns > MAX_RERUNS {
                let reason = "has too many values that take long to validate: split the request";
                return Err(Error::from(Invalid::new("", reason)).into());
            }
            self.validate(*pending).await?;
        }
    }

    /// Validates a value that a transaction could not validate, and remembers the outcome.
    async fn validate(&self, pending: PendingValidation) -> Result<()> {
        let project = pending.stamp.project;
        if self.0.validation.cached(project).is_some_and(|rules| rules.stamp != pending.stamp) {
            self.0.validation.forget(project);
        }
        let Some(rules) = self.load_rules(project).await? else {
            return Err(Error::not_found("project", project));
        };
        let outcomes = Arc::clone(&self.0.validation.outcomes);
        let work = move || {
            let PendingValidation { subject, properties, .. } = pending;
            let (stamp, mut steps) = (rules.stamp, limits::STEPS);
            let checked = check(&rules.packs, &subject, &properties, stamp.strict, &mut steps);
            let outcome = checked.map_err(Refusal::into_invalid);
            outcomes.lock().insert(digest(stamp, &subject, &properties), outcome);
        };
        self.0.validation_pool.run(project, work).await
    }

    /// Validates new objects before their transaction. The transaction uses the outcomes if the packs of the
    /// project have not changed by then.
    pub(crate) async fn validate_drafts(
        &self,
        project: ProjectId,
        drafts: Vec<ObjectDraft>,
    ) -> Result<Vec<ObjectDraft>> {
        self.validate_items(project, drafts, |draft| draft).await
    }

    /// Works like [`Graph::validate_drafts`], for items that contain a draft.
    pub(crate) async fn validate_items<T: Send + 'static>(
        &self,
        project: ProjectId,
        mut items: Vec<T>,
        draft: fn(&mut T) -> &mut ObjectDraft,
    ) -> Result<Vec<T>> {
        let Some(rules) = self.load_rules(project).await? else { return Ok(items) };
        let mut steps = ASYNC_STEPS;
        let next = items.iter_mut().position(|item| rules.validate_draft(draft(item), &mut steps).is_err());
        let Some(next) = next else { return Ok(items) };
        let work = move || {
            let mut left = REQUEST_STEPS;
            for item in &mut items[next..] {
                let (draft, given) = (draft(item), left.min(limits::STEPS));
                let mut steps = given;
                if let Err(refusal) = rules.validate_draft(draft, &mut steps) {
                    let invalid =
                        if given == limits::STEPS { refusal.into_invalid() } else { too_many_steps() };
                    draft.set_validated(Arc::new((rules.stamp, Err(invalid))));
                    steps = 0;
                }
                left -= given - steps;
            }
            items
        };
        self.0.validation_pool.run(project, work).await
    }

    /// Compiles output schemas on a thread for such work, before the transaction that stores them: they are remembered,
    /// so that the transaction only finds them. Each has the name of its field. The work ends at a deadline.
    pub async fn compile_output_schemas(
        &self,
        project: ProjectId,
        schemas: Vec<(String, Value)>,
    ) -> Result<()> {
        if schemas.is_empty() {
            return Ok(());
        }
        let work = move || {
            let started = Instant::now();
            let mut compiled: Vec<(Value, OutputSchema)> = Vec::new();
            for (field, schema) in schemas {
                if compiled.iter().any(|(other, _)| *other == schema) {
                    continue;
                }
                if compiled.len() >= MAX_OUTPUT_SCHEMAS {
                    let reason = format!(
                        "is more than the {MAX_OUTPUT_SCHEMAS} different schemas that one request may have: split it"
                    );
                    return Err(Invalid::new(field, reason));
                }
                if started.elapsed() > MAX_OUTPUT_SCHEMA_TIME {
                    let reason =
                        "could not be compiled in time: use fewer and simpler schemas in one request";
                    return Err(Invalid::new(field, reason));
                }
                let output = OutputSchema::compile(&schema).map_err(|invalid| invalid.prefixed(&field))?;
                compiled.push((schema, output));
            }
            Ok(())
        };
        Ok(self.0.validation_pool.run(project, work).await??)
    }

    /// Runs work that may take some tenths of a second, such as a validation, where other such work runs.
    pub async fn run_validation<T: Send + 'static>(
        &self,
        project: ProjectId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.0.validation_pool.run(project, work).await
    }
}

impl Rules {
    /// Validates a draft and stores the outcome in it. Fails if the steps do not suffice.
    fn validate_draft(&self, draft: &mut ObjectDraft, steps: &mut u64) -> Result<(), Refusal> {
        let strict = self.stamp.strict;
        let outcome = match self.packs.check_object_within(draft.type_(), draft.properties(), strict, steps) {
            Ok(()) => Ok(()),
            Err(Refusal::Invalid(invalid)) => Err(invalid),
            Err(out_of_steps) => return Err(out_of_steps),
        };
        draft.set_validated(Arc::new((self.stamp, outcome)));
        Ok(())
    }
}

fn too_many_steps() -> Invalid {
    let reason = format!(
        "could not be validated: the objects of one request may take {REQUEST_STEPS} steps together; split it"
    );
    Invalid::new("properties", reason)
}

fn check(
    packs: &PackSet,
    subject: &Subject,
    properties: &Map<String, Value>,
    strict: bool,
    steps: &mut u64,
) -> Result<(), Refusal> {
    match subject {
        Subject::Object { type_ } => packs.check_object_within(type_, properties, strict, steps),
        Subject::Relationship { type_, from, to } => {
            packs.check_relationship_within(type_, (from, to), properties, strict, steps)
        }
    }
}

/// Identifies a value and the rules that it is validated against.
fn digest(stamp: RulesStamp, subject: &Subject, properties: &Map<String, Value>) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(stamp.project.0);
    hash.update(stamp.revision.to_le_bytes());
    hash.update([u8::from(stamp.strict)]);
    let (kind, names): (u8, Vec<&str>) = match subject {
        Subject::Object { type_ } => (0, vec![type_.as_str()]),
        Subject::Relationship { type_, from, to } => (1, vec![type_.as_str(), from.as_str(), to.as_str()]),
    };
    hash.update([kind]);
    for name in names {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
    }
    hash.update(serde_json::to_vec(properties).unwrap_or_default());
    hash.finalize().into()
}
