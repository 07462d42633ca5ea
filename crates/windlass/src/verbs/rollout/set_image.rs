//! `windlass rollout set-image`: a new image for a container, and with it a new revision.

use kube::ResourceExt;
use serde_json::Value;
use windlass_api::rollout::Rollout;

use super::{
    control::{Change, Request, deployments, edit, record, rollout, specs},
    words::title,
};
use crate::{
    cli,
    error::CommandError,
    suggest,
    verbs::hub::{Hub, HubArgs, failed},
};

const EXAMPLES: &str = "\
Examples:
  windlass rollout set-image web app=shop/web:1.4 -n shop
  windlass rollout set-image web '*=shop/web:1.4'

`*` stands for all containers. With workloadRef the Deployment is changed. What an Application delivers is changed in Git,
else the next sync takes the image back.";

/// Lists of containers in a pod.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Set the image of a container
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The Rollout
    name: String,

    /// Containers and their images
    #[arg(required = true, value_name = "CONTAINER=IMAGE", value_parser = pair)]
    images: Vec<(String, String)>,

    #[command(flatten)]
    hub: HubArgs,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((container, image)) if !container.is_empty() && !image.is_empty() => {
            Ok((container.to_owned(), image.to_owned()))
        }
        _ => Err("write it like container=image".to_owned()),
    }
}

/// Asks for it.
pub(super) fn run(args: &Args) -> Result<(), CommandError> {
    args.hub.run(async |hub| {
        let request = Request::of(&hub, "set-image").await;
        let images: Vec<String> = args.images.iter().map(|(name, image)| format!("{name}={image}")).collect();
        let change = Change { note: Some(images.join(", ")), ..Change::default() };
        let read = loop {
            let read = rollout(&hub, &args.name).await?;
            check(&hub, &read, &args.images).await?;
            if record(&hub, &read, &request, &change).await? {
                break read;
            }
        };
        let (objects, name, uid) = match workload(&read)? {
            Some(deployment) => (deployments(&hub), deployment, None),
            None => (specs(&hub), args.name.as_str(), read.uid()),
        };
        edit(&objects, name, uid.as_deref(), |value| set(value, &args.images, name)).await?;
        cli::print(&format!("rollout.windlass.dev/{}: image updated\n", args.name))
    })
}

/// Whether it makes sense, before anything is recorded.
async fn check(hub: &Hub, read: &Rollout, images: &[(String, String)]) -> Result<(), CommandError> {
    let (mut object, name) = match workload(read)? {
        Some(name) => {
            let found = deployments(hub).get(name).await;
            (
                found.map_err(|error| failed(&format!("cannot read Deployment {name}"), error))?.data,
                name.to_owned(),
            )
        }
        None => (serde_json::json!({ "spec": { "template": read.spec.template } }), title(read)),
    };
    set(&mut object, images, &name)
}

/// The Deployment that the template is taken from.
pub(super) fn workload(rollout: &Rollout) -> Result<Option<&str>, CommandError> {
    match &rollout.spec.workload_ref {
        None => Ok(None),
        Some(workload) if workload.kind == "Deployment" => Ok(Some(&workload.name)),
        Some(workload) => Err(CommandError::failure(format!(
            "Rollout {} takes its template from a {}, which is not supported",
            title(rollout),
            workload.kind
        ))
        .hint("Name a Deployment in spec.workloadRef.")),
    }
}

fn set(object: &mut Value, images: &[(String, String)], name: &str) -> Result<(), CommandError> {
    for (container, image) in images {
        let mut known = Vec::new();
        let mut found = false;
        for list in LISTS {
            let pointer = format!("/spec/template/spec/{list}");
            let entries = object.pointer_mut(&pointer).and_then(Value::as_array_mut).into_iter().flatten();
            for entry in entries {
                let called = entry["name"].as_str().unwrap_or_default().to_owned();
                if container == "*" || called == *container {
                    entry["image"] = image.clone().into();
                    found = true;
                }
                known.push(called);
            }
        }
        if !found {
            let error = CommandError::failure(format!("{name} has no container {container}"));
            return Err(match suggest::nearest(container, known.iter().map(String::as_str)) {
                Some(meant) => error.hint(format!("Did you mean `{meant}`?")),
                None => error.hint(format!("There are: {}", known.join(", "))),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Paint;
    use serde_json::json;

    fn object() -> Value {
        json!({ "spec": { "template": { "spec": {
            "initContainers": [{ "name": "migrate", "image": "db:1" }],
            "containers": [{ "name": "app", "image": "web:1", "ports": [{ "containerPort": 80 }] }],
        } } } })
    }

    #[test]
    fn an_image_is_set_by_the_name_of_the_container() {
        let mut value = object();
        set(&mut value, &[("app".into(), "web:2".into())], "web").unwrap();
        let spec = &value["spec"]["template"]["spec"];
        assert_eq!(
            (&spec["containers"][0]["image"], &spec["initContainers"][0]["image"]),
            (&json!("web:2"), &json!("db:1"))
        );
        assert_eq!(spec["containers"][0]["ports"], json!([{ "containerPort": 80 }]), "the rest stays");
        set(&mut value, &[("*".into(), "all:3".into())], "web").unwrap();
        assert_eq!(value["spec"]["template"]["spec"]["initContainers"][0]["image"], "all:3");
    }

    #[test]
    fn a_container_that_is_not_there_is_an_error_that_names_those_that_are() {
        let told = |name: &str| {
            set(&mut object(), &[(name.into(), "x:1".into())], "web").unwrap_err().render(Paint::plain())
        };
        assert!(told("apq").contains("Did you mean `app`?"), "{}", told("apq"));
        assert!(told("sidecar").contains("There are: migrate, app"), "{}", told("sidecar"));
        assert_eq!(pair("app=shop/web:1@sha256:ab=").unwrap().1, "shop/web:1@sha256:ab=");
        assert!(pair("app").is_err() && pair("=x").is_err() && pair("app=").is_err());
    }
}
