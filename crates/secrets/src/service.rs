//! The secrets of projects: setting, listing, deleting, and decrypting them for connections.

use std::{collections::BTreeMap, sync::Arc};

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    ids::{ProjectId, TokenId},
    invalid::Invalid,
    mcp_server::McpServer,
    redact::{HeldSecret, MIN_SECRET_BYTES, Redactor},
    time::{Clock, Timestamp},
};
use emergent_store::{
    Db, Tx, audit, mcp_servers, projects,
    secret_bindings::{self, SecretBinding},
    secrets::{self as rows, BoundTargets, KeyRow},
};
use parking_lot::RwLock;
use tokio::sync::Mutex;

use crate::{
    Destination, Error, KeySource, Keyring, Result, Secret, SecretName, Template,
    destination::{EarlierTargets, secret_uses, target_of},
    keyring::{Key, SealedValue, UnsealError},
    template::Part,
};

/// The maximum size of a value. Without surrounding whitespace, it has at least
/// [`MIN_SECRET_BYTES`] bytes.
pub const MAX_VALUE_BYTES: usize = 64 << 10;
/// The maximum number of secrets in one project.
pub const MAX_SECRETS: usize = 1_000;

/// A handle to the secrets of all projects. Clones share their state.
#[derive(Clone)]
pub struct Secrets(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub db: Db,
    pub clock: Clock,
    pub keys: KeySource,
    /// The keys as this process last read them.
    pub ring: RwLock<Keyring>,
    pub redactor: Redactor,
    /// Ensures that only one rotation runs at a time.
    pub rotating: Mutex<()>,
}

/// The public information about a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretInfo {
    pub name: SecretName,
    /// Incremented with every new value.
    pub version: i64,
    /// Whether a `put` gave the value that the secret had. It is said only to the token that gave that value: others
    /// could use it to confirm a guess.
    pub is_unchanged: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The project's external servers that refer to the secret.
    pub destinations: Vec<SecretDestination>,
}

/// A server that refers to a secret, and whether it gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretDestination {
    pub server: String,
    /// An address, or a program with its variables and arguments.
    pub target: String,
    pub is_allowed: bool,
}

/// A text with the values of its secrets.
pub struct ResolvedText {
    text: Secret,
    /// The values. The redactor remembers them as long as whoever sends the text keeps these.
    pub held: Vec<HeldSecret>,
}

impl ResolvedText {
    pub(crate) fn new(text: Secret, held: Vec<HeldSecret>) -> Self {
        Self { text, held }
    }

    pub fn expose(&self) -> &str {
        self.text.expose()
    }
}

impl Secrets {
    /// Loads the key, or creates one if the database has none yet. Fails if the key of the database
    /// is not available, because values encrypted with a different key would be unreadable for the
    /// other servers.
    pub async fn open(db: Db, clock: Clock, keys: KeySource, redactor: Redactor) -> Result<Self> {
        let stored_keys = db.read(|tx| rows::list_keys(tx, rows::LockMode::None)).await?;
        let (ring, created) = load_or_create_keys(&keys, &stored_keys)?;
        let (loaded_ring, location, now) = (ring.clone(), keys.location(), clock.now());
        let checked = db
            .write(move |tx| {
                // The lock makes two servers that start at the same time agree on one key.
                tx.advisory_lock("secret keys")?;
                let mut stored_keys = rows::list_keys(tx, rows::LockMode::ForUpdate)?;
                if !stored_keys.iter().any(KeyRow::is_active) {
                    let first = &loaded_ring.keys()[0];
                    rows::insert_key(tx, first.id(), &first.proof()?, now)?;
                    stored_keys = rows::list_keys(tx, rows::LockMode::None)?;
                }
                check_keys(&loaded_ring, &stored_keys, &location)?;
                Ok::<_, Error>((stored_keys, rows::keys_in_use(tx)?))
            })
            .await;
        let (stored_keys, used_keys) = match (checked, &keys) {
            (Ok(checked), _) => checked,
            // Another server was first, so the key file that was just created is deleted, because
            // it would later be mistaken for the key. After any other error it is unknown whether
            // the key was stored, so the file remains.
            (Err(error @ Error::WrongKey { .. }), KeySource::File(file)) if created => {
                file.lock()?.remove()?;
                return Err(error);
            }
            (Err(error), _) => return Err(error),
        };
        let ring = prune_key_file(&keys, ring, &stored_keys, &used_keys)?;
        let (ring, rotating) = (RwLock::new(ring), Mutex::default());
        Ok(Self(Arc::new(Inner { db, clock, keys, ring, redactor, rotating })))
    }

    pub fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }

    /// Sets or replaces a secret.
    pub async fn put(
        &self,
        project: ProjectId,
        author: Option<TokenId>,
        name: &SecretName,
        value: Secret,
    ) -> Result<SecretInfo> {
        check_value(value.expose())?;
        let info = match self.put_once(project, author, name, value.clone()).await {
            Err(Error::WrongKey { .. }) if self.reload()? => {
                self.put_once(project, author, name, value.clone()).await?
            }
            result => result?,
        };
        // The value is added to the redactor only after it is stored. A rejected value is not a
        // secret, and must not be redacted. A concurrent reader of the secret adds it as well.
        self.0.redactor.add_secret(project, name.as_str(), value.expose());
        Ok(info)
    }

    /// Sets a secret with the keys in memory. Fails with `WrongKey` if the active key is not among them.
    async fn put_once(
        &self,
        project: ProjectId,
        author: Option<TokenId>,
        name: &SecretName,
        value: Secret,
    ) -> Result<SecretInfo> {
        let (this, name) = (self.clone(), name.clone());
        let work = move |tx: &mut Tx<'_>| -> Result<SecretInfo> {
            projects::get(tx, project)?.ok_or(Error::NoProject(project))?;
            let ring = this.0.ring.read().clone();
            // The lock is held until the end. A concurrent rotation would otherwise miss this row
            // and retire its key.
            let stored_keys = rows::list_keys(tx, rows::LockMode::ForShare)?;
            if !stored_keys.iter().any(KeyRow::is_active) {
                return Err(tx.retry_error("the key was rotated concurrently").into());
            }
            let key = sealing_key(&ring, &stored_keys, &this.0.keys.location())?;
            let sealed = key.seal(project, &name, &value)?;
            let now = this.0.clock.now();
            let is_unchanged = match rows::get_value(tx, project, name.as_str(), author)? {
                Some(rows::SealedRow { key, sealed, .. }) => {
                    let before = ring.unseal(project, &name, &SealedValue { key, bytes: sealed });
                    before.is_ok_and(|before| before == value)
                }
                None => false,
            };
            let row = rows::upsert(tx, project, name.as_str(), &sealed.key, &sealed.bytes, author, now)?;
            if row.version == 1 && rows::count(tx, project)? > MAX_SECRETS {
                let reason = format!("a project has at most {MAX_SECRETS} secrets; delete one first");
                return Err(Invalid::new("name", reason).into());
            }
            let entry = audit_entry(AuditAction::SecretPut, project, &name).detail("version", row.version);
            audit::record(tx, &entry, now)?;
            Ok(SecretInfo { is_unchanged, ..to_info(row, &ProjectServers::load(tx, project)?)? })
        };
        self.0.db.write(work).await
    }

    /// Lists the secrets by name, never their values.
    pub async fn list(&self, project: ProjectId) -> Result<Vec<SecretInfo>> {
        let work = move |tx: &mut Tx<'_>| {
            let servers = ProjectServers::load(tx, project)?;
            rows::list(tx, project)?.into_iter().map(|row| to_info(row, &servers)).collect()
        };
        self.0.db.snapshot(work).await
    }

    /// Deletes a secret and returns its information. Servers that refer to it can no longer
    /// connect.
    pub async fn delete(&self, project: ProjectId, name: &SecretName) -> Result<SecretInfo> {
        let (name, now) = (name.clone(), self.0.clock.now());
        let work = move |tx: &mut Tx<'_>| match rows::delete(tx, project, name.as_str())? {
            Some(row) => {
                audit::record(tx, &audit_entry(AuditAction::SecretDelete, project, &name), now)?;
                to_info(row, &ProjectServers::load(tx, project)?)
            }
            None => Err(Error::NotFound { name: name.clone() }),
        };
        self.0.db.write(work).await
    }

    /// Returns the text with its secrets inserted, for a destination. Fails if a secret may not be sent there.
    /// The redactor knows the secrets from then on.
    pub async fn resolve(&self, destination: &Destination, template: &Template) -> Result<ResolvedText> {
        let names: Vec<String> = template.names().map(|name| name.as_str().to_owned()).collect();
        let to = destination.clone();
        let sealed_values = match names.is_empty() {
            true => BTreeMap::new(),
            false => {
                let read = move |tx: &mut Tx<'_>| {
                    let targets =
                        BoundTargets { current: &to.target, earlier: to.earlier_targets.as_params() };
                    rows::get_sealed(tx, to.project, &names, &to.owner, targets)
                };
                self.0.db.read(read).await?
            }
        };
        let (mut text, mut held) = (String::new(), Vec::new());
        for part in template.parts() {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Secret(name) => {
                    let row = sealed_values
                        .get(name.as_str())
                        .ok_or_else(|| Error::NotFound { name: name.clone() })?;
                    if !row.is_bound && !destination.predates_bindings {
                        return Err(self.refusal(destination, name).await);
                    }
                    let sealed = SealedValue { key: row.key.clone(), bytes: row.sealed.clone() };
                    let (value, holder) = self.unseal(destination.project, name, &sealed)?;
                    text.push_str(value.expose());
                    held.push(holder);
                }
            }
        }
        Ok(ResolvedText { text: Secret::new(text), held })
    }

    /// Reads the key file again, because another server that shares it may have changed it. Returns
    /// false if the keys are from the environment, or the file has no key.
    pub(crate) fn reload(&self) -> Result<bool> {
        let KeySource::File(file) = &self.0.keys else { return Ok(false) };
        let Some(ring) = file.read()? else { return Ok(false) };
        *self.0.ring.write() = ring;
        Ok(true)
    }

    /// Decrypts a value and adds it to the redactor. Reads the key file again if its key is missing.
    pub(crate) fn unseal(
        &self,
        project: ProjectId,
        name: &SecretName,
        sealed: &SealedValue,
    ) -> Result<(Secret, HeldSecret)> {
        let mut unsealed = self.0.ring.read().unseal(project, name, sealed);
        if matches!(unsealed, Err(UnsealError::NoSuchKey)) && self.reload()? {
            unsealed = self.0.ring.read().unseal(project, name, sealed);
        }
        match unsealed {
            Ok(value) => {
                let held = self.0.redactor.hold_secret(project, name.as_str(), value.expose());
                Ok((value, held))
            }
            Err(UnsealError::NotAuthentic) => Err(Error::CannotUnseal { name: name.clone() }),
            Err(UnsealError::NoSuchKey) => {
                Err(wrong_key(&self.0.ring.read(), &sealed.key, &self.0.keys.location()))
            }
        }
    }
}

/// Loads the keys, or creates one if no secret is encrypted yet. Returns whether it was created.
fn load_or_create_keys(keys: &KeySource, stored_keys: &[KeyRow]) -> Result<(Keyring, bool)> {
    let KeySource::File(file) = keys else {
        return Ok((keys.read()?.ok_or(Error::RandomUnavailable)?, false));
    };
    let locked = file.lock()?;
    match (file.read()?, stored_keys.iter().find(|key| key.is_active())) {
        (Some(ring), _) => Ok((ring, false)),
        (None, Some(active)) => {
            let (required, location, available) = (active.id.clone(), keys.location(), "none".to_owned());
            Err(Error::WrongKey { required, location, available })
        }
        (None, None) => {
            let ring = Keyring::generate()?;
            locked.write(&ring)?;
            Ok((ring, true))
        }
    }
}

fn audit_entry(action: AuditAction, project: ProjectId, name: &SecretName) -> NewAuditEntry {
    NewAuditEntry::new(action, Some(project), name.as_str())
}

/// Checks that the ring contains every key that may have encrypted something.
pub(crate) fn check_keys(ring: &Keyring, stored_keys: &[KeyRow], location: &str) -> Result<()> {
    for row in stored_keys.iter().filter(|row| row.is_active()) {
        if !ring.get(&row.id).is_some_and(|key| key.proves(&row.proof)) {
            return Err(wrong_key(ring, &row.id, location));
        }
    }
    Ok(())
}

/// The error for a keyring without the required key.
pub(crate) fn wrong_key(ring: &Keyring, required: &str, location: &str) -> Error {
    let available: Vec<_> = ring.keys().iter().map(|key| format!("`{}`", key.id())).collect();
    Error::WrongKey {
        required: required.to_owned(),
        location: location.to_owned(),
        available: available.join(", "),
    }
}

/// Returns the first key of the ring that is active in the database. A retired key must not encrypt
/// any more, and a new key not before its rotation.
pub(crate) fn sealing_key<'a>(ring: &'a Keyring, stored_keys: &[KeyRow], location: &str) -> Result<&'a Key> {
    let is_active = |id: &str| stored_keys.iter().any(|row| row.is_active() && row.id == id);
    ring.keys().iter().find(|key| is_active(key.id())).ok_or_else(|| {
        let active_key = stored_keys.iter().find(|row| row.is_active()).map_or("none", |row| &row.id);
        wrong_key(ring, active_key, location)
    })
}

/// Completes a rotation that was killed just before its end: removes keys from the file that are
/// retired and that no secret uses.
fn prune_key_file(
    keys: &KeySource,
    ring: Keyring,
    stored_keys: &[KeyRow],
    used_keys: &[String],
) -> Result<Keyring> {
    let KeySource::File(file) = keys else { return Ok(ring) };
    let is_unused = |key: &Key| {
        let is_retired = stored_keys.iter().any(|row| row.id == key.id() && !row.is_active());
        is_retired && !used_keys.iter().any(|id| id == key.id())
    };
    if !ring.keys().iter().any(is_unused) {
        return Ok(ring);
    }
    let pruned = ring.filtered(|key| !is_unused(key));
    file.lock()?.write(&pruned)?;
    Ok(pruned)
}

/// Checks that a value can be stored, redacted, and sent in a header or a variable.
fn check_value(value: &str) -> Result<(), Invalid> {
    let reason = match value {
        "" => "is empty; delete the secret instead".to_owned(),
        // HTTP headers lose surrounding whitespace.
        short if short.trim().len() < MIN_SECRET_BYTES => format!(
            "is shorter than {MIN_SECRET_BYTES} bytes without surrounding whitespace: it could not be distinguished from \
             ordinary words and redacted from logs"
        ),
        long if long.len() > MAX_VALUE_BYTES => {
            format!("is longer than the limit of {MAX_VALUE_BYTES} bytes")
        }
        odd if odd.contains('\0') => {
            "contains a NUL character, which neither a header nor a variable can contain".to_owned()
        }
        _ => return Ok(()),
    };
    Err(Invalid::new("value", reason))
}

/// The external servers of a project, and the bindings that count.
pub(crate) struct ProjectServers {
    servers: Vec<McpServer>,
    bindings: Vec<SecretBinding>,
}

impl ProjectServers {
    pub fn load(tx: &mut Tx<'_>, project: ProjectId) -> Result<Self> {
        let servers = mcp_servers::list_all(tx, project)?;
        Ok(Self { servers, bindings: secret_bindings::list_effective(tx, project)? })
    }

    /// Returns the servers that refer to a secret.
    fn destinations(&self, name: &SecretName) -> Vec<SecretDestination> {
        let destination = |server: &McpServer| {
            let used = secret_uses(&server.spec).into_iter().find(|one| one.name == name.as_str())?;
            let (owner, earlier) = (secret_bindings::owner_of(server), EarlierTargets::of_server(server));
            let is_target = |target: &String| *target == used.target || earlier.contains(target);
            let is_bound = self.bindings.iter().any(|binding| {
                binding.secret == used.name && binding.owner == owner && is_target(&binding.target)
            });
            Some(SecretDestination {
                server: server.name().to_owned(),
                target: target_of(&server.spec),
                is_allowed: is_bound || server.predates_bindings(),
            })
        };
        self.servers.iter().filter_map(destination).collect()
    }
}

/// Adds the servers that refer to a secret to its row.
pub(crate) fn to_info(row: rows::SecretRow, servers: &ProjectServers) -> Result<SecretInfo> {
    let name: SecretName = row.name.parse()?;
    Ok(SecretInfo {
        version: row.version,
        is_unchanged: false,
        created_at: row.created_at,
        updated_at: row.updated_at,
        destinations: servers.destinations(&name),
        name,
    })
}
