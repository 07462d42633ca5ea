//! The shell around the planner: reads, plans, writes, publishes, loads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, BoxStream, SelectAll};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use windlass_cluster::clock::Clock;

use super::facts::{AuthorityFacts, ObservedCertificates, Piece, bundle, observe};
use super::publish::{Published, Publisher};
use super::store::{Store, Written};
use super::{
    CertificateAction, CertificateSpec, Endpoint, IssueError, Material, PrivateKey, PublishError,
    ServingCertificate, ServingError, StoreError, WebhookConfiguration, WebhookConfigurationKind, carry_out,
    plan,
};
use crate::metrics::Metrics;
use crate::readiness::ReadinessCheck;

/// Steps until the Secret is as it should be, with some lost races: more means that something is wrong.
const STEPS: usize = 16;
/// After a failure; doubled up to the interval.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Several events at once, as after our own writes, need one check.
const GATHER: Duration = Duration::from_millis(50);

/// A check that failed. What was in use stays in use.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// The Secret.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// New certificates.
    #[error(transparent)]
    Issue(#[from] IssueError),
    /// The bundle.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The serving certificate.
    #[error(transparent)]
    Serving(#[from] ServingError),
    /// The Secret keeps changing under us, or never becomes what was written.
    #[error("Secret {namespace}/{name} does not come to rest; does something else write it?")]
    Restless {
        /// Where.
        namespace: String,
        /// Which.
        name: String,
    },
}

/// Where the certificates are kept and published.
#[derive(Debug, Clone)]
pub struct KeeperConfig {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub secret: String,
    /// What the certificates should be like.
    pub spec: CertificateSpec,
    /// How webhooks call us.
    pub endpoints: Vec<Endpoint>,
    /// The configurations with webhooks that call us. Those that do not exist are picked up when they do.
    pub configurations: Vec<WebhookConfiguration>,
    /// How often to look without a reason; well below the overlap of the specification.
    pub interval: Duration,
}

/// What a check found in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The steps that this replica wrote.
    pub wrote: Vec<CertificateAction>,
    /// True when the serving certificate in use changed.
    pub reloaded: bool,
    /// How many configurations got the bundle.
    pub published: usize,
    /// When there will be something to do.
    pub wake_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabel {
    step: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateLabel {
    certificate: &'static str,
}

/// Since when a CA has been in every bundle.
#[derive(Debug, Clone)]
struct PublishedCa {
    serial: String,
    since: Timestamp,
}

/// Keeps certificates in a Secret, up to date and published. See the [module](super) for how.
pub struct Keeper {
    config: KeeperConfig,
    client: Client,
    clock: Clock,
    store: Store,
    publisher: Publisher,
    serving: Arc<ServingCertificate>,
    staged: Mutex<Option<PublishedCa>>,
    steps: Family<StepLabel, Counter>,
    expiry: Family<CertificateLabel, Gauge>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Keeper {
    /// Nothing is read or written before the first check. Registers its metrics: once per registry.
    pub fn new(client: Client, config: KeeperConfig, clock: Clock, metrics: &Metrics) -> Self {
        Self::with_serving(client, config, clock, metrics, ServingCertificate::new())
    }

    /// For a listener that exists already: its address may be part of the configuration.
    pub fn with_serving(
        client: Client,
        config: KeeperConfig,
        clock: Clock,
        metrics: &Metrics,
        serving: Arc<ServingCertificate>,
    ) -> Self {
        let steps = Family::<StepLabel, Counter>::default();
        let expiry = Family::<CertificateLabel, Gauge>::default();
        metrics.register(|registry| {
            registry.register(
                "windlass_webhook_certificate_steps",
                "Writes of the certificate Secret by step",
                steps.clone(),
            );
            registry.register(
                "windlass_webhook_certificate_expiry_timestamp_seconds",
                "When the webhook certificates end, in seconds since 1970",
                expiry.clone(),
            );
        });
        Self {
            store: Store::new(client.clone(), &config.namespace, &config.secret),
            publisher: Publisher::new(client.clone(), config.endpoints.clone()),
            serving,
            staged: Mutex::default(),
            config,
            client,
            clock,
            steps,
            expiry,
        }
    }

    /// What to give to the listener.
    pub fn serving(&self) -> Arc<ServingCertificate> {
        Arc::clone(&self.serving)
    }

    /// Brings everything into order once: the Secret, the bundles, the certificate in use.
    ///
    /// # Errors
    /// When something cannot be read or written; what was in use stays in use. A serving certificate from the
    /// Secret is taken into use even when the bundle cannot be published.
    pub async fn check(&self) -> Result<Checked, CertificateError> {
        let mut wrote = Vec::new();
        for _ in 0..STEPS {
            let read = self.store.read().await?;
            let material = read.as_ref().and_then(|secret| secret.data.as_ref()).map(Material::from_data);
            let material = material.unwrap_or_default();
            let now = self.clock.now();
            let observed = observe(&material, &self.config.spec, self.published_since(&material));
            let planned = plan(&observed, now);
            if planned.action == CertificateAction::Keep {
                // Published first: when the Secret was made anew, the API server should hear of the CA before it
                // meets the certificate.
                let published = self.publish(&observed, &material, now).await;
                let reloaded = self.load(&observed, &material)?;
                return Ok(Checked { wrote, reloaded, published: published?, wake_at: planned.wake_at });
            }
            info!(action = ?planned.action, because = ?planned.because, "changing the webhook certificates");
            let next = carry_out(planned.action, &material, &self.config.spec, now)?;
            match self.store.write(read, &next).await? {
                Written::Done => {
                    self.steps.get_or_create(&StepLabel { step: step_name(planned.action) }).inc();
                    wrote.push(planned.action);
                }
                Written::Lost => debug!("another replica changed the webhook certificates first"),
            }
        }
        Err(CertificateError::Restless {
            namespace: self.config.namespace.clone(),
            name: self.config.secret.clone(),
        })
    }

    /// Checks at the interval, when there is something to do, and when someone touches the Secret or a
    /// configuration, until the token is cancelled. Ready after the first check that found everything in order.
    pub async fn run(self, readiness: ReadinessCheck, shutdown: CancellationToken) {
        let mut touched = self.watch();
        let mut retry = FIRST_RETRY;
        let mut was_ready = false;
        loop {
            let wait = match self.check().await {
                Ok(checked) => {
                    readiness.ready();
                    was_ready = true;
                    retry = FIRST_RETRY;
                    self.wait_until(checked.wake_at)
                }
                Err(error) => {
                    warn!(error = &error as &dyn std::error::Error, "webhook certificates are not in order");
                    // Once in order, the certificates outlast any API server that is away for a while.
                    if !was_ready {
                        readiness.not_ready(error.to_string());
                    }
                    let wait = retry;
                    retry = (retry * 2).min(self.config.interval.max(FIRST_RETRY));
                    wait
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                Some(()) = touched.next() => {
                    tokio::time::sleep(GATHER).await;
                    while let Some(Some(())) = futures::FutureExt::now_or_never(touched.next()) {}
                }
            }
        }
    }

    fn wait_until(&self, wake_at: Option<Timestamp>) -> Duration {
        let left = wake_at.map(|at| at.duration_since(self.clock.now()));
        // Certificates count in seconds: a second late is in time, a moment early is for nothing.
        let left =
            left.and_then(|left| Duration::try_from(left).ok()).map(|left| left + Duration::from_secs(1));
        left.map_or(self.config.interval, |left| left.min(self.config.interval))
    }

    /// One item whenever someone touches what we keep. Errors are the watcher's to retry: without the right to
    /// watch, the interval still does the work.
    fn watch(&self) -> SelectAll<BoxStream<'static, ()>> {
        fn touches<K>(api: Api<K>, name: &str) -> BoxStream<'static, ()>
        where
            K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
        {
            watch_object(api, name)
                .default_backoff()
                // Not the error itself: one about decoding quotes the Secret.
                .inspect_err(|_| debug!("a watch for the webhook certificates failed"))
                .filter_map(|event| std::future::ready(event.is_ok().then_some(())))
                .boxed()
        }
        let secret: BoxStream<'static, ()> = touches::<Secret>(self.store.api(), &self.config.secret);
        let configurations = self.config.configurations.iter().map(|target| match target.kind {
            WebhookConfigurationKind::Validating => {
                touches::<ValidatingWebhookConfiguration>(Api::all(self.client.clone()), &target.name)
            }
            WebhookConfigurationKind::Mutating => {
                touches::<MutatingWebhookConfiguration>(Api::all(self.client.clone()), &target.name)
            }
        });
        stream::select_all(std::iter::once(secret).chain(configurations))
    }

    async fn publish(
        &self,
        observed: &ObservedCertificates,
        material: &Material,
        now: Timestamp,
    ) -> Result<usize, PublishError> {
        let bundle = bundle(observed, material, now);
        let mut patched = 0;
        let mut failed = None;
        for target in &self.config.configurations {
            match self.publisher.publish(target, &bundle).await {
                Ok(Published::Patched) => patched += 1,
                Ok(Published::Unchanged) => {}
                // The other configurations need theirs all the same.
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let mut staged = self.staged.lock().unwrap_or_else(PoisonError::into_inner);
        *staged = match (&observed.next_ca, &failed) {
            (Piece::Found(AuthorityFacts { serial, .. }), None) => {
                let known = staged.take().filter(|known| known.serial == *serial && patched == 0);
                Some(known.unwrap_or_else(|| PublishedCa { serial: serial.clone(), since: now }))
            }
            _ => None,
        };
        failed.map_or(Ok(patched), Err)
    }

    fn published_since(&self, material: &Material) -> Option<Timestamp> {
        let staged = self.staged.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let observed = observe(material, &self.config.spec, None);
        observed.next_ca.found().filter(|next| next.serial == staged.serial).map(|_| staged.since)
    }

    fn load(&self, observed: &ObservedCertificates, material: &Material) -> Result<bool, ServingError> {
        let ends = [
            ("ca", observed.ca.found().map(|ca| ca.not_after)),
            ("serving", observed.serving.found().map(|serving| serving.not_after)),
        ];
        for (certificate, end) in ends {
            if let Some(end) = end {
                self.expiry.get_or_create(&CertificateLabel { certificate }).set(end.as_second());
            }
        }
        let chain = material.serving.as_deref().unwrap_or_default();
        let key = material.serving_key.as_ref().map(PrivateKey::reveal).unwrap_or_default();
        let reloaded = self.serving.set(chain, key)?;
        if reloaded {
            info!("serving webhooks with a new certificate");
        }
        Ok(reloaded)
    }
}

fn step_name(action: CertificateAction) -> &'static str {
    match action {
        CertificateAction::Keep => "keep",
        CertificateAction::Create => "create",
        CertificateAction::IssueServing => "issue-serving",
        CertificateAction::StageCa => "stage-ca",
        CertificateAction::PromoteCa => "promote-ca",
        CertificateAction::RetireCa => "retire-ca",
    }
}
