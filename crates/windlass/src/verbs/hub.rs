//! What all verbs that talk to the hub share: how to reach it, and how to say what went wrong there.

use std::{future::Future, path::PathBuf, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{authentication::v1::SelfSubjectReview, events::v1::Event};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_api::{Application, ApplicationStatus, Cluster, GROUP};
use windlass_cluster::connect::{self, HubOptions, Limits};

use crate::{error::CommandError, suggest};

/// Field manager of what verbs write.
pub(crate) const MANAGER: &str = "windlass-cli";

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How to reach the hub: as kubectl reaches a cluster.
#[derive(clap::Args, Debug)]
pub(crate) struct HubArgs {
    /// Kubeconfig of the cluster with Windlass' objects [default: KUBECONFIG, the pod's service account,
    /// ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Namespace of the Application or Rollout [default: the context's]
    #[arg(long, short, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// A connection to the hub.
#[derive(Clone)]
pub(crate) struct Hub {
    /// Its client.
    pub(crate) client: Client,
    /// The namespace that is meant.
    pub(crate) namespace: String,
}

impl HubArgs {
    /// Connects, and does the work of a verb.
    pub(crate) fn run<F>(&self, work: impl FnOnce(Hub) -> F) -> Result<(), CommandError>
    where
        F: Future<Output = Result<(), CommandError>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CommandError::failure("cannot start the runtime").because(error))?;
        runtime.block_on(async { work(self.connect().await?).await })
    }

    async fn connect(&self) -> Result<Hub, CommandError> {
        let options = HubOptions {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            namespace: self.namespace.clone(),
            limits: Limits { read_timeout: PATIENCE, ..Limits::default() },
            metrics: None,
        };
        let client = connect::hub(&options).await.map_err(|error| {
            let remedy = error.remedy();
            CommandError::failure("cannot connect to the cluster with Windlass' objects")
                .because(error)
                .hint(remedy)
        })?;
        let namespace = client.default_namespace().to_owned();
        Ok(Hub { client, namespace })
    }
}

impl Hub {
    /// Applications of the namespace that is meant.
    pub(crate) fn applications(&self) -> Api<Application> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Clusters.
    pub(crate) fn clusters(&self) -> Api<Cluster> {
        Api::all(self.client.clone())
    }

    /// One Application. A name that is not there gets the one that was meant.
    pub(crate) async fn application(&self, name: &str) -> Result<Application, CommandError> {
        find(&self.applications(), "Application", name, Some(&self.namespace)).await
    }

    /// One Cluster.
    pub(crate) async fn cluster(&self, name: &str) -> Result<Cluster, CommandError> {
        find(&self.clusters(), "Cluster", name, None).await
    }

    /// Sets an annotation, or takes it away. Only that: nobody else's change is undone.
    pub(crate) async fn annotate(
        &self,
        app: &Application,
        key: &str,
        value: Option<&str>,
    ) -> Result<Application, CommandError> {
        // With the UID: an Application that was deleted and made anew meanwhile is another one.
        let patch = json!({ "metadata": { "uid": app.metadata.uid, "annotations": { key: value } } });
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        self.applications()
            .patch(&app.name_any(), &params, &Patch::Merge(&patch))
            .await
            .map_err(|error| failed(&format!("cannot change Application {}", title(app)), error))
    }

    /// Who the API server takes the user for.
    pub(crate) async fn user(&self) -> String {
        let api: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let review = api.create(&PostParams::default(), &SelfSubjectReview::default()).await.ok();
        let info = review.and_then(|review| review.status).and_then(|status| status.user_info);
        info.and_then(|info| info.username).unwrap_or_else(|| "somebody unknown".to_owned())
    }

    /// The Events about an object. Events are told on top of the rest: without the right to read them there are none.
    pub(crate) async fn events<K: Resource<DynamicType = ()>>(&self, object: &K) -> Vec<Event> {
        let Some(uid) = object.meta().uid.as_deref() else { return Vec::new() };
        // Those about objects without a namespace are in `default`.
        let namespace = object.meta().namespace.as_deref().unwrap_or("default");
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().fields(&format!("regarding.uid={uid}"));
        api.list(&params).await.map(|list| list.items).unwrap_or_default()
    }
}

/// One object of a kind. A name that is not there gets the one that was meant.
pub(crate) async fn find<K>(
    api: &Api<K>,
    kind: &str,
    name: &str,
    namespace: Option<&str>,
) -> Result<K, CommandError>
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let place = namespace.map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    let what = format!("cannot read {kind} {name}{place}");
    match api.get(name).await {
        Ok(found) => Ok(found),
        Err(error) if is_missing(&error) => {
            let others =
                api.list_metadata(&ListParams::default()).await.map_err(|error| failed(&what, error))?;
            let names: Vec<String> = others.items.iter().map(ResourceExt::name_any).collect();
            Err(not_found(kind, name, &place, &names))
        }
        Err(error) => Err(failed(&what, error)),
    }
}

fn not_found(kind: &str, name: &str, place: &str, names: &[String]) -> CommandError {
    let error = CommandError::failure(format!("there is no {kind} {name}{place}"));
    if let Some(meant) = suggest::nearest(name, names.iter().map(String::as_str)) {
        return error.hint(format!("Did you mean `{meant}`?"));
    }
    if names.is_empty() {
        let where_else = if place.is_empty() { "" } else { " Another namespace is named with -n." };
        return error.hint(format!(
            "There is none at all{}.{where_else}",
            if place.is_empty() { "" } else { " there" }
        ));
    }
    let shown: Vec<&str> = names.iter().take(10).map(String::as_str).collect();
    let more = if names.len() > shown.len() { ", …" } else { "" };
    error.hint(format!("There are: {}{more}", shown.join(", ")))
}

fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// A request that failed, with what can be done about it.
pub(crate) fn failed(what: &str, error: kube::Error) -> CommandError {
    let hint = match &error {
        kube::Error::Api(status) if status.code == 404 => Some(format!(
            "The kinds of {GROUP} are not installed on this cluster; install them with: windlass crds | kubectl apply \
             --server-side -f -"
        )),
        kube::Error::Api(status) if status.code == 403 => {
            Some("Ask for the right, or use another account: --context, --kubeconfig.".to_owned())
        }
        kube::Error::Api(status) if status.code == 401 => Some("Log in to the cluster anew.".to_owned()),
        kube::Error::Api(_) => None,
        _ => Some("Check that the API server can be reached: kubectl cluster-info".to_owned()),
    };
    let failure = CommandError::failure(what).because(error);
    hint.into_iter().fold(failure, CommandError::hint)
}

/// `shop/web`
pub(crate) fn title(app: &Application) -> String {
    format!("{}/{}", app.namespace().unwrap_or_default(), app.name_any())
}

/// The status, or an empty one.
pub(crate) fn status(app: &Application) -> ApplicationStatus {
    app.status.clone().unwrap_or_default()
}

/// The time of this moment, in whole seconds.
pub(crate) fn now() -> Timestamp {
    windlass_api::condition::whole_seconds(Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Paint;

    #[test]
    fn a_name_that_is_not_there_gets_the_one_that_was_meant() {
        let names = ["shop".to_owned(), "blog".to_owned()];
        let told = |name: &str, names: &[String]| {
            not_found("Application", name, " in namespace apps", names).render(Paint::plain())
        };
        insta::assert_snapshot!(told("shpo", &names), @r"
        error: there is no Application shpo in namespace apps
        hint: Did you mean `shop`?
        ");
        insta::assert_snapshot!(told("database", &names), @r"
        error: there is no Application database in namespace apps
        hint: There are: shop, blog
        ");
        insta::assert_snapshot!(told("shop", &[]), @r"
        error: there is no Application shop in namespace apps
        hint: There is none at all there. Another namespace is named with -n.
        ");
    }
}
