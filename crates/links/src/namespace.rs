//! A network namespace by name.
//!
//! ```text
//!   make ----> owned: removed on drop
//!   open ----> of another owner: stays
//! ```

use crate::limits::NAME_BYTES_MAX;
use crate::{ip, system};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// A network namespace with loopback up. Dropping it removes the namespace and its interfaces, if [`Namespace::make`]
/// created it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    is_owned: bool,
}

impl Namespace {
    /// Creates a namespace.
    ///
    /// # Errors
    ///
    /// The name is too long or taken, or this process lacks the permission.
    pub fn make(name: &str) -> io::Result<Self> {
        if !is_name(name) {
            return Err(not_a_name(name));
        }
        ip(&["netns", "add", name])?;
        let namespace = Self { name: name.to_owned(), is_owned: true };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// An existing namespace. Dropping the value keeps the namespace.
    ///
    /// # Errors
    ///
    /// There is no namespace of this name.
    pub fn open(name: &str) -> io::Result<Self> {
        if !is_name(name) {
            return Err(not_a_name(name));
        }
        if !system::path_of_namespace(name).exists() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no namespace {name}")));
        }
        Ok(Self { name: name.to_owned(), is_owned: false })
    }

    /// Its name, as `ip netns` lists it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in the namespace, with the words of `line`.
    ///
    /// # Errors
    ///
    /// As [`ip()`].
    pub fn ip(&self, line: &str) -> io::Result<()> {
        let arguments: Vec<&str> = ["-n", &self.name].into_iter().chain(line.split_whitespace()).collect();
        ip(&arguments)
    }

    /// A command that will run in the namespace, without input.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    /// Runs a function in the namespace, on its own thread. Sockets and threads that it opens stay in the namespace.
    ///
    /// # Errors
    ///
    /// The namespace cannot be entered, or the function failed.
    ///
    /// # Panics
    ///
    /// The function panicked.
    pub fn inside<T: Send>(&self, action: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let done = scope.spawn(|| {
                system::enter(&self.name)?;
                action()
            });
            done.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Makes a program start in the namespace of this name. Its process ID and its view of files stay the same; `ip netns
/// exec` would hide control groups from it. Spawning fails if the namespace does not exist.
pub fn start_inside(command: &mut Command, name: &str) {
    system::enter_before_exec(command, name);
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with('.') && !name.contains(['/', ' ', '%', '\0'])
}

fn not_a_name(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a name of a namespace"))
}

/// Whether namespaces on this machine have IPv6.
pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// Runs a line of `ip` for one family. Does nothing for IPv6 if the machine has no IPv6.
pub(crate) fn ip_of(namespace: &Namespace, is_ipv6: bool, line: &str) -> io::Result<()> {
    match is_ipv6 {
        true if has_ipv6() => namespace.ip(&format!("-6 {line}")),
        true => Ok(()),
        false => namespace.ip(line),
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if self.is_owned {
            // It may be gone already.
            let _gone = ip(&["netns", "del", &self.name]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::unix::fs::MetadataExt;
    use std::process::Child;

    #[test]
    fn invalid_namespace_names_are_refused() {
        for name in ["", "a/b", "..", "sixteen-bytes-xx"] {
            assert_eq!(Namespace::make(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
            assert_eq!(Namespace::open(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
            assert!(started_inside("true", name).is_err(), "{name}");
        }
    }

    fn started_inside(program: &str, name: &str) -> io::Result<Child> {
        let mut command = Command::new(program);
        start_inside(&mut command, name);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()
    }

    #[test]
    fn an_opened_namespace_stays_and_runs_programs() {
        let name = format!("co{}", std::process::id());
        assert_eq!(Namespace::open(&name).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(started_inside("cat", &name).unwrap_err().kind(), io::ErrorKind::NotFound);
        let Ok(namespace) = Namespace::make(&name) else {
            skip::permission("making a namespace (root, iproute2)");
            return;
        };
        namespace.ip("addr add 198.51.100.1/32 dev lo").unwrap();
        drop(Namespace::open(&name).unwrap());
        Namespace::open(&name).unwrap().inside(|| UdpSocket::bind("198.51.100.1:0")).unwrap();
        // It runs until its input ends.
        let mut child = started_inside("cat", &name).unwrap();
        let inode = |path: String| std::fs::metadata(path).unwrap().ino();
        assert_eq!(inode(format!("/proc/{}/ns/net", child.id())), inode(format!("/var/run/netns/{name}")));
        assert_eq!(std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap(), "cat\n");
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn sockets_stay_in_the_namespace_they_were_opened_in() {
        let name = format!("cl{}", std::process::id());
        let Ok(namespace) = Namespace::make(&name) else {
            skip::permission("making a namespace (root, iproute2)");
            return;
        };
        namespace.ip("addr add 198.51.100.1/32 dev lo").unwrap();
        let far = namespace.inside(|| UdpSocket::bind("198.51.100.1:0")).unwrap();
        assert!(UdpSocket::bind("198.51.100.1:0").is_err(), "no such address here");
        let near = namespace.inside(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
        near.send_to(b"x", far.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(far.recv(&mut bytes).unwrap(), 1);
        assert!(namespace.ip("link set nothing up").unwrap_err().to_string().contains("nothing"));
        drop(namespace);
        assert!(!Path::new("/var/run/netns").join(&name).exists());
    }
}
