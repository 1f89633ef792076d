//! Another key for everything.
//!
//! A key in a file is changed in three writes: the file holds the new key and the old one; one
//! transaction seals everything anew and retires the old key; the file holds the new key alone.
//! Killed after any of them, the next start has every key it needs, and a rotation that is asked
//! for again goes on with the key that was made already.

use emergent_domain::ids::ProjectId;
use emergent_store::{
    Tx,
    secrets::{self as rows, KeyRow},
};
use tracing::info;

use crate::{
    Error, KeySource, Keyring, Result, SecretName, Secrets,
    keyring::{SealedValue, UnsealError},
    service::check_keys,
};

/// Rows that are sealed anew at a time.
const BATCH: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRotation {
    /// The id of the key that everything is sealed with now.
    pub key: String,
    /// How many secrets were sealed anew.
    pub resealed: u64,
}

impl Secrets {
    /// Brings in a new key: made now for a file, the first of `EMERGENT_SECRET_KEY` otherwise.
    pub async fn rotate(&self) -> Result<KeyRotation> {
        let _one = self.0.rotating.lock().await;
        let rotated = match &self.0.keys {
            KeySource::Environment(ring) => {
                let known = self.known_keys().await?;
                check_keys(ring, &known, &self.0.keys.location())?;
                check_new_key(ring, &known)?;
                self.reseal(ring.clone()).await?
            }
            KeySource::File(file) => {
                let (waited, closed) = (file.clone(), |_| emergent_store::Error::Closed);
                let held = tokio::task::spawn_blocking(move || waited.lock()).await.map_err(closed)??;
                let ring = file.read()?.ok_or(Error::RandomUnavailable)?;
                let ring = add_new_key(ring, &self.known_keys().await?, &self.0.keys.location())?;
                held.write(&ring)?;
                *self.0.ring.write() = ring.clone();
                let rotated = self.reseal(ring.clone()).await?;
                let alone = ring.filtered(|key| key.id() == rotated.key);
                held.write(&alone)?;
                *self.0.ring.write() = alone;
                rotated
            }
        };
        info!(key = rotated.key, resealed = rotated.resealed, "secrets have a new key");
        Ok(rotated)
    }

    async fn known_keys(&self) -> Result<Vec<KeyRow>> {
        Ok(self.0.db.read(|tx| rows::list_keys(tx, rows::LockMode::None)).await?)
    }

    /// Seals everything with the ring's first key and retires the others, all in one transaction.
    pub(crate) async fn reseal(&self, ring: Keyring) -> Result<KeyRotation> {
        let (place, now) = (self.0.keys.location(), self.0.clock.now());
        let work = move |tx: &mut Tx<'_>| {
            tx.advisory_lock("secret keys")?;
            // Whoever is putting a secret is waited for; whoever comes later sees the new key.
            let known = rows::list_keys(tx, rows::LockMode::ForUpdate)?;
            check_keys(&ring, &known, &place)?;
            let first = &ring.keys()[0];
            if !known.iter().any(|row| row.id == first.id()) {
                rows::insert_key(tx, first.id(), &first.proof()?, now)?;
            }
            rows::retire_other_keys(tx, first.id(), now)?;
            let mut resealed = 0;
            loop {
                let batch = rows::list_sealed_with_other_keys(tx, first.id(), BATCH)?;
                for row in &batch {
                    reseal_row(tx, &ring, &place, row)?;
                }
                resealed += batch.len() as u64;
                if batch.len() < BATCH {
                    return Ok(KeyRotation { key: first.id().to_owned(), resealed });
                }
            }
        };
        self.0.db.write(work).await
    }
}

fn reseal_row(tx: &mut Tx<'_>, ring: &Keyring, place: &str, row: &rows::SealedRow) -> Result<()> {
    let (project, name): (ProjectId, SecretName) = (row.project, row.name.parse()?);
    let sealed = SealedValue { key: row.key.clone(), bytes: row.sealed.clone() };
    let value = ring.unseal(project, &name, &sealed).map_err(|why| match why {
        UnsealError::NotAuthentic => Error::CannotUnseal { name: name.clone() },
        UnsealError::NoSuchKey => crate::service::wrong_key(ring, &row.key, place),
    })?;
    let sealed = ring.keys()[0].seal(project, &name, &value)?;
    Ok(rows::reseal(tx, project, &row.name, &sealed.key, &sealed.bytes)?)
}

/// A ring that begins with a key nobody has sealed with: the one that an interrupted rotation made,
/// or one made now.
fn add_new_key(ring: Keyring, known: &[KeyRow], place: &str) -> Result<Keyring> {
    check_keys(&ring, known, place)?;
    let is_new = |id: &str| !known.iter().any(|row| row.id == id);
    match ring.keys().first() {
        Some(first) if is_new(first.id()) => Ok(ring),
        _ => Ok(Keyring::generate()?.prepended_to(&ring)),
    }
}

/// Only whoever sets the environment can bring another key into it.
fn check_new_key(ring: &Keyring, known: &[KeyRow]) -> Result<()> {
    let first = ring.keys()[0].id();
    let why = match known.iter().find(|row| row.id == first) {
        None => return Ok(()),
        Some(row) if row.is_active() => "is in use already",
        Some(_) => "was retired by an earlier rotation",
    };
    Err(Error::Conflict(format!(
        "the first key of EMERGENT_SECRET_KEY, `{first}`, {why}: start every server with \
         EMERGENT_SECRET_KEY=NEW,OLD first (`openssl rand -base64 32` makes a key), and rotate then"
    )))
}
