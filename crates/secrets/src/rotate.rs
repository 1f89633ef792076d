//! Key rotation.
//!
//! A key in a file is rotated in three steps. First the file gets the new key in addition to the
//! old one. Then everything is encrypted again: one transaction makes the new key active beside the
//! old one, several encrypt some secrets each, and the last one encrypts what was written meanwhile
//! and retires the old key. Finally the file holds only the new key. If the process is killed
//! after any of them, the next start has every key that it needs, and a repeated rotation
//! continues with the key that was already created.

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    ids::ProjectId,
};
use emergent_store::{
    Tx, audit,
    secrets::{self as rows, KeyRow},
};
use tracing::info;

use crate::{
    Error, KeySource, Keyring, Result, SecretName, Secrets,
    keyring::{SealedValue, UnsealError},
    service::check_keys,
};

/// The number of secrets that one transaction encrypts again.
const RESEAL_BATCH: usize = 100;

/// The result of a key rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRotation {
    /// The id of the key that now encrypts everything.
    pub key: String,
    /// The number of secrets that were encrypted again.
    pub resealed: u64,
}

impl Secrets {
    /// Introduces a new key: a generated one for a file, or the first of `EMERGENT_SECRET_KEY`.
    pub async fn rotate(&self) -> Result<KeyRotation> {
        let _rotation_guard = self.0.rotating.lock().await;
        let rotated = match &self.0.keys {
            KeySource::Environment(ring) => {
                let stored_keys = self.stored_keys().await?;
                check_keys(ring, &stored_keys, &self.0.keys.location())?;
                check_new_key(ring, &stored_keys)?;
                self.reseal(ring.clone()).await?
            }
            KeySource::File(file) => {
                let (key_file, closed) = (file.clone(), |_| emergent_store::Error::Closed);
                #[expect(
                    clippy::disallowed_methods,
                    reason = "awaited here; `rotating` lets one rotation run at a time"
                )]
                let locked = tokio::task::spawn_blocking(move || key_file.lock()).await.map_err(closed)??;
                let ring = file.read()?.ok_or(Error::RandomUnavailable)?;
                let ring = add_new_key(ring, &self.stored_keys().await?, &self.0.keys.location())?;
                locked.write(&ring)?;
                *self.0.ring.write() = ring.clone();
                let rotated = self.reseal(ring.clone()).await?;
                let new_ring = ring.filtered(|key| key.id() == rotated.key);
                locked.write(&new_ring)?;
                *self.0.ring.write() = new_ring;
                rotated
            }
        };
        info!(key = rotated.key, resealed = rotated.resealed, "rotated the key of the secrets");
        Ok(rotated)
    }

    async fn stored_keys(&self) -> Result<Vec<KeyRow>> {
        Ok(self.0.db.read(|tx| rows::list_keys(tx, rows::LockMode::None)).await?)
    }

    /// Encrypts everything with the first key of the ring and retires the other keys.
    pub(crate) async fn reseal(&self, ring: Keyring) -> Result<KeyRotation> {
        self.add_key(ring.clone()).await?;
        let (mut resealed, mut limit) = (0, RESEAL_BATCH);
        loop {
            match self.reseal_some(ring.clone(), limit).await {
                Ok(0) => break,
                Ok(count) => resealed += count,
                Err(Error::Store(emergent_store::Error::TooSlow { .. })) if limit > 1 => limit /= 2,
                Err(error) => return Err(error),
            }
        }
        self.retire_other_keys(ring, resealed).await
    }

    /// Makes the first key of the ring active. Servers that have it encrypt with it from now on.
    async fn add_key(&self, ring: Keyring) -> Result<()> {
        let (location, now) = (self.0.keys.location(), self.0.clock.now());
        let work = move |tx: &mut Tx<'_>| {
            tx.advisory_lock("secret keys")?;
            let stored_keys = rows::list_keys(tx, rows::LockMode::ForUpdate)?;
            check_keys(&ring, &stored_keys, &location)?;
            let first = &ring.keys()[0];
            if !stored_keys.iter().any(|row| row.id == first.id()) {
                rows::insert_key(tx, first.id(), &first.proof()?, now)?;
            }
            Ok(())
        };
        self.0.db.write(work).await
    }

    /// Encrypts at most `limit` secrets with the first key of the ring, and returns their number.
    async fn reseal_some(&self, ring: Keyring, limit: usize) -> Result<u64> {
        let location = self.0.keys.location();
        let work = move |tx: &mut Tx<'_>| {
            let batch = rows::list_sealed_with_other_keys(tx, ring.keys()[0].id(), limit)?;
            for row in &batch {
                reseal_row(tx, &ring, &location, row)?;
            }
            Ok(batch.len() as u64)
        };
        self.0.db.write(work).await
    }

    /// Encrypts what was written with other keys meanwhile, and retires these. `resealed` is the
    /// number of secrets that were encrypted again before.
    async fn retire_other_keys(&self, ring: Keyring, resealed: u64) -> Result<KeyRotation> {
        let (location, now) = (self.0.keys.location(), self.0.clock.now());
        let work = move |tx: &mut Tx<'_>| {
            tx.advisory_lock("secret keys")?;
            // The lock waits for concurrent writers of secrets; later ones see the new key.
            let stored_keys = rows::list_keys(tx, rows::LockMode::ForUpdate)?;
            check_keys(&ring, &stored_keys, &location)?;
            let first = &ring.keys()[0];
            if !stored_keys.iter().any(|row| row.is_active() && row.id == first.id()) {
                let message = "the key was rotated by another server meanwhile; rotate it again";
                return Err(Error::Conflict(message.to_owned()));
            }
            rows::retire_other_keys(tx, first.id(), now)?;
            let mut resealed = resealed;
            loop {
                let batch = rows::list_sealed_with_other_keys(tx, first.id(), RESEAL_BATCH)?;
                for row in &batch {
                    reseal_row(tx, &ring, &location, row)?;
                }
                resealed += batch.len() as u64;
                if batch.len() < RESEAL_BATCH {
                    let entry = NewAuditEntry::new(AuditAction::SecretRotate, None, "").id(first.id());
                    audit::record(tx, &entry.detail("resealed", resealed), now)?;
                    return Ok(KeyRotation { key: first.id().to_owned(), resealed });
                }
            }
        };
        self.0.db.write(work).await
    }
}

/// Encrypts one secret again with the first key of the ring.
fn reseal_row(tx: &mut Tx<'_>, ring: &Keyring, location: &str, row: &rows::SealedRow) -> Result<()> {
    let (project, name): (ProjectId, SecretName) = (row.project, row.name.parse()?);
    let sealed = SealedValue { key: row.key.clone(), bytes: row.sealed.clone() };
    let value = ring.unseal(project, &name, &sealed).map_err(|error| match error {
        UnsealError::NotAuthentic => Error::CannotUnseal { name: name.clone() },
        UnsealError::NoSuchKey => crate::service::wrong_key(ring, &row.key, location),
    })?;
    let sealed = ring.keys()[0].seal(project, &name, &value)?;
    Ok(rows::reseal(tx, project, &row.name, &sealed.key, &sealed.bytes)?)
}

/// Returns a keyring that begins with the key of this rotation: the one that an interrupted rotation
/// created, or a new one.
fn add_new_key(ring: Keyring, stored_keys: &[KeyRow], location: &str) -> Result<Keyring> {
    check_keys(&ring, stored_keys, location)?;
    let is_new = |id: &str| !stored_keys.iter().any(|row| row.id == id);
    match ring.keys().first() {
        Some(first) if is_new(first.id()) || is_rotating_to(first.id(), stored_keys) => Ok(ring),
        _ => Ok(Keyring::generate()?.prepended_to(&ring)),
    }
}

/// Whether a rotation to this key was interrupted: it is active, and another one is not retired yet.
fn is_rotating_to(id: &str, stored_keys: &[KeyRow]) -> bool {
    let active = || stored_keys.iter().filter(|row| row.is_active());
    active().any(|row| row.id == id) && active().count() > 1
}

/// Checks that the environment begins with a new key. Only the operator can change the environment.
fn check_new_key(ring: &Keyring, stored_keys: &[KeyRow]) -> Result<()> {
    let first = ring.keys()[0].id();
    let reason = match stored_keys.iter().find(|row| row.id == first) {
        None => return Ok(()),
        Some(_) if is_rotating_to(first, stored_keys) => return Ok(()),
        Some(row) if row.is_active() => "is already in use",
        Some(_) => "was retired by an earlier rotation",
    };
    Err(Error::Conflict(format!(
        "the first key of EMERGENT_SECRET_KEY, `{first}`, {reason}: start every server with \
         EMERGENT_SECRET_KEY=NEW,OLD first (`openssl rand -base64 32` makes a key), and rotate then"
    )))
}
