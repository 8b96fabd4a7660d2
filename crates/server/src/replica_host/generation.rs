//! Detects that the machine was reset to a snapshot, or copied, while it ran.
//!
//! The hypervisor then changes the machine's generation ID (`vmgenid`). Linux 6.10 and later send an event to the
//! listeners of `kobject_uevent`, whose text contains `NEW_VMGENID=1`. The node then drops all leases that it requested
//! before, because its clocks do not show how long ago that was.

use super::event::Event;
use super::handle::ReplicaHandle;
use crate::limits::UEVENT_BYTES_MAX;
use crate::sys::socket::uevent_socket;
use replica::io::Input;
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

/// The kernel's text in the event.
const CHANGED: &[u8] = b"NEW_VMGENID=1";
/// Pause of the listener after an error, so that it does not use a whole core.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Opens the socket for these events; `None` if the kernel or the service manager does not allow it. The node opens it
/// before it enters the sandbox, which does not allow such sockets.
pub(crate) fn listen() -> Option<File> {
    uevent_socket().inspect_err(|error| tracing::debug!(%error, "cannot listen for changes of the generation ID")).ok()
}

/// Whether an event reports a new generation ID. An event is a list of lines that end with a zero byte.
fn is_change(event: &[u8]) -> bool {
    event.split(|&byte| byte == 0).any(|line| line == CHANGED)
}

/// Reads events, and notifies the replica of each change.
pub(crate) fn run(mut socket: impl Read, handle: &ReplicaHandle) {
    run_with(&mut socket, &mut || {
        tracing::warn!("this machine was reset to a snapshot, or copied: the node drops its leases");
        handle.send(Event::Input(Input::MachineRestored));
    });
}

/// Reads events until the socket fails.
fn run_with(socket: &mut impl Read, changed: &mut impl FnMut()) {
    let mut event = vec![0; UEVENT_BYTES_MAX];
    loop {
        match socket.read(&mut event) {
            Ok(0) => return,
            Ok(len) if is_change(&event[..len]) => changed(),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The kernel dropped events, and one of them may have been such a change.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed(),
            Err(error) => {
                tracing::debug!(%error, "cannot read an event of the kernel");
                std::thread::sleep(AFTER_ERROR);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The event as drivers/virt/vmgenid.c has the kernel send it.
    const EVENT: &[u8] = b"change@/devices/LNXSYSTM:00/LNXSYBUS:00/QEMUVGID:00\0ACTION=change\0\
                           DEVPATH=/devices/LNXSYSTM:00/LNXSYBUS:00/QEMUVGID:00\0SUBSYSTEM=acpi\0NEW_VMGENID=1\0\
                           MODALIAS=acpi:QEMUVGID:VM_GEN_COUNTER:\0SEQNUM=4711\0";
    const OTHER: &[u8] = b"add@/devices/virtual/net/v0\0ACTION=add\0DEVPATH=/devices/virtual/net/v0\0\
                           SUBSYSTEM=net\0INTERFACE=NEW_VMGENID=1\0IFINDEX=7\0SEQNUM=4712\0";

    /// Returns one event per read, as a datagram socket does.
    struct Events(Vec<io::Result<Vec<u8>>>);

    impl Read for Events {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let event = self.0.remove(0)?;
            let len = event.len().min(into.len());
            into[..len].copy_from_slice(&event[..len]);
            Ok(len)
        }
    }

    #[test]
    fn only_a_change_of_the_generation_is_one() {
        assert!(is_change(EVENT));
        for other in [OTHER, b"", b"\0\0", b"NEW_VMGENID=10\0", b"NEW_VMGENID=0\0"] {
            assert!(!is_change(other), "{other:?}");
        }
    }

    #[test]
    fn each_change_and_each_loss_of_events_is_reported() {
        let lost = || Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        let again = || Err(io::ErrorKind::Interrupted.into());
        let long = vec![1; 2 * UEVENT_BYTES_MAX];
        let events = [Ok(OTHER.to_vec()), Ok(EVENT.to_vec()), again(), Ok(long), lost(), Ok(EVENT.to_vec())];
        let mut count = 0;
        run_with(&mut Events(events.into()), &mut || count += 1);
        assert_eq!(count, 3);
    }

    /// A write to a device's `uevent` file makes the kernel send an event. Needs root. The event changes nothing.
    #[test]
    fn events_of_the_kernel_arrive() {
        const DEVICE: &str = "/sys/devices/virtual/mem/null/uevent";
        let Some(mut socket) = listen() else { return };
        let (seen, events) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut event = [0; UEVENT_BYTES_MAX];
            while let Ok(len) = socket.read(&mut event) {
                if seen.send(event[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        if std::fs::write(DEVICE, "change").is_err() {
            return;
        }
        let is_ours = |event: &[u8]| event.starts_with(b"change@/devices/virtual/mem/null\0");
        while !is_ours(&events.recv_timeout(Duration::from_secs(20)).expect("an event of the kernel")) {}
    }
}
