//! Go templates for the status of pods and nodes, put together from parts.

use std::fmt::Write;

use super::{EXIT_CODE, MESSAGE};

/// The state of every container of a pod after a stage.
#[derive(Clone, Copy)]
pub(super) enum Containers {
    /// Started now.
    Started { ready: bool },
    /// Already running, and ready from now on.
    BecameReady,
    /// Ended well.
    Completed,
    /// Ended with the exit code and message of the annotations.
    Failed,
    /// Ended like that and waiting to be started again.
    CrashLoop,
    /// Started once more after a crash.
    Restarted,
}

const PRELUDE: &str = "\
{{ $now := Now }}
{{ $root := . }}
{{ $annotations := or .metadata.annotations dict }}
";

/// Fields of the container status that come before its state.
const CONTAINER: &str = "\
{{ range $index, $container := .spec.containers }}
{{ $old := dict }}
{{ if $root.status.containerStatuses }}{{ $old = index $root.status.containerStatuses $index }}{{ end }}
{{ $restarts := int (toString (or $old.restartCount 0)) }}
- name: {{ $container.name | Quote }}
  image: {{ $container.image | Quote }}
  imageID: \"\"
  containerID: {{ printf \"testbed://%s-%s-%d\" $root.metadata.uid $container.name $restarts | Quote }}
";

const INIT_CONTAINERS: &str = "\
{{ if .spec.initContainers }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: \"\"
  ready: true
  started: {{ eq (or .restartPolicy \"\") \"Always\" }}
  restartCount: 0
  state:
{{ if eq (or .restartPolicy \"\") \"Always\" }}
    running:
      startedAt: {{ $now | Quote }}
{{ else }}
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
{{ end }}
{{ end }}
";

const ADDRESSES: &str = "\
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
hostIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
{{ with PodIPsWith .spec.nodeName (or .spec.hostNetwork false) .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ index . 0 | Quote }}
podIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
startTime: {{ $now | Quote }}
";

/// The status of a pod whose containers are all in this state.
pub(super) fn pod_status(phase: &str, containers: Containers) -> String {
    let ready = matches!(containers, Containers::Started { ready: true } | Containers::BecameReady);
    let mut text = PRELUDE.to_owned();
    text += "conditions:\n";
    let reason = match containers {
        Containers::Completed => "PodCompleted",
        Containers::Failed => "PodFailed",
        _ => "ContainersNotReady",
    };
    for (kind, status) in [
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("ContainersReady", ready),
        ("Ready", ready),
    ] {
        condition(&mut text, kind, status, reason);
    }
    if matches!(containers, Containers::Started { .. }) {
        text += ADDRESSES;
        text += INIT_CONTAINERS;
    }
    text += "containerStatuses:\n";
    text += CONTAINER;
    text += &container_state(containers);
    text += "{{ end }}\n";
    text + "phase: " + phase + "\n"
}

fn condition(text: &mut String, kind: &str, status: bool, reason: &str) {
    let status_word = if status { "True" } else { "False" };
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "- type: {kind}\n  status: \"{status_word}\"\n  lastProbeTime: null\n  lastTransitionTime: {{{{ $now | Quote }}}}\n"
    );
    let (reason, message) = if status { ("", "") } else { (reason, "simulated by the testbed") };
    let _ = write!(text, "  reason: \"{reason}\"\n  message: \"{message}\"\n");
}

fn container_state(containers: Containers) -> String {
    const RUNNING: &str = "  state:\n    running:\n      startedAt: {{ $now | Quote }}\n";
    let exit_code = format!("{{{{ or (index $annotations \"{EXIT_CODE}\") \"1\" }}}}");
    let message = format!("{{{{ or (index $annotations \"{MESSAGE}\") \"\" | Quote }}}}");
    let ended = |code: &str, reason: &str, message: &str, indent: &str| {
        [
            "exitCode: ",
            code,
            "\n",
            indent,
            "reason: ",
            reason,
            "\n",
            indent,
            "message: ",
            message,
            "\n",
            indent,
        ]
        .concat()
            + "startedAt: {{ $now | Quote }}\n"
            + indent
            + "finishedAt: {{ $now | Quote }}\n"
    };
    let flags = |ready: bool, started: bool, restarts: &str| {
        format!("  ready: {ready}\n  started: {started}\n  restartCount: {restarts}\n")
    };
    let same = "{{ $restarts }}";
    match containers {
        Containers::Started { ready } => flags(ready, true, same) + RUNNING,
        Containers::BecameReady => {
            flags(true, true, same)
                + "  state:\n    running:\n      startedAt: {{ $old.state.running.startedAt | Quote }}\n"
        }
        Containers::Completed => {
            flags(false, false, same)
                + "  state:\n    terminated:\n      "
                + &ended("0", "Completed", "\"\"", "      ")
        }
        Containers::Failed => {
            flags(false, false, same)
                + "  state:\n    terminated:\n      "
                + &ended(&exit_code, "Error", &message, "      ")
        }
        Containers::CrashLoop => {
            flags(false, false, "{{ add $restarts 1 }}")
                + "  state:\n    waiting:\n      reason: CrashLoopBackOff\n"
                + "      message: {{ printf \"back-off before container %s is started again\" $container.name | Quote }}\n"
                + "  lastState:\n    terminated:\n      "
                + &ended(&exit_code, "Error", &message, "      ")
        }
        Containers::Restarted => {
            flags(false, true, same)
                + RUNNING
                + "{{ with $old.lastState }}\n  lastState:\n{{ YAML . 2 }}\n{{ end }}\n"
        }
    }
}

/// The status of a node that is well.
pub(super) const NODE_STATUS: &str = "\
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
addresses:
- type: InternalIP
  address: {{ NodeIP | Quote }}
- type: Hostname
  address: {{ .metadata.name | Quote }}
capacity: {cpu: \"64\", memory: 256Gi, ephemeral-storage: 1Ti, pods: \"1000\"}
allocatable: {cpu: \"64\", memory: 256Gi, ephemeral-storage: 1Ti, pods: \"1000\"}
nodeInfo:
  architecture: amd64
  bootID: \"\"
  containerRuntimeVersion: testbed://1
  kernelVersion: testbed
  kubeProxyVersion: \"\"
  kubeletVersion: testbed
  machineID: \"\"
  operatingSystem: linux
  osImage: testbed
  systemUUID: \"\"
phase: Running
";
