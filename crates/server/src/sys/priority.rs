//! The priority of threads.
#![expect(unsafe_code, reason = "plain system calls; each block argues its safety")]

use std::io;

/// Nice value of threads that answer queries, so that the replica gets CPU time during a flood.
pub(crate) const PACKET_NICE_STEP: i32 = 5;

/// Nice value of the API thread: large zone files must not delay queries.
pub(crate) const API_NICE_STEP: i32 = 10;

/// Nice value of the thread for handshakes with addresses that belong to no member: a flood of them must not delay
/// queries.
pub(crate) const STRANGER_NICE_STEP: i32 = 10;

/// Nice value of long background work if it cannot be idle: transfers, backups, zone files.
const BULK_NICE_STEP: i32 = 15;

/// Lowers the priority of the calling thread relative to the process, so that the replica gets CPU time during a flood
/// of queries. This needs no privilege. Threads that it starts inherit the priority.
pub(crate) fn give_way(step: i32) {
    // The main thread is never lowered. 0 is the calling thread: on Linux each has its own nice value.
    let (whole, own) = (nice_of(std::process::id()), nice_of(0));
    let wanted = whole.saturating_add(step);
    // SAFETY: the call has no pointers.
    if wanted > own && unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted) } != 0 {
        let error = io::Error::last_os_error();
        tracing::warn!(%error, "cannot lower the priority of a thread; it competes with the replica");
    }
}

/// Gives the calling thread the idle scheduling class: any other thread takes its core at once. A high nice value does
/// not do that, because a running thread may keep its core until the next kernel tick.
pub(crate) fn give_way_to_all() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a live parameter, which the kernel only reads; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) } != 0 {
        let error = io::Error::last_os_error();
        tracing::warn!(%error, "cannot make a thread idle; only its priority is lowered");
        give_way(BULK_NICE_STEP);
    }
}

/// The nice value of a thread; 0 if unknown.
fn nice_of(thread: u32) -> libc::c_int {
    // SAFETY: the call has no pointers. The system call returns 20 minus the nice value, which is never negative. The
    // function of libc returns the nice value, so its -1 is ambiguous: a nice value or an error.
    let precedence = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, thread) };
    if precedence > 0 { 20 - precedence as libc::c_int } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn give_way_lowers_the_priority_and_never_raises_it() {
        let before = nice_of(0);
        std::thread::spawn(move || {
            let whole = nice_of(std::process::id());
            for (step, wanted) in [(3, 3), (3, 3), (1, 3), (7, 7)] {
                give_way(step);
                assert_eq!(nice_of(0), (whole + wanted).min(19));
            }
        })
        .join()
        .unwrap();
        assert_eq!(nice_of(0), before, "other threads are unchanged");
    }

    #[test]
    fn give_way_to_all_uses_the_idle_class() {
        std::thread::spawn(|| {
            give_way_to_all();
            // SAFETY: the call has no pointers; 0 is the calling thread.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_IDLE);
        })
        .join()
        .unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER, "other threads are unchanged");
    }
}
