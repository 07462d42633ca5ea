//! Certificates that others put into a folder, as cert-manager's Secrets mounted into a pod.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{ServingCertificate, ServingError};
use crate::readiness::ReadinessCheck;

/// Files that could not be loaded.
#[derive(Debug, Error)]
pub enum FileError {
    /// Missing or not readable.
    #[error("cannot read {}; mount the Secret with the certificate there", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Readable but no good, for a moment perhaps: the two files are replaced one after the other.
    #[error("cannot serve with tls.crt and tls.key in {}", folder.display())]
    Serve {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with them.
        source: ServingError,
    },
}

/// Loads `tls.crt` and `tls.key` from a folder, again and again.
///
/// Whoever writes the files also sees to the `caBundle`; nothing in the cluster is touched from here.
#[derive(Debug, Clone)]
pub struct Files {
    folder: PathBuf,
    interval: Duration,
    serving: Arc<ServingCertificate>,
}

impl Files {
    /// Looks into the folder every 10 s.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), interval: Duration::from_secs(10), serving: ServingCertificate::new() }
    }

    /// Looks into the folder at another interval.
    #[must_use]
    pub fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// What to give to the listener.
    pub fn serving(&self) -> Arc<ServingCertificate> {
        Arc::clone(&self.serving)
    }

    /// Loads the files now. True when they differ from what was in use; on an error that stays in use.
    ///
    /// # Errors
    /// When a file cannot be read or the two do not belong together.
    pub async fn check(&self) -> Result<bool, FileError> {
        let chain = read(&self.folder.join("tls.crt")).await?;
        let key = read(&self.folder.join("tls.key")).await?;
        self.serving
            .set(&chain, &key)
            .map_err(|source| FileError::Serve { folder: self.folder.clone(), source })
    }

    /// Loads the files until the token is cancelled. Ready once there is a certificate to serve with.
    pub async fn run(self, readiness: ReadinessCheck, shutdown: CancellationToken) {
        loop {
            match self.check().await {
                Ok(changed) => {
                    if changed {
                        info!(folder = %self.folder.display(), "loaded the webhook certificate");
                    }
                    readiness.ready();
                }
                Err(error) => {
                    warn!(error = &error as &dyn std::error::Error, "webhook certificate not loaded");
                    if !self.serving.is_loaded() {
                        readiness.not_ready(error.to_string());
                    }
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(self.interval) => {}
            }
        }
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    tokio::fs::read(path).await.map_err(|source| FileError::Read { path: path.to_owned(), source })
}
