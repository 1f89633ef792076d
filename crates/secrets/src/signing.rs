//! Secrets as keys of signatures. Whoever receives a signed text can try short keys until one fits, so a secret signs
//! only what an operator, or the token that gave its value, wants signed, and short ones sign nothing.

use emergent_domain::{ids::ProjectId, invalid::Invalid, mcp_server::ConfiguredBy};
use emergent_store::{
    Tx,
    secret_bindings::{self, WEBHOOK_OWNER},
    secrets::{self as rows, BoundTargets},
};

use crate::{Error, ResolvedText, Result, SecretName, Secrets, keyring::SealedValue};

/// The minimum length of a key in bytes.
pub const MIN_SIGNING_KEY_BYTES: usize = 16;

impl Secrets {
    /// Opens a secret as the key of the signature of a project's webhook at this address. Fails if neither an operator
    /// nor the token that gave the value said that it signs for this address. A webhook that was set before that was
    /// recorded goes on with its secret.
    pub async fn signing_key(
        &self,
        project: ProjectId,
        name: &SecretName,
        url: &str,
    ) -> Result<ResolvedText> {
        let (names, target) = ([name.as_str().to_owned()], secret_bindings::webhook_target(url));
        let read = move |tx: &mut Tx<'_>| {
            let targets = BoundTargets { current: &target, earlier: [None; 2] };
            let sealed = rows::get_sealed(tx, project, &names, WEBHOOK_OWNER, targets)?;
            Ok::<_, Error>((sealed, secret_bindings::has_webhook_bindings(tx, project)?))
        };
        let (mut sealed, is_recorded) = self.0.db.read(read).await?;
        let row = sealed.remove(name.as_str()).ok_or_else(|| Error::NotFound { name: name.clone() })?;
        if is_recorded && !row.is_bound {
            return Err(Error::Conflict(format!(
                "the token that gave the value of `{name}`, or one that spans projects, has to set the webhook \
                 (PATCH /api/projects/{project}): nobody else decides what is signed with it"
            )));
        }
        let (text, held) = self.unseal(project, name, &SealedValue { key: row.key, bytes: row.sealed })?;
        if is_recorded {
            check_length(text.expose())?;
        }
        Ok(ResolvedText::new(text, vec![held]))
    }

    /// Checks that a caller may have the notices of a webhook signed with a secret, and that it is long enough.
    pub async fn check_signing_key(
        &self,
        project: ProjectId,
        name: &SecretName,
        by: ConfiguredBy,
    ) -> Result<()> {
        let wanted = name.as_str().to_owned();
        let read = move |tx: &mut Tx<'_>| {
            let row = rows::get(tx, project, &wanted)?;
            let any_target = BoundTargets { current: "", earlier: [None; 2] };
            Ok::<_, Error>((
                row,
                rows::get_sealed(tx, project, std::slice::from_ref(&wanted), "", any_target)?,
            ))
        };
        let (row, mut sealed) = self.0.db.snapshot(read).await?;
        let (Some(row), Some(sealed)) = (row, sealed.remove(name.as_str())) else {
            let reason = format!("there is no secret `{name}` in this project; set it first");
            return Err(Invalid::new("webhook.secret", reason).into());
        };
        // The length of a value is told only to those who may use it.
        if let ConfiguredBy::Project(token) = by
            && row.author != Some(token)
        {
            return Err(Error::GivenByOthers { name: name.clone() });
        }
        let sealed = SealedValue { key: sealed.key, bytes: sealed.sealed };
        let (text, _held) = self.unseal(project, name, &sealed)?;
        Ok(check_length(text.expose())?)
    }
}

fn check_length(key: &str) -> Result<(), Invalid> {
    if key.len() >= MIN_SIGNING_KEY_BYTES {
        return Ok(());
    }
    let reason = format!(
        "is a secret of less than {MIN_SIGNING_KEY_BYTES} bytes: whoever receives a notice could guess it; use a long \
         random text"
    );
    Err(Invalid::new("webhook.secret", reason))
}
