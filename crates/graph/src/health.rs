//! Tests the database for health checks.

use emergent_store::health;

use crate::{Graph, error::Result, projects::DEFAULT_PROJECT};

impl Graph {
    /// Tests that the database is set up and can be written. Returns `NotFound` while it is being set up.
    pub async fn check_database(&self) -> Result<()> {
        self.find_project(DEFAULT_PROJECT).await?;
        Ok(health::check(self.db(), self.clock().now()).await?)
    }
}
