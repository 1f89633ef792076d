//! TLS for incoming connections. The certificate and the key are read again when their files change,
//! so a renewed certificate needs no restart.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_rustls::rustls::ServerConfig;
use tracing::{info, warn};

/// The minimum interval between two checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The files with the certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its intermediate certificates, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// Performs TLS handshakes with the current certificate.
pub(super) struct TlsAcceptor {
    files: TlsFiles,
    current: Mutex<Current>,
}

struct Current {
    acceptor: tokio_rustls::TlsAcceptor,
    /// When the certificate and the key were modified; `None` if that is unknown.
    changed: Option<(SystemTime, SystemTime)>,
    /// When the files were last checked.
    checked: Instant,
}

impl TlsAcceptor {
    /// Reads the files. Fails if they are not usable.
    pub fn load(files: TlsFiles) -> io::Result<Self> {
        let current = Current {
            acceptor: read_acceptor(&files)?,
            changed: modification_times(&files),
            checked: Instant::now(),
        };
        Ok(Self { files, current: Mutex::new(current) })
    }

    /// Returns the acceptor for the current files. If the files changed and cannot be used, for example
    /// because they are being written, the previous certificate stays in use.
    pub fn current(&self) -> tokio_rustls::TlsAcceptor {
        let mut current = self.current.lock();
        if current.checked.elapsed() < CHECK_INTERVAL {
            return current.acceptor.clone();
        }
        current.checked = Instant::now();
        let changed = modification_times(&self.files);
        if changed.is_some() && changed != current.changed {
            match read_acceptor(&self.files) {
                Ok(acceptor) => {
                    info!(certificate = %self.files.certificate.display(), "the certificate was read again");
                    current.acceptor = acceptor;
                    current.changed = changed;
                }
                Err(error) => {
                    warn!(%error, "the changed certificate cannot be used; the previous one stays in use")
                }
            }
        }
        current.acceptor.clone()
    }
}

fn modification_times(files: &TlsFiles) -> Option<(SystemTime, SystemTime)> {
    let modified = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    Some((modified(&files.certificate)?, modified(&files.key)?))
}

fn read_acceptor(files: &TlsFiles) -> io::Result<tokio_rustls::TlsAcceptor> {
    let config = read_config(files).map_err(io::Error::other)?;
    Ok(tokio_rustls::TlsAcceptor::from(Arc::new(config)))
}

/// Reads the certificate and its key.
pub(super) fn read_config(files: &TlsFiles) -> Result<ServerConfig, emergent_net::tls::Error> {
    emergent_net::tls::server_config(&files.certificate, &files.key, &[b"h2", b"http/1.1"])
}
