//! A kubeconfig from what Argo CD keeps about a cluster.

use serde_json::{Map, Value, json};
use windlass_manifest::canonical;

use super::{fields::Fields, report::Report};

/// Text of a kubeconfig for one cluster, from the address and the `config` of an Argo CD cluster Secret. None when it
/// holds no credentials that can be written down.
pub(super) fn from_argocd(name: &str, server: &str, config: Value, report: &mut Report) -> Option<String> {
    let mut config = Fields::of("config", config, report);
    let mut cluster = Map::new();
    cluster.insert("server".to_owned(), server.into());
    let mut user = Map::new();
    if let Some(tls) = config.part("tlsClientConfig", report) {
        tls_of(tls, &mut cluster, &mut user, report);
    }
    for (from, to) in [("bearerToken", "token"), ("username", "username"), ("password", "password")] {
        if let Some(text) = config.text(from, report) {
            user.insert(to.to_owned(), text.into());
        }
    }
    if let Some(proxy) = config.text("proxyUrl", report) {
        cluster.insert("proxy-url".to_owned(), proxy.into());
    }
    config.pass("disableCompression");
    if let Some(exec) = config.part("execProviderConfig", report) {
        user.insert("exec".to_owned(), exec_of(exec, report));
        report.left(
            "config.execProviderConfig",
            "runs a program to get a token; the kubeconfig is refused while it does",
            "Put a token or a client certificate into the kubeconfig, or start the controller with \
             --allow-kubeconfig-exec and the program beside it",
        );
    }
    config.left(
        "awsAuthConfig",
        "gets a token from AWS, which a kubeconfig cannot",
        "Write a kubeconfig with a token of a ServiceAccount into the Secret that the Cluster names",
        report,
    );
    config.finish(report);
    if user.is_empty() {
        return None;
    }
    let text = canonical::encode(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }));
    Some(text)
}

fn tls_of(
    mut tls: Fields,
    cluster: &mut Map<String, Value>,
    user: &mut Map<String, Value>,
    report: &mut Report,
) {
    if tls.flag("insecure", report) == Some(true) {
        cluster.insert("insecure-skip-tls-verify".to_owned(), true.into());
        report.left(
            tls.at("insecure"),
            "switches off the check of the server; the kubeconfig is refused while it does",
            "Put the authority into certificate-authority-data, or start the controller with \
             --allow-kubeconfig-insecure-tls",
        );
    }
    for (from, to) in [("caData", "certificate-authority-data"), ("serverName", "tls-server-name")] {
        if let Some(text) = tls.text(from, report) {
            cluster.insert(to.to_owned(), text.into());
        }
    }
    for (from, to) in [("certData", "client-certificate-data"), ("keyData", "client-key-data")] {
        if let Some(text) = tls.text(from, report) {
            user.insert(to.to_owned(), text.into());
        }
    }
    for file in ["caFile", "certFile", "keyFile"] {
        tls.left(
            file,
            "names a file beside Argo CD",
            "Put the content of the file into the kubeconfig",
            report,
        );
    }
    tls.finish(report);
}

fn exec_of(mut exec: Fields, report: &mut Report) -> Value {
    let env: Vec<Value> = exec
        .pairs("env", report)
        .into_iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let api = exec.text("apiVersion", report);
    let value = json!({
        "apiVersion": api.unwrap_or_else(|| "client.authentication.k8s.io/v1".to_owned()),
        "command": exec.text("command", report).unwrap_or_default(),
        "args": exec.texts("args", report),
        "env": env,
        "interactiveMode": "Never",
    });
    exec.pass("installHint");
    exec.finish(report);
    value
}
