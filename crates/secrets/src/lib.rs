//! Secrets of a project: sealed in the database, opened only where a connection is made, and kept
//! out of everything that is written down.
//!
//! [`Keys`] say where the key is kept (the environment, or a file), [`Secrets`] seals and opens with
//! it, [`Template`] is a text that mentions secrets. What is opened is told to the redactor first.

mod error;
mod key_source;
mod keyring;
mod name;
mod rotate;
mod secret;
mod service;
mod template;

pub use error::{Error, Result};
pub use key_source::KeySource;
pub use keyring::Keyring;
pub use name::SecretName;
pub use rotate::KeyRotation;
pub use secret::Secret;
pub use service::{MAX_SECRETS, MAX_VALUE_BYTES, SecretInfo, Secrets};
pub use template::Template;
