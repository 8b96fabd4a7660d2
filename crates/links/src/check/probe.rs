//! The traffic that measures a link.

use crate::limits::CHECKED_ADDRESSES_MAX;
use crate::namespace::has_ipv6;
use crate::plan::{HUB_V4, HUB_V6, address_of};
use crate::{Net, system};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a probe: its number and padding.
pub(super) const PAYLOAD_BYTES: usize = 32;
/// Bytes of a datagram that fills a rate.
const FILLING_BYTES: usize = 1_400;
/// How often an echo thread checks whether it should end.
const LOOK: Duration = Duration::from_millis(20);

/// The link of a group.
pub(super) struct Probe<'n> {
    pub(super) net: &'n Net,
    pub(super) index: usize,
    pub(super) timeout: Duration,
}

/// Result of the datagram measurement.
pub(super) struct Udp {
    pub(super) rtts_us: Vec<f64>,
    pub(super) excess_us: Vec<f64>,
    pub(super) early: u32,
    pub(super) sent: u32,
}

/// A client that sends probes.
struct ProbeClient {
    socket: UdpSocket,
    requested: Duration,
}

impl Probe<'_> {
    /// Sends datagrams from several clients in turn; each is sent back.
    pub(super) fn udp(&self, count: u32, spacing: Duration) -> io::Result<Udp> {
        let families: &[IpAddr] = if has_ipv6() { &[IpAddr::V4(HUB_V4), IpAddr::V6(HUB_V6)] } else { &[HUB_V4.into()] };
        let mut echoes = Vec::new();
        for hub in families {
            echoes.push(self.net.hub().inside(|| UdpSocket::bind((*hub, 0)))?);
        }
        let sources = self.sources(&echoes)?;
        let is_done = AtomicBool::new(false);
        let (rtts, sent) = thread::scope(|scope| {
            echoes.iter().for_each(|socket| drop(scope.spawn(|| echo(socket, &is_done))));
            let round_trips = self.exchange(&sources, count, spacing);
            is_done.store(true, Ordering::Relaxed);
            round_trips
        })?;
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        Ok(Udp {
            early: rtts.iter().filter(|(requested, rtt)| rtt < requested).count() as u32,
            excess_us: rtts.iter().map(|(requested, rtt)| micros(*rtt) - micros(*requested)).collect(),
            rtts_us: rtts.iter().map(|(_, rtt)| micros(*rtt)).collect(),
            sent,
        })
    }

    /// Sockets of the group's first clients, of both families.
    fn sources(&self, echoes: &[UdpSocket]) -> io::Result<Vec<ProbeClient>> {
        let plan = self.net.plan();
        let shape = &plan.groups[self.index].shape;
        let numbers = if shape.rtt.is_constant() { 1 } else { (CHECKED_ADDRESSES_MAX / 2) as u16 };
        let mut sources = Vec::new();
        for number in 1..=numbers {
            for (address, echo) in address_of(self.index, number).into_iter().zip(echoes) {
                let socket = self.net.groups()[self.index].inside(|| UdpSocket::bind((address, 0)))?;
                socket.connect(echo.local_addr()?)?;
                socket.set_read_timeout(Some(LOOK))?;
                sources.push(ProbeClient { socket, requested: shape.rtt.of(address, plan.seed_of(self.index)) });
            }
        }
        Ok(sources)
    }

    /// Requested and measured round trip of each datagram that came back, and the number of datagrams sent.
    fn exchange(
        &self,
        sources: &[ProbeClient],
        count: u32,
        spacing: Duration,
    ) -> io::Result<(Vec<(Duration, Duration)>, u32)> {
        let timeout = self.timeout(sources.iter().map(|source| source.requested).max().unwrap_or_default());
        let origin = Instant::now();
        let last_sent = origin + spacing * count;
        thread::scope(|scope| {
            let receivers: Vec<_> = sources
                .iter()
                .enumerate()
                .map(|(index, source)| {
                    let expected_count = (index..count as usize).step_by(sources.len()).count();
                    scope.spawn(move || receive(source, origin, expected_count, last_sent + timeout))
                })
                .collect();
            let mut sent = 0;
            for number in 0..count {
                thread::sleep((spacing * number).saturating_sub(origin.elapsed()));
                let mut bytes = [0; PAYLOAD_BYTES];
                bytes[..8].copy_from_slice(&(origin.elapsed().as_nanos() as u64).to_be_bytes());
                sources[number as usize % sources.len()].socket.send(&bytes)?;
                sent += 1;
            }
            let round_trips = receivers.into_iter().flat_map(|receiver| receiver.join().unwrap_or_default());
            Ok((round_trips.collect(), sent))
        })
    }

    /// After this time a datagram counts as lost.
    fn timeout(&self, requested: Duration) -> Duration {
        2 * (requested + self.net.plan().groups[self.index].shape.jitter) + self.timeout
    }

    /// Round trips on one connection less the requested round trip, in us.
    pub(super) fn tcp(&self, count: u32) -> io::Result<Vec<f64>> {
        let plan = self.net.plan();
        let address = address_of(self.index, 1)[0];
        let requested = plan.groups[self.index].shape.rtt.of(address, plan.seed_of(self.index));
        let timeout = self.timeout(requested) + Duration::from_secs(5);
        let listener = self.net.hub().inside(|| TcpListener::bind((HUB_V4, 0)))?;
        listener.set_nonblocking(true)?;
        let server = listener.local_addr()?;
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let is_done = &is_done;
            scope.spawn(move || echo_stream(&listener, is_done));
            let round_trips = self.net.groups()[self.index].inside(|| exchange_stream(server, count, timeout));
            is_done.store(true, Ordering::Relaxed);
            Ok(round_trips?.iter().map(|rtt| (rtt.as_secs_f64() - requested.as_secs_f64()) * 1e6).collect())
        })
    }

    /// The rate at which datagrams arrive if more are sent than the link lets through. `None` if too few arrive.
    pub(super) fn rate(&self, bits: u64, during: Duration) -> io::Result<Option<f64>> {
        let sink = self.net.hub().inside(|| UdpSocket::bind((HUB_V4, 0)))?;
        let plan = self.net.plan();
        let address = address_of(self.index, 1)[0];
        let requested = plan.groups[self.index].shape.rtt.of(address, plan.seed_of(self.index));
        // Datagrams that are still in the queue at the end need time too.
        sink.set_read_timeout(Some(self.timeout(requested)))?;
        let socket = self.net.groups()[self.index].inside(|| UdpSocket::bind((address, 0)))?;
        socket.connect(sink.local_addr()?)?;
        let heads = 28;
        let per_second = 1.25 * bits as f64 / (8.0 * (FILLING_BYTES + heads) as f64);
        // At a slow rate, long enough for 100 datagrams.
        let during = during.max(Duration::from_secs_f64((100.0 / per_second).min(10.0)));
        thread::scope(|scope| {
            let arrivals = scope.spawn(|| count_arrivals(&sink));
            let (begin, mut sent) = (Instant::now(), 0_u64);
            while begin.elapsed() < during {
                let expected_count = (begin.elapsed().as_secs_f64() * per_second) as u64 + 1;
                while sent < expected_count && begin.elapsed() < during {
                    // A full buffer in the kernel is fine: more is sent than needed.
                    let _refused = socket.send(&[0; FILLING_BYTES]);
                    sent += 1;
                }
                thread::sleep(Duration::from_micros(500));
            }
            let (count, elapsed) = arrivals.join().unwrap_or_default();
            let bytes = count.saturating_sub(1) * (FILLING_BYTES + heads) as u64;
            Ok((count > 10).then(|| bytes as f64 * 8.0 / elapsed.as_secs_f64()))
        })
    }
}

/// How many datagrams arrived, and the time from the first to the last.
fn count_arrivals(sink: &UdpSocket) -> (u64, Duration) {
    let mut times: Option<(Instant, Instant)> = None;
    let mut count = 0;
    while sink.recv(&mut [0; 2_048]).is_ok() {
        let now = Instant::now();
        times = Some((times.map_or(now, |(first, _)| first), now));
        count += 1;
    }
    (count, times.map_or(Duration::ZERO, |(first, last)| last - first))
}

/// Sends back all datagrams.
fn echo(socket: &UdpSocket, is_done: &AtomicBool) {
    system::make_timers_exact();
    let _set = socket.set_read_timeout(Some(LOOK));
    let mut bytes = [0; 2_048];
    while !is_done.load(Ordering::Relaxed) {
        if let Ok((count, from)) = socket.recv_from(&mut bytes) {
            let _lost = socket.send_to(&bytes[..count], from);
        }
    }
}

/// Receives datagrams until `expected_count` have arrived or the time is over. Returns requested and measured round
/// trips.
fn receive(source: &ProbeClient, origin: Instant, expected_count: usize, until: Instant) -> Vec<(Duration, Duration)> {
    system::make_timers_exact();
    let mut round_trips = Vec::with_capacity(expected_count);
    let mut bytes = [0; PAYLOAD_BYTES];
    while round_trips.len() < expected_count && Instant::now() < until {
        if let Ok(PAYLOAD_BYTES) = source.socket.recv(&mut bytes) {
            let now = origin.elapsed();
            let sent_ns = bytes[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            round_trips.push((source.requested, now.saturating_sub(Duration::from_nanos(sent_ns))));
        }
    }
    round_trips
}

/// Sends back all data of one connection.
fn echo_stream(listener: &TcpListener, is_done: &AtomicBool) {
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if is_done.load(Ordering::Relaxed) => return,
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    };
    system::make_timers_exact();
    let set = stream.set_nonblocking(false).and(stream.set_nodelay(true)).and(stream.set_read_timeout(Some(LOOK)));
    let mut bytes = [0; PAYLOAD_BYTES];
    while set.is_ok() && !is_done.load(Ordering::Relaxed) {
        match (&stream).read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => {
                if (&stream).write_all(&bytes[..count]).is_err() {
                    return;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

fn exchange_stream(server: SocketAddr, count: u32, timeout: Duration) -> io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect_timeout(&server, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    let mut bytes = [0; PAYLOAD_BYTES];
    let mut round_trips = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        stream.write_all(&bytes)?;
        stream.read_exact(&mut bytes)?;
        round_trips.push(begin.elapsed());
    }
    Ok(round_trips)
}
