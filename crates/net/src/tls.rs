//! The TLS configuration of HTTP clients, PostgreSQL connections and our own server. The cryptography is
//! *ring*'s.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// The root certificates that a server's certificate is checked against.
#[derive(Debug, PartialEq, Eq)]
pub enum Roots {
    /// The certificates that the operating system trusts.
    System,
    /// The certificates in a PEM file, and no others.
    File(String),
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not read the certificates in `{path}`: {reason}")]
    File { path: String, reason: rustls::pki_types::pem::Error },
    #[error("could not read the private key in `{path}`: {reason}")]
    Key { path: String, reason: rustls::pki_types::pem::Error },
    #[error("there is no certificate in `{path}`")]
    NoCertificate { path: String },
    #[error("the certificate in `{certificate}` and the key in `{key}` cannot be used: {reason}")]
    Pair { certificate: String, key: String, reason: rustls::Error },
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

/// Selects *ring* for the whole process. `reqwest` needs it, because it is built without a default.
pub fn install_crypto_provider() {
    // This fails if a provider is installed already, which is fine.
    let _ = ring::default_provider().install_default();
}

/// Fails if a PEM file cannot be read, or has no certificate. The lists of certificates that the system trusts are read
/// without such a check: what cannot be read is left out.
pub fn check_certificates(path: &str) -> Result<(), Error> {
    let unreadable = |reason| Error::File { path: path.to_owned(), reason };
    let mut certificates = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
    match certificates.next() {
        Some(Ok(_)) => Ok(()),
        Some(Err(reason)) => Err(unreadable(reason)),
        None => Err(Error::NoCertificate { path: path.to_owned() }),
    }
}

/// Returns a client configuration that accepts only certificates signed by these roots.
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

/// Returns a configuration for incoming connections. `certificate` (a chain) and `key` are PEM files;
/// `protocols` are offered in the handshake (ALPN).
pub fn server_config(certificate: &Path, key: &Path, protocols: &[&[u8]]) -> Result<ServerConfig, Error> {
    let path_text = |path: &Path| path.display().to_string();
    let unreadable = |reason| Error::File { path: path_text(certificate), reason };
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    if chain.is_empty() {
        return Err(Error::NoCertificate { path: path_text(certificate) });
    }
    let private_key =
        PrivateKeyDer::from_pem_file(key).map_err(|reason| Error::Key { path: path_text(key), reason })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private_key)
        .map_err(|reason| Error::Pair { certificate: path_text(certificate), key: path_text(key), reason })?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}
