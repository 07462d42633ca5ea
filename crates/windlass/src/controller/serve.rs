//! What the process listens on.

use std::{sync::Arc, time::Duration};

use tracing::debug;
use windlass_cluster::clock::Clock;
use windlass_server::{
    admission::Webhooks,
    certificates::{
        CertificateSpec, Endpoint, Files, Keeper, KeeperConfig, ServingCertificate, WebhookConfiguration,
    },
    hooks::{HookLimits, Hooks, OnPush, Secrets},
    http::Probes,
    listener::{Limits, ListenError, Server},
};

use super::{drives::secret_namespaces, group::Group, hub::Hub};
use crate::{
    admit::{self, cluster::ClusterRules},
    config::{Listen, Settings},
    error::CommandError,
};

/// How often certificates are looked at without a reason.
const CERTIFICATE_INTERVAL: Duration = Duration::from_mins(5);

/// Starts `/healthz`, `/readyz` and `/metrics`.
pub(super) async fn probes(
    settings: &Settings,
    probes: &Probes,
    group: &mut Group,
) -> Result<(), CommandError> {
    let server = bind(settings.http_address, "httpAddress", |address| probes.bind(address)).await?;
    group.spawn(server.run(group.stop()));
    Ok(())
}

/// Starts the admission webhooks and what keeps their certificate.
pub(super) async fn webhooks(
    settings: &Settings,
    probes: &Probes,
    hub: &Hub,
    group: &mut Group,
) -> Result<(), CommandError> {
    let serving = certificate(settings, probes, hub, group);
    let rules = ClusterRules {
        namespace: settings.namespace.clone(),
        secret_namespaces: secret_namespaces(&settings.secret_namespaces),
    };
    let webhooks = Webhooks::new(&probes.metrics).with("clusters", admit::clusters(rules));
    let listen = |address| Server::bind("webhook", address, Limits::webhooks());
    let server = bind(settings.webhook_address, "webhookAddress", listen).await?;
    let server = server.with_tls(serving).map_err(|error| refused(error, "webhookAddress"))?;
    group.spawn(server.merge(webhooks.routes()).run(group.stop()));
    Ok(())
}

/// Starts the hooks of Git servers: `on_push` is told of what was pushed.
pub(super) async fn hooks(
    settings: &Settings,
    probes: &Probes,
    hub: &Hub,
    on_push: OnPush,
    group: &mut Group,
) -> Result<(), CommandError> {
    let limits = HookLimits {
        rate: settings.hooks_rate,
        burst: settings.hooks_rate.saturating_mul(5),
        max_body_bytes: usize::try_from(settings.hooks_max_bytes).unwrap_or(usize::MAX),
        ..HookLimits::default()
    };
    let secrets = Secrets::new();
    let hooks = Hooks::new(secrets.clone(), limits, &probes.metrics, on_push);
    let server = bind(settings.hooks_address, "hooksAddress", |address| hooks.bind(address)).await?;
    let (namespace, name) = (settings.namespace.clone(), settings.hooks_secret.clone());
    group.spawn(secrets.follow(hub.housekeeping.clone(), namespace, name, group.stop()));
    group.spawn(server.run(group.stop()));
    group.spawn(hooks.run(group.stop()));
    Ok(())
}

/// Somebody else's certificate from a folder, or one of our own.
fn certificate(
    settings: &Settings,
    probes: &Probes,
    hub: &Hub,
    group: &mut Group,
) -> Arc<ServingCertificate> {
    let check = probes.readiness.check("webhook/certificate");
    if let Some(folder) = &settings.cert_dir {
        let files = Files::new(folder);
        let serving = files.serving();
        group.spawn(files.run(check, group.stop()));
        return serving;
    }
    let mut spec = CertificateSpec::for_service(&settings.webhook_service, &settings.namespace);
    let mut endpoints = vec![Endpoint::Service {
        namespace: settings.namespace.clone(),
        name: settings.webhook_service.clone(),
    }];
    if let Some(url) = &settings.webhook_url {
        spec.names.extend(host(url).map(ToOwned::to_owned));
        endpoints.push(Endpoint::Url(url.clone()));
    }
    let config = KeeperConfig {
        namespace: settings.namespace.clone(),
        secret: settings.webhook_secret.clone(),
        spec,
        endpoints,
        configurations: settings
            .webhook_configurations
            .iter()
            .map(WebhookConfiguration::validating)
            .collect(),
        interval: CERTIFICATE_INTERVAL,
    };
    let keeper = Keeper::new(hub.housekeeping.clone(), config, Clock::system(), &probes.metrics);
    let serving = keeper.serving();
    group.spawn(keeper.run(check, group.stop()));
    serving
}

/// The name or address in a URL, as a certificate names it.
fn host(url: &str) -> Option<&str> {
    let authority = url.strip_prefix("https://")?.split(['/', '?', '#']).next()?;
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => authority.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}

/// Listens on the first address that works.
async fn bind<F>(
    listen: Listen,
    key: &str,
    bind: impl Fn(std::net::SocketAddr) -> F,
) -> Result<Server, CommandError>
where
    F: Future<Output = Result<Server, ListenError>>,
{
    let mut last = None;
    for address in listen.addresses() {
        match bind(address).await {
            Ok(server) => return Ok(server),
            Err(error) => {
                debug!(%address, error = &error as &dyn std::error::Error, "cannot listen there");
                last = Some(error);
            }
        }
    }
    let error = CommandError::failure(format!("cannot listen on {listen}"));
    Err(match last {
        Some(last) => refused(last, key),
        None => error,
    })
}

fn refused(error: ListenError, key: &str) -> CommandError {
    CommandError::failure("cannot start to listen")
        .because(error)
        .hint(format!("Choose another address with the setting {key}."))
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn the_host_of_a_url_is_found() {
        for (url, expected) in [
            ("https://127.0.0.1:9443/admit", Some("127.0.0.1")),
            ("https://[::1]:9443", Some("::1")),
            ("https://hooks.example", Some("hooks.example")),
            ("https://", None),
            ("http://x", None),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }
}
