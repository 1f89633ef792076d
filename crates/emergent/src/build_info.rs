//! What this binary was built from. `build.rs` sets the values.

/// The first digits of the commit; `None` when the sources had none.
pub const COMMIT: Option<&str> = option_env!("EMERGENT_BUILD_COMMIT");

/// The version, with the commit in parentheses.
pub const VERSION: &str = env!("EMERGENT_BUILD_VERSION");
