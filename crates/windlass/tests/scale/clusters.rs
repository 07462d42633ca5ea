//! A hundred kubeconfigs, one of them dead.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::json;
use windlass_api::{
    Application,
    application::status::{ApplicationStatus, SyncWord},
};
use windlass_testbed::{
    control_plane::{ControlPlane, User, kubeconfig_yaml},
    git::GitServer,
    process::Port,
};

use crate::{
    house::config_map,
    support::{
        controller::{Replica, Start},
        eventually,
        fleet::{Fleet, install_crds},
    },
};

const CLUSTERS: usize = 100;
const OBJECTS: usize = 20;

/// An Application may name 64 destinations.
const BY_APPLICATION: usize = 50;

/// Generous: the machine may be busy with other tests.
const LIMIT: Duration = Duration::from_mins(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_clusters_a_dead_one_keeps_no_other_from_being_in_sync() {
    let hub = ControlPlane::shared().await.unwrap();
    let far = ControlPlane::start().await.unwrap();
    let namespace = hub.namespace("scale").await.unwrap();
    install_crds(&hub.admin()).await;
    let fleet = Fleet { client: hub.admin(), namespace: namespace.name().to_owned() };
    let prefix = namespace.name();
    register(&fleet, [hub, &far], prefix).await;
    let server = GitServer::start().await.unwrap();
    let repo = server.empty_repo("fleet").unwrap();
    let mut commit = repo.commit("everything");
    for n in 0..OBJECTS {
        let object = format!("object-{n:02}");
        commit = commit.file(&format!("all/{object}.yaml"), config_map(&object, "one"));
    }
    commit.write().unwrap();
    let work = tempfile::tempdir().unwrap();
    let replica = Replica::start(Start {
        kubeconfig: &hub.kubeconfig_path(&User::Admin).unwrap(),
        namespace: prefix,
        identity: "scale",
        args: vec![format!("--work-dir={}", work.path().display()), "--log-level=warn".to_owned()],
    });
    replica.ready().await;
    let api: Api<Application> = Api::namespaced(hub.admin(), prefix);
    for n in 0..CLUSTERS / BY_APPLICATION {
        let range = n * BY_APPLICATION..(n + 1) * BY_APPLICATION;
        let destinations: Vec<_> = range
            .map(|n| cluster(prefix, n))
            .map(|name| json!({ "cluster": name, "namespace": name }))
            .collect();
        let app = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Application",
            "metadata": { "name": format!("fleet-{n}") },
            "spec": { "source": { "repoURL": repo.url(), "path": "all" }, "destinations": destinations },
        });
        api.create(&PostParams::default(), &serde_json::from_value(app).unwrap()).await.unwrap();
    }
    let dead = cluster(prefix, 0);
    eventually("all clusters but the dead one are in sync", LIMIT, || async {
        let all = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let statuses: Vec<ApplicationStatus> = all.into_iter().filter_map(|app| app.status).collect();
        let lines = statuses.iter().flat_map(|status| &status.clusters);
        let good = lines.filter(|line| line.sync == SyncWord::Synced && line.name != dead).count();
        if good == CLUSTERS - 1 { Ok(()) } else { Err(format!("{good} are: {}", replica.child.log_tail(5))) }
    })
    .await;
    // The dead one is told of, and of the others every object is there.
    let all = api.list(&ListParams::default()).await.unwrap();
    let lines: Vec<_> =
        all.iter().filter_map(|app| app.status.as_ref()).flat_map(|one| &one.clusters).collect();
    let line = lines.iter().find(|line| line.name == dead).unwrap();
    assert!(line.sync != SyncWord::Synced && line.message.is_some(), "{line:?}");
    for n in [1, 50, CLUSTERS - 1] {
        let plane = if n % 2 == 0 { hub } else { &far };
        let maps: Api<ConfigMap> = Api::namespaced(plane.admin(), &cluster(prefix, n));
        let there = maps.list(&ListParams::default().labels("windlass.dev/application")).await.unwrap();
        assert_eq!(there.items.len(), OBJECTS, "{n}");
    }
    drop(replica);
    fleet.wipe().await;
}

fn cluster(prefix: &str, n: usize) -> String {
    format!("{prefix}-{n:03}")
}

/// Clusters that are namespaces of two control planes; the first leads nowhere.
async fn register(fleet: &Fleet, planes: [&ControlPlane; 2], prefix: &str) {
    let nowhere = Port::free().unwrap();
    let all = futures::stream::iter(0..CLUSTERS).map(|n| {
        let (plane, nowhere) = (planes[n % 2], &nowhere);
        async move {
            let mut kubeconfig = plane.kubeconfig(&User::Admin).unwrap();
            if n == 0 {
                for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
                    cluster.server = Some(format!("https://127.0.0.1:{}", nowhere.number()));
                }
            }
            let name = cluster(prefix, n);
            let namespaces: Api<Namespace> = Api::all(plane.admin());
            let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
            namespaces.create(&PostParams::default(), &namespace).await.unwrap();
            fleet.register(&name, &kubeconfig_yaml(&kubeconfig).unwrap()).await;
        }
    });
    all.buffer_unordered(8).collect::<Vec<()>>().await;
}
