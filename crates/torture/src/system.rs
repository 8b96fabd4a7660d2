//! System calls that std does not offer.
#![expect(unsafe_code, reason = "system calls; every block argues its safety")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// `_IOR('X', 125, __u32)` of ext4 (linux/ext4.h).
const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587D;
/// Shuts the file system down immediately. Nothing else is written, not even the journal.
const NO_LOG_FLUSH: u32 = 2;
/// `_IOWR('X', 119, int)` and `_IOWR('X', 120, int)` (linux/fs.h).
const FIFREEZE: libc::c_ulong = 0xC004_5877;
const FITHAW: libc::c_ulong = 0xC004_5878;

/// Cuts the power of the file system at a path. Data that is not on its disk is lost.
pub(crate) fn cut_power(mounted_at: &Path) -> io::Result<()> {
    let directory = File::open(mounted_at)?;
    let flags = NO_LOG_FLUSH;
    // SAFETY: the descriptor is open, and this request reads one u32, which is live.
    let result = unsafe { libc::ioctl(directory.as_raw_fd(), EXT4_IOC_SHUTDOWN as _, &raw const flags) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Blocks all writes to a file system, or lets them continue.
pub(crate) fn freeze(mounted_at: &Path, is_frozen: bool) -> io::Result<()> {
    let directory = File::open(mounted_at)?;
    let request = if is_frozen { FIFREEZE } else { FITHAW };
    // SAFETY: the descriptor is open, and this request takes no argument.
    let result = unsafe { libc::ioctl(directory.as_raw_fd(), request as _, 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends a signal to one process that this program started and has not reaped.
pub(crate) fn signal(pid: u32, signal: libc::c_int) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 1).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: kill takes two integers.
    let result = unsafe { libc::kill(pid, signal) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
