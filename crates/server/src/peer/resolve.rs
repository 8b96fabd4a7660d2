//! Resolves names of peers at each connection. Results are never cached.
//!
//! For a lookup the C library reads system files: `/etc/hosts`, `/etc/resolv.conf`, `/etc/nsswitch.conf` and its
//! modules. Other threads of a node must not read these. So separate threads resolve names: they may read the needed
//! files and write none. A lookup that hangs blocks only one of them.

use super::admission::Admission;
use crate::limits::{PEER_ADDRESSES_MAX, PEER_CONNECT_MS, RESOLVER_THREADS, RESOLVES_WAITING_MAX};
use crate::tls::names::node_number;
use crate::tls::session::server_name;
use process::problem::{Exit, Problem};
use process::sandbox;
use replica::io::{Member, NodeId};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;

struct Lookup {
    name: String,
    answer: oneshot::Sender<io::Result<Vec<SocketAddr>>>,
}

/// The queue to the resolver threads of a node. Commands have no such threads and no sandbox.
static THREADS: OnceLock<SyncSender<Lookup>> = OnceLock::new();

/// Starts the resolver threads. This runs before the process enters its sandbox, which forbids the files that they
/// read. They enter their own sandbox.
pub(crate) fn start(is_sandboxed: bool) -> Result<(), Problem> {
    let (queue, lookups) = sync_channel(RESOLVES_WAITING_MAX);
    let lookups = Arc::new(Mutex::new(lookups));
    for index in 0..RESOLVER_THREADS {
        let lookups = lookups.clone();
        let (done, is_ready) = std::sync::mpsc::channel();
        let work = move || {
            if is_sandboxed {
                sandbox::enter_as_resolver();
            }
            let _ = done.send(());
            run(&lookups, look_up);
        };
        let failed = |error| Problem::new(Exit::Failed, "cannot start a thread", error);
        std::thread::Builder::new().name(format!("resolve-{index}")).spawn(work).map_err(failed)?;
        // The system call filter covers all threads, and would stop this thread from entering its own sandbox.
        let _ = is_ready.recv();
    }
    // A process runs one node, so the queue is set once.
    let _ = THREADS.set(queue);
    Ok(())
}

fn look_up(name: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(name.to_socket_addrs()?.take(PEER_ADDRESSES_MAX).collect())
}

fn run(lookups: &Mutex<Receiver<Lookup>>, mut look_up: impl FnMut(&str) -> io::Result<Vec<SocketAddr>>) {
    loop {
        // No code under the lock can panic, so a poisoned lock is safe to use.
        let lookup = lookups.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Lookup { name, answer }) = lookup else { return };
        // The dialler has given up.
        if answer.is_closed() {
            continue;
        }
        let _ = answer.send(look_up(&name));
    }
}

/// Resolves `HOST:PORT` to its current addresses.
async fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let Some(threads) = THREADS.get() else {
        return Ok(tokio::net::lookup_host(address).await?.take(PEER_ADDRESSES_MAX).collect());
    };
    let (answer, answered) = oneshot::channel();
    let lookup = Lookup { name: address.to_owned(), answer };
    threads.try_send(lookup).map_err(|_| io::Error::other("too many lookups of peer names are queued"))?;
    answered.await.map_err(io::Error::other)?
}

/// Connects to a member at its address in the cluster's state, or else at one of its hints, and verifies its identity.
pub(super) async fn connect_to_known_member(
    member: &Member,
    client: Arc<ClientConfig>,
    admission: &Admission,
) -> io::Result<TlsStream<TcpStream>> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for address in admission.hints().candidates(member.id, &member.address) {
        match connect_to_member(&address, member.id, client.clone(), admission).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Connects to a member at this address, and verifies its identity.
pub(super) async fn connect_to_member(
    address: &str,
    id: NodeId,
    client: Arc<ClientConfig>,
    admission: &Admission,
) -> io::Result<TlsStream<TcpStream>> {
    let stream = connect(address).await?;
    let stream = TlsConnector::from(client).connect(server_name(node_number(id)), stream).await?;
    admission.check_server(id, stream.get_ref().1.peer_certificates())?;
    Ok(stream)
}

/// Connects to the first address of `HOST:PORT` that accepts the connection.
///
/// # Errors
/// The error of the lookup, or of the last address. `ConnectionRefused` only if all addresses refuse.
pub(crate) async fn connect(address: &str) -> io::Result<TcpStream> {
    // TCP repeats a lost SYN after 1 s and after 3 s (RFC 6298 2). A new attempt connects sooner when the network is
    // back.
    let limit = Duration::from_millis(PEER_CONNECT_MS);
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot resolve the name: {error}"));
    let addresses = resolve(address).await.map_err(named)?;
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "cannot resolve the name: it has no address");
    let mut refused_count = 0;
    for address in &addresses {
        let connected = tokio::time::timeout(limit, TcpStream::connect(address)).await;
        match connected.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))) {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                refused_count += usize::from(error.kind() == io::ErrorKind::ConnectionRefused);
                failed = error;
            }
        }
    }
    let is_all_refused = refused_count == addresses.len();
    if failed.kind() == io::ErrorKind::ConnectionRefused && !is_all_refused {
        return Err(io::Error::new(io::ErrorKind::TimedOut, failed.to_string()));
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_dialled_at_each_of_its_addresses() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            // `localhost` may also resolve to ::1, where no socket listens.
            assert!(connect(&format!("localhost:{port}")).await.is_ok());
            assert!(connect(&format!("127.0.0.1:{port}")).await.is_ok());
            drop(listener);
            let refused = connect(&format!("127.0.0.1:{port}")).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let unknown = connect("no-such-host.invalid:53").await.unwrap_err();
            assert!(unknown.to_string().starts_with("cannot resolve the name: "), "{unknown}");
        });
    }

    #[test]
    fn resolver_threads_skip_abandoned_lookups() {
        let (queue, lookups) = sync_channel(4);
        let ask = |name: &str| {
            let (answer, answered) = oneshot::channel();
            queue.send(Lookup { name: name.into(), answer }).unwrap();
            answered
        };
        drop(ask("given-up.test:1"));
        let answered = ask("localhost:7");
        drop(queue);
        let mut looked_up = Vec::new();
        run(&Mutex::new(lookups), |name| {
            looked_up.push(name.to_owned());
            look_up(name)
        });
        assert_eq!(looked_up, ["localhost:7"]);
        let addresses = answered.blocking_recv().unwrap().unwrap();
        assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 7), "{addresses:?}");
    }
}
