//! The system call filter: a list of allowed calls. Any other call fails with EPERM, and the kernel logs it.
//!
//! No process is killed: a call that is missing here is an error of that call. Calls that the C library only tries, and
//! calls newer than this list, fail with ENOSYS as on an older kernel. Then the library uses another call.
#![expect(unsafe_code, reason = "plain system calls; each block argues its safety")]

use super::seccomp_calls::{ALLOWED, ALLOWED_LEGACY, TRIED};
use super::state::Enforced;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, sock_filter};
use std::collections::BTreeMap;
use std::io;

/// Socket families of a node: `external` rules, IPv4, IPv6.
pub(super) const NODE_FAMILIES: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
/// Socket families of `catamaran ddns`, with netlink for the addresses of interfaces.
pub(super) const DDNS_FAMILIES: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Namespaces that a new thread must not create.
const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// The calls that a filter matches. A call with rules matches if one of its rules does.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Prevents started programs from getting more rights. [`install`] needs this without privileges.
pub(super) fn set_no_new_privs() -> io::Result<Enforced> {
    // SAFETY: the call has no pointers.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
        0 => Ok(Enforced::Fully),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Filters the calls of all threads, irrevocably.
pub(super) fn install(families: &[libc::c_int]) -> io::Result<Enforced> {
    let eperm = SeccompAction::Errno(libc::EPERM as u32);
    let enosys = SeccompAction::Errno(libc::ENOSYS as u32);
    // The stricter result of two filters counts. The second filter allows calls that are only tried, so that the first
    // one refuses them.
    let tried: Rules = tried().map(|call| (call, Vec::new())).collect();
    let allowed = compile(allowed(families).map_err(io::Error::other)?, eperm, SeccompAction::Allow)?;
    // Each new thread tries `clone3`, which needs no line in the log of the kernel.
    load(&compile(tried, SeccompAction::Allow, enosys)?, 0)?;
    load(&allowed, libc::SECCOMP_FILTER_FLAG_LOG)?;
    Ok(Enforced::Fully)
}

fn tried() -> impl Iterator<Item = i64> {
    TRIED.into_iter().flatten()
}

/// The allowed calls with their conditions; most have none.
fn allowed(families: &[libc::c_int]) -> Result<Rules, seccompiler::BackendError> {
    let one = |argument, length, how, value: libc::c_int| {
        SeccompRule::new(vec![SeccompCondition::new(argument, length, how, value as u32 as u64)?])
    };
    let any_of = |argument, values: &[libc::c_int]| {
        values.iter().map(|value| one(argument, Dword, Eq, *value)).collect::<Result<Vec<_>, _>>()
    };
    let own_pid = std::process::id() as libc::c_int;
    let unconditional = ALLOWED.iter().chain(ALLOWED_LEGACY).copied().chain(tried());
    let mut rules: Rules = unconditional.map(|call| (call, Vec::new())).collect();
    rules.extend([
        (libc::SYS_socket, any_of(0, families)?),
        (libc::SYS_socketpair, any_of(0, &[libc::AF_UNIX])?),
        // Threads, but no processes.
        (
            libc::SYS_clone,
            vec![one(0, Qword, MaskedEq((libc::CLONE_THREAD | NAMESPACES) as u32 as u64), libc::CLONE_THREAD)?],
        ),
        // `abort` sends a signal to its own process.
        (libc::SYS_tgkill, any_of(0, &[own_pid])?),
        (libc::SYS_prlimit64, any_of(0, &[0, own_pid])?),
        (
            libc::SYS_ioctl,
            any_of(1, &[libc::FIONBIO as _, libc::FIONREAD as _, libc::FIOCLEX as _, libc::TCGETS as _])?,
        ),
        (
            libc::SYS_prctl,
            any_of(
                0,
                &[
                    libc::PR_SET_NAME,
                    libc::PR_GET_NAME,
                    libc::PR_GET_DUMPABLE,
                    libc::PR_SET_NO_NEW_PRIVS,
                    libc::PR_GET_NO_NEW_PRIVS,
                    libc::PR_CAPBSET_READ,
                    libc::PR_SET_VMA,
                ],
            )?,
        ),
    ]);
    // Core dumps can be turned off, but not on again.
    let not_dumpable = vec![
        SeccompCondition::new(0, Dword, Eq, libc::PR_SET_DUMPABLE as u64)?,
        SeccompCondition::new(1, Qword, Eq, 0)?,
    ];
    rules.entry(libc::SYS_prctl).or_default().push(SeccompRule::new(not_dumpable)?);
    Ok(rules)
}

fn compile(rules: Rules, otherwise: SeccompAction, matching: SeccompAction) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, otherwise, matching, arch).map_err(io::Error::other)?;
    BpfProgram::try_from(filter).map_err(io::Error::other)
}

/// Loads a filter for all threads. It disables the slower branches that older kernels give to filtered threads, because
/// no untrusted code runs here. Kernels before 4.17 know neither this flag nor `log`.
fn load(program: &[sock_filter], log: libc::c_ulong) -> io::Result<()> {
    let all = libc::SECCOMP_FILTER_FLAG_TSYNC;
    load_with(program, all | log | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW).or_else(|_| load_with(program, all))
}

fn load_with(program: &[sock_filter], flags: libc::c_ulong) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the pointer is to a live program of `len` instructions in the kernel's layout. The kernel copies them and
    // writes nothing.
    match unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) } {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread {thread} has another filter"))),
    }
}
