//! Reading a kubeconfig that somebody else wrote.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use http::HeaderValue;
use kube::config::{AuthInfo, AuthProviderConfig, Cluster, ExecAuthCluster, ExecConfig};
use rustls::pki_types::ServerName;
use serde::Deserialize;

use super::{
    KubeconfigError, Target, address, certificate,
    target::{Authorities, Fingerprint},
};

/// Largest kubeconfig that is read: what a Secret can hold.
pub const MAX_KUBECONFIG_BYTES: usize = 1024 * 1024;

/// What an administrator allows in kubeconfigs that come from Secrets. Nothing, by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KubeconfigPolicy {
    /// Run `exec` and `auth-provider` credential plug-ins inside of the controller.
    pub allow_exec: bool,
    /// Read files of the controller's own file system.
    pub allow_files: bool,
    /// Connect without verifying the server's certificate.
    pub allow_insecure_tls: bool,
}

impl KubeconfigPolicy {
    /// What kubectl itself would do: for a file that the operator of this process chose.
    pub const fn trusted() -> Self {
        Self { allow_exec: true, allow_files: true, allow_insecure_tls: true }
    }
}

/// Policy plus whether the file is the operator's own (`kubectl proxy` and proxy credentials are fine there).
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) policy: KubeconfigPolicy,
    pub(super) own_file: bool,
}

/// Reads one context of a kubeconfig from untrusted bytes.
///
/// Assumes nothing about the bytes. Guarantees, under the default policy: no program is run, no file is read, the
/// server is verified and addressed by https, the addresses are not link-local as written, the client certificate
/// fits its key, and there is something to authenticate with. Pure: no clock, no environment, no I/O.
///
/// # Errors
/// [`KubeconfigError`], which never holds any part of a credential.
pub fn parse_kubeconfig(
    bytes: &[u8],
    context: Option<&str>,
    policy: &KubeconfigPolicy,
) -> Result<Target, KubeconfigError> {
    let raw = Raw::read(bytes)?;
    let fingerprint = Fingerprint::of(bytes, context, *policy);
    raw.select(context, Rules { policy: *policy, own_file: false }, fingerprint)
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Raw {
    kind: Option<String>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
    contexts: Option<Vec<NamedContext>>,
    current_context: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Option<Cluster>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: Option<User>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Option<Context>,
}

#[derive(Deserialize)]
struct Context {
    #[serde(default)]
    cluster: String,
    user: Option<String>,
    namespace: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    username: Option<String>,
    password: Option<String>,
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    #[serde(rename = "as")]
    impersonate: Option<String>,
    as_uid: Option<String>,
    as_groups: Option<Vec<String>>,
    as_user_extra: Option<BTreeMap<String, Vec<String>>>,
    exec: Option<ExecConfig>,
    auth_provider: Option<AuthProviderConfig>,
}

impl Raw {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, KubeconfigError> {
        if bytes.len() > MAX_KUBECONFIG_BYTES {
            return Err(KubeconfigError::TooLarge { bytes: bytes.len() });
        }
        let malformed = |what| KubeconfigError::Malformed { what, line: None };
        let text = std::str::from_utf8(bytes).map_err(|_| malformed("it is not UTF-8 text"))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Err(malformed("it is empty"));
        }
        let raw: Self =
            serde_saphyr::from_str_with_options(text, yaml_options()).map_err(|error| refuse(&error))?;
        if raw.kind.as_deref().is_some_and(|kind| kind != "Config") {
            return Err(malformed("its kind is not Config"));
        }
        Ok(raw)
    }

    /// Adds another file's entries; what is already there wins, as kubectl does it.
    pub(super) fn merge(&mut self, next: Self) {
        fn append<T>(base: &mut Option<Vec<T>>, next: Option<Vec<T>>, name: impl Fn(&T) -> &str) {
            let base = base.get_or_insert_default();
            for entry in next.unwrap_or_default() {
                if base.iter().all(|have| name(have) != name(&entry)) {
                    base.push(entry);
                }
            }
        }
        append(&mut self.clusters, next.clusters, |entry| &entry.name);
        append(&mut self.users, next.users, |entry| &entry.name);
        append(&mut self.contexts, next.contexts, |entry| &entry.name);
        self.current_context = present(self.current_context.take()).or(next.current_context);
    }

    /// Makes relative file references relative to the folder of the file that holds them.
    pub(super) fn anchor(&mut self, folder: &Path) {
        let anchor = |field: &mut Option<String>| {
            if let Some(path) =
                field.as_ref().filter(|path| !path.is_empty() && Path::new(path).is_relative())
            {
                *field = folder.join(path).to_str().map(str::to_owned);
            }
        };
        for cluster in self.clusters.iter_mut().flatten().filter_map(|entry| entry.cluster.as_mut()) {
            anchor(&mut cluster.certificate_authority);
        }
        for user in self.users.iter_mut().flatten().filter_map(|entry| entry.user.as_mut()) {
            anchor(&mut user.client_certificate);
            anchor(&mut user.client_key);
            anchor(&mut user.token_file);
            // A bare command is looked up on PATH.
            if let Some(exec) = &mut user.exec
                && exec.command.as_ref().is_some_and(|command| command.contains(std::path::MAIN_SEPARATOR))
            {
                anchor(&mut exec.command);
            }
        }
    }

    pub(super) fn select(
        self,
        context: Option<&str>,
        rules: Rules,
        fingerprint: Fingerprint,
    ) -> Result<Target, KubeconfigError> {
        let name = context
            .map(str::to_owned)
            .or(self.current_context)
            .filter(|name| !name.is_empty())
            .ok_or(KubeconfigError::NoContext)?;
        let context = self
            .contexts
            .into_iter()
            .flatten()
            .find(|entry| entry.name == name)
            .and_then(|entry| entry.context)
            .ok_or_else(|| KubeconfigError::UnknownContext { context: name.clone() })?;
        let cluster = self
            .clusters
            .into_iter()
            .flatten()
            .find(|entry| entry.name == context.cluster)
            .and_then(|entry| entry.cluster)
            .ok_or_else(|| KubeconfigError::MissingCluster {
                context: name.clone(),
                cluster: context.cluster.clone(),
            })?;
        let user_name = context.user.unwrap_or_default();
        let user = self
            .users
            .into_iter()
            .flatten()
            .find(|entry| entry.name == user_name)
            .map(|entry| entry.user.unwrap_or_default())
            .or_else(|| (rules.own_file && user_name.is_empty()).then(User::default))
            .ok_or_else(|| KubeconfigError::MissingUser { context: name, user: user_name.clone() })?;

        check_plugins(&user, &user_name, rules)?;
        check_files(&cluster, &user, rules)?;
        let endpoint = Endpoint::read(&cluster, &context.cluster, rules)?;
        let (auth_info, expires) = authenticate(user, &user_name, &cluster, rules)?;
        Ok(Target {
            server: endpoint.server,
            proxy: endpoint.proxy,
            authorities: endpoint.authorities,
            insecure: endpoint.insecure,
            tls_server_name: endpoint.tls_server_name,
            disable_compression: cluster.disable_compression.unwrap_or(false),
            namespace: present(context.namespace).unwrap_or_else(|| "default".to_owned()),
            auth_info,
            expires,
            fingerprint,
        })
    }
}

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: 64,
            max_anchors: 64,
            max_depth: 32,
            max_nodes: 100_000,
            max_events: 250_000,
            max_documents: 1,
            max_total_scalar_bytes: 4 * MAX_KUBECONFIG_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000,
            max_replay_stack_depth: 8,
            max_alias_expansions_per_anchor: 64,
        },
    }
}

/// Keeps the position only: the parser's own text quotes the document.
fn refuse(error: &serde_saphyr::Error) -> KubeconfigError {
    use serde_saphyr::Error;
    let line = error.location().map(|location| location.line()).filter(|line| *line > 0);
    let mut inner = error;
    while let Error::WithSnippet { error, .. } | Error::AliasError { error, .. } = inner {
        inner = error;
    }
    match inner {
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => KubeconfigError::TooComplex { line },
        _ => KubeconfigError::Malformed { what: "its YAML does not have the form of one", line },
    }
}

fn present(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn check_plugins(user: &User, name: &str, rules: Rules) -> Result<(), KubeconfigError> {
    if rules.policy.allow_exec {
        return Ok(());
    }
    if user.exec.is_some() {
        return Err(KubeconfigError::ExecPlugin { user: name.to_owned() });
    }
    if user.auth_provider.is_some() {
        return Err(KubeconfigError::AuthProvider { user: name.to_owned() });
    }
    Ok(())
}

fn check_files(cluster: &Cluster, user: &User, rules: Rules) -> Result<(), KubeconfigError> {
    if rules.policy.allow_files {
        return Ok(());
    }
    let fields = [
        ("certificate-authority", &cluster.certificate_authority),
        ("client-certificate", &user.client_certificate),
        ("client-key", &user.client_key),
        ("tokenFile", &user.token_file),
    ];
    match fields.into_iter().find(|(_, value)| value.as_ref().is_some_and(|value| !value.is_empty())) {
        Some((field, _)) => Err(KubeconfigError::FileReference { field }),
        None => Ok(()),
    }
}

/// Where to connect to, and whom to trust there.
struct Endpoint {
    server: http::Uri,
    proxy: Option<http::Uri>,
    authorities: Authorities,
    insecure: bool,
    tls_server_name: Option<String>,
}

impl Endpoint {
    fn read(cluster: &Cluster, name: &str, rules: Rules) -> Result<Self, KubeconfigError> {
        let insecure = cluster.insecure_skip_tls_verify.unwrap_or(false);
        if insecure && !rules.policy.allow_insecure_tls {
            return Err(KubeconfigError::InsecureTls { cluster: name.to_owned() });
        }
        let server = address::server(name, cluster.server.as_deref().unwrap_or_default(), rules.own_file)?;
        let proxy = match cluster.proxy_url.as_deref().filter(|url| !url.trim().is_empty()) {
            Some(url) => Some(address::proxy(name, url, rules.own_file)?),
            None => None,
        };
        let data = cluster.certificate_authority_data.as_deref().filter(|data| !data.is_empty());
        let authorities = match (data, present(cluster.certificate_authority.clone())) {
            (Some(data), _) => {
                Authorities::Inline(certificate::authorities("certificate-authority-data", data)?)
            }
            (None, Some(path)) => Authorities::File(path.into()),
            (None, None) => Authorities::Platform,
        };
        let tls_server_name = present(cluster.tls_server_name.clone());
        if let Some(server_name) = &tls_server_name
            && ServerName::try_from(server_name.as_str()).is_err()
        {
            return Err(KubeconfigError::BadServer {
                cluster: name.to_owned(),
                what: "comes with a tls-server-name that is no host name",
            });
        }
        Ok(Self { server, proxy, authorities, insecure, tls_server_name })
    }
}

type Authenticated = (AuthInfo, Option<jiff::Timestamp>);

fn authenticate(
    user: User,
    name: &str,
    cluster: &Cluster,
    rules: Rules,
) -> Result<Authenticated, KubeconfigError> {
    let inline_certificate = present(user.client_certificate_data);
    let inline_key = present(user.client_key_data);
    let (certificate_file, key_file) = (present(user.client_certificate), present(user.client_key));
    let mut info = AuthInfo::default();
    let mut expires = None;
    if certificate_file.is_some() || key_file.is_some() {
        // The other half may be inline; kube reads and checks both when the client is built.
        info.client_certificate_data = inline_certificate;
        info.client_key_data = inline_key.map(Into::into);
        info.client_certificate = certificate_file;
        info.client_key = key_file;
    } else if let Some(identity) =
        certificate::identity(inline_certificate.as_deref(), inline_key.as_deref())?
    {
        info.client_certificate_data = Some(certificate::encode(&identity.certificate_pem));
        info.client_key_data = Some(certificate::encode(&identity.key_pem).into());
        expires = identity.expires;
    }
    if let Some(token) = present(user.token) {
        header_safe("token", &token)?;
        info.token = Some(token.into());
    }
    if let (Some(username), Some(password)) = (present(user.username), present(user.password)) {
        info.username = Some(username);
        info.password = Some(password.into());
    }
    info.token_file = present(user.token_file);
    info.auth_provider = user.auth_provider;
    info.exec = user.exec;
    if let Some(exec) = &mut info.exec
        && exec.provide_cluster_info
    {
        exec.cluster = ExecAuthCluster::try_from(cluster).ok();
    }
    let nothing = info.client_certificate_data.is_none()
        && info.client_certificate.is_none()
        && info.token.is_none()
        && info.token_file.is_none()
        && info.username.is_none()
        && info.exec.is_none()
        && info.auth_provider.is_none();
    if nothing && !rules.own_file {
        return Err(KubeconfigError::NoCredentials { user: name.to_owned() });
    }
    let act_as =
        ActAs { user: user.impersonate, uid: user.as_uid, groups: user.as_groups, extra: user.as_user_extra };
    act_as.apply(&mut info, name)?;
    Ok((info, expires))
}

struct ActAs {
    user: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
}

impl ActAs {
    /// An empty name would drop the impersonation and act with the user's own, larger rights.
    fn apply(self, info: &mut AuthInfo, name: &str) -> Result<(), KubeconfigError> {
        let bad = |what| Err(KubeconfigError::BadImpersonation { user: name.to_owned(), what });
        let wanted = self.uid.is_some() || self.groups.is_some() || self.extra.is_some();
        let Some(user) = self.user else {
            return if wanted { bad("impersonates groups, a uid or extras without a user") } else { Ok(()) };
        };
        let groups = self.groups.unwrap_or_default();
        if user.trim().is_empty() || groups.iter().any(|group| group.trim().is_empty()) {
            return bad("impersonates an empty identity");
        }
        let values =
            groups.iter().chain(self.uid.iter()).chain(self.extra.iter().flatten().flat_map(|(_, v)| v));
        if std::iter::once(&user).chain(values).any(|value| HeaderValue::from_str(value).is_err()) {
            return bad("impersonates an identity that an HTTP header cannot carry");
        }
        info.impersonate = Some(user);
        info.impersonate_uid = self.uid;
        info.impersonate_groups = Some(groups).filter(|groups| !groups.is_empty());
        info.impersonate_user_extra = self.extra.map(|extra| extra.into_iter().collect::<HashMap<_, _>>());
        Ok(())
    }
}

/// kube panics on a token that no header can carry, so it must never get one.
fn header_safe(field: &'static str, token: &str) -> Result<(), KubeconfigError> {
    if token.chars().any(char::is_whitespace) || HeaderValue::from_str(token).is_err() {
        return Err(KubeconfigError::BadToken { field });
    }
    Ok(())
}
