//! Clients and kubeconfigs for the users of a control plane.

use std::path::PathBuf;
use std::sync::PoisonError;

use anyhow::Context;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::client::Body;
use kube::config::Kubeconfig;
use kube::{Api, Client, Config};

use super::user::{Credential, kubeconfig_yaml};
use super::{ControlPlane, User};
use crate::pki::{KeyCert, write_private};

impl ControlPlane {
    /// A client that may do everything. Make one per test: a client belongs to the runtime that made it.
    pub fn admin(&self) -> Client {
        self.client(&User::Admin).unwrap_or_else(|error| broken(format!("{error:#}")))
    }

    /// A client for a user.
    pub fn client(&self, user: &User) -> anyhow::Result<Client> {
        Client::try_from(self.config(user)?)
            .with_context(|| format!("cannot make a client for {}", user.name()))
    }

    /// The settings of a client for a user, to be changed before a client is made of them.
    pub fn config(&self, user: &User) -> anyhow::Result<Config> {
        let url = self.url().parse().context("the URL of the API server is none")?;
        let mut config = Config::new(url);
        config.root_cert = Some(vec![self.layout.identity.cluster_ca.der().to_vec()]);
        let auth_info = Credential::Certificate(&self.certificate(user)?).auth_info();
        config.auth_info = serde_json::from_value(auth_info).context("cannot build credentials")?;
        Ok(config)
    }

    /// A kubeconfig for a user, with all data inline.
    pub fn kubeconfig(&self, user: &User) -> anyhow::Result<Kubeconfig> {
        self.layout.kubeconfig(user.name(), &Credential::Certificate(&self.certificate(user)?))
    }

    /// A kubeconfig file for a user, which lives as long as the control plane.
    pub fn kubeconfig_path(&self, user: &User) -> anyhow::Result<PathBuf> {
        let text = kubeconfig_yaml(&self.kubeconfig(user)?)?;
        write_private(&self.layout.kubeconfig_dir(), &user.file_name(), &text)
    }

    /// A kubeconfig with a token (one hour) of a `ServiceAccount` that exists.
    pub async fn service_account(&self, namespace: &str, name: &str) -> anyhow::Result<Kubeconfig> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() }),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("cannot get a token of ServiceAccount {namespace}/{name}"))?;
        let token =
            answer.status.and_then(|status| status.token).context("the token request was not answered")?;
        self.layout.kubeconfig(name, &Credential::Token(&token))
    }

    /// A client made of any kubeconfig, for example of [`ControlPlane::service_account`].
    pub async fn client_from(kubeconfig: Kubeconfig) -> anyhow::Result<Client> {
        let config = Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
            .await
            .context("cannot use the kubeconfig")?;
        Client::try_from(config).context("cannot make a client of the kubeconfig")
    }

    fn certificate(&self, user: &User) -> anyhow::Result<KeyCert> {
        let mut known = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(certificate) = known.get(user) {
            return Ok(certificate.clone());
        }
        let certificate = self.layout.identity.cluster_ca.client(user.name(), Some(user.group()))?;
        known.insert(user.clone(), certificate.clone());
        Ok(certificate)
    }
}

/// A client that answers every request with this error. What it stands for cannot happen unless the crypto library
/// refuses a key that it has just made; then the tests say so instead of the process ending here.
fn broken(reason: String) -> Client {
    let service = tower::service_fn(move |_: http::Request<Body>| {
        let reason = reason.clone();
        async move { Err::<http::Response<Body>, _>(std::io::Error::other(reason)) }
    });
    Client::new(service, "default")
}
