//! Objects that somebody else made become ours without a restart.

use std::{collections::BTreeSet, process::Command};

use serde_json::{Value, json};
use windlass_deliver::{fleet::State, gate::Ruling, object::Sealed, tracking};
use windlass_testbed::{
    control_plane::User,
    tools::{self, Tool},
};

use super::house::{House, eventually};

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "app", "image": "registry.example.org/app:1",
                "resources": {"requests": {"cpu": "1000m"}}, "ports": [{"containerPort": 80}]}]}}}
    })
}

/// With what a tool leaves behind on the object and on its pods.
fn with_traces(name: &str, labels: &Value, annotations: &Value) -> Value {
    let mut object = deployment(name);
    for (key, value) in labels.as_object().unwrap() {
        object["metadata"]["labels"][key] = value.clone();
    }
    object["metadata"]["annotations"] = annotations.clone();
    object
}

async fn kubectl_applies(house: &House, object: &Value) {
    let kubeconfig = house.control_plane.kubeconfig_path(&User::Admin).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.to_string()).unwrap();
    let kubectl = tools::path(Tool::Kubectl).unwrap();
    let mut command = Command::new(kubectl);
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["-n", &house.namespace, "apply", "-f"])
        .arg(file.path());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn what_kubectl_helm_argo_cd_and_flux_made_is_adopted_without_restarting_a_pod() {
    let house = House::new("adoption").await;
    kubectl_applies(&house, &deployment("kubectl")).await;
    let helm = with_traces(
        "helm",
        &json!({"app.kubernetes.io/managed-by": "Helm"}),
        &json!({"meta.helm.sh/release-name": "helm", "meta.helm.sh/release-namespace": "n"}),
    );
    house.somebody_makes(&helm, "helm", false).await;
    let argo = with_traces(
        "argo",
        &json!({"app.kubernetes.io/instance": "argo"}),
        &json!({"argocd.argoproj.io/tracking-id": "argo:apps/Deployment:n/argo"}),
    );
    house.somebody_makes(&argo, "argocd-controller", false).await;
    let flux = with_traces(
        "flux",
        &json!({"kustomize.toolkit.fluxcd.io/name": "flux", "kustomize.toolkit.fluxcd.io/namespace": "n"}),
        &json!({}),
    );
    house.somebody_makes(&flux, "kustomize-controller", true).await;

    let names = ["kubectl", "helm", "argo", "flux"];
    let wanted = house.wanted(&names.map(deployment)).await;
    let before = settled(&house, &wanted).await;

    let found = house.survey(&wanted).await;
    for found in &found {
        let State::Differs(differences) = &found.state else { panic!("{found:?}") };
        // Nothing but the marks.
        assert_eq!(differences.len(), 2, "{differences:?}");
        assert_eq!(found.verdict.as_ref().unwrap().ruling, Ruling::Pass);
        assert_eq!(found.live.as_ref().unwrap().owner, None);
    }
    house.apply(&wanted).await;

    let after = settled(&house, &wanted).await;
    for (before, after) in before.deployments.iter().zip(&after.deployments) {
        assert_eq!(tracking::owner(after), Some(house.app.to_string().as_str()));
        assert_eq!(after["spec"], before["spec"]);
        for (name, value) in before["metadata"]["labels"].as_object().unwrap() {
            assert_eq!(&after["metadata"]["labels"][name], value, "what others set stays");
        }
    }
    assert_eq!(after.pods, before.pods, "no pod was made anew");
    assert_eq!(after.replica_sets, before.replica_sets, "no pod template changed");
    for found in house.survey(&wanted).await {
        assert_eq!(found.state, State::Same, "{:?}", found.wanted);
    }
}

/// What runs, once all Deployments have seen to it.
struct Running {
    deployments: Vec<Value>,
    replica_sets: BTreeSet<String>,
    pods: BTreeSet<String>,
}

/// A new annotation alone moves the generation of a Deployment, so only what becomes of it tells whether pods restart.
async fn settled(house: &House, wanted: &[Sealed]) -> Running {
    let mut deployments = Vec::new();
    for sealed in wanted {
        let live = eventually("the Deployment's controller", async || {
            let live = house.live(sealed.id()).await?;
            let seen = live["status"]["observedGeneration"] == live["metadata"]["generation"];
            (seen && live["status"]["replicas"] == 1).then_some(live)
        });
        deployments.push(live.await);
    }
    let pods = eventually("one pod each", async || {
        let pods = uids(house, "v1", "Pod").await;
        (pods.len() == wanted.len()).then_some(pods)
    });
    let pods = pods.await;
    Running { deployments, replica_sets: uids(house, "apps/v1", "ReplicaSet").await, pods }
}

async fn uids(house: &House, api_version: &str, kind: &str) -> BTreeSet<String> {
    let any = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "any"}});
    let list = house.api(&house.id(&any)).list(&kube::api::ListParams::default()).await.unwrap();
    list.items.into_iter().map(|object| object.metadata.uid.unwrap()).collect()
}
