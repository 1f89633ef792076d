//! TLS set-up, the same for HTTP clients and for PostgreSQL: *ring* does the cryptography.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

/// Whose signature makes a server's certificate valid.
#[derive(Debug, PartialEq, Eq)]
pub enum Roots {
    System,
    /// The certificates in a PEM file, and no others.
    File(String),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read the certificates in `{path}`: {reason}")]
    File { path: String, reason: rustls::pki_types::pem::Error },
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

/// Selects *ring* for the clients of `reqwest`, which is built without a default.
pub fn install_crypto_provider() {
    // Fails when the process has chosen a provider already, which is as good.
    let _ = ring::default_provider().install_default();
}

/// A configuration that accepts only certificates that these roots have signed.
pub fn client_config(roots: &Roots) -> Result<ClientConfig, Error> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::System => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Roots::File(path) => {
            let unreadable = |reason| Error::File { path: path.clone(), reason };
            for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
                store.add(certificate.map_err(unreadable)?)?;
            }
        }
    }
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store)
        .with_no_client_auth())
}
