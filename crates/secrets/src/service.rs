//! Secrets of projects: put, listed, deleted, and opened for whoever makes a connection.

use std::{collections::BTreeMap, sync::Arc};

use emergent_domain::{
    ids::{ProjectId, TokenId},
    invalid::Invalid,
    redact::{MIN_SECRET_BYTES, Redactor},
    time::{Clock, Timestamp},
};
use emergent_store::{
    Db, Tx, projects,
    secrets::{self as rows, KeyRow},
};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::{
    Error, KeySource, Keyring, Result, Secret, SecretName, Template,
    keyring::{Key, SealedValue, UnsealError},
    template::Part,
};

/// Bytes of a value, at most; without the white space around it, it has at least [`SHORTEST`].
pub const MAX_VALUE_BYTES: usize = 64 << 10;
/// Secrets of one project.
pub const MAX_SECRETS: usize = 1_000;

/// A handle on the secrets of every project; clones share it.
#[derive(Clone)]
pub struct Secrets(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub db: Db,
    pub clock: Clock,
    pub keys: KeySource,
    /// The keys as this process last saw them.
    pub ring: RwLock<Keyring>,
    pub redactor: Redactor,
    /// One rotation at a time.
    pub rotating: Mutex<()>,
}

/// What may be said of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretInfo {
    pub name: SecretName,
    /// One more with every value.
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The project's external servers that mention it, by name.
    pub used_by: Vec<String>,
}

impl Secrets {
    /// Finds the key, or makes it when the database has none yet. A database whose key is not here
    /// is refused: whatever were sealed with another could not be read by the others.
    pub async fn open(db: Db, clock: Clock, keys: KeySource, redactor: Redactor) -> Result<Self> {
        let known = db.read(|tx| rows::list_keys(tx, rows::LockMode::None)).await?;
        let (ring, made) = load_or_create_keys(&keys, &known)?;
        let (ours, place, now) = (ring.clone(), keys.location(), clock.now());
        let checked = db
            .write(move |tx| {
                // Two servers that start at once agree on whose key it is.
                tx.advisory_lock("secret keys")?;
                let mut known = rows::list_keys(tx, rows::LockMode::ForUpdate)?;
                if !known.iter().any(KeyRow::is_active) {
                    let first = &ours.keys()[0];
                    rows::insert_key(tx, first.id(), &first.proof()?, now)?;
                    known = rows::list_keys(tx, rows::LockMode::None)?;
                }
                check_keys(&ours, &known, &place)?;
                Ok::<_, Error>((known, rows::keys_in_use(tx)?))
            })
            .await;
        let (known, used) = match (checked, &keys) {
            (Ok(checked), _) => checked,
            // Another server was first: what was made in vain would only be taken for the key. After
            // any other failure nobody knows whether it is noted, and it stays.
            (Err(error @ Error::WrongKey { .. }), KeySource::File(file)) if made => {
                file.lock()?.remove()?;
                return Err(error);
            }
            (Err(error), _) => return Err(error),
        };
        let ring = prune_key_file(&keys, ring, &known, &used)?;
        let (ring, rotating) = (RwLock::new(ring), Mutex::default());
        Ok(Self(Arc::new(Inner { db, clock, keys, ring, redactor, rotating })))
    }

    pub fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }

    /// Keeps a value under a name, in the place of the one before.
    pub async fn put(
        &self,
        project: ProjectId,
        author: Option<TokenId>,
        name: &SecretName,
        value: Secret,
    ) -> Result<SecretInfo> {
        check_value(value.expose())?;
        let kept = match self.put_once(project, author, name, value.clone()).await {
            Err(Error::WrongKey { .. }) if self.reload()? => {
                self.put_once(project, author, name, value.clone()).await?
            }
            done => done?,
        };
        // Not before: what is refused would be kept out of every text without being anybody's secret.
        // Whoever opens it meanwhile makes it known as well.
        self.0.redactor.add_secret(project, name.as_str(), value.expose());
        Ok(kept)
    }

    async fn put_once(
        &self,
        project: ProjectId,
        author: Option<TokenId>,
        name: &SecretName,
        value: Secret,
    ) -> Result<SecretInfo> {
        let (this, name) = (self.clone(), name.clone());
        let work = move |tx: &mut Tx<'_>| {
            projects::get(tx, project)?.ok_or(Error::NoProject(project))?;
            let ring = this.0.ring.read().clone();
            // Held until the end: a rotation meanwhile would miss this row, and retire its key.
            let known = rows::list_keys(tx, rows::LockMode::ForShare)?;
            if !known.iter().any(KeyRow::is_active) {
                return Err(tx.retry_error("the key was changed meanwhile").into());
            }
            let key = sealing_key(&ring, &known, &this.0.keys.location())?;
            let sealed = key.seal(project, &name, &value)?;
            let now = this.0.clock.now();
            let row = rows::upsert(tx, project, name.as_str(), &sealed.key, &sealed.bytes, author, now)?;
            if row.version == 1 && rows::count(tx, project)? > MAX_SECRETS {
                let reason = format!("a project has at most {MAX_SECRETS} secrets; delete one first");
                return Err(Invalid::new("name", reason).into());
            }
            to_info(row, &load_users(tx, project)?)
        };
        self.0.db.write(work).await
    }

    /// By name; never the values.
    pub async fn list(&self, project: ProjectId) -> Result<Vec<SecretInfo>> {
        let work = move |tx: &mut Tx<'_>| {
            let users = load_users(tx, project)?;
            rows::list(tx, project)?.into_iter().map(|row| to_info(row, &users)).collect()
        };
        self.0.db.snapshot(work).await
    }

    /// What was deleted: whoever mentions it cannot connect any more.
    pub async fn delete(&self, project: ProjectId, name: &SecretName) -> Result<SecretInfo> {
        let name = name.clone();
        let work = move |tx: &mut Tx<'_>| match rows::delete(tx, project, name.as_str())? {
            Some(row) => to_info(row, &load_users(tx, project)?),
            None => Err(Error::NotFound { name: name.clone() }),
        };
        self.0.db.write(work).await
    }

    /// The text with its secrets in it. From here on the redactor knows them.
    pub async fn resolve(&self, project: ProjectId, template: &Template) -> Result<Secret> {
        let names: Vec<String> = template.names().map(|name| name.as_str().to_owned()).collect();
        let found = match names.is_empty() {
            true => BTreeMap::new(),
            false => self.0.db.read(move |tx| rows::get_sealed(tx, project, &names)).await?,
        };
        let mut text = String::new();
        for part in template.parts() {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Secret(name) => {
                    let row =
                        found.get(name.as_str()).ok_or_else(|| Error::NotFound { name: name.clone() })?;
                    let sealed = SealedValue { key: row.0.clone(), bytes: row.1.clone() };
                    text.push_str(self.unseal(project, name, &sealed)?.expose());
                }
            }
        }
        Ok(Secret::new(text))
    }

    /// Looks again where the key is kept: another server that shares the file may have changed it.
    fn reload(&self) -> Result<bool> {
        let KeySource::File(file) = &self.0.keys else { return Ok(false) };
        let Some(ring) = file.read()? else { return Ok(false) };
        *self.0.ring.write() = ring;
        Ok(true)
    }

    fn unseal(&self, project: ProjectId, name: &SecretName, sealed: &SealedValue) -> Result<Secret> {
        let mut opened = self.0.ring.read().unseal(project, name, sealed);
        if matches!(opened, Err(UnsealError::NoSuchKey)) && self.reload()? {
            opened = self.0.ring.read().unseal(project, name, sealed);
        }
        match opened {
            Ok(value) => {
                self.0.redactor.add_secret(project, name.as_str(), value.expose());
                Ok(value)
            }
            Err(UnsealError::NotAuthentic) => Err(Error::CannotUnseal { name: name.clone() }),
            Err(UnsealError::NoSuchKey) => {
                Err(wrong_key(&self.0.ring.read(), &sealed.key, &self.0.keys.location()))
            }
        }
    }
}

/// The keys that are there, or one made now when nothing is sealed with any.
fn load_or_create_keys(keys: &KeySource, known: &[KeyRow]) -> Result<(Keyring, bool)> {
    let KeySource::File(file) = keys else {
        return Ok((keys.read()?.ok_or(Error::RandomUnavailable)?, false));
    };
    let held = file.lock()?;
    match (file.read()?, known.iter().find(|key| key.is_active())) {
        (Some(ring), _) => Ok((ring, false)),
        (None, Some(wanted)) => {
            let (wanted, place, held) = (wanted.id.clone(), keys.location(), "none".to_owned());
            Err(Error::WrongKey { wanted, place, held })
        }
        (None, None) => {
            let ring = Keyring::generate()?;
            held.write(&ring)?;
            Ok((ring, true))
        }
    }
}

/// Every key that may have sealed something is on the ring.
pub(crate) fn check_keys(ring: &Keyring, known: &[KeyRow], place: &str) -> Result<()> {
    for row in known.iter().filter(|row| row.is_active()) {
        if !ring.get(&row.id).is_some_and(|key| key.proves(&row.proof)) {
            return Err(wrong_key(ring, &row.id, place));
        }
    }
    Ok(())
}

pub(crate) fn wrong_key(ring: &Keyring, wanted: &str, place: &str) -> Error {
    let held: Vec<_> = ring.keys().iter().map(|key| format!("`{}`", key.id())).collect();
    Error::WrongKey { wanted: wanted.to_owned(), place: place.to_owned(), held: held.join(", ") }
}

/// The first key on the ring that the database goes by: a retired one seals nothing any more, and
/// a new one nothing before the rotation that brings it in.
fn sealing_key<'a>(ring: &'a Keyring, known: &[KeyRow], place: &str) -> Result<&'a Key> {
    let live = |id: &str| known.iter().any(|row| row.is_active() && row.id == id);
    ring.keys().iter().find(|key| live(key.id())).ok_or_else(|| {
        let wanted = known.iter().find(|row| row.is_active()).map_or("none", |row| &row.id);
        wrong_key(ring, wanted, place)
    })
}

/// Finishes what a rotation left that was killed just before its end: keys that are retired and
/// open nothing do not stay in the file.
fn prune_key_file(keys: &KeySource, ring: Keyring, known: &[KeyRow], used: &[String]) -> Result<Keyring> {
    let KeySource::File(file) = keys else { return Ok(ring) };
    let spent = |key: &Key| {
        let retired = known.iter().any(|row| row.id == key.id() && !row.is_active());
        retired && !used.iter().any(|id| id == key.id())
    };
    if !ring.keys().iter().any(spent) {
        return Ok(ring);
    }
    let left = ring.filtered(|key| !spent(key));
    file.lock()?.write(&left)?;
    Ok(left)
}

fn check_value(value: &str) -> Result<(), Invalid> {
    let reason = match value {
        "" => "is empty; delete the secret instead".to_owned(),
        // A header loses the white space around it on its way.
        short if short.trim().len() < MIN_SECRET_BYTES => format!(
            "is shorter than {MIN_SECRET_BYTES} bytes, white space around it not counted: it could not be told from \
             ordinary words and kept out of logs"
        ),
        long if long.len() > MAX_VALUE_BYTES => {
            format!("is longer than the limit of {MAX_VALUE_BYTES} bytes")
        }
        odd if odd.contains('\0') => {
            "holds a NUL, which neither a header nor a variable can carry".to_owned()
        }
        _ => return Ok(()),
    };
    Err(Invalid::new("value", reason))
}

fn to_info(row: rows::SecretRow, users: &[(String, Value)]) -> Result<SecretInfo> {
    let name: SecretName = row.name.parse()?;
    let mentions = |(_, config): &&(String, Value)| mentions(config, &name);
    let used_by = users.iter().filter(mentions).map(|(server, _)| server.clone()).collect();
    Ok(SecretInfo {
        name,
        version: row.version,
        created_at: row.created_at,
        updated_at: row.updated_at,
        used_by,
    })
}

/// The project's external servers with how they are reached.
fn load_users(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<(String, Value)>> {
    let servers = rows::server_configs(tx, project)?;
    Ok(servers
        .into_iter()
        .map(|(name, config)| (name, serde_json::from_str(&config).unwrap_or_default()))
        .collect())
}

fn mentions(config: &Value, name: &SecretName) -> bool {
    match config {
        Value::String(text) => {
            text.parse::<Template>().is_ok_and(|template| template.names().any(|one| one == name))
        }
        Value::Array(items) => items.iter().any(|item| mentions(item, name)),
        Value::Object(map) => map.values().any(|item| mentions(item, name)),
        _ => false,
    }
}
