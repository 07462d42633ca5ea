//! The Go modules that pin the programs. They are part of this program, so that it builds tools from any folder.

use std::path::Path;

use anyhow::Context;
use sha2::{Digest, Sha256};

use super::{Tool, Version};

/// A Go module with one or more tools.
pub(super) struct Module {
    pub(super) name: &'static str,
    files: &'static [(&'static str, &'static str)],
}

macro_rules! module {
    ($name:literal $(, $extra:literal)*) => {
        Module {
            name: $name,
            files: &[
                ("go.mod", include_str!(concat!("../../go/", $name, "/go.mod"))),
                ("go.sum", include_str!(concat!("../../go/", $name, "/go.sum"))),
                $(($extra, include_str!(concat!("../../go/", $name, "/", $extra))),)*
            ],
        }
    };
}

static CONTROL_PLANE: Module = module!("controlplane", "etcd/main.go");
static HELM: Module = module!("helm");
static KUSTOMIZE: Module = module!("kustomize");
static REGISTRY: Module = module!("registry");
static PROMETHEUS: Module = module!("prometheus");

/// How one tool is built from its module.
pub(super) struct Recipe {
    /// The package with the program's `main`.
    pub(super) package: &'static str,
    /// Build tags.
    pub(super) tags: &'static str,
    /// Linker flags that write the version into the program.
    pub(super) version_flags: Vec<String>,
    /// Minutes that the build takes on two cores when nothing is cached.
    pub(super) usual_minutes: u32,
}

impl Module {
    pub(super) fn of(tool: Tool) -> &'static Self {
        match tool {
            Tool::Etcd
            | Tool::KubeApiserver
            | Tool::KubeControllerManager
            | Tool::KubeScheduler
            | Tool::Kubectl
            | Tool::Kwok => &CONTROL_PLANE,
            Tool::Helm => &HELM,
            Tool::Kustomize => &KUSTOMIZE,
            Tool::Registry => &REGISTRY,
            Tool::Prometheus => &PROMETHEUS,
        }
    }

    /// The version of the tool that `go.mod` pins.
    pub(super) fn tool_version(&self, tool: Tool) -> anyhow::Result<Version> {
        let pinned = self.required(match tool {
            Tool::Etcd => "go.etcd.io/etcd/server/v3",
            Tool::KubeApiserver | Tool::KubeControllerManager | Tool::KubeScheduler | Tool::Kubectl => {
                "k8s.io/kubernetes"
            }
            Tool::Kwok => "sigs.k8s.io/kwok",
            Tool::Helm => "helm.sh/helm/v4",
            Tool::Kustomize => "sigs.k8s.io/kustomize/kustomize/v5",
            Tool::Registry => "github.com/distribution/distribution/v3",
            Tool::Prometheus => "github.com/prometheus/prometheus",
        })?;
        Ok(match tool {
            // Prometheus 3.15.0 is the module version 0.315.0.
            Tool::Prometheus => Version::new(pinned.minor / 100, pinned.minor % 100, pinned.patch),
            _ => pinned,
        })
    }

    /// The lowest Go version that `go.mod` asks for.
    pub(super) fn go_version(&self) -> anyhow::Result<Version> {
        self.go_mod()
            .lines()
            .find_map(|line| line.strip_prefix("go ").and_then(Version::find))
            .with_context(|| format!("go.mod of {} names no Go version", self.name))
    }

    pub(super) fn recipe(&self, tool: Tool) -> anyhow::Result<Recipe> {
        let version = self.tool_version(tool)?;
        let kubernetes = |package, usual_minutes| Recipe {
            package,
            tags: "",
            version_flags: vec![
                format!("k8s.io/component-base/version.gitVersion={version}"),
                format!("k8s.io/component-base/version.gitMajor={}", version.major),
                format!("k8s.io/component-base/version.gitMinor={}", version.minor),
            ],
            usual_minutes,
        };
        let other = |package, flag: Option<String>, usual_minutes| Recipe {
            package,
            tags: "",
            version_flags: flag.into_iter().collect(),
            usual_minutes,
        };
        Ok(match tool {
            Tool::KubeApiserver => kubernetes("k8s.io/kubernetes/cmd/kube-apiserver", 7),
            Tool::KubeControllerManager => kubernetes("k8s.io/kubernetes/cmd/kube-controller-manager", 3),
            Tool::KubeScheduler => kubernetes("k8s.io/kubernetes/cmd/kube-scheduler", 1),
            Tool::Kubectl => kubernetes("k8s.io/kubernetes/cmd/kubectl", 1),
            Tool::Kwok => other("sigs.k8s.io/kwok/cmd/kwok", None, 3),
            Tool::Etcd => other("./etcd", None, 1),
            Tool::Helm => {
                let flag = format!("helm.sh/helm/v4/internal/version.version={version}");
                other("helm.sh/helm/v4/cmd/helm", Some(flag), 5)
            }
            Tool::Kustomize => other("sigs.k8s.io/kustomize/kustomize/v5", None, 1),
            Tool::Registry => other("github.com/distribution/distribution/v3/cmd/registry", None, 2),
            Tool::Prometheus => {
                let number = format!("{}.{}.{}", version.major, version.minor, version.patch);
                let flag = format!("github.com/prometheus/common/version.Version={number}");
                let package = "github.com/prometheus/prometheus/cmd/prometheus";
                // Tests scrape static targets: the clients of two dozen clouds would only cost build time.
                Recipe { tags: "remove_all_sd", ..other(package, Some(flag), 5) }
            }
        })
    }

    /// Names this content: another go.mod, go.sum or source gives another folder in the cache.
    pub(super) fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for (name, content) in self.files {
            hash.update(name.as_bytes());
            hash.update([0]);
            hash.update(content.as_bytes());
            hash.update([0]);
        }
        hash.finalize().iter().take(6).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// Writes the module's files below `folder`.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        for (name, content) in self.files {
            let path = folder.join(name);
            let parent = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent)
                .and_then(|()| std::fs::write(&path, content))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    fn go_mod(&self) -> &'static str {
        self.files[0].1
    }

    fn required(&self, path: &str) -> anyhow::Result<Version> {
        self.go_mod()
            .lines()
            .filter(|line| !line.contains("=>"))
            .find_map(|line| {
                let mut words = line.split_whitespace().filter(|word| *word != "require");
                (words.next() == Some(path)).then(|| words.next().and_then(Version::find)).flatten()
            })
            .with_context(|| format!("go.mod of {} does not require {path}", self.name))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_version_and_a_recipe() {
        for tool in Tool::ALL {
            let module = Module::of(tool);
            let version = module.tool_version(tool).unwrap();
            assert!(version > Version::new(0, 0, 0), "{tool} {version}");
            let recipe = module.recipe(tool).unwrap();
            let local = recipe.package.starts_with("./");
            let declared = module.go_mod().lines().any(|line| {
                line.trim() == recipe.package || line.trim() == format!("tool {}", recipe.package)
            });
            assert!(local || declared, "{} is no tool of {}", recipe.package, module.name);
        }
        assert_eq!(Tool::KubeApiserver.version().unwrap().minor, 36);
        assert_eq!(Tool::Prometheus.version().unwrap().major, 3);
    }

    #[test]
    fn module_files_are_written_whole() {
        let folder = tempfile::tempdir().unwrap();
        CONTROL_PLANE.write(folder.path()).unwrap();
        let main = std::fs::read_to_string(folder.path().join("etcd/main.go")).unwrap();
        assert!(main.contains("etcdmain"));
        assert_ne!(CONTROL_PLANE.hash(), HELM.hash());
    }
}
