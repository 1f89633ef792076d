//! Checks the sources of installed products for newer versions.

use emergent_domain::ids::ProjectId;
use futures_util::future::join_all;
use semver::Version;

use crate::{Error, ManifestInput, Product, Products, Result};

/// The result for one product. An error of one product does not affect the others.
#[derive(Debug, Clone, PartialEq)]
pub struct ProductUpdate {
    pub name: String,
    pub version: Version,
    pub latest: Option<Version>,
    pub available: bool,
    pub error: Option<String>,
}

impl Products {
    pub async fn check_updates(&self, project: ProjectId) -> Result<Vec<ProductUpdate>> {
        let installed = self.list(project).await?;
        Ok(join_all(installed.into_iter().map(|product| self.check_update(project, product))).await)
    }

    async fn check_update(&self, project: ProjectId, product: Product) -> ProductUpdate {
        let latest = self.latest(project, &product).await;
        let (latest, error) = match latest {
            Ok(latest) => (Some(latest), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let available = latest.as_ref().is_some_and(|latest| *latest > product.version);
        ProductUpdate { name: product.name, version: product.version, latest, available, error }
    }

    async fn latest(&self, project: ProjectId, product: &Product) -> Result<Version> {
        let source = product.source.clone().ok_or_else(|| {
            Error::Source("it came from a file, so newer versions cannot be found".to_owned())
        })?;
        let (manifest, _) = self.load_manifest(project, ManifestInput::Source(source)).await?;
        if !manifest.problems.is_empty() {
            return Err(Error::Manifest(manifest.problems));
        }
        if manifest.name != product.name {
            return Err(Error::NameMismatch { name: product.name.clone(), found: manifest.name });
        }
        Ok(manifest.version)
    }
}
