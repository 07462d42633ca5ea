//! Services that no Rollout names any more: our key leaves their selector, so that they select what they did before.
//!
//! A Rollout has no finalizer for this: nobody should have to wait for a controller to delete one. Instead every Service
//! that says that a Rollout moves it is looked at when that Rollout goes or names another one, and at each start.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::{ResourceExt as _, core::PartialObjectMeta};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::rollout::{MANAGED_BY, POD_TEMPLATE_HASH};
use windlass_cluster::{
    drive::{Controller, Drive, Key, Options, Plan, Services, Waker},
    events::Note,
};

use crate::{
    act::{Error, Hands, MANAGER},
    observe,
    rivals::Rivals,
};

/// Lets go of Services whose Rollout is gone.
pub struct FreedController {
    hands: Hands,
    rivals: Arc<Rivals>,
    bell: Bell,
}

/// Wakes objects of a loop that is made later; silent until then.
#[derive(Clone, Default)]
pub(crate) struct Bell(Arc<OnceLock<Waker>>);

impl Bell {
    pub(crate) fn hang(&self, waker: Waker) {
        let _ = self.0.set(waker);
    }

    pub(crate) fn ring(&self, keys: impl IntoIterator<Item = Key>) {
        if let Some(waker) = self.0.get() {
            for key in keys {
                waker.wake(key);
            }
        }
    }
}

/// A Service, and whose it was.
#[derive(Debug)]
pub struct Observed {
    service: Arc<PartialObjectMeta<Service>>,
    /// The Rollout that moved it, if that is gone or names it no more.
    left_by: Option<String>,
}

/// Takes our key out of the selector of exactly this version of a Service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Free {
    namespace: String,
    name: String,
    uid: Option<String>,
    version: Option<String>,
}

impl Free {
    fn patch(&self) -> Value {
        json!({
            "metadata": {
                "uid": self.uid, "resourceVersion": self.version, "annotations": { MANAGED_BY: null },
            },
            "spec": { "selector": { POD_TEMPLATE_HASH: null } },
        })
    }
}

impl FreedController {
    pub(crate) fn new(hands: Hands, rivals: Arc<Rivals>, bell: Bell) -> Self {
        Self { hands, rivals, bell }
    }

    /// The loop that runs it.
    pub fn drive(self, services: Services, options: Options) -> Drive<Self> {
        let bell = self.bell.clone();
        let drive = Drive::new(Arc::new(self), services, options);
        bell.hang(drive.waker());
        drive
    }
}

impl Controller for FreedController {
    type Object = PartialObjectMeta<Service>;
    type Status = ();
    type Observed = Observed;
    type Action = Free;
    type Error = Error;

    fn name(&self) -> &'static str {
        "service"
    }

    fn manager(&self) -> &'static str {
        MANAGER
    }

    fn status<'a>(&self, _service: &'a Self::Object) -> Option<&'a ()> {
        None
    }

    async fn observe(&self, service: Arc<Self::Object>) -> Result<Observed, Error> {
        let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
        let left_by = match service.annotations().get(MANAGED_BY) {
            Some(rollout)
                if !self.rivals.is_named(&namespace, &name)
                    && observe::naming(&self.hands.client, &namespace, rollout, &name).await?.is_none() =>
            {
                Some(rollout.clone())
            }
            _ => None,
        };
        Ok(Observed { service, left_by })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan<Free, ()> {
        let service = &*observed.service;
        let Some(rollout) =
            observed.left_by.as_ref().filter(|_| service.metadata.deletion_timestamp.is_none())
        else {
            return Plan::rest();
        };
        let free = Free {
            namespace: service.namespace().unwrap_or_default(),
            name: service.name_any(),
            uid: service.uid(),
            version: service.resource_version(),
        };
        let told = format!(
            "Rollout {rollout} does not use this Service any more: it selects pods of every revision"
        );
        Plan { actions: vec![free], notes: vec![Note::normal("Freed", "Free", told)], ..Plan::rest() }
    }

    async fn act(&self, free: &Free) -> Result<(), Error> {
        self.hands.merge::<Service>(&free.namespace, &free.name, &free.patch()).await.map(drop)
    }
}
