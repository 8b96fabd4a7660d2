//! Child processes that enter the sandbox and try to escape. The test runs itself.
#![expect(unsafe_code, reason = "system calls that must fail; each block argues its safety")]

use super::files::Files;
use super::{capabilities, landlock, seccomp};
use crate::sandbox::state::Enforced;
use crate::testing::test_dir;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CHILD: &str = "CATAMARAN_TEST_SANDBOX";

/// Runs `test` in a child process with `word` in its environment.
fn run(test: &str, word: &str) -> Output {
    let test = format!("sandbox::tests::{test}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test, "--nocapture", "--test-threads=1"]).env(CHILD, word).output().unwrap()
}

fn assert_child_succeeds(test: &str, word: &str) {
    let output = run(test, word);
    let output_text = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success() && output_text.contains("the child is done"), "{test} {word}: {output_text}");
}

/// Calls that a node does not need, with arguments that make them harmless if they are allowed.
const DANGEROUS: [(&str, i64); 36] = [
    ("execve", libc::SYS_execve),
    ("execveat", libc::SYS_execveat),
    ("ptrace", libc::SYS_ptrace),
    ("process_vm_readv", libc::SYS_process_vm_readv),
    ("process_vm_writev", libc::SYS_process_vm_writev),
    ("pidfd_getfd", libc::SYS_pidfd_getfd),
    ("kcmp", libc::SYS_kcmp),
    ("mount", libc::SYS_mount),
    ("umount2", libc::SYS_umount2),
    ("pivot_root", libc::SYS_pivot_root),
    ("chroot", libc::SYS_chroot),
    ("open_tree", libc::SYS_open_tree),
    ("fsopen", libc::SYS_fsopen),
    ("unshare", libc::SYS_unshare),
    ("setns", libc::SYS_setns),
    ("init_module", libc::SYS_init_module),
    ("finit_module", libc::SYS_finit_module),
    ("delete_module", libc::SYS_delete_module),
    ("kexec_load", libc::SYS_kexec_load),
    ("reboot", libc::SYS_reboot),
    ("bpf", libc::SYS_bpf),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_uring_enter", libc::SYS_io_uring_enter),
    ("keyctl", libc::SYS_keyctl),
    ("add_key", libc::SYS_add_key),
    ("request_key", libc::SYS_request_key),
    ("setuid", libc::SYS_setuid),
    ("setgid", libc::SYS_setgid),
    ("capset", libc::SYS_capset),
    ("swapon", libc::SYS_swapon),
    ("settimeofday", libc::SYS_settimeofday),
    ("sethostname", libc::SYS_sethostname),
    ("acct", libc::SYS_acct),
    ("personality", libc::SYS_personality),
];

fn error_of(call: i64, first: u64) -> Option<i32> {
    // SAFETY: no argument is a pointer that the kernel follows: they are zero, a flag or a number that is not valid.
    let done = unsafe { libc::syscall(call, first, 0, 0, 0, 0, 0) };
    (done == -1).then(|| io::Error::last_os_error().raw_os_error().unwrap())
}

#[test]
fn forbidden_calls_fail_without_killing_the_process() {
    const TEST: &str = "forbidden_calls_fail_without_killing_the_process";
    if std::env::var_os(CHILD).is_none() {
        return assert_child_succeeds(TEST, "child");
    }
    let is_refused = |call, first| error_of(call, first) == Some(libc::EPERM);
    // Without the filter the call does not fail with EPERM.
    assert!(!is_refused(libc::SYS_personality, 0xffff_ffff));
    seccomp::set_no_new_privs().unwrap();
    // A thread that is already running is filtered too.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let _ = wait.recv();
        error_of(libc::SYS_personality, 0xffff_ffff)
    });
    assert_eq!(seccomp::install(seccomp::NODE_FAMILIES).unwrap(), Enforced::Fully);
    go.send(()).unwrap();
    assert_eq!(other.join().unwrap(), Some(libc::EPERM));
    for (name, call) in DANGEROUS {
        assert!(is_refused(call, u64::MAX), "{name}");
    }
    // A process, a raw socket, a packet socket, input for a terminal, a signal to another process; core dumps.
    assert!(is_refused(libc::SYS_clone, libc::SIGCHLD as u64));
    #[cfg(target_arch = "x86_64")]
    assert!(is_refused(libc::SYS_fork, 0));
    assert!(is_refused(libc::SYS_socket, libc::AF_PACKET as u64));
    assert!(is_refused(libc::SYS_socket, libc::AF_NETLINK as u64));
    assert!(is_refused(libc::SYS_kill, 1));
    assert!(is_refused(libc::SYS_tgkill, 1));
    assert!(is_refused(libc::SYS_ioctl, u64::MAX));
    // SAFETY: the call has no pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) }, -1);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) }, 0);
    assert!(Command::new("true").status().is_err());
    // Calls that are newer than the list, and clone3, fail as on an older kernel.
    assert_eq!(error_of(libc::SYS_clone3, 0), Some(libc::ENOSYS));
    assert_eq!(error_of(470, 0), Some(libc::ENOSYS));
    // Calls that a node needs are still allowed.
    assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
    eprintln!("the child is done");
}

#[test]
fn files_outside_are_neither_read_nor_written() {
    const TEST: &str = "files_outside_are_neither_read_nor_written";
    let Some(root) = std::env::var_os(CHILD).map(PathBuf::from) else {
        let dir = test_dir("landlock");
        let at = |name: &str| dir.path().join(name);
        for name in ["data", "certs", "archive", "secret"] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join("file"), name).unwrap();
        }
        return assert_child_succeeds(TEST, dir.path().to_str().unwrap());
    };
    let at = |name: &str| root.join(name);
    assert!(std::fs::read(at("secret/file")).is_ok(), "the file must be readable without a sandbox");
    let files = Files { written: vec![at("data"), at("none")], read: vec![at("certs"), at("archive/file")] };
    if landlock::restrict(&files).unwrap() == Enforced::No {
        eprintln!("this kernel has no Landlock: the child is done");
        return;
    }
    let is_denied =
        |outcome: io::Result<()>| matches!(outcome, Err(error) if error.raw_os_error() == Some(libc::EACCES));
    let read = |path: &Path| std::fs::read(path).map(drop);
    let write = |path: &Path| std::fs::write(path, "x");
    assert!(is_denied(read(&at("secret/file"))) && is_denied(write(&at("secret/file"))));
    assert!(is_denied(write(&at("secret/new"))) && is_denied(std::fs::remove_file(at("secret/file"))));
    assert!(is_denied(read(Path::new("/etc/passwd"))));
    assert!(read(&at("certs/file")).is_ok() && read(&at("archive/file")).is_ok());
    assert!(is_denied(write(&at("certs/file"))) && is_denied(write(&at("certs/new"))));
    // A link does not lead out, and threads are restricted too.
    assert!(std::os::unix::fs::symlink(at("secret/file"), at("data/link")).is_err(), "no links to elsewhere");
    let secret = at("secret/file");
    assert!(std::thread::spawn(move || std::fs::read(secret).is_err()).join().unwrap());
    // Everything that a node does with its own files is allowed.
    write(&at("data/new")).unwrap();
    std::fs::rename(at("data/new"), at("data/renamed")).unwrap();
    std::fs::hard_link(at("data/renamed"), at("data/linked")).unwrap();
    std::fs::create_dir(at("data/more")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(at("data/more/socket")).unwrap());
    std::fs::remove_file(at("data/more/socket")).unwrap();
    std::fs::remove_dir(at("data/more")).unwrap();
    std::fs::File::options().write(true).open(at("data/linked")).unwrap().set_len(0).unwrap();
    assert!(is_denied(Command::new("/bin/true").status().map(drop)), "programs");
    eprintln!("the child is done");
}

#[test]
fn capabilities_are_dropped_for_good() {
    const TEST: &str = "capabilities_are_dropped_for_good";
    let Some(word) = std::env::var(CHILD).ok() else {
        assert_child_succeeds(TEST, "none");
        return assert_child_succeeds(TEST, "ports");
    };
    let sets = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:", "CapBnd:"].map(set)
    };
    const NET_BIND_SERVICE: u64 = 1 << 10;
    let before = sets();
    let outcome = capabilities::drop_all(word == "ports").unwrap();
    let [effective, permitted, inheritable, ambient, bounding] = sets();
    let kept = if word == "ports" { before[1] & NET_BIND_SERVICE } else { 0 };
    assert_eq!([effective, permitted, inheritable, ambient], [kept, kept, 0, 0]);
    // The bounding set shrinks only with CAP_SETPCAP.
    let may_shrink = before[0] & 1 << 8 != 0;
    assert_eq!(bounding, if may_shrink { kept & before[4] } else { before[4] });
    assert_eq!(outcome == Enforced::Fully, bounding & !kept == 0);
    eprintln!("the child is done");
}
