//! Where the demo plays: control planes of its own, or a cluster that is there already.

use std::{cell::RefCell, path::PathBuf, time::Duration};

use anyhow::Context;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        core::v1::Namespace,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use windlass_testbed::control_plane::{ControlPlane, User};

use super::{NAMESPACE, POLICY_NAME, SHOP, terminal::Reach};

/// See the module's text.
pub(super) struct Stage {
    pub(super) client: Client,
    place: Place,
    /// Definitions that were not there before us.
    installed: RefCell<Vec<String>>,
}

enum Place {
    Own { control_plane: Box<ControlPlane>, kubeconfig: PathBuf, second: Box<ControlPlane> },
    Theirs { context: String, kubeconfig: Box<Kubeconfig> },
}

impl Stage {
    pub(super) async fn open(context: Option<&str>) -> anyhow::Result<Self> {
        let (client, place) = match context {
            None => {
                let start = |name: &str| ControlPlane::builder().name(name).nodes(1).start();
                let (control_plane, second) = tokio::try_join!(start("demo"), start("demo-2"))?;
                let kubeconfig = control_plane.kubeconfig_path(&User::Admin)?;
                let (client, second) = (control_plane.admin(), Box::new(second));
                (client, Place::Own { control_plane: Box::new(control_plane), kubeconfig, second })
            }
            Some(context) => {
                let kubeconfig = Kubeconfig::read().context("cannot read your kubeconfig")?;
                let options =
                    KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
                let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options)
                    .await
                    .with_context(|| format!("your kubeconfig has no usable context {context}"))?;
                let client = Client::try_from(config).context("cannot connect")?;
                (client, Place::Theirs { context: context.to_owned(), kubeconfig: Box::new(kubeconfig) })
            }
        };
        let stage = Self { client, place, installed: RefCell::default() };
        let namespaces: Api<Namespace> = Api::all(stage.client.clone());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
        match namespaces.create(&PostParams::default(), &namespace).await {
            Ok(_) => Ok(stage),
            Err(kube::Error::Api(status)) if status.code == 409 => anyhow::bail!(
                "namespace {NAMESPACE} exists already: another demo runs there, or one was cut short; \
                 when none runs: kubectl delete namespace {NAMESPACE}"
            ),
            Err(error) => Err(error).context("cannot create the demo's namespace"),
        }
    }

    /// Applies definitions; those that were there are left as they are when we clean up.
    pub(super) async fn install(&self, definitions: &[CustomResourceDefinition]) -> anyhow::Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for definition in definitions {
            let name = definition.name_any();
            let was_there = api.get_opt(&name).await?.is_some();
            if was_there && self.is_theirs() {
                continue;
            }
            let params = PatchParams::apply("windlass-demo").force();
            api.patch(&name, &params, &Patch::Apply(definition))
                .await
                .with_context(|| format!("cannot apply {name}"))?;
            self.installed.borrow_mut().push(name.clone());
            let established = kube::runtime::conditions::is_crd_established();
            let wait = kube::runtime::wait::await_condition(api.clone(), &name, established);
            tokio::time::timeout(Duration::from_secs(30), wait)
                .await
                .with_context(|| format!("{name} is not served"))??;
        }
        Ok(())
    }

    /// Whether it is somebody's own cluster, which we leave as we found it.
    pub(super) fn is_theirs(&self) -> bool {
        matches!(self.place, Place::Theirs { .. })
    }

    /// Flags with which the controller finds the cluster.
    pub(super) fn flags(&self) -> Vec<String> {
        match &self.place {
            Place::Own { kubeconfig, .. } => vec![format!("--kubeconfig={}", kubeconfig.display())],
            Place::Theirs { context, .. } => vec![format!("--context={context}")],
        }
    }

    /// A kubeconfig that stands on its own, as somebody would put it into a Secret.
    pub(super) fn foreign_kubeconfig(&self) -> anyhow::Result<String> {
        let config = match &self.place {
            Place::Own { second, .. } => second.kubeconfig(&User::Admin)?,
            Place::Theirs { context, kubeconfig } => {
                let mut config = (**kubeconfig).clone();
                config.current_context = Some(context.clone());
                config
            }
        };
        serde_saphyr::to_string(&config).context("cannot write a kubeconfig")
    }

    /// How kubectl and windlass reach the controller's cluster.
    pub(super) fn reach(&self) -> Reach {
        Reach(self.flags().concat())
    }

    /// How kubectl reaches each cluster. On somebody's own cluster both are the same one.
    pub(super) fn reaches(&self) -> Vec<(&'static str, Reach)> {
        let home = ("demo-home", self.reach());
        match &self.place {
            Place::Own { second, .. } => match second.kubeconfig_path(&User::Admin) {
                Ok(path) => {
                    let second = Reach(format!("--kubeconfig={}", path.display()));
                    vec![home, ("demo-by-kubeconfig", second)]
                }
                Err(_) => vec![home],
            },
            Place::Theirs { .. } => vec![home],
        }
    }

    /// A client for the second cluster.
    pub(super) fn second_client(&self) -> Client {
        match &self.place {
            Place::Own { second, .. } => second.admin(),
            Place::Theirs { .. } => self.client.clone(),
        }
    }

    pub(super) fn kubeconfig_line(&self) -> String {
        match &self.place {
            Place::Own { kubeconfig, .. } => format!("export KUBECONFIG={}", kubeconfig.display()),
            Place::Theirs { context, .. } => format!("kubectl config use-context {context}"),
        }
    }

    /// Removes what the demo made. A control plane of our own goes as a whole.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        if let Place::Own { control_plane, second, .. } = self.place {
            drop((control_plane, second));
            return Ok(());
        }
        let params = DeleteParams::default();
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        for name in [NAMESPACE, SHOP] {
            if let Err(error) = namespaces.delete(name, &params).await {
                eprintln!("namespace {name} is left: {error}");
            }
        }
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.client.clone());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.client.clone());
        let _ = bindings.delete(POLICY_NAME, &params).await;
        let _ = policies.delete(POLICY_NAME, &params).await;
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for name in self.installed.take() {
            definitions.delete(&name, &params).await.with_context(|| format!("{name} is left"))?;
        }
        Ok(())
    }
}
