//! The Unix socket of a node's API, for commands on this machine.
//!
//! The file stays when the node stops. So a command that finds it does not try TCP, where another process could get the
//! token.

use socket2::{Domain, SockAddr, Socket, Type};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum length of a path in a socket address, without the final zero byte (unix(7): `sun_path` has 108 bytes).
const SUN_PATH_BYTES_MAX: usize = 107;

/// Listens at `path`, for the owner only. Removes the socket of an earlier process: the caller has locked the node's
/// data.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is not a socket"));
        }
        Ok(_) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    let listener = at(path, |path| UnixListener::bind(path))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to `path`, with the time limit `wait`.
pub fn connect(path: &Path, wait: Option<Duration>) -> io::Result<UnixStream> {
    at(path, |path| {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // unix(7): connect waits for room in the queue as long as a write would.
        socket.set_write_timeout(wait)?;
        socket.connect(&SockAddr::unix(path)?)?;
        Ok(socket.into())
    })
}

/// Calls `act` with a path that fits into a socket address. A long path is replaced by one through /proc.
fn at<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= SUN_PATH_BYTES_MAX {
        return act(path);
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let dir = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(dir)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name);
    act(&short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_socket_is_the_owner_s_and_its_path_may_be_long() {
        let dir = process::testing::test_dir("local-socket");
        let deep = dir.path().join("d".repeat(100)).join("e".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        for path in [dir.path().join("data.sock"), deep.join("data.sock")] {
            assert!(connect(&path, None).is_err());
            for _ in 0..2 {
                let listener = bind(&path).unwrap();
                assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
                let mut stream = connect(&path, Some(Duration::from_secs(1))).unwrap();
                listener.set_nonblocking(false).unwrap();
                listener.accept().unwrap().0.write_all(b"hello").unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                assert_eq!(text, "hello");
            }
            let error = connect(&path, None).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "the file stays, but nothing listens");
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "kept").unwrap();
            assert!(bind(&path).is_err() && std::fs::read(&path).unwrap() == b"kept");
        }
    }
}
