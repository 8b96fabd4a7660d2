//! A UDP server that records what reaches it: the bytes, their source, and their order.

use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A message that reached the server.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// The source.
    pub(crate) from: SocketAddr,
    /// The message.
    pub(crate) bytes: Vec<u8>,
    /// When it was read.
    pub(crate) at: Instant,
}

/// The server. Stop it with [`FarEnd::end`].
pub(crate) struct FarEnd {
    /// Its address.
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Arrival>>,
}

impl FarEnd {
    /// Starts it on loopback on any port. It answers each query with the query itself after `delay`.
    pub(crate) fn start(delay: Duration) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        // The system may grant less.
        let _granted = socket.set_recv_buffer_size(8 << 20);
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let (address, stop) = (socket.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || note(&socket, delay, &stopped));
        Self { address, stop, thread }
    }

    /// Stops it and returns all that reached it.
    pub(crate) fn end(self) -> Vec<Arrival> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn note(socket: &UdpSocket, delay: Duration, stopped: &AtomicBool) -> Vec<Arrival> {
    let (mut arrivals, mut answers) = (Vec::new(), VecDeque::<(Instant, SocketAddr, Vec<u8>)>::new());
    let mut bytes = [0; 65_535];
    loop {
        let now = Instant::now();
        while let Some((_, to, answer)) = answers.pop_front_if(|(due, ..)| *due <= now) {
            // The client may be gone.
            let _sent = socket.send_to(&answer, to);
        }
        match socket.recv_from(&mut bytes) {
            Ok((count, from)) => {
                let at = Instant::now();
                arrivals.push(Arrival { from, bytes: bytes[..count].to_vec(), at });
                let mut answer = bytes[..count].to_vec();
                answer[2] |= 0x80;
                answers.push_back((at + delay, from, answer));
            }
            // The socket has nothing left to read.
            Err(_) if stopped.load(Ordering::Relaxed) => return arrivals,
            Err(_) => {}
        }
    }
}
