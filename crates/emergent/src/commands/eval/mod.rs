//! `emergent eval`: measures how well this server works on the user's own data.

mod evidence;
mod figures;
mod questions;
mod retrieval;

use crate::{client::Client, error::Result};

#[derive(Debug, clap::Subcommand)]
pub enum Eval {
    /// Ask questions whose evidence is known, and show how often a search finds it
    ///
    /// Each question is searched in each mode, among objects or among passages of documents. Nothing is changed.
    /// docs/retrieval.md has the format of the file and explains the figures.
    Retrieval(retrieval::Retrieval),
}

impl Eval {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let Self::Retrieval(retrieval) = self;
        retrieval.run(client, as_json).await
    }
}
