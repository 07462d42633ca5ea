//! Reads analysis templates with all that they refer to.

use std::collections::BTreeSet;

use kube::{Api, Client};
use windlass_api::{
    AnalysisTemplate, ClusterAnalysisTemplate,
    analysis::{
        TemplateRef,
        merge::{Library, title},
    },
};

/// Templates that are read for one run. Further ones count as missing: nobody's chain of templates is followed for ever.
const MOST: usize = 128;

/// A template could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{what} could not be read")]
pub struct Unread {
    /// Kind and name.
    pub what: String,
    /// The cause.
    pub source: Box<kube::Error>,
}

/// All templates that these need, as far as they are there: merging names one that is not.
///
/// # Errors
/// When the API server does not answer or refuses.
pub async fn library(client: &Client, namespace: &str, wanted: &[TemplateRef]) -> Result<Library, Unread> {
    let namespaced: Api<AnalysisTemplate> = Api::namespaced(client.clone(), namespace);
    let everywhere: Api<ClusterAnalysisTemplate> = Api::all(client.clone());
    let mut library = Library::default();
    let mut absent = BTreeSet::new();
    for _ in 0..MOST {
        let missing = library.missing(wanted).into_iter().find(|template| !absent.contains(template));
        let Some(template) = missing else { break };
        let name = &template.template_name;
        let unread = |source| Unread { what: title(&template), source: Box::new(source) };
        let spec = if template.cluster_scope {
            everywhere.get_opt(name).await.map_err(unread)?.map(|found| found.spec.template)
        } else {
            namespaced.get_opt(name).await.map_err(unread)?.map(|found| found.spec)
        };
        let shelf = if template.cluster_scope { &mut library.cluster } else { &mut library.namespaced };
        match spec {
            Some(spec) => drop(shelf.insert(name.clone(), spec)),
            None => drop(absent.insert(template)),
        }
    }
    Ok(library)
}
