//! Which files a program in the cell may read and write (Landlock).

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
    Scope, path_beneath_rules,
};

use super::{Cell, SandboxError};

/// Where programs and their libraries are. Nothing in them is secret.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];

/// Single files of the system that libraries look at.
const READ: [&str; 7] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
];

/// Devices without a memory.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];

/// What was tested; newer kernels know more, older ones less, and each does what it can.
const TESTED: ABI = ABI::V6;

/// Fences off all files but those that the cell allows, and with newer kernels TCP ports and signals to others.
pub(super) fn fence(cell: &Cell, program: &Path) -> Result<(), SandboxError> {
    rules(cell, program).map_err(SandboxError::Files)
}

fn rules(cell: &Cell, program: &Path) -> Result<(), RulesetError> {
    let read = AccessFs::from_read(TESTED);
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let all = AccessFs::from_all(TESTED);
    // The status is not looked at: a kernel without Landlock still has the limits and the filter of system calls.
    let _status = Ruleset::default()
        .handle_access(all)?
        .handle_access(AccessNet::from_all(TESTED))?
        .scope(Scope::from_all(TESTED))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(READ, AccessFs::ReadFile | AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(DEVICES, device))?
        .add_rules(path_beneath_rules([program], read))?
        .add_rules(path_beneath_rules(&cell.readable, read))?
        .add_rules(path_beneath_rules([&cell.scratch], all))?
        .restrict_self()?;
    Ok(())
}
