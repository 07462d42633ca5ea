//! Bench of the loop that runs every controller, on a real control plane with 5,000 Cluster-like objects.
//!
//! Measured: rounds a second and CPU for one when nothing has changed, bytes held per object, and what the whole
//! `windlass controller` costs when it idles. Prints a table and writes JSON; never fails because of a figure.

mod idle;
mod rounds;

use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use kube::{Api, Client, CustomResourceExt, ResourceExt, api::PostParams};
use windlass_api::Cluster;
use windlass_testbed::{control_plane::ControlPlane, measure::Report};

/// How many objects there are.
const OBJECTS: usize = 5_000;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let control_plane = ControlPlane::start().await?;
    install(&control_plane.admin()).await?;
    let mut report = Report::new("drive");

    idle::measure(&control_plane, &mut report, "empty").await?;
    eprintln!("making {OBJECTS} objects");
    populate(&control_plane.admin()).await?;
    rounds::measure(&control_plane.admin(), &mut report).await?;
    idle::measure(&control_plane, &mut report, "with 5,000 suspended Clusters").await?;

    let path = report.publish()?;
    println!("{}", report.table());
    println!("JSON: {}", path.display());
    Ok(())
}

async fn install(client: &Client) -> anyhow::Result<()> {
    let api = Api::all(client.clone());
    let definition = Cluster::crd();
    api.create(&PostParams::default(), &definition).await.context("cannot create the CRD")?;
    let established = kube::runtime::conditions::is_crd_established();
    let name = definition.name_any();
    let wait = kube::runtime::wait::await_condition(api, &name, established);
    tokio::time::timeout(Duration::from_secs(30), wait).await.context("the CRD is not served")??;
    Ok(())
}

/// Makes the objects: suspended Clusters with labels as a fleet has them.
async fn populate(client: &Client) -> anyhow::Result<()> {
    let api: Api<Cluster> = Api::all(client.clone());
    let made = futures::stream::iter(0..OBJECTS).map(|n| {
        let api = api.clone();
        async move {
            let cluster: Cluster = serde_json::from_value(serde_json::json!({
                "apiVersion": "windlass.dev/v1alpha1", "kind": "Cluster",
                "metadata": {
                    "name": format!("fleet-{n:05}"),
                    "labels": { "env": "production", "region": format!("eu-{}", n % 7), "tier": "edge" },
                },
                "spec": {
                    "kubeconfig": { "secretRef": { "name": format!("fleet-{n:05}-kubeconfig"), "namespace": "fleet" } },
                    "qps": 50, "suspend": true, "probe": { "interval": "30s", "timeout": "10s" },
                },
            }))?;
            api.create(&PostParams::default(), &cluster).await.context("cannot create a Cluster")
        }
    });
    let mut made = made.buffer_unordered(16);
    while let Some(result) = made.next().await {
        result?;
    }
    Ok(())
}
