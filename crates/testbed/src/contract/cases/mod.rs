//! The cases, by subject.

mod admission;
mod apply;
mod apply_lists;
mod builtin;
mod collect;
mod create;
mod custom;
mod define;
mod delete;
mod discover;
mod list;
mod patch;
mod replace;
mod status;
mod watch;

use super::Case;

/// Names the functions of a module as cases.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(super) fn cases() -> Vec<super::super::Case> {
            vec![$(super::super::Case { name: stringify!($name), run: |session| Box::pin($name(session)) }),*]
        }
    };
}
pub(crate) use cases;

/// Every case.
pub fn all() -> Vec<Case> {
    let all = [
        create::cases(),
        replace::cases(),
        patch::cases(),
        apply::cases(),
        apply_lists::cases(),
        builtin::cases(),
        delete::cases(),
        status::cases(),
        custom::cases(),
        list::cases(),
        watch::cases(),
        collect::cases(),
        discover::cases(),
        admission::cases(),
        define::cases(),
    ];
    all.into_iter().flatten().collect()
}

/// A `ConfigMap`, without the field when there is no data.
fn config_map(name: &str, data: &serde_json::Value) -> serde_json::Value {
    let mut object = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    if *data != serde_json::json!({}) {
        object["data"] = data.clone();
    }
    object
}

/// A Widget with a spec.
fn widget(name: &str, spec: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({"apiVersion": "contract.windlass.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// A Deployment that no controller gets far with.
fn deployment(name: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "paused": true,
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/main:1"}]},
            },
        },
    })
}
