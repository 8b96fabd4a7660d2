//! A relay between a client and nodes. It drops responses as told, and records the datagrams that pass.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A datagram of the client: its bytes and its port.
pub(crate) type Sent = (Vec<u8>, u16);

/// Passes the first datagram to the first node, the next one to the next node, and so on in turns. Drops the responses
/// to the first `lost` datagrams.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    sent: Arc<Mutex<Vec<Sent>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn start(nodes: Vec<SocketAddr>, lost: usize) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let (sent, stop) = (Arc::<Mutex<Vec<Sent>>>::default(), Arc::<AtomicBool>::default());
        let (their_sent, their_stop) = (sent.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_535];
            for (number, node) in (0..).zip(nodes.iter().cycle()) {
                let (len, client) = loop {
                    match socket.recv_from(&mut buffer) {
                        Ok(got) => break got,
                        Err(_) if their_stop.load(Ordering::Relaxed) => return,
                        Err(_) => {}
                    }
                };
                their_sent.lock().unwrap().push((buffer[..len].to_vec(), client.port()));
                let response =
                    super::dns::exchange(super::dns::Transport::Udp, *node, &buffer[..len], Duration::from_secs(5));
                if let Some(response) = response.filter(|_| number >= lost) {
                    // A client that is gone needs no response.
                    let _ = socket.send_to(&response, client);
                }
            }
        });
        Self { address, sent, stop, thread: Some(thread) }
    }

    /// Stops the relay. Returns the client's datagrams.
    pub(crate) fn finish(mut self) -> Vec<Sent> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        std::mem::take(&mut self.sent.lock().unwrap())
    }
}
