//! The demo of Applications: a small shop in a repository, delivered to two clusters.
//!
//! ```text
//!   examples/shop ─► git server ─► three Applications ─► two clusters
//!                       commit ─► hook ─► applied      drift ─► healed      policy ─► held back whole      undo
//! ```

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use tokio::time::Instant;
use windlass_testbed::git::GitServer;

use super::{
    NAMESPACE, POLICY_NAME as POLICY, SHOP, hook,
    product::{HOOK_SECRET, Product},
    stage::Stage,
    step,
    terminal::Terminal,
};

/// Longest that anything of the demo may take.
const PATIENCE: Duration = Duration::from_secs(90);

struct Shop<'a> {
    stage: &'a Stage,
    product: &'a Product,
    terminal: Terminal,
    url: String,
    clusters: Vec<Client>,
}

/// Plays it. The git server has to live as long as the controller follows it.
pub(super) async fn play(
    stage: &Stage,
    product: &Product,
    windlass: &Path,
    server: &GitServer,
) -> anyhow::Result<()> {
    let repo = server.repo_from_folder("shop", &examples().join("shop"))?;
    let terminal = Terminal::new(windlass, server.git().clone())?;
    let clusters = vec![stage.client.clone(), stage.second_client()];
    let shop = Shop { stage, product, terminal, url: repo.url(), clusters };
    shop.deliver().await?;
    shop.commit().await?;
    shop.drift().await?;
    shop.refused().await?;
    shop.undo().await
}

/// The examples of the checkout that this program was built from.
pub(super) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

impl Shop<'_> {
    /// Takes an example over with the names of the demo.
    fn example(&self, folder: &str, name: &str) -> anyhow::Result<()> {
        let path = examples().join(folder).join(name);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = text
            .replace("https://git.example/shop.git", &self.url)
            .replace("namespace: shop", &format!("namespace: {SHOP}"))
            .replace("metadata.name: shop", &format!("metadata.name: {SHOP}"))
            .replace("no-latest", POLICY);
        self.terminal.write(&format!("{folder}/{name}"), &text)
    }

    async fn deliver(&self) -> anyhow::Result<()> {
        step("a shop in a repository, one Application each for plain files, a kustomization and a chart");
        for name in ["settings.yaml", "web.yaml", "api.yaml"] {
            self.example("applications", name)?;
        }
        println!("\n# examples/applications/web.yaml");
        print!("{}", std::fs::read_to_string(self.terminal.folder().join("applications/web.yaml"))?);
        let hub = self.stage.reach();
        self.terminal.kubectl(&hub, &["apply", "-n", NAMESPACE, "-f", "applications"]).await?;
        for name in ["settings", "web", "api"] {
            self.until(name, "Healthy", |status| status["phase"] == "Healthy").await?;
        }
        self.terminal.windlass(&hub, &["get", "apps", "-n", NAMESPACE]).await?;
        for (cluster, reach) in self.stage.reaches() {
            println!("\n# on {cluster}");
            self.terminal.kubectl(&reach, &["get", "deployments,configmaps", "-n", SHOP]).await?;
        }
        Ok(())
    }

    async fn commit(&self) -> anyhow::Result<()> {
        step("a commit arrives, because the Git server's hook tells of it");
        self.terminal.git(&["clone", "--quiet", &self.url, "shop"]).await?;
        self.terminal.edit("shop/web/prod/kustomization.yaml", "count: 2", "count: 3")?;
        let told = self.push("Three of the web server").await?;
        self.everywhere("web has 3 replicas", |web| replicas(web) == Some(3)).await?;
        println!("# on both clusters {} ms after the hook", told.elapsed().as_millis());
        self.until("web", "Healthy", |status| status["phase"] == "Healthy").await.map(drop)
    }

    /// Commits, pushes, and tells the controller as a Git server would. Gives the time of that.
    async fn push(&self, message: &str) -> anyhow::Result<Instant> {
        self.terminal.git(&["-C", "shop", "add", "--all"]).await?;
        self.terminal.git(&["-C", "shop", "commit", "--quiet", "-m", message]).await?;
        self.terminal.git(&["-C", "shop", "push", "--quiet"]).await?;
        let told = Instant::now();
        let body = format!(r#"{{"url":"{}","branch":"main"}}"#, self.url);
        hook::push(self.product.hooks(), HOOK_SECRET, &body).await?;
        Ok(told)
    }

    async fn drift(&self) -> anyhow::Result<()> {
        step("somebody scales by hand: it is taken back");
        let hub = self.stage.reach();
        self.terminal.kubectl(&hub, &["scale", "deployment", "web", "--replicas=7", "-n", SHOP]).await?;
        let scaled = Instant::now();
        self.everywhere("web is back at 3 replicas", |web| replicas(web) == Some(3)).await?;
        println!("# healed {} ms after", scaled.elapsed().as_millis());
        self.terminal.kubectl(&hub, &["get", "deployment", "web", "-n", SHOP]).await?;
        Ok(())
    }

    async fn refused(&self) -> anyhow::Result<()> {
        step("a change that a policy of the clusters refuses is held back whole");
        self.example("policies", "no-latest.yaml")?;
        for (_, reach) in self.stage.reaches() {
            self.terminal.kubectl(&reach, &["apply", "-f", "policies/no-latest.yaml"]).await?;
            self.in_force(&reach).await?;
        }
        self.terminal.edit("shop/web/prod/kustomization.yaml", "newTag: \"1.28\"", "newTag: latest")?;
        let extra = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: banner}\ndata: {text: Sale}\n";
        self.terminal.write("shop/web/prod/banner.yaml", extra)?;
        self.terminal.edit("shop/web/prod/kustomization.yaml", "- ../base", "- ../base\n  - banner.yaml")?;
        println!("\n# before it is pushed one can know: what this checkout would do, on every cluster");
        let hub = self.stage.reach();
        let args =
            ["diff", "app", "web", "--path=shop", "-n", NAMESPACE, "--controller-namespace", NAMESPACE];
        let told = self.terminal.windlass(&hub, &args).await?;
        if !told.contains(POLICY) || !told.contains("banner") {
            bail!("windlass diff does not foresee the refusal");
        }
        self.push("The newest web server, and a banner").await?;
        let held = |status: &Value| status["violations"].as_array().is_some_and(|all| !all.is_empty());
        let status = self.until("web", "held back", held).await?;
        let violation = &status["violations"][0];
        if !violation["policy"].as_str().is_some_and(|policy| policy.contains(POLICY)) {
            bail!("another policy than {POLICY} refused: {violation}");
        }
        self.terminal.windlass(&hub, &["why", "web", "-n", NAMESPACE]).await?;
        for client in &self.clusters {
            let banners: Api<ConfigMap> = Api::namespaced(client.clone(), SHOP);
            if banners.get_opt("banner").await?.is_some() {
                bail!("the banner of a change that was refused is there");
            }
        }
        self.everywhere("web keeps its image", |web| image(web) == Some("nginx:1.28")).await?;
        println!("\n# nothing of it was applied: no banner, and the image is the one before");
        self.terminal.kubectl(&hub, &["get", "deployment,configmap", "-o", "name", "-n", SHOP]).await?;
        Ok(())
    }

    /// A policy counts some moments after it was made.
    async fn in_force(&self, reach: &super::terminal::Reach) -> anyhow::Result<()> {
        let begin = Instant::now();
        let image = ["-n", SHOP, "set", "image", "deployment/web", "web=nginx:latest", "--dry-run=server"];
        while self.terminal.ask(reach, &image).await?.0 {
            if begin.elapsed() > PATIENCE {
                bail!("the API server does not enforce {POLICY}");
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        Ok(())
    }

    async fn undo(&self) -> anyhow::Result<()> {
        step("undo: back to where the branch was, until it moves past the bad commit");
        let hub = self.stage.reach();
        self.terminal
            .windlass(&hub, &["undo", "web", "--reason", "the policy is right", "-n", NAMESPACE])
            .await?;
        let back = |status: &Value| status["phase"] == "Healthy" && status["pin"]["excludes"].is_string();
        self.until("web", "Healthy again by the pin", back).await?;
        self.terminal.windlass(&hub, &["get", "apps", "-n", NAMESPACE]).await?;
        self.terminal.windlass(&hub, &["history", "web", "-n", NAMESPACE]).await?;
        println!();
        self.terminal.edit("shop/web/prod/kustomization.yaml", "newTag: latest", "newTag: \"1.29\"")?;
        self.push("A web server with a name").await?;
        self.everywhere("web has its new image", |web| image(web) == Some("nginx:1.29")).await?;
        let over = |status: &Value| status["phase"] == "Healthy" && status["pin"].is_null();
        self.until("web", "Healthy without the pin", over).await?;
        self.terminal.windlass(&hub, &["get", "apps", "-n", NAMESPACE]).await?;
        Ok(())
    }

    /// Waits until an Application's status is so, for its newest spec.
    async fn until(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("windlass.dev", "v1alpha1", "Application"));
        let api: Api<DynamicObject> = Api::namespaced_with(self.stage.client.clone(), NAMESPACE, &kind);
        let begin = Instant::now();
        loop {
            let object = api.get(name).await?;
            let status = &object.data["status"];
            if status["observedGeneration"].as_i64() == object.metadata.generation && is_so(status) {
                return Ok(status.clone());
            }
            if begin.elapsed() > PATIENCE {
                bail!("{name} is not {what}: {}", status["conditions"]);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the web server of every cluster is so.
    async fn everywhere(&self, what: &str, is_so: impl Fn(&Deployment) -> bool) -> anyhow::Result<()> {
        let begin = Instant::now();
        for client in &self.clusters {
            let api: Api<Deployment> = Api::namespaced(client.clone(), SHOP);
            while !is_so(&api.get("web").await?) {
                if begin.elapsed() > PATIENCE {
                    bail!("not seen: {what}; the controller's log ends with:\n{}", self.product.log_tail());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }
}

fn replicas(web: &Deployment) -> Option<i32> {
    web.spec.as_ref()?.replicas
}

fn image(web: &Deployment) -> Option<&str> {
    web.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.as_deref()
}
