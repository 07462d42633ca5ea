//! Certificates and webhooks with a real kube-apiserver.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::response::Response;
use common::{PATIENCE, Running, TlsClient, loopback, start};
use futures::future::join_all;
use http::HeaderValue;
use http::header::CONNECTION;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use windlass_cluster::clock::Clock;
use windlass_server::admission::{DenyReason, Request, Verdict, Webhooks};
use windlass_server::certificates::{
    CertificateAction, CertificateError, CertificateSpec, Checked, Endpoint, Keeper, KeeperConfig, Material,
    ServingCertificate, WebhookConfiguration,
};
use windlass_server::listener::{Limits, Server};
use windlass_server::metrics::Metrics;
use windlass_server::readiness::Readiness;
use windlass_testbed::control_plane::{ControlPlane, Namespace, User};

/// A namespace, a listener in it so to speak, and a configuration for it. The configuration goes with the test.
struct Scene {
    client: Client,
    namespace: Namespace,
    server: Running,
    configurations: Api<ValidatingWebhookConfiguration>,
}

fn by_name(request: &Request) -> Verdict {
    match request.name.as_str() {
        "bad" => {
            Verdict::Deny { message: "the name is bad; choose another".into(), reason: DenyReason::Invalid }
        }
        "old" => Verdict::Warn(vec!["the name is old".into()]),
        _ => Verdict::Allow,
    }
}

/// The API server shall look at the certificate for each request, and not only for the first of many.
async fn hang_up(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

impl Scene {
    async fn new(prefix: &str, serving: Arc<ServingCertificate>) -> Self {
        let control_plane = ControlPlane::shared().await.unwrap();
        let namespace = control_plane.namespace(prefix).await.unwrap();
        let client = control_plane.admin();
        let routes = Webhooks::new(&Metrics::new()).with("names", by_name).routes();
        let server = Server::bind("webhooks", loopback(), Limits::webhooks()).await.unwrap();
        let server =
            server.with_tls(serving).unwrap().merge(routes.layer(axum::middleware::map_response(hang_up)));
        let configurations = Api::all(client.clone());
        Self { client, namespace, server: start(server), configurations }
    }

    fn origin(&self) -> String {
        format!("https://{}", self.server.address)
    }

    /// Two webhooks: ours for some objects, and one of someone else's that is never called.
    async fn install(&self) {
        let webhook = |name: &str, url: String, resource: &str| {
            json!({
                "name": name,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 30,
                "clientConfig": {"url": url},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace.name()}},
                "objectSelector": {"matchLabels": {"test": "webhook"}},
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource],
                }],
            })
        };
        let configuration = serde_json::from_value(json!({
            "metadata": {"name": self.namespace.name(), "labels": {"kept": "yes"}},
            "webhooks": [
                webhook("theirs.example.com", "https://127.0.0.1:1/admit/names".into(), "endpoints"),
                webhook("names.windlass.dev", self.origin() + "/admit/names", "configmaps"),
            ],
        }));
        self.configurations.create(&PostParams::default(), &configuration.unwrap()).await.unwrap();
    }

    fn config(&self) -> KeeperConfig {
        KeeperConfig {
            namespace: self.namespace.to_string(),
            secret: "webhook-certificates".into(),
            spec: CertificateSpec::new(["127.0.0.1"]),
            endpoints: vec![Endpoint::Url(self.origin())],
            configurations: vec![WebhookConfiguration::validating(self.namespace.name())],
            interval: Duration::from_mins(10),
        }
    }

    fn keeper(&self, clock: Clock) -> Keeper {
        Keeper::new(self.client.clone(), self.config(), clock, &Metrics::new())
    }

    async fn configuration(&self) -> ValidatingWebhookConfiguration {
        self.configurations.get(self.namespace.name()).await.unwrap()
    }

    /// The bundles of theirs and ours.
    async fn bundles(&self) -> [Option<Vec<u8>>; 2] {
        let webhooks = self.configuration().await.webhooks.unwrap();
        [0, 1].map(|index| webhooks[index].client_config.ca_bundle.clone().map(|bundle| bundle.0))
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), self.namespace.name())
    }

    async fn material(&self) -> Material {
        Material::from_data(&self.secrets().get("webhook-certificates").await.unwrap().data.unwrap())
    }

    async fn try_create(&self, name: &str) -> Result<ConfigMap, kube::Error> {
        let object =
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"test": "webhook"}}}))
                .unwrap();
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.namespace.name());
        api.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await
    }

    /// Until the API server has taken up the webhook and its bundle.
    async fn wait_for_refusals(&self) -> String {
        eventually("the webhook refuses", async || match self.try_create("bad").await {
            Err(kube::Error::Api(status)) if status.code == 422 => Some(status.message),
            _ => None,
        })
        .await
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let (api, name) = (self.configurations.clone(), self.namespace.name().to_owned());
        let _ = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current()
                .block_on(async { api.delete(&name, &DeleteParams::default()).await })
        });
    }
}

async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// Keeper and scene need each other: the listener serves with what the keeper keeps.
async fn scene(prefix: &str, clock: Clock) -> (Scene, Keeper) {
    let serving = ServingCertificate::new();
    let scene = Scene::new(prefix, Arc::clone(&serving)).await;
    let keeper = Keeper::with_serving(scene.client.clone(), scene.config(), clock, &Metrics::new(), serving);
    (scene, keeper)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_calls_the_webhook_and_the_user_reads_the_refusal() {
    let (scene, keeper) = scene("webhook", Clock::system()).await;
    scene.install().await;
    let checked = keeper.check().await.unwrap();
    assert_eq!(checked.wrote, [CertificateAction::Create]);
    assert_eq!((checked.reloaded, checked.published), (true, 1));

    let message = scene.wait_for_refusals().await;
    assert_eq!(
        message,
        r#"admission webhook "names.windlass.dev" denied the request: the name is bad; choose another"#
    );
    scene.try_create("good").await.unwrap();
    let path = format!("/api/v1/namespaces/{}/configmaps?dryRun=All", scene.namespace.name());
    let body = json!({"metadata": {"name": "old", "labels": {"test": "webhook"}}}).to_string();
    let request =
        http::Request::post(path).header("content-type", "application/json").body(body.into_bytes().into());
    let response = scene.client.send(request.unwrap()).await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["warning"], r#"299 - "the name is old""#);

    // Nothing to do, nothing written.
    let version = scene.configuration().await.resource_version();
    let checked = keeper.check().await.unwrap();
    assert_eq!(
        (checked.wrote.len(), checked.reloaded, checked.published),
        (0, false, 0),
        "a second check changes nothing"
    );
    assert!(checked.wake_at.is_some());
    assert_eq!(scene.configuration().await.resource_version(), version);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_overwrite_or_delete_is_repaired_at_once() {
    let (scene, keeper) = scene("repair", Clock::system()).await;
    let readiness = Readiness::new();
    let shutdown = CancellationToken::new();
    let run = tokio::spawn(keeper.run(readiness.check("webhook/certificate"), shutdown.clone()));
    eventually("certificates without a configuration", async || readiness.is_ready().then_some(())).await;

    // Installed later than the keeper started: the watch sees it.
    scene.install().await;
    let ours = scene.material().await.ca.unwrap();
    eventually("a new configuration gets the bundle", async || {
        (scene.bundles().await == [None, Some(ours.clone())]).then_some(())
    })
    .await;

    let stranger = common::Certificates::new().bundle();
    let before = scene.configuration().await;
    let overwrite = json!([
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ByteString(stranger.clone())},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": ByteString(stranger.clone())},
    ]);
    let overwrite = Patch::Json::<()>(serde_json::from_value(overwrite).unwrap());
    scene.configurations.patch(scene.namespace.name(), &PatchParams::default(), &overwrite).await.unwrap();
    eventually("our bundle is back, theirs is theirs", async || {
        (scene.bundles().await == [Some(stranger.clone()), Some(ours.clone())]).then_some(())
    })
    .await;
    let mut after = scene.configuration().await;
    after.webhooks.as_mut().unwrap()[0].client_config.ca_bundle = None;
    assert_eq!(
        (after.webhooks, after.metadata.labels),
        (before.webhooks, before.metadata.labels),
        "nothing else"
    );
    scene.wait_for_refusals().await;

    // Garbage in the Secret.
    let garbage =
        json!({"data": {"tls.crt": ByteString(b"garbage".to_vec()), "note": ByteString(b"mine".to_vec())}});
    let patch = Patch::Merge(garbage);
    scene.secrets().patch("webhook-certificates", &PatchParams::default(), &patch).await.unwrap();
    eventually("garbage is repaired", async || {
        (scene.material().await.serving.unwrap() != b"garbage").then_some(())
    })
    .await;
    let secret = scene.secrets().get("webhook-certificates").await.unwrap();
    assert_eq!(secret.data.unwrap()["note"].0, b"mine", "what is not ours is left alone");
    assert_eq!(scene.material().await.ca.unwrap(), ours, "the CA was good");

    // Deleting the Secret asks for a new CA, and the API server goes on calling.
    scene.secrets().delete("webhook-certificates", &DeleteParams::default()).await.unwrap();
    let renewed = eventually("a new Secret", async || {
        let secret = scene.secrets().get_opt("webhook-certificates").await.unwrap()?;
        Material::from_data(&secret.data?).ca
    })
    .await;
    assert_ne!(renewed, ours);
    eventually("the new bundle", async || {
        (scene.bundles().await[1].as_ref() == Some(&renewed)).then_some(())
    })
    .await;
    scene.wait_for_refusals().await;

    shutdown.cancel();
    timeout(PATIENCE, run).await.expect("the keeper ends").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_replicas_end_with_one_ca() {
    let (scene, first) = scene("race", Clock::system()).await;
    scene.install().await;
    let mut replicas = vec![first];
    replicas.extend((0..7).map(|_| scene.keeper(Clock::system())));
    let checks: Vec<Checked> =
        join_all(replicas.iter().map(Keeper::check)).await.into_iter().collect::<Result<_, _>>().unwrap();
    let writes: Vec<_> = checks.iter().flat_map(|checked| &checked.wrote).collect();
    assert_eq!(writes, [&CertificateAction::Create], "one wins, the others use what it wrote");
    assert!(checks.iter().all(|checked| checked.reloaded));
    let material = scene.material().await;
    assert_eq!(scene.bundles().await[1], material.ca);

    // All of them serve with the same certificate, which that CA signed.
    let client = TlsClient::trusting(&material.ca.unwrap());
    for replica in &replicas {
        let server = Server::bind("replica", loopback(), Limits::webhooks()).await.unwrap();
        let server = start(server.with_tls(replica.serving()).unwrap());
        let stream = client.connect(server.address).await.unwrap();
        let presented = stream.get_ref().1.peer_certificates().unwrap().to_vec();
        let kept: Vec<_> =
            rustls_pki_types::pem::PemObject::pem_slice_iter(material.serving.as_ref().unwrap())
                .collect::<Result<_, _>>()
                .unwrap();
        assert_eq!(presented, kept);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_rotation_fails_no_admission() {
    // The API server keeps real time: certificates are made some way ahead of it and dated back.
    let ahead = Arc::new(AtomicI64::new(0));
    let clock = {
        let ahead = Arc::clone(&ahead);
        Clock::from_fn(move || Timestamp::now() + SignedDuration::from_secs(ahead.load(Ordering::Relaxed)))
    };
    let serving = ServingCertificate::new();
    let scene = Scene::new("rotate", Arc::clone(&serving)).await;
    scene.install().await;
    let mut config = scene.config();
    config.spec = CertificateSpec {
        ca_validity: SignedDuration::from_hours(90),
        serving_validity: SignedDuration::from_hours(30),
        overlap: SignedDuration::from_hours(1),
        settle: SignedDuration::from_mins(1),
        backdate: SignedDuration::from_hours(1000),
        ..config.spec
    };
    // One serves and the other publishes: what is used before it is published, or published before it is used, shows.
    let silent = KeeperConfig { configurations: Vec::new(), ..config.clone() };
    let keeper = Keeper::with_serving(scene.client.clone(), silent, clock.clone(), &Metrics::new(), serving);
    let other = Keeper::new(scene.client.clone(), config, clock, &Metrics::new());
    keeper.check().await.unwrap();
    other.check().await.unwrap();
    let first_ca = scene.material().await.ca.unwrap();
    scene.wait_for_refusals().await;

    let over = AtomicBool::new(false);
    let admitted = AtomicUsize::new(0);
    let load = join_all((0..4).map(|_| async {
        while !over.load(Ordering::Relaxed) {
            scene.try_create("good").await.expect("every request is admitted");
            admitted.fetch_add(1, Ordering::Relaxed);
        }
    }));
    let rotate = async {
        let mut steps = Vec::new();
        // Both replicas look every half hour, for a little longer than the life of a CA up to its rotation.
        for _ in 0..130 {
            ahead.fetch_add(30 * 60, Ordering::Relaxed);
            // The harder order each time: up to the next CA the one that serves is first, so that it would be the
            // one to use it too soon; then the other is, so that what is served is behind.
            let staged = steps.contains(&CertificateAction::StageCa);
            let replicas = if staged { [&other, &keeper] } else { [&keeper, &other] };
            for replica in replicas {
                let checked = replica.check().await.unwrap();
                if !checked.wrote.is_empty() || checked.published > 0 || checked.reloaded {
                    // Half an hour is enough for the API server; here it needs a moment of real time.
                    let before = admitted.load(Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    eventually("requests go on", async || {
                        (admitted.load(Ordering::Relaxed) > before + 12).then_some(())
                    })
                    .await;
                }
                steps.extend(checked.wrote);
            }
        }
        over.store(true, Ordering::Relaxed);
        steps
    };
    let (_, steps) = tokio::join!(load, rotate);
    let rotation = [CertificateAction::StageCa, CertificateAction::PromoteCa, CertificateAction::RetireCa];
    let seen: Vec<_> = steps.iter().filter(|step| rotation.contains(step)).copied().collect();
    assert_eq!(seen, rotation, "{steps:?}");
    assert!(steps.contains(&CertificateAction::IssueServing), "{steps:?}");
    let now = scene.material().await.ca.unwrap();
    assert_ne!(now, first_ca);
    assert_eq!(scene.bundles().await[1], Some(now));
    scene.wait_for_refusals().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_told_with_what_is_needed() {
    let (scene, _) = scene("rights", Clock::system()).await;
    let nobody = ControlPlane::shared().await.unwrap().client(&User::named("dev-a")).unwrap();
    let keeper = Keeper::new(nobody, scene.config(), Clock::system(), &Metrics::new());
    let error = keeper.check().await.unwrap_err();
    assert!(matches!(error, CertificateError::Store(_)));
    let text = error.to_string();
    assert!(text.contains("webhook-certificates") && text.contains("get, create and update"), "{text}");
}
