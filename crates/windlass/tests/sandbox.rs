//! The hidden verb that is the door of the cell.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::windlass;

#[test]
fn the_sandbox_becomes_the_program_and_is_not_in_the_help() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| windlass(home.path()).args(args).output().unwrap();
    let scratch = home.path().to_str().unwrap();
    let output =
        run(&["sandbox", "--scratch", scratch, "--", "/bin/sh", "-c", "echo $0 --help; exit 7", "in"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "in --help\n");
    let refused = run(&["sandbox", "--", "/bin/true"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("windlass sandbox: "), "{refused:?}");
    assert!(!String::from_utf8_lossy(&run(&["--help"]).stdout).contains("sandbox"));
}
