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
use tracing::{info, warn};

/// How often the files are looked at, at most.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those that lead to its root, in PEM.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

pub(super) struct TlsAcceptor {
    files: TlsFiles,
    current: Mutex<Current>,
}

struct Current {
    acceptor: tokio_rustls::TlsAcceptor,
    changed: Option<(SystemTime, SystemTime)>,
    checked: Instant,
}

impl TlsAcceptor {
    pub fn load(files: TlsFiles) -> io::Result<Self> {
        let current = Current {
            acceptor: read_acceptor(&files)?,
            changed: modification_times(&files),
            checked: Instant::now(),
        };
        Ok(Self { files, current: Mutex::new(current) })
    }

    /// Returns the acceptor of the files as they are now. If they cannot be read, because they are being
    /// written for example, the one before stays.
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
                Err(error) => warn!(%error, "the changed certificate is not used"),
            }
        }
        current.acceptor.clone()
    }
}

fn modification_times(files: &TlsFiles) -> Option<(SystemTime, SystemTime)> {
    let of = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    Some((of(&files.certificate)?, of(&files.key)?))
}

fn read_acceptor(files: &TlsFiles) -> io::Result<tokio_rustls::TlsAcceptor> {
    let config = emergent_net::tls::server_config(&files.certificate, &files.key, &[b"h2", b"http/1.1"])
        .map_err(io::Error::other)?;
    Ok(tokio_rustls::TlsAcceptor::from(Arc::new(config)))
}
