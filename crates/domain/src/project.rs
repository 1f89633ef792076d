//! The tenant: every row, tool, agent, secret and token belongs to exactly one project.

use crate::{ids::ProjectId, invalid::Invalid, time::Timestamp};

#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    pub id: ProjectId,
    /// The project's place in integer keys; an engine may use it to keep a project's rows together.
    pub no: i64,
    pub name: String,
    /// Types that no assigned pack describes are refused.
    pub strict: bool,
    /// Counts changes of what packs are assigned, so that compiled validators can be kept.
    pub packs_revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Names are used in headers and on command lines, so they stay plain.
pub fn check_name(name: &str) -> Result<(), Invalid> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 {
        return Err(Invalid::new("name", "must have 1 to 64 characters"));
    }
    if !name.chars().all(plain) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(Invalid::new(
            "name",
            "may have only letters, digits, `-`, `_` and `.`, and starts with a letter or a digit",
        ));
    }
    if name.parse::<uuid::Uuid>().is_ok() {
        return Err(Invalid::new("name", "must not look like an id"));
    }
    Ok(())
}
