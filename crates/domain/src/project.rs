//! Projects: the tenants. Every object, agent, tool, secret and token belongs to exactly one
//! project.

use crate::{ids::ProjectId, invalid::Invalid, time::Timestamp};

#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    pub id: ProjectId,
    /// A small integer that identifies the project in composite keys. An engine may use it to
    /// cluster the rows of a project.
    pub no: i64,
    pub name: String,
    /// If true, writes with types that no assigned pack describes are rejected.
    pub strict: bool,
    /// Incremented when the assigned packs change. Caches of compiled validators compare it.
    pub packs_revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Validates a project name. Names appear in headers and on command lines, so only plain characters
/// are allowed.
pub fn check_name(name: &str) -> Result<(), Invalid> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 {
        return Err(Invalid::new("name", "must have 1 to 64 characters"));
    }
    if !name.chars().all(plain) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(Invalid::new(
            "name",
            "must start with a letter or digit, and may contain letters, digits, `-`, `_` and `.`",
        ));
    }
    if name.parse::<uuid::Uuid>().is_ok() {
        return Err(Invalid::new("name", "must not look like an id"));
    }
    Ok(())
}
