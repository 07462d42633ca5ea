//! Which system calls a program in the cell may not make (seccomp).
//!
//! A list of what is refused, not of what is allowed: the programs change with every version, and Landlock and the
//! limits stand behind it. A refused call fails with an error as if the kernel lacked the right, so that programs say
//! what they could not do.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::SandboxError;

/// Refused whatever the arguments.
const REFUSED: [i64; 34] = [
    // No network. Not even sockets in the file system: a container engine may listen there.
    libc::SYS_socket,
    // Would make sockets, and much else, past this filter.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The group of processes is what is killed at the end: nothing leaves it.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Other views of the system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// On x86-64 every call has a second number, for programs with short pointers.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: Option<i64> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const OTHER_NUMBERS: Option<i64> = None;

/// Sets the filter for this thread and all that it becomes or starts.
pub(super) fn apply() -> Result<(), SandboxError> {
    for program in programs().map_err(SandboxError::Filter)? {
        seccompiler::apply_filter(&program).map_err(SandboxError::Apply)?;
    }
    Ok(())
}

fn programs() -> Result<[BpfProgram; 2], BackendError> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().flat_map(|call| numbers(*call)).map(|call| (call, Vec::new())).collect();
    for call in numbers(libc::SYS_clone) {
        refused.insert(call, vec![new_user()?]);
    }
    // The arguments of clone3 cannot be seen by a filter. To libraries this error says: use clone.
    let unknown = numbers(libc::SYS_clone3).map(|call| (call, Vec::new())).collect();
    Ok([program(refused, libc::EACCES)?, program(unknown, libc::ENOSYS)?])
}

fn numbers(call: i64) -> impl Iterator<Item = i64> {
    [Some(call), OTHER_NUMBERS.map(|bit| bit | call)].into_iter().flatten()
}

/// A process that is its own root: the way to most faults of kernels.
fn new_user() -> Result<SeccompRule, BackendError> {
    let flag = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    SeccompRule::new(vec![SeccompCondition::new(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(flag),
        flag,
    )?])
}

fn program(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_filter_can_be_made_for_this_processor() {
        assert!(programs().unwrap().iter().all(|program| !program.is_empty()));
    }
}
