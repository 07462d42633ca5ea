//! Helm charts.
//!
//! A chart is rendered by `helm template`, which here has no network: what it depends on lies in its `charts/` folder
//! or, as `file://`, elsewhere in the repository.

mod chart;
mod values;

use std::ffi::OsString;

use windlass_api::application::source::{Helm, HelmParameter};
use windlass_vcs::tree::RepoPath;

use self::values::Values;
use super::{
    Decrypt,
    cell::{Cells, Job, in_tree},
    key::Hasher,
    objects::{self, Found},
    snapshot::Snapshot,
    tool::Tool,
};
use crate::trouble::Trouble;

/// How people call it.
const CALLED: &str = "helm template";

/// What a release is called and where it goes.
#[derive(Clone, Debug)]
pub(super) struct Release {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) kube_version: Option<String>,
}

/// What a chart is rendered from.
pub(super) struct Inputs {
    folder: String,
    chart: chart::Chart,
    values: Values,
    release: Release,
    options: Helm,
}

impl Inputs {
    /// Reads a chart, what it depends on and its value files.
    pub(super) fn gather(
        snapshot: &Snapshot,
        folder: &RepoPath,
        options: Helm,
        release: Release,
        limits: &super::Limits,
    ) -> Result<Self, Trouble> {
        let folder = folder.as_str().unwrap_or_default().to_owned();
        let chart = chart::Chart::read(snapshot, &folder, limits)?;
        let values = Values::read(snapshot, &folder, &options)?;
        Ok(Self { folder, chart, values, release, options })
    }

    /// Writes what the render depends on.
    pub(super) fn hash(&self, hasher: &mut Hasher) {
        self.chart.hash(hasher);
        self.values.hash(hasher);
        hasher
            .part(&self.release.name)
            .part(&self.release.namespace)
            .maybe(self.release.kube_version.as_ref())
            .options(&self.options);
    }
}

/// Renders. What is decrypted of value files goes to helm through a pipe.
pub(super) async fn template(
    cells: &Cells,
    tool: &Tool,
    inputs: &Inputs,
    keys: Option<&dyn Decrypt>,
) -> Result<Vec<Found>, Trouble> {
    let mut files: Vec<(String, Vec<u8>)> =
        inputs.chart.files().map(|(path, bytes)| (in_tree(path), bytes.to_vec())).collect();
    let values = inputs.values.prepare(inputs.options.values.as_ref(), keys)?;
    let mut args: Vec<OsString> = vec![
        "template".into(),
        inputs.release.name.clone().into(),
        // With `./` it can be nothing else than a folder.
        format!("./{}", in_tree(&inputs.folder)).into(),
        "--namespace".into(),
        inputs.release.namespace.clone().into(),
        // Tests of a chart are run by people, not delivered.
        "--skip-tests".into(),
    ];
    args.push(if inputs.options.skip_crds { "--skip-crds" } else { "--include-crds" }.into());
    if let Some(version) = &inputs.release.kube_version {
        args.push(format!("--kube-version={version}").into());
    }
    for version in &inputs.options.api_versions {
        args.push(format!("--api-versions={version}").into());
    }
    for (path, bytes) in values.files {
        args.push(format!("--values={path}").into());
        files.push((path, bytes));
    }
    if values.stdin.is_some() {
        args.push("--values=-".into());
    }
    args.extend(inputs.options.parameters.iter().map(|parameter| set(parameter).into()));
    let folder = cells.folder(files).await?;
    let job = Job {
        program: tool.path(),
        called: CALLED,
        args,
        stdin: values.stdin,
        hide: &values.secrets,
        reason: "HelmFailed",
    };
    let printed = cells.run(&folder, job).await.map_err(|trouble| inputs.values.rename(trouble))?;
    objects::of_output(CALLED, &printed)
}

/// A single value as a flag. A comma would begin the next value, unless it is in a list.
fn set(parameter: &HelmParameter) -> String {
    let flag = if parameter.force_string { "--set-string" } else { "--set" };
    let value = &parameter.value;
    let value = if value.starts_with('{') && value.ends_with('}') { value.clone() } else { escape(value) };
    format!("{flag}={}={value}", parameter.name)
}

fn escape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut escaped = false;
    for letter in value.chars() {
        if letter == ',' && !escaped {
            text.push('\\');
        }
        escaped = letter == '\\' && !escaped;
        text.push(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_value_does_not_begin_another_one() {
        let parameter = |value: &str, force_string| {
            set(&HelmParameter { name: "a.b".into(), value: value.into(), force_string })
        };
        assert_eq!(parameter("x,y", false), "--set=a.b=x\\,y");
        assert_eq!(parameter("x\\,y", true), "--set-string=a.b=x\\,y");
        assert_eq!(parameter("{x,y}", false), "--set=a.b={x,y}");
    }
}
