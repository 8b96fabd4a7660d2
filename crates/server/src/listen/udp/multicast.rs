//! Multicast and broadcast queries get no answer, and are counted.

use super::UdpWorker;
use crate::combiner::Dispatch;
use crate::listen::batch::BatchSocket;
use crate::listen::sockets::{self, Sharing};
use crate::listen::{Action, PinnedResponder, Reply, Responder, Transport};
use process::stop::Stop;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::parse::DropReason;

/// Echoes every message, and records the reasons of ignored ones.
struct Echo(Arc<Mutex<Vec<DropReason>>>);

impl Responder for Echo {
    type Pinned<'a> = &'a mut Self;
    fn pin(&mut self) -> &mut Self {
        self
    }
    fn offline(&mut self) {}
}

impl PinnedResponder for &mut Echo {
    fn respond(&mut self, bytes: &[u8], _peer: SocketAddr, _transport: Transport, out: &mut [u8]) -> Action {
        out[..bytes.len()].copy_from_slice(bytes);
        Action::Respond(bytes.len())
    }

    fn ignore(&mut self, reason: DropReason) {
        self.0.lock().unwrap().push(reason);
    }

    fn defer(&mut self, _bytes: &[u8], _reply: Reply, _dispatch: Dispatch, _out: &mut [u8]) -> Action {
        Action::Silent
    }
}

#[test]
fn multicast_queries_get_no_answer() {
    let socket = sockets::udp("0.0.0.0:0".parse().unwrap(), Sharing::Alone).unwrap();
    let port = socket.local_addr().unwrap().port();
    let ignored = Arc::<Mutex<Vec<DropReason>>>::default();
    let responder = Echo(ignored.clone());
    let worker = UdpWorker::new(vec![BatchSocket::new(socket).unwrap()], responder, Arc::default());
    let stop = Stop::default();
    let theirs = stop.clone();
    let thread = std::thread::spawn(move || worker.run(&theirs));
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    client.set_broadcast(true).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client.send_to(b"all", ("127.255.255.255", port)).unwrap();
    client.send_to(b"one", (Ipv4Addr::LOCALHOST, port)).unwrap();
    let mut buffer = [0; 100];
    let (len, from) = client.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], from), (&b"one"[..], SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    stop.order();
    thread.join().unwrap();
    assert_eq!(*ignored.lock().unwrap(), [DropReason::Multicast]);
}
