//! How missing programs are built: by one process at a time, safe to interrupt, with clear words when it cannot be.
//!
//! A small script stands for `go`, so these tests show our side of it in seconds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What the script does for `go build`.
#[derive(Clone, Copy)]
enum Build {
    Works,
    Slow,
    Fails,
}

/// A machine with an empty cache and only the programs that we put there.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir(machine.bin()).unwrap();
        for name in ["sh", "rm", "sleep", "cat", "chmod"] {
            let real = std::env::split_paths(&std::env::var_os("PATH").unwrap())
                .map(|folder| folder.join(name))
                .find(|path| path.exists())
                .unwrap();
            symlink(real, machine.bin().join(name)).unwrap();
        }
        machine
    }

    fn with_go(self, version: &str, build: Build) -> Self {
        self.set_go(version, build);
        self
    }

    fn set_go(&self, version: &str, build: Build) {
        let act = match build {
            Build::Works => "sleep 1",
            Build::Slow => "sleep 1000",
            Build::Fails => "echo 'package x: cannot find module' >&2; exit 1",
        };
        let script = format!(
            "#!/bin/sh\n\
             if [ \"$1\" = env ]; then echo {version}; exit; fi\n\
             echo \"$$ CGO_ENABLED=$CGO_ENABLED GOTOOLCHAIN=$GOTOOLCHAIN $*\" >>'{calls}'\n\
             while [ \"$1\" != -o ]; do shift; done\n\
             echo partial >\"$2\"\n\
             {act}\n\
             printf '#!/bin/sh\\necho v5.8.2\\n' >\"$2\"\n\
             chmod +x \"$2\"\n",
            calls = self.calls_file().display()
        );
        self.program("go", &script);
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.bin().join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn bin(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    fn calls_file(&self) -> PathBuf {
        self.dir.path().join("calls")
    }

    fn calls(&self) -> Vec<String> {
        std::fs::read_to_string(self.calls_file()).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn testbed(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
        command
            .arg("tools")
            .args(args)
            .env("PATH", self.bin())
            .env("WINDLASS_CACHE", self.dir.path().join("cache"))
            .env_remove("KUBEBUILDER_ASSETS")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.testbed(args).output().unwrap()
    }

    fn built(&self) -> Vec<PathBuf> {
        let Ok(folders) = std::fs::read_dir(self.dir.path().join("cache/tools")) else { return Vec::new() };
        let folders = folders.map(|entry| entry.unwrap().path().join("kustomize"));
        folders.filter(|path| path.exists()).collect()
    }
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn two_at_once_build_once() {
    let machine = Machine::new().with_go("go1.26.8", Build::Works);
    let children = [(); 2].map(|()| machine.testbed(&["kustomize"]).spawn().unwrap());
    let outputs = children.map(|child| child.wait_with_output().unwrap());
    for output in &outputs {
        assert!(output.status.success(), "{}", err(output));
        assert!(out(output).contains("v5.8.2"), "{}", out(output));
    }
    assert_eq!(machine.calls().len(), 1, "{:?}", machine.calls());
    let said: Vec<String> = outputs.iter().map(err).collect();
    assert!(
        said.iter().any(|text| text.contains("building kustomize v5.8.2") && text.contains("min on 2 cores")),
        "{said:?}"
    );
    assert!(said.iter().any(|text| text.contains("waiting for another process")), "{said:?}");
    // And then it is there.
    assert!(machine.run(&["kustomize"]).status.success());
    assert_eq!(machine.calls().len(), 1);
}

#[test]
fn an_interrupted_build_leaves_nothing_half_done() {
    let machine = Machine::new().with_go("go1.26.8", Build::Slow);
    let mut child = machine.testbed(&["kustomize"]).spawn().unwrap();
    wait_until("go runs", || machine.calls().len() == 1);
    let go: u32 = machine.calls()[0].split(' ').next().unwrap().parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("go is gone too", || !Path::new(&format!("/proc/{go}")).exists());
    assert_eq!(machine.built(), Vec::<PathBuf>::new());

    machine.set_go("go1.26.8", Build::Works);
    let output = machine.run(&["kustomize"]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(machine.built().len(), 1);
}

#[test]
fn missing_and_old_go_are_told_with_what_to_do() {
    let machine = Machine::new();
    let output = machine.run(&["kustomize"]);
    assert!(!output.status.success());
    let text = err(&output);
    assert!(text.contains("no `go` on PATH") && text.contains("install Go 1.26"), "{text}");

    machine.set_go("go1.19.8", Build::Works);
    let text = err(&machine.run(&["kustomize"]));
    assert!(text.contains("v1.19.8") && text.contains("install Go 1.26"), "{text}");
    assert_eq!(machine.calls(), Vec::<String>::new());
}

#[test]
fn a_failed_build_shows_the_end_of_its_log() {
    let machine = Machine::new().with_go("go1.26.8", Build::Fails);
    let output = machine.run(&["kustomize"]);
    assert!(!output.status.success());
    assert!(err(&output).contains("cannot find module"), "{}", err(&output));
    assert_eq!(machine.built(), Vec::<PathBuf>::new());
}

#[test]
fn builds_are_pinned_static_and_read_only() {
    let machine = Machine::new().with_go("go1.26.8", Build::Works);
    assert!(machine.run(&["kustomize"]).status.success());
    let call = &machine.calls()[0];
    for flag in [
        "CGO_ENABLED=0",
        "GOTOOLCHAIN=local",
        "-mod=readonly",
        "-trimpath",
        "sigs.k8s.io/kustomize/kustomize/v5",
    ] {
        assert!(call.contains(flag), "{call}");
    }
}

#[test]
fn only_programs_of_a_fitting_version_are_taken_from_the_machine() {
    let machine = Machine::new();
    machine.program("kubectl", "#!/bin/sh\necho 'Client Version: v1.32.4-dispatcher'\n");
    let text = out(&machine.run(&["--list", "kubectl"]));
    assert!(text.contains("not there yet"), "{text}");
    machine.program("kubectl", "#!/bin/sh\necho 'Client Version: v1.35.0'\n");
    let text = out(&machine.run(&["--list", "kubectl"]));
    assert!(text.contains("v1.35.0") && text.contains(machine.bin().to_str().unwrap()), "{text}");
}

#[test]
fn a_control_plane_is_taken_from_assets_only_when_complete() {
    let machine = Machine::new();
    let assets = machine.dir.path().join("assets");
    std::fs::create_dir(&assets).unwrap();
    let put = |name: &str, version: &str| {
        std::fs::write(assets.join(name), format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        std::fs::set_permissions(assets.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let list = || {
        let output = machine
            .testbed(&["--list", "kube-apiserver"])
            .env("KUBEBUILDER_ASSETS", &assets)
            .output()
            .unwrap();
        out(&output) + &err(&output)
    };
    put("etcd", "etcd Version: 3.6.8");
    put("kube-apiserver", "Kubernetes v1.36.1");
    let text = list();
    assert!(text.contains("not there yet") && text.contains("KUBEBUILDER_ASSETS is not used"), "{text}");
    put("kube-controller-manager", "Kubernetes v1.36.1");
    put("kube-scheduler", "Kubernetes v1.35.1");
    put("kwok", "kwok version v0.8.0 go1.26.8 (linux/amd64)");
    let text = list();
    assert!(text.contains("not there yet") && text.contains("v1.35.1"), "{text}");
    put("kube-scheduler", "Kubernetes v1.36.1");
    let text = list();
    assert!(text.contains("v1.36.1") && text.contains(assets.to_str().unwrap()), "{text}");
}

fn wait_until(what: &str, check: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !check() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
