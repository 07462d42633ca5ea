//! One layer of settings: what was said in one place, and nothing else.

use std::path::PathBuf;

use serde::Deserialize;
use windlass_api::duration::Duration;

use super::values::{Listen, LogFormat};

/// Settings as given; what was not given is `None`.
///
/// The same type is filled from flags and environment (by clap) and from the config file (by serde), so that the three
/// can never have different names or different ideas of a value. Defaults are in [`super::Settings`], and named here
/// only for people.
#[allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "the comments of the fields are help texts")]
#[derive(clap::Args, Deserialize, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Layer {
    /// Kubeconfig of the cluster with Windlass' own objects [default: KUBECONFIG, the pod's service account,
    /// ~/.kube/config]
    #[arg(long, env = "WINDLASS_KUBECONFIG", value_name = "FILE", help_heading = "Cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, env = "WINDLASS_CONTEXT", value_name = "NAME", help_heading = "Cluster")]
    pub(crate) context: Option<String>,

    /// Namespace of the leases, the webhook certificate and Secrets without a namespace [default: POD_NAMESPACE, the
    /// pod's own, windlass-system]
    #[arg(long, short = 'n', env = "WINDLASS_NAMESPACE", value_name = "NAMESPACE", help_heading = "Cluster")]
    pub(crate) namespace: Option<String>,

    /// Requests a second to the API server on average [default: 500]
    #[arg(long, env = "WINDLASS_KUBE_API_QPS", value_name = "NUMBER", help_heading = "Cluster")]
    pub(crate) kube_api_qps: Option<u32>,

    /// Requests at once above the average [default: 1000]
    #[arg(long, env = "WINDLASS_KUBE_API_BURST", value_name = "NUMBER", help_heading = "Cluster")]
    pub(crate) kube_api_burst: Option<u32>,

    /// Controllers to run: `*` for all, `name` to switch one on, `-name` to switch one off [default: *] [possible
    /// names: analysisrun, application, cluster, experiment, rollout]
    #[arg(
        long,
        env = "WINDLASS_CONTROLLERS",
        value_name = "LIST",
        value_delimiter = ',',
        allow_hyphen_values = true,
        help_heading = "Controllers"
    )]
    pub(crate) controllers: Option<Vec<String>>,

    /// Objects that each controller works on at a time, Applications apart [default: 16]
    #[arg(long, env = "WINDLASS_WORKERS", value_name = "NUMBER", help_heading = "Controllers")]
    pub(crate) workers: Option<u32>,

    /// Applications that are worked on at a time [default: 16]
    #[arg(long, env = "WINDLASS_APPLICATION_WORKERS", value_name = "NUMBER", help_heading = "Controllers")]
    pub(crate) application_workers: Option<u32>,

    /// Look at every object again after this time, even if nothing happens [default: 10m]
    #[arg(long, env = "WINDLASS_RESYNC", value_name = "DURATION", help_heading = "Controllers")]
    pub(crate) resync: Option<Duration>,

    /// Write a status again after this time when only its time of observation changed [default: 5m]
    #[arg(long, env = "WINDLASS_HEARTBEAT", value_name = "DURATION", help_heading = "Controllers")]
    pub(crate) heartbeat: Option<Duration>,

    /// Time that work under way gets to end at a shutdown [default: 1200ms]
    #[arg(long, env = "WINDLASS_SHUTDOWN_GRACE", value_name = "DURATION", help_heading = "Controllers")]
    pub(crate) shutdown_grace: Option<Duration>,

    /// Act only while holding a Lease, so that replicas can stand by [default: true]
    #[arg(
        long,
        env = "WINDLASS_LEADER_ELECT",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Leader election"
    )]
    pub(crate) leader_elect: Option<bool>,

    /// Name of the installation: replicas with the same name share the Leases [default: windlass]
    #[arg(long, env = "WINDLASS_LEASE_NAME", value_name = "NAME", help_heading = "Leader election")]
    pub(crate) lease_name: Option<String>,

    /// Name of this replica, different from every other [default: POD_NAME or the host's name, and a random end]
    #[arg(long, env = "WINDLASS_IDENTITY", value_name = "NAME", help_heading = "Leader election")]
    pub(crate) identity: Option<String>,

    /// Shards that the objects are spread over; each is led by one replica [default: 1]
    #[arg(long, env = "WINDLASS_SHARDS", value_name = "NUMBER", help_heading = "Leader election")]
    pub(crate) shards: Option<u32>,

    /// How long a Lease lasts that nobody renews, in whole seconds [default: 10s]
    #[arg(long, env = "WINDLASS_LEASE_DURATION", value_name = "DURATION", help_heading = "Leader election")]
    pub(crate) lease_duration: Option<Duration>,

    /// How often a Lease is renewed [default: 2500ms]
    #[arg(long, env = "WINDLASS_LEASE_RENEW", value_name = "DURATION", help_heading = "Leader election")]
    pub(crate) lease_renew: Option<Duration>,

    /// Where /healthz, /readyz and /metrics are served [default: :8080]
    #[arg(
        long,
        env = "WINDLASS_HTTP_ADDRESS",
        value_name = "ADDRESS",
        help_heading = "Probes, metrics and webhooks"
    )]
    pub(crate) http_address: Option<Listen>,

    /// Serve the admission webhooks [default: false]
    #[arg(
        long,
        env = "WINDLASS_WEBHOOK",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Probes, metrics and webhooks"
    )]
    pub(crate) webhook: Option<bool>,

    /// Where the admission webhooks are served, with TLS [default: :9443]
    #[arg(
        long,
        env = "WINDLASS_WEBHOOK_ADDRESS",
        value_name = "ADDRESS",
        help_heading = "Probes, metrics and webhooks"
    )]
    pub(crate) webhook_address: Option<Listen>,

    /// Service by which the API server calls the webhooks; the certificate is made for it [default: windlass-webhook]
    #[arg(
        long,
        env = "WINDLASS_WEBHOOK_SERVICE",
        value_name = "NAME",
        help_heading = "Probes, metrics and webhooks"
    )]
    pub(crate) webhook_service: Option<String>,

    /// URL by which the API server calls the webhooks besides the Service, like https://10.0.0.1:9443
    #[arg(
        long,
        env = "WINDLASS_WEBHOOK_URL",
        value_name = "URL",
        help_heading = "Probes, metrics and webhooks"
    )]
    pub(crate) webhook_url: Option<String>,

    /// Secret that the replicas share the webhook certificate in [default: windlass-webhook-tls]
    #[arg(
        long,
        env = "WINDLASS_WEBHOOK_SECRET",
        value_name = "NAME",
        help_heading = "Probes, metrics and webhooks"
    )]
    pub(crate) webhook_secret: Option<String>,

    /// ValidatingWebhookConfigurations whose caBundle is kept up to date [default: windlass]
    #[arg(
        long,
        env = "WINDLASS_WEBHOOK_CONFIGURATIONS",
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Probes, metrics and webhooks"
    )]
    pub(crate) webhook_configurations: Option<Vec<String>>,

    /// Folder with tls.crt and tls.key, as cert-manager writes them, to use instead of an own certificate
    #[arg(
        long,
        env = "WINDLASS_CERT_DIR",
        value_name = "DIR",
        help_heading = "Probes, metrics and webhooks"
    )]
    pub(crate) cert_dir: Option<PathBuf>,

    /// Folder for mirrors of repositories and what was seen of them; it may be lost at any time [default:
    /// /var/lib/windlass in a pod, else $XDG_STATE_HOME/windlass or ~/.local/state/windlass]
    #[arg(long, env = "WINDLASS_WORK_DIR", value_name = "DIR", help_heading = "Applications")]
    pub(crate) work_dir: Option<PathBuf>,

    /// The helm program, by path or by a name on PATH [default: helm]
    #[arg(long, env = "WINDLASS_HELM", value_name = "PROGRAM", help_heading = "Applications")]
    pub(crate) helm: Option<PathBuf>,

    /// The kustomize program, by path or by a name on PATH [default: kustomize]
    #[arg(long, env = "WINDLASS_KUSTOMIZE", value_name = "PROGRAM", help_heading = "Applications")]
    pub(crate) kustomize: Option<PathBuf>,

    /// Charts and kustomizations that are rendered at a time [default: 2]
    #[arg(long, env = "WINDLASS_RENDER_CONCURRENCY", value_name = "NUMBER", help_heading = "Applications")]
    pub(crate) render_concurrency: Option<u32>,

    /// ServiceAccount, in the namespace of each Application that names none, that it is applied as [default: the
    /// controller's own account]
    #[arg(
        long,
        env = "WINDLASS_DEFAULT_SERVICE_ACCOUNT",
        value_name = "NAME",
        help_heading = "Applications"
    )]
    pub(crate) default_service_account: Option<String>,

    /// Let Applications depend on Applications of other namespaces [default: false]
    #[arg(
        long,
        env = "WINDLASS_ALLOW_CROSS_NAMESPACE_DEPENDENCIES",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Applications"
    )]
    pub(crate) allow_cross_namespace_dependencies: Option<bool>,

    /// Addresses that CDEvents of Rollouts are sent to, such as https://events.example/in; may be given more than once
    /// [default: none]
    #[arg(
        long,
        visible_alias = "cdevents-sink",
        env = "WINDLASS_CDEVENTS_SINKS",
        hide_env_values = true,
        value_name = "URL",
        value_delimiter = ',',
        help_heading = "Rollouts"
    )]
    pub(crate) cdevents_sinks: Option<Vec<String>>,

    /// What the source of every CDEvent begins with, such as https://windlass.example/east [default: nothing]
    #[arg(long, env = "WINDLASS_CDEVENTS_SOURCE", value_name = "URL", help_heading = "Rollouts")]
    pub(crate) cdevents_source: Option<String>,

    /// Name of the environment in CDEvents [default: the namespace of the Rollout]
    #[arg(long, env = "WINDLASS_CDEVENTS_ENVIRONMENT", value_name = "NAME", help_heading = "Rollouts")]
    pub(crate) cdevents_environment: Option<String>,

    /// Take word of pushes from Git servers: /hooks/github, gitlab, gitea, bitbucket, generic [default: false]
    #[arg(
        long,
        env = "WINDLASS_HOOKS",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Hooks of Git servers"
    )]
    pub(crate) hooks: Option<bool>,

    /// Where hooks are served, without TLS and apart from metrics [default: :8090]
    #[arg(
        long,
        env = "WINDLASS_HOOKS_ADDRESS",
        value_name = "ADDRESS",
        help_heading = "Hooks of Git servers"
    )]
    pub(crate) hooks_address: Option<Listen>,

    /// Secret with what Git servers prove themselves with: a key for each provider, one secret per line [default:
    /// windlass-hooks]
    #[arg(long, env = "WINDLASS_HOOKS_SECRET", value_name = "NAME", help_heading = "Hooks of Git servers")]
    pub(crate) hooks_secret: Option<String>,

    /// Hooks a second on average; five times as many at once [default: 100]
    #[arg(long, env = "WINDLASS_HOOKS_RATE", value_name = "NUMBER", help_heading = "Hooks of Git servers")]
    pub(crate) hooks_rate: Option<u32>,

    /// Largest body of a hook in bytes [default: 1048576]
    #[arg(
        long,
        env = "WINDLASS_HOOKS_MAX_BYTES",
        value_name = "NUMBER",
        help_heading = "Hooks of Git servers"
    )]
    pub(crate) hooks_max_bytes: Option<u32>,

    /// Namespaces in which Secrets may be read, `*` for all [default: the controller's own]
    #[arg(
        long,
        env = "WINDLASS_SECRET_NAMESPACES",
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "What kubeconfigs of Clusters may do"
    )]
    pub(crate) secret_namespaces: Option<Vec<String>>,

    /// Let kubeconfigs in Secrets run credential plug-ins inside of this process' environment [default: false]
    #[arg(
        long,
        env = "WINDLASS_ALLOW_KUBECONFIG_EXEC",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "What kubeconfigs of Clusters may do"
    )]
    pub(crate) allow_kubeconfig_exec: Option<bool>,

    /// Let kubeconfigs in Secrets read files of this process [default: false]
    #[arg(
        long,
        env = "WINDLASS_ALLOW_KUBECONFIG_FILES",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "What kubeconfigs of Clusters may do"
    )]
    pub(crate) allow_kubeconfig_files: Option<bool>,

    /// Let kubeconfigs in Secrets go without checking the server's certificate [default: false]
    #[arg(
        long,
        env = "WINDLASS_ALLOW_KUBECONFIG_INSECURE_TLS",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "What kubeconfigs of Clusters may do"
    )]
    pub(crate) allow_kubeconfig_insecure_tls: Option<bool>,

    /// Form of the logs on standard error [default: text on a terminal, else json]
    #[arg(long, env = "WINDLASS_LOG_FORMAT", value_name = "FORMAT", help_heading = "Logs")]
    pub(crate) log_format: Option<LogFormat>,

    /// What is logged: error, warn, info, debug or trace, also per module, like `info,windlass_cluster=debug`
    /// [default: info]
    #[arg(long, env = "WINDLASS_LOG_LEVEL", value_name = "FILTER", help_heading = "Logs")]
    pub(crate) log_level: Option<String>,
}

/// Takes each field from the first layer that has it. A list of names is needed once; the compiler sees to it that
/// none is missing.
macro_rules! first_of {
    ($upper:expr, $lower:expr; $($field:ident),+ $(,)?) => {{
        let (upper, lower) = ($upper, $lower);
        Layer { $($field: upper.$field.or(lower.$field)),+ }
    }};
}

impl Layer {
    /// This layer, and the lower one where this one says nothing.
    pub(crate) fn over(self, lower: Self) -> Self {
        first_of!(self, lower;
            kubeconfig, context, namespace, kube_api_qps, kube_api_burst,
            controllers, workers, application_workers, resync, heartbeat, shutdown_grace,
            leader_elect, lease_name, identity, shards, lease_duration, lease_renew,
            http_address, webhook, webhook_address, webhook_service, webhook_url, webhook_secret,
            webhook_configurations, cert_dir,
            work_dir, helm, kustomize, render_concurrency, default_service_account,
            allow_cross_namespace_dependencies,
            cdevents_sinks, cdevents_source, cdevents_environment,
            hooks, hooks_address, hooks_secret, hooks_rate, hooks_max_bytes,
            secret_namespaces, allow_kubeconfig_exec, allow_kubeconfig_files, allow_kubeconfig_insecure_tls,
            log_format, log_level,
        )
    }
}
