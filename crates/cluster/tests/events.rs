//! Events on a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use k8s_openapi::api::{
    core::v1::{ConfigMap, Event as CoreEvent, Namespace},
    events::v1::Event,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, ObjectMeta, PostParams},
};
use tokio_util::sync::CancellationToken;
use windlass_cluster::{
    clock::Clock,
    events::{Dropped, EventMetrics, Note, Recorder, Reporter},
};
use windlass_testbed::control_plane::ControlPlane;

fn reporter() -> Reporter {
    Reporter { controller: "windlass.dev/test".into(), instance: "replica-1".into() }
}

#[tokio::test]
async fn notes_become_events_that_kubectl_shows() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let client = control_plane.admin();
    let namespace = control_plane.namespace("events").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some("web".into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let map = maps.create(&PostParams::default(), &map).await.unwrap();
    let spaces: Api<Namespace> = Api::all(client.clone());
    let space = spaces.get(&namespace).await.unwrap();

    let metrics = EventMetrics::default();
    let (recorder, publisher) = Recorder::new(client.clone(), reporter(), Clock::system(), metrics.clone());
    for _ in 0..7 {
        recorder.record(map.object_ref(&()), Note::warning("SyncFailed", "Sync", "ü".repeat(2000)));
    }
    recorder.record(map.object_ref(&()), Note::normal("Synced", "Sync", "revision 1"));
    recorder.record(space.object_ref(&()), Note::normal("Watched", "Watch", "a cluster-scoped object"));
    drop(recorder);
    publisher.run(CancellationToken::new()).await;

    let causes = [Dropped::QueueFull, Dropped::Flood, Dropped::Refused];
    assert_eq!(causes.map(|cause| metrics.dropped(cause)), [0, 0, 0]);
    let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let ours = ListParams::default().fields("reportingController=windlass.dev/test");
    let list = events.list(&ours).await.unwrap().items;
    assert_eq!(list.len(), 2, "{list:#?}");
    let failed = list.iter().find(|event| event.reason.as_deref() == Some("SyncFailed")).unwrap();
    assert_eq!(failed.series.as_ref().map(|series| series.count), Some(7));
    assert_eq!(failed.regarding.as_ref().and_then(|object| object.uid.clone()), map.uid());

    let shown: Api<CoreEvent> = Api::namespaced(client.clone(), &namespace);
    let of_map = ListParams::default().fields("involvedObject.name=web,reason=Synced");
    let shown = shown.list(&of_map).await.unwrap().items;
    assert_eq!(shown.iter().map(|event| event.message.clone().unwrap()).collect::<Vec<_>>(), ["revision 1"]);

    let elsewhere: Api<Event> = Api::namespaced(client, "default");
    let list = elsewhere.list(&ListParams::default()).await.unwrap();
    assert!(list.items.iter().any(|event| {
        event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(&*namespace)
            && event.reason.as_deref() == Some("Watched")
    }));
}

#[tokio::test]
async fn an_event_that_the_api_server_refuses_is_counted() {
    let control_plane = ControlPlane::shared().await.unwrap();
    let metrics = EventMetrics::default();
    let (recorder, publisher) =
        Recorder::new(control_plane.admin(), reporter(), Clock::system(), metrics.clone());
    let gone = k8s_openapi::api::core::v1::ObjectReference {
        name: Some("a".into()),
        namespace: Some("no-such-namespace".into()),
        ..Default::default()
    };
    recorder.record(gone, Note::normal("Synced", "Sync", "nobody will see"));
    drop(recorder);
    publisher.run(CancellationToken::new()).await;
    assert_eq!((metrics.published(), metrics.dropped(Dropped::Refused)), (0, 1));
}
