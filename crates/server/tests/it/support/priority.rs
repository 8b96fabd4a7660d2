//! The priority of threads in tests.

use std::process::Command;

/// The nice value of attackers.
const ATTACKER_NICE: i32 = 15;

/// Lowers the priority of the calling thread. Attackers are other machines: here they may only use what the nodes and
/// their clients leave over of the cores.
pub(crate) fn give_way_to_nodes() {
    // The last part of `PID/task/TID`. On Linux, each thread has its own nice value.
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    let own = own.file_name().unwrap();
    let done = Command::new("renice").args(["-n", &ATTACKER_NICE.to_string(), "-p"]).arg(own).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
