//! The settings, whole and checked.

use std::{
    collections::{BTreeSet, hash_map::RandomState},
    ffi::OsString,
    hash::{BuildHasher, Hasher},
    io::IsTerminal,
    path::PathBuf,
    time::Duration as StdDuration,
};

use serde::{Serialize, Serializer};
use windlass_api::duration::Duration;
use windlass_rollout::cdevents::{Sink, SinkError};

use super::{
    layer::Layer,
    values::{Listen, LogFormat, SwitchedControllers},
};
use crate::{controller::CONTROLLERS, error::CommandError, logs};

/// Namespace when nothing tells a better one.
const DEFAULT_NAMESPACE: &str = "windlass-system";

/// Where a pod keeps what it may lose: the chart mounts a volume there.
const POD_WORK_DIR: &str = "/var/lib/windlass";

/// Share of a lease's time after which its holder no longer trusts it, in hundredths: the rest is for clocks that run
/// apart and requests that arrive late.
const TRUSTED_PERCENT: u32 = 85;

/// What a setting may be taken from when nobody gave it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// `POD_NAMESPACE`, else the namespace of the pod's service account.
    pub(crate) namespace: Option<String>,
    /// `POD_NAME`, else the name of the host.
    pub(crate) name: Option<String>,
    /// Where files that may be lost are kept.
    pub(crate) work_dir: PathBuf,
    /// Different for every process.
    pub(crate) nonce: u32,
    /// Standard error is a terminal.
    pub(crate) terminal: bool,
}

impl Surroundings {
    /// Of this process.
    pub(crate) fn of_this_process() -> Self {
        let env = |name: &str| std::env::var_os(name).and_then(|value: OsString| value.into_string().ok());
        let file = |path: &str| std::fs::read_to_string(path).ok();
        let some =
            |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        Self {
            namespace: some(env("POD_NAMESPACE"))
                .or_else(|| some(file("/var/run/secrets/kubernetes.io/serviceaccount/namespace"))),
            name: some(env("POD_NAME")).or_else(|| some(file("/proc/sys/kernel/hostname"))),
            work_dir: work_dir(|name| std::env::var_os(name).filter(|value| !value.is_empty())),
            nonce: nonce(),
            terminal: std::io::stderr().is_terminal(),
        }
    }
}

/// In a pod a fixed place, which a volume may be mounted at; elsewhere where programs keep their state.
fn work_dir(env: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    if env("KUBERNETES_SERVICE_HOST").is_some() {
        return PathBuf::from(POD_WORK_DIR);
    }
    let state = env("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || env("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    state.or_else(home).unwrap_or_else(std::env::temp_dir).join("windlass")
}

/// The keys of the standard library's hasher are random for every process; nothing more is asked of this number than to
/// differ between replicas.
fn nonce() -> u32 {
    let bytes = RandomState::new().build_hasher().finish().to_le_bytes();
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Everything that the operator decided, and the defaults for the rest. Printed by `--print-config` in the form of the
/// config file.
#[derive(Serialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own that people switch by name")]
pub(crate) struct Settings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kubeconfig: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    pub(crate) namespace: String,
    pub(crate) kube_api_qps: u32,
    pub(crate) kube_api_burst: u32,

    pub(crate) controllers: SwitchedControllers,
    pub(crate) workers: u32,
    pub(crate) application_workers: u32,
    pub(crate) resync: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) shutdown_grace: Duration,

    pub(crate) leader_elect: bool,
    pub(crate) lease_name: String,
    pub(crate) identity: String,
    pub(crate) shards: u32,
    pub(crate) lease_duration: Duration,
    pub(crate) lease_renew: Duration,

    pub(crate) http_address: Listen,
    pub(crate) webhook: bool,
    pub(crate) webhook_address: Listen,
    pub(crate) webhook_service: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) webhook_url: Option<String>,
    pub(crate) webhook_secret: String,
    pub(crate) webhook_configurations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cert_dir: Option<PathBuf>,

    pub(crate) work_dir: PathBuf,
    pub(crate) helm: PathBuf,
    pub(crate) kustomize: PathBuf,
    pub(crate) render_concurrency: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) default_service_account: Option<String>,
    pub(crate) allow_cross_namespace_dependencies: bool,

    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "addresses")]
    pub(crate) cdevents_sinks: Vec<Sink>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cdevents_source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cdevents_environment: Option<String>,

    pub(crate) hooks: bool,
    pub(crate) hooks_address: Listen,
    pub(crate) hooks_secret: String,
    pub(crate) hooks_rate: u32,
    pub(crate) hooks_max_bytes: u32,

    pub(crate) secret_namespaces: BTreeSet<String>,
    pub(crate) allow_kubeconfig_exec: bool,
    pub(crate) allow_kubeconfig_files: bool,
    pub(crate) allow_kubeconfig_insecure_tls: bool,

    pub(crate) log_format: LogFormat,
    pub(crate) log_level: String,
}

impl Settings {
    /// Fills what was not given and checks the whole.
    pub(crate) fn resolve(layer: Layer, around: &Surroundings) -> Result<Self, CommandError> {
        let namespace = layer
            .namespace
            .or_else(|| around.namespace.clone())
            .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
        let seconds = Duration::from_secs;
        let millis = |millis| Duration(StdDuration::from_millis(millis));
        let all = || vec!["*".to_owned()];
        let settings = Self {
            kubeconfig: layer.kubeconfig,
            context: layer.context,
            // More than an API server can take: it shares itself out by priority and fairness, and a thousand
            // Applications should wait for it and not for us. This is for what runs wild.
            kube_api_qps: layer.kube_api_qps.unwrap_or(500),
            kube_api_burst: layer.kube_api_burst.unwrap_or(1000),
            controllers: controllers(&layer.controllers.unwrap_or_else(all))?,
            workers: layer.workers.unwrap_or(16),
            application_workers: layer.application_workers.unwrap_or(16),
            resync: layer.resync.unwrap_or(seconds(600)),
            heartbeat: layer.heartbeat.unwrap_or(seconds(300)),
            shutdown_grace: layer.shutdown_grace.unwrap_or(millis(1200)),
            leader_elect: layer.leader_elect.unwrap_or(true),
            lease_name: layer.lease_name.unwrap_or_else(|| "windlass".to_owned()),
            identity: layer.identity.unwrap_or_else(|| identity(around)),
            shards: layer.shards.unwrap_or(1),
            lease_duration: layer.lease_duration.unwrap_or(seconds(10)),
            lease_renew: layer.lease_renew.unwrap_or(millis(2500)),
            http_address: layer.http_address.unwrap_or(Listen::on_all(8080)),
            webhook: layer.webhook.unwrap_or(false),
            webhook_address: layer.webhook_address.unwrap_or(Listen::on_all(9443)),
            webhook_service: layer.webhook_service.unwrap_or_else(|| "windlass-webhook".to_owned()),
            webhook_url: layer.webhook_url,
            webhook_secret: layer.webhook_secret.unwrap_or_else(|| "windlass-webhook-tls".to_owned()),
            webhook_configurations: layer
                .webhook_configurations
                .unwrap_or_else(|| vec!["windlass".to_owned()]),
            cert_dir: layer.cert_dir,
            work_dir: layer.work_dir.unwrap_or_else(|| around.work_dir.clone()),
            helm: layer.helm.unwrap_or_else(|| PathBuf::from("helm")),
            kustomize: layer.kustomize.unwrap_or_else(|| PathBuf::from("kustomize")),
            render_concurrency: layer.render_concurrency.unwrap_or(2),
            default_service_account: layer.default_service_account,
            allow_cross_namespace_dependencies: layer.allow_cross_namespace_dependencies.unwrap_or(false),
            cdevents_sinks: sinks(&layer.cdevents_sinks.unwrap_or_default())?,
            cdevents_source: layer.cdevents_source.unwrap_or_default(),
            cdevents_environment: layer.cdevents_environment,
            hooks: layer.hooks.unwrap_or(false),
            hooks_address: layer.hooks_address.unwrap_or(Listen::on_all(8090)),
            hooks_secret: layer.hooks_secret.unwrap_or_else(|| "windlass-hooks".to_owned()),
            hooks_rate: layer.hooks_rate.unwrap_or(100),
            hooks_max_bytes: layer.hooks_max_bytes.unwrap_or(1024 * 1024),
            secret_namespaces: words(layer.secret_namespaces)
                .unwrap_or_else(|| BTreeSet::from([namespace.clone()])),
            allow_kubeconfig_exec: layer.allow_kubeconfig_exec.unwrap_or(false),
            allow_kubeconfig_files: layer.allow_kubeconfig_files.unwrap_or(false),
            allow_kubeconfig_insecure_tls: layer.allow_kubeconfig_insecure_tls.unwrap_or(false),
            log_format: layer.log_format.unwrap_or(if around.terminal {
                LogFormat::Text
            } else {
                LogFormat::Json
            }),
            log_level: layer.log_level.unwrap_or_else(|| "info".to_owned()),
            namespace,
        };
        settings.check()?;
        Ok(settings)
    }

    /// How long after sending a renewal the lease is still trusted.
    pub(crate) fn lease_margin(&self) -> StdDuration {
        self.lease_duration.0.saturating_sub(self.lease_duration.0 / 100 * TRUSTED_PERCENT)
    }

    fn check(&self) -> Result<(), CommandError> {
        let at_least_one = [
            ("workers", self.workers),
            ("applicationWorkers", self.application_workers),
            ("renderConcurrency", self.render_concurrency),
            ("hooksRate", self.hooks_rate),
            ("kubeApiQps", self.kube_api_qps),
            ("kubeApiBurst", self.kube_api_burst),
        ];
        if let Some((key, _)) = at_least_one.into_iter().find(|(_, value)| *value == 0) {
            return Err(wrong(key, "has to be 1 or more"));
        }
        if !(1..=256).contains(&self.shards) {
            return Err(wrong("shards", "has to be between 1 and 256"));
        }
        if !(1024..=64 * 1024 * 1024).contains(&self.hooks_max_bytes) {
            return Err(wrong("hooksMaxBytes", "has to be between 1024 and 67108864"));
        }
        for (key, path) in [("workDir", &self.work_dir), ("helm", &self.helm), ("kustomize", &self.kustomize)]
        {
            if path.as_os_str().is_empty() {
                return Err(wrong(key, "must not be empty"));
            }
        }
        if let Some(account) = &self.default_service_account {
            check_name("defaultServiceAccount", account)?;
        }
        for (key, name) in [
            ("namespace", &self.namespace),
            ("leaseName", &self.lease_name),
            ("identity", &self.identity),
            ("webhookService", &self.webhook_service),
            ("webhookSecret", &self.webhook_secret),
            ("hooksSecret", &self.hooks_secret),
        ] {
            check_name(key, name)?;
        }
        self.webhook_configurations.iter().try_for_each(|name| check_name("webhookConfigurations", name))?;
        let namespaces = self.secret_namespaces.iter().filter(|namespace| *namespace != "*");
        namespaces.into_iter().try_for_each(|name| check_name("secretNamespaces", name))?;
        logs::check(&self.log_level).map_err(|error| wrong("logLevel", "is not a filter").because(error))?;
        self.check_webhook_url()?;
        self.check_lease()
    }

    fn check_lease(&self) -> Result<(), CommandError> {
        let (lasts, renew) = (self.lease_duration.0, self.lease_renew.0);
        if lasts < StdDuration::from_secs(2) || lasts.subsec_nanos() != 0 {
            return Err(wrong("leaseDuration", "has to be a whole number of seconds, 2 or more"));
        }
        if renew < StdDuration::from_millis(100) || renew * 2 > lasts.saturating_sub(self.lease_margin()) {
            let longest = Duration(lasts.saturating_sub(self.lease_margin()) / 2);
            return Err(wrong(
                "leaseRenew",
                format!("has to be between 100ms and {longest} with leaseDuration {}", self.lease_duration),
            )
            .hint("A holder that misses one renewal must not lose the Lease."));
        }
        Ok(())
    }

    fn check_webhook_url(&self) -> Result<(), CommandError> {
        match &self.webhook_url {
            Some(url) if !url.starts_with("https://") => {
                Err(wrong("webhookUrl", "has to begin with https://")
                    .hint("The API server calls webhooks over TLS only."))
            }
            _ => Ok(()),
        }
    }
}

fn controllers(list: &[String]) -> Result<SwitchedControllers, CommandError> {
    SwitchedControllers::read(list, CONTROLLERS).map_err(|error| {
        let known = format!("There are: {}.", CONTROLLERS.join(", "));
        let hint = error.meant.map(|meant| format!("Did you mean `{meant}`?"));
        let wrong = wrong("controllers", "names something that is not there").because(error);
        hint.into_iter().fold(wrong, CommandError::hint).hint(known)
    })
}

/// Sinks as they are printed: without passwords and tokens.
fn addresses<S: Serializer>(sinks: &[Sink], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(sinks.iter().map(Sink::address))
}

fn sinks(list: &[String]) -> Result<Vec<Sink>, CommandError> {
    let given = list.iter().filter(|address| !address.trim().is_empty());
    let read = |address: &String| {
        address
            .parse()
            .map_err(|error: SinkError| wrong("cdeventsSinks", "has an address that is none").because(error))
    };
    given.map(read).collect()
}

/// The items of a list; `None` if there is not a single word in it.
fn words(list: Option<Vec<String>>) -> Option<BTreeSet<String>> {
    let words: BTreeSet<String> =
        list?.into_iter().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect();
    (!words.is_empty()).then_some(words)
}

/// A name for a Lease, from whatever this machine or pod is called.
fn identity(around: &Surroundings) -> String {
    let name = around.name.as_deref().unwrap_or("windlass").to_lowercase();
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).take(54).collect();
    let plain = plain.trim_matches('-');
    format!("{}-{:08x}", if plain.is_empty() { "windlass" } else { plain }, around.nonce)
}

/// A DNS label, which every name of an object may be.
fn check_name(key: &str, name: &str) -> Result<(), CommandError> {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = name.len() <= 63
        && name.chars().all(inner)
        && edge(name.chars().next())
        && edge(name.chars().next_back());
    if good {
        return Ok(());
    }
    Err(wrong(key, format!("has a name that Kubernetes does not take: `{name}`"))
        .hint("Use up to 63 lower case letters, digits and `-`, with a letter or digit at both ends."))
}

/// A setting that is wrong, by all its names.
fn wrong(key: &str, what: impl AsRef<str>) -> CommandError {
    let mut kebab = String::new();
    for letter in key.chars() {
        if letter.is_ascii_uppercase() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    let environment = kebab.replace('-', "_").to_uppercase();
    CommandError::usage(format!("setting {key} {}", what.as_ref()))
        .hint(format!("It is --{kebab}, WINDLASS_{environment} or {key} in the config file."))
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
