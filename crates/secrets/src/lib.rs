//! The secrets of projects. They are stored encrypted, are decrypted only to open a connection, and
//! are redacted from everything that is written or returned.
//!
//! [`KeySource`] defines where the encryption key comes from (the environment or a file),
//! [`Secrets`] encrypts and decrypts with it, and [`Template`] is a text that refers to secrets.
//! Every decrypted value is passed to the redactor before it is used. [`bindings`] decide to which
//! [`Destination`] a secret may be sent.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

pub mod bindings;
pub mod destination;
mod error;
mod key_source;
mod keyring;
mod name;
mod rotate;
mod sealed_rows;
mod secret;
mod service;
mod signing;
mod template;

pub use destination::Destination;
pub use error::{Error, Result};
pub use key_source::{KeySource, write_key_copy};
pub use keyring::Keyring;
pub use name::SecretName;
pub use rotate::KeyRotation;
pub use sealed_rows::SealedText;
pub use secret::Secret;
pub use service::{MAX_SECRETS, MAX_VALUE_BYTES, ResolvedText, SecretDestination, SecretInfo, Secrets};
pub use signing::MIN_SIGNING_KEY_BYTES;
pub use template::Template;
