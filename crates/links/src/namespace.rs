//! A network namespace by name.

use crate::limits::NAME_BYTES_MAX;
use crate::{ip, system};
use std::io;
use std::process::{Command, Stdio};
use std::thread;

/// A network namespace with its loopback up. It goes when this does, with the interfaces in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one.
    ///
    /// # Errors
    /// The name is too long or taken, or this process may not.
    pub fn make(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(['/', ' ', '%']) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not a name of a namespace")));
        }
        ip(&["netns", "add", name])?;
        let made = Self { name: name.to_owned() };
        made.ip("link set lo up")?;
        Ok(made)
    }

    /// Its name, as `ip netns` lists it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in it, with the words of a line.
    ///
    /// # Errors
    /// As [`ip()`].
    pub fn ip(&self, line: &str) -> io::Result<()> {
        let words: Vec<&str> = ["-n", &self.name].into_iter().chain(line.split_whitespace()).collect();
        ip(&words)
    }

    /// A program that will run in it, without input.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    /// Does something in it, on a thread of its own: sockets that are opened there, and threads that are begun there,
    /// stay in it.
    ///
    /// # Errors
    /// It cannot be entered, or what was done failed.
    ///
    /// # Panics
    /// What was done panicked.
    pub fn inside<T: Send>(&self, what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let done = scope.spawn(|| {
                system::enter(&self.name)?;
                what()
            });
            done.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // One that is gone already is what is wanted.
        let _gone = ip(&["netns", "del", &self.name]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn invalid_namespace_names_are_refused() {
        for name in ["", "a/b", "sixteen-bytes-xx"] {
            assert_eq!(Namespace::make(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
    }

    #[test]
    fn a_socket_that_is_opened_inside_stays_inside() {
        let name = format!("cl{}", std::process::id());
        let Ok(made) = Namespace::make(&name) else {
            eprintln!("skipped: no namespace can be made here; it takes root and iproute2");
            return;
        };
        made.ip("addr add 198.51.100.1/32 dev lo").unwrap();
        let far = made.inside(|| UdpSocket::bind("198.51.100.1:0")).unwrap();
        assert!(UdpSocket::bind("198.51.100.1:0").is_err(), "no such address here");
        let near = made.inside(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
        near.send_to(b"x", far.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(far.recv(&mut bytes).unwrap(), 1);
        assert!(made.ip("link set nothing up").unwrap_err().to_string().contains("nothing"));
        drop(made);
        assert!(!std::path::Path::new("/var/run/netns").join(&name).exists());
    }
}
