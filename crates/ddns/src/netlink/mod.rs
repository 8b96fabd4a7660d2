//! Lists and watches the addresses of this machine. Each notification starts a new list of all addresses, so lost
//! messages do no harm.

mod parse;

use crate::address::InterfaceAddress;
use crate::limits::{INTERFACE_POLL_MS, NETLINK_BYTES, NETLINK_DUMPS_MAX, NETLINK_GATHER_MS, NETLINK_MESSAGES_MAX};
use crate::time::sleep_ms;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, recvfrom, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;
use parse::{Progress, RTM_GETADDR, RTM_GETLINK, Table, dump_request};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Groups of messages (linux/rtnetlink.h): links, addresses of both families.
const RTMGRP_LINK: u32 = 1;
const RTMGRP_IPV4_IFADDR: u32 = 0x10;
const RTMGRP_IPV6_IFADDR: u32 = 0x100;
/// Time limit of a dump. The kernel usually answers at once.
const DUMP_MS: u64 = 1_000;

/// Notifications of changes.
pub(crate) struct Changes(OwnedFd);

impl Changes {
    /// Subscribes to changes.
    pub(crate) fn subscribe() -> io::Result<Self> {
        open(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR, INTERFACE_POLL_MS).map(Self)
    }

    /// Waits for changes, at most [`INTERFACE_POLL_MS`]. Reads all pending messages.
    pub(crate) fn wait(&self) -> io::Result<()> {
        let mut bytes = vec![0; NETLINK_BYTES];
        let mut flags = MsgFlags::empty();
        for _ in 0..NETLINK_MESSAGES_MAX {
            match recv(self.0.as_raw_fd(), &mut bytes, flags) {
                // ENOBUFS: messages were lost, so all addresses are listed again.
                Ok(_) | Err(Errno::ENOBUFS) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if flags.is_empty() {
                sleep_ms(NETLINK_GATHER_MS);
                flags = MsgFlags::MSG_DONTWAIT;
            }
        }
        Ok(())
    }
}

/// All addresses of this machine.
pub(crate) fn list_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let socket = open(0, DUMP_MS)?;
    for sequence in 0..NETLINK_DUMPS_MAX {
        let mut table = Table::default();
        dump(&socket, RTM_GETLINK, 2 * sequence + 1, &mut table)?;
        dump(&socket, RTM_GETADDR, 2 * sequence + 2, &mut table)?;
        // The last attempt is used as it is: a notification follows, which starts another list.
        if !table.is_interrupted || sequence + 1 == NETLINK_DUMPS_MAX {
            return Ok(table.finish());
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

fn dump(socket: &OwnedFd, kind: u16, sequence: u32, table: &mut Table) -> io::Result<()> {
    send(socket.as_raw_fd(), &dump_request(kind, sequence), MsgFlags::empty())?;
    let mut bytes = vec![0; NETLINK_BYTES];
    for _ in 0..NETLINK_MESSAGES_MAX {
        let len = match receive(socket, &mut bytes) {
            Ok(len) => len,
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        };
        match table.read(&bytes[..len], sequence) {
            Progress::More => {}
            Progress::Done => return Ok(()),
            Progress::Failed => return Err(io::Error::other("the kernel refused to list the addresses")),
        }
    }
    Err(io::Error::other("the kernel lists too many addresses"))
}

/// Receives one datagram of the kernel, whose port id is 0.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> Result<usize, Errno> {
    let (len, from) = recvfrom::<NetlinkAddr>(socket.as_raw_fd(), bytes)?;
    Ok(if from.is_some_and(|from| from.pid() == 0) { len } else { 0 })
}

fn open(groups: u32, wait_ms: u64) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    let wait = TimeVal::new((wait_ms / 1_000) as i64, (wait_ms % 1_000) as i64 * 1_000);
    setsockopt(&socket, sockopt::ReceiveTimeout, &wait)?;
    Ok(socket)
}
