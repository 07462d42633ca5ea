//! Services and routes.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use std::collections::BTreeMap;
use windlass_api::rollout::MANAGED_BY;

use super::{Error, Hands, Whose};
use crate::{
    index::{
        record::{RouteRecord, ServiceRecord},
        route_resource,
    },
    observed::{RouteName, TrafficWish},
    route::{self, Pair, service},
};

impl Hands {
    /// Points a Service at the pods of a hash. Only our key of its selector is written.
    pub(super) async fn switch_service(&self, whose: &Whose, name: &str, hash: &str) -> Result<(), Error> {
        let stale = || Error::Stale(format!("Service {name}"));
        let patch = {
            let state = self.index.state();
            let record = state.services.get(&whose.namespace, name).ok_or_else(stale)?;
            let noted = record.managed_by.iter().map(|by| (MANAGED_BY.to_owned(), by.clone()));
            let noted: BTreeMap<String, String> = noted.collect();
            let Some(mut patch) = service::point(&record.selector, &noted, &whose.name, hash) else {
                return Ok(());
            };
            // A Service of the same name that was made anew may be meant for others.
            patch["metadata"]["uid"] = json!(record.uid);
            patch
        };
        let object = self.merge::<Service>(&whose.namespace, name, &patch).await?.ok_or_else(stale)?;
        self.index.state().services.put_own(&object.metadata, ServiceRecord::new(&object));
        Ok(())
    }

    /// Makes a route say what is wished. What the API stored is what the next round reads.
    pub(super) async fn set_traffic(
        &self,
        whose: &Whose,
        name: &RouteName,
        (stable, canary): (&str, &str),
        wish: &TrafficWish,
    ) -> Result<(), Error> {
        let pair =
            Pair { namespace: whose.namespace.clone(), stable: stable.to_owned(), canary: canary.to_owned() };
        let there = {
            let state = self.index.state();
            state.routes(name.kind).get(&whose.namespace, &name.name).map(RouteRecord::value)
        };
        let there = there.ok_or_else(|| Error::Stale(format!("{} {}", name.kind.as_str(), name.name)))?;
        let operations = route::change(&there, name.kind, &pair, wish, &whose.order)
            .map_err(|trouble| Error::Route(format!("{}. {}", trouble.what, trouble.remedy)))?;
        if operations.is_empty() {
            return Ok(());
        }
        let resource = route_resource(name.kind);
        let object = self.json_patch(&resource, &whose.namespace, &name.name, &operations).await?;
        let record = RouteRecord::new(&object);
        self.index.state().routes_mut(name.kind).put_own(&object.metadata, record);
        Ok(())
    }
}
