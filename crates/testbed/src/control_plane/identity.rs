//! Certificates and keys of one control plane.
//!
//! Three authorities, as in a production cluster: a user's certificate must not open etcd, and only the front proxy may
//! name users in headers.

use std::path::{Path, PathBuf};

use crate::pki::{Ca, KeyCertFiles, LOOPBACK, SigningKey, write_private};

/// The certificates, with the paths under which the programs read them.
pub(super) struct Identity {
    pub(super) cluster_ca: Ca,
    pub(super) cluster_ca_files: KeyCertFiles,
    pub(super) apiserver: KeyCertFiles,
    pub(super) front_proxy_ca: PathBuf,
    pub(super) front_proxy: KeyCertFiles,
    pub(super) etcd_ca: PathBuf,
    pub(super) etcd: KeyCertFiles,
    pub(super) etcd_client: KeyCertFiles,
    pub(super) token_key: PathBuf,
    pub(super) token_public_key: PathBuf,
}

impl Identity {
    pub(super) fn create(folder: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let cluster_ca = Ca::new("windlass testbed cluster")?;
        let etcd_ca = Ca::new("windlass testbed etcd")?;
        let front_proxy_ca = Ca::new("windlass testbed front proxy")?;
        let token = SigningKey::new()?;
        let hosts = [LOOPBACK[0], LOOPBACK[1], "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        Ok(Self {
            apiserver: cluster_ca.server("kube-apiserver", &hosts)?.write(folder, "apiserver")?,
            cluster_ca_files: KeyCertFiles {
                cert: write_private(folder, "ca.crt", &cluster_ca.pem())?,
                key: write_private(folder, "ca.key", &cluster_ca.key_pem())?,
            },
            front_proxy_ca: write_private(folder, "front-proxy-ca.crt", &front_proxy_ca.pem())?,
            front_proxy: front_proxy_ca.client("front-proxy-client", None)?.write(folder, "front-proxy")?,
            etcd_ca: write_private(folder, "etcd-ca.crt", &etcd_ca.pem())?,
            etcd: etcd_ca.peer("etcd", &LOOPBACK)?.write(folder, "etcd")?,
            etcd_client: etcd_ca.client("kube-apiserver", None)?.write(folder, "etcd-client")?,
            token_key: write_private(folder, "service-account.key", &token.private_pem)?,
            token_public_key: write_private(folder, "service-account.pub", &token.public_pem)?,
            cluster_ca,
        })
    }
}
