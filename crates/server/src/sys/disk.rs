//! Room on a disk, and the page cache.
#![expect(unsafe_code, reason = "plain system calls; each block argues its safety")]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Lets the kernel drop its cached pages of a file, so that the next read comes from the disk.
pub(crate) fn forget_cached(file: &std::fs::File, offset: u64, len: usize) {
    let (offset, len) = (i64::try_from(offset).unwrap_or(0), i64::try_from(len).unwrap_or(0));
    // SAFETY: the call has no pointers. If it fails, the read comes from memory.
    let _ = unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, libc::POSIX_FADV_DONTNEED) };
}

/// Allocates blocks for a part of a file. The file's size stays the same.
///
/// # Errors
/// [`io::Error`]: the disk is full, or the file system does not support this.
pub(crate) fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    loop {
        // SAFETY: the call has no pointers, and the file is open.
        if unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, offset, bytes) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Bytes that users other than root may still write to the file system of this directory.
pub(crate) fn free_bytes(dir: &Path) -> io::Result<u64> {
    let path = CString::new(dir.as_os_str().as_bytes())?;
    let mut of = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte, and the kernel writes a whole statvfs to the live memory.
    if unsafe { libc::statvfs(path.as_ptr(), of.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so all of it is written.
    let of = unsafe { of.assume_init() };
    Ok(of.f_bavail.saturating_mul(of.f_frsize))
}
