//! Values that callers give with a row of another table, such as the credentials of a push notification. They are
//! sealed and rotated like secrets, under a name that only their row has, and nobody can refer to them.
//!
//! The redactor does not know them: whoever may give such a value could otherwise choose what is redacted from
//! everything in the project. They are sent to the address that was given with them, and nowhere else.

use emergent_domain::ids::ProjectId;
use emergent_store::{
    Tx,
    secrets::{self as rows, KeyRow},
};

use crate::{
    Error, Result, Secret, SecretName, Secrets,
    keyring::{SealedValue, UnsealError},
    service::{sealing_key, wrong_key},
};

/// The stored form of a value, and the id of the key that sealed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedText {
    pub key: String,
    pub bytes: Vec<u8>,
}

impl Secrets {
    /// Seals a value, and stores it in the same transaction. `store` may be called more than once.
    pub async fn store_sealed<T, S>(
        &self,
        project: ProjectId,
        name: &SecretName,
        value: Secret,
        store: S,
    ) -> Result<T>
    where
        T: Send + 'static,
        S: Fn(&mut Tx<'_>, SealedText) -> emergent_store::Result<T> + Clone + Send + 'static,
    {
        match self.store_sealed_once(project, name, value.clone(), store.clone()).await {
            Err(Error::WrongKey { .. }) if self.reload()? => {
                self.store_sealed_once(project, name, value, store).await
            }
            result => result,
        }
    }

    async fn store_sealed_once<T, S>(
        &self,
        project: ProjectId,
        name: &SecretName,
        value: Secret,
        store: S,
    ) -> Result<T>
    where
        T: Send + 'static,
        S: Fn(&mut Tx<'_>, SealedText) -> emergent_store::Result<T> + Send + 'static,
    {
        let (this, name) = (self.clone(), name.clone());
        let work = move |tx: &mut Tx<'_>| -> Result<T> {
            let ring = this.0.ring.read().clone();
            // As for a secret: a concurrent rotation does not miss the row.
            let stored_keys = rows::list_keys(tx, rows::LockMode::ForShare)?;
            if !stored_keys.iter().any(KeyRow::is_active) {
                return Err(tx.retry_error("the key was rotated concurrently").into());
            }
            let key = sealing_key(&ring, &stored_keys, &this.0.keys.location())?;
            let SealedValue { key, bytes } = key.seal(project, &name, &value)?;
            Ok(store(tx, SealedText { key, bytes })?)
        };
        self.0.db.write(work).await
    }

    /// Opens a value of such a row.
    pub fn open_sealed(&self, project: ProjectId, name: &SecretName, sealed: SealedText) -> Result<Secret> {
        let sealed = SealedValue { key: sealed.key, bytes: sealed.bytes };
        let mut opened = self.0.ring.read().unseal(project, name, &sealed);
        if matches!(opened, Err(UnsealError::NoSuchKey)) && self.reload()? {
            opened = self.0.ring.read().unseal(project, name, &sealed);
        }
        opened.map_err(|error| match error {
            UnsealError::NotAuthentic => Error::CannotUnseal { name: name.clone() },
            UnsealError::NoSuchKey => wrong_key(&self.0.ring.read(), &sealed.key, &self.0.keys.location()),
        })
    }
}
