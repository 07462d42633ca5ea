//! The cell itself, by a shell that tries to leave it.

use std::{
    io::ErrorKind,
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;
use windlass_deliver::sandbox::Cell;

use crate::bed::DOOR;

fn confined(cell: &Cell, text: &str) -> Output {
    let args = cell.args(Path::new("/bin/bash"), ["-c", text]);
    let mut command = Command::new(DOOR);
    command.args(args).env_clear().env("PATH", "/usr/bin:/bin").current_dir(&cell.scratch);
    command.output().unwrap()
}

fn says(output: &Output) -> String {
    format!("{} {}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn cell() -> (Cell, TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    (Cell::new(scratch.path().canonicalize().unwrap()), scratch)
}

/// Whether this kernel has Landlock: asked in a thread of its own, which then is confined.
fn has_landlock() -> bool {
    use landlock::{ABI, Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetStatus};
    let ask = || {
        let rules = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1)).unwrap().create().unwrap();
        rules.restrict_self().unwrap().ruleset != RulesetStatus::NotEnforced
    };
    std::thread::spawn(ask).join().unwrap()
}

#[test]
fn a_program_in_the_cell_has_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (cell, _scratch) = cell();
    for text in [
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
        format!("exec 3<>/dev/udp/127.0.0.1/{port}"),
        format!("HOME=$PWD git ls-remote http://127.0.0.1:{port}/app.git"),
    ] {
        let output = confined(&cell, &text);
        assert!(!output.status.success(), "{text}: {}", says(&output));
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "somebody called");
    // Outside of the cell the same text does get through.
    let text = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    assert!(Command::new("/bin/bash").args(["-c", &text]).status().unwrap().success());
    assert!(listener.accept().is_ok());
}

#[test]
fn a_program_in_the_cell_writes_and_reads_its_own_files_only() {
    if !has_landlock() {
        eprintln!("skipped: this kernel has no Landlock");
        return;
    }
    let other = tempfile::tempdir().unwrap();
    let secret = other.path().join("secret");
    std::fs::write(&secret, "hunter22").unwrap();
    let (cell, scratch) = cell();
    let shown = other.path().display();
    let text = format!(
        "echo mine > mine\necho x > {shown}/new && echo WROTE\ncat {shown}/secret && echo READ\nrm -f {shown}/secret\n\
         ls {shown} && echo LISTED\necho x > /dev/null && echo NULL\ncat /proc/$PPID/environ && echo ENVIRON\n\
         cat /etc/shadow && echo SHADOW\nexit 0"
    );
    let output = confined(&cell, &text);
    let text = says(&output);
    assert!(output.status.success(), "{text}");
    for word in ["WROTE", "READ", "LISTED", "ENVIRON", "SHADOW", "hunter22"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(text.contains("NULL"), "{text}");
    assert_eq!(std::fs::read_to_string(scratch.path().join("mine")).unwrap(), "mine\n");
    assert!(secret.exists() && !other.path().join("new").exists());
}

#[test]
fn a_program_in_the_cell_cannot_leave_its_group_or_change_its_view() {
    let (cell, _scratch) = cell();
    for text in ["setsid --wait true", "unshare --user true", "unshare --net true", "mount -t tmpfs none ."] {
        let output = confined(&cell, text);
        assert!(!output.status.success(), "{text}: {}", says(&output));
    }
    assert!(confined(&cell, "true && /bin/true | cat").status.success());
}

#[test]
fn a_program_in_the_cell_keeps_to_its_limits() {
    let (mut cell, _scratch) = cell();
    cell.memory = 64 << 20;
    cell.file_bytes = 1 << 20;
    cell.cpu_seconds = 2;
    let large = confined(&cell, "trap '' XFSZ; head -c 8388608 /dev/zero > large; stat -c %s large");
    assert!(says(&large).contains("1048576"), "{}", says(&large));
    let memory = confined(&cell, "head -c 300000000 /dev/zero | tail | wc -c");
    assert!(!says(&memory).contains("300000000"), "{}", says(&memory));
    let endless = confined(&cell, "while :; do :; done");
    assert!(!endless.status.success());
    let core = confined(&cell, "ulimit -Hc; ulimit -Hn");
    assert!(says(&core).starts_with("0\n1024\n"), "{}", says(&core));
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let (cell, _scratch) = cell();
    let args = cell.args(Path::new("/nowhere/helm"), ["version"]);
    let output = Command::new(DOOR).args(args).output().unwrap();
    assert!(!output.status.success());
    assert!(says(&output).contains("windlass sandbox: cannot start /nowhere/helm"), "{}", says(&output));
}
