//! Simulated nodes: kwok plays their kubelets by stages of our own.
//!
//! What a pod does is chosen by its label [`POD_LABEL`] (see [`Behavior`]) and tuned by annotations. Without a label a
//! pod becomes ready at once, and one that runs to completion (`restartPolicy` other than `Always`) succeeds.
//!
//! ```text
//!             ready, job-*            restartPolicy ≠ Always
//!   Pending ──────────────► Running, ready ──────────────► Succeeded  (job-fails: Failed with exit code and message)
//!      │                         ▲
//!      │ slow, never-ready       │ slow: after READY_AFTER
//!      ├──────────────► Running, not ready
//!      │ crash-loop
//!      └──────────────► Running ⇄ CrashLoopBackOff, restartCount + 1
//! ```

mod stages;
mod template;

use anyhow::Context;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

pub(crate) use stages::kwok_config;

/// The label on nodes that kwok manages.
pub const NODE_LABEL: &str = "testbed.windlass.dev/node";
/// Selects the nodes that kwok manages.
pub(crate) const NODE_SELECTOR: &str = "testbed.windlass.dev/node=simulated";

/// The label on a pod that chooses its [`Behavior`].
pub const POD_LABEL: &str = "testbed.windlass.dev/pod";
/// Annotation of a pod: how long until it is ready, such as `5s`. Implies [`Behavior::Slow`].
pub const READY_AFTER: &str = "testbed.windlass.dev/ready-after";
/// Annotation of a pod: how long until it succeeds or fails, such as `2s`.
pub const FINISH_AFTER: &str = "testbed.windlass.dev/finish-after";
/// Annotation of a pod: the exit code when it fails or crashes; 1 unless set.
pub const EXIT_CODE: &str = "testbed.windlass.dev/exit-code";
/// Annotation of a pod: the termination message when it fails or crashes.
pub const MESSAGE: &str = "testbed.windlass.dev/message";

/// What a simulated pod does; the value of its label [`POD_LABEL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behavior {
    /// Ready at once.
    Ready,
    /// Running at once, ready after [`READY_AFTER`] (5 s unless set).
    Slow,
    /// Running, and never ready.
    NeverReady,
    /// Crashes again and again.
    CrashLoop,
    /// Ends with [`EXIT_CODE`] and [`MESSAGE`]. Where `restartPolicy` is not `Never` this is a crash loop.
    JobFails,
    /// Runs without end.
    JobHangs,
}

impl Behavior {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Ready, Self::Slow, Self::NeverReady, Self::CrashLoop, Self::JobFails, Self::JobHangs];

    /// The label value.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Slow => "slow",
            Self::NeverReady => "never-ready",
            Self::CrashLoop => "crash-loop",
            Self::JobFails => "job-fails",
            Self::JobHangs => "job-hangs",
        }
    }
}

/// Creates the nodes `node-1` to `node-<count>` as far as they do not exist.
pub async fn create(client: &Client, count: usize) -> anyhow::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    for number in 1..=count {
        let name = format!("node-{number}");
        match api.create(&PostParams::default(), &node(&name)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error).with_context(|| format!("cannot create node {name}")),
        }
    }
    Ok(())
}

/// The names of nodes that are ready.
pub async fn ready(client: &Client) -> anyhow::Result<Vec<String>> {
    let api: Api<Node> = Api::all(client.clone());
    let nodes = api.list(&kube::api::ListParams::default()).await.context("cannot list nodes")?;
    Ok(nodes.items.into_iter().filter(is_ready).filter_map(|node| node.metadata.name).collect())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    // The scheduler passes over a ready node until the controller manager has taken the taint of new nodes away.
    let tainted =
        node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).is_some_and(|taints| !taints.is_empty());
    !tainted && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn node(name: &str) -> Node {
    let labels = [
        (NODE_LABEL, "simulated"),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ];
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    }
}
