//! Connections of the API client to a node. Only processes of trusted users get the token.
//!
//! A node in a known directory is reached over its Unix socket. Without a socket (older software) it is reached over
//! TCP, if the process that listens there belongs to a user that can read the token anyway: root, the owner of the
//! directory, or the caller.

use super::listeners;
use config::files::local_socket;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, TcpConnector, Transport,
};

/// Connects to nodes.
#[derive(Clone, Debug, Default)]
pub struct NodeConnector {
    /// The Unix sockets of nodes in the directory.
    pub sockets: BTreeMap<SocketAddr, PathBuf>,
    /// Users whose processes may get the token over TCP. `None` allows all: the caller chose both node and token.
    pub users: Option<Vec<u32>>,
}

impl NodeConnector {
    /// The connector for a cluster whose files are in `dir`.
    pub fn of(dir: &Path, sockets: BTreeMap<SocketAddr, PathBuf>) -> Self {
        let owner = std::fs::metadata(dir).map(|dir| dir.uid());
        let users = [0, process::user::effective_user()].into_iter().chain(owner);
        Self { sockets, users: Some(users.collect()) }
    }

    /// Refuses a listener on this machine that belongs to another user. Other machines cannot be checked.
    fn check(&self, address: SocketAddr) -> io::Result<()> {
        let Some(users) = &self.users else { return Ok(()) };
        let listeners = listeners::users(address).map_err(|error| {
            refused(format!("cannot send the token: cannot find out which user listens on {address}: {error}"))
        })?;
        match listeners.iter().find(|user| !users.contains(user)) {
            Some(user) => Err(refused(format!(
                "cannot send the token: the process on {address} belongs to user {user}, not to this node"
            ))),
            None => Ok(()),
        }
    }
}

/// The same error as if nothing listened there, because the node did not get the request.
fn refused(why: String) -> io::Error {
    io::Error::new(ErrorKind::ConnectionRefused, why)
}

impl Connector for NodeConnector {
    type Out = Either<UnixTransport, <TcpConnector as Connector>::Out>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<()>) -> Result<Option<Self::Out>, Error> {
        let Some(&address) = details.addrs.first() else { return Err(Error::HostNotFound) };
        // A socket that refuses connections belongs to a stopped node.
        if let Some(path) = self.sockets.get(&address).filter(|path| path.symlink_metadata().is_ok()) {
            let wait = details.timeout.not_zero().map(|wait| *wait);
            let stream = local_socket::connect(path, wait).map_err(|error| match error.kind() {
                ErrorKind::WouldBlock => Error::Timeout(details.timeout.reason),
                kind => Error::Io(io::Error::new(kind, format!("{}: {error}", path.display()))),
            })?;
            let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
            return Ok(Some(Either::A(UnixTransport { stream, buffers })));
        }
        self.check(address)?;
        let stream = TcpConnector::default().connect(details, chained)?;
        // Check again: the listener may have changed before the connection.
        self.check(address)?;
        Ok(stream.map(Either::B))
    }
}

/// HTTP over a Unix socket.
pub struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl fmt::Debug for UnixTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnixTransport").field(&self.stream).finish()
    }
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.stream.set_write_timeout(wait(timeout)?)?;
        let output = &self.buffers.output()[..amount];
        self.stream.write_all(output).map_err(|error| timed_out(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        self.stream.set_read_timeout(wait(timeout)?)?;
        let input = self.buffers.input_append_buf();
        let amount = loop {
            match self.stream.read(input) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => break done.map_err(|error| timed_out(error, timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        // Between two responses there is nothing to read, not even the end of the stream.
        let look = |stream: &mut UnixStream| stream.read(&mut [0]);
        let seen = self.stream.set_nonblocking(true).and_then(|()| look(&mut self.stream));
        let is_open = seen.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        self.stream.set_nonblocking(false).is_ok() && is_open
    }
}

/// Time limit of a call.
fn wait(timeout: NextTimeout) -> Result<Option<Duration>, Error> {
    if timeout.after.is_zero() { Err(Error::Timeout(timeout.reason)) } else { Ok(timeout.not_zero().map(|wait| *wait)) }
}

fn timed_out(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}
