//! Whether there is something newer at the places products came from.

use emergent_domain::ids::ProjectId;
use futures_util::future::join_all;
use semver::Version;

use crate::{Error, Installed, Products, Result, Wanted};

/// What was found of one product. One that cannot be asked about does not keep the others from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    pub name: String,
    pub version: Version,
    pub latest: Option<Version>,
    pub available: bool,
    pub error: Option<String>,
}

impl Products {
    pub async fn check_updates(&self, project: ProjectId) -> Result<Vec<Update>> {
        let installed = self.list(project).await?;
        Ok(join_all(installed.into_iter().map(|product| self.look(product))).await)
    }

    async fn look(&self, product: Installed) -> Update {
        let latest = self.latest(&product).await;
        let (latest, error) = match latest {
            Ok(latest) => (Some(latest), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let available = latest.as_ref().is_some_and(|latest| *latest > product.version);
        Update { name: product.name, version: product.version, latest, available, error }
    }

    async fn latest(&self, product: &Installed) -> Result<Version> {
        let source = product.source.clone().ok_or_else(|| {
            Error::Source(
                "it was installed from a manifest by itself, so there is nowhere to look".to_owned(),
            )
        })?;
        let (manifest, _) = self.obtain(Wanted::Source(source)).await?;
        if manifest.name != product.name {
            return Err(Error::NameMismatch { name: product.name.clone(), found: manifest.name });
        }
        Ok(manifest.version)
    }
}
