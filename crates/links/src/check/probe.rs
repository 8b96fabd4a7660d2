//! What is sent through a link to measure it.

use crate::limits::CHECKED_ADDRESSES_MAX;
use crate::net::has_ipv6;
use crate::plan::{HUB_V4, HUB_V6, address_of};
use crate::{Net, system};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a probe: its number, and none that say anything.
pub(super) const PAYLOAD_BYTES: usize = 32;
/// The same of those that fill a rate.
const FILLING_BYTES: usize = 1_400;
/// How long an echo waits before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// The link of a group.
pub(super) struct Probe<'n> {
    pub(super) net: &'n Net,
    pub(super) index: usize,
    pub(super) patience: Duration,
}

/// What datagrams told.
pub(super) struct Udp {
    pub(super) rtts_us: Vec<f64>,
    pub(super) excess_us: Vec<f64>,
    pub(super) early: u32,
    pub(super) sent: u32,
}

/// A client that sends probes.
struct Source {
    socket: UdpSocket,
    asked: Duration,
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
            let told = self.exchange(&sources, count, spacing);
            is_done.store(true, Ordering::Relaxed);
            told
        })?;
        let micros = |duration: Duration| duration.as_secs_f64() * 1e6;
        Ok(Udp {
            early: rtts.iter().filter(|(asked, rtt)| rtt < asked).count() as u32,
            excess_us: rtts.iter().map(|(asked, rtt)| micros(*rtt) - micros(*asked)).collect(),
            rtts_us: rtts.iter().map(|(_, rtt)| micros(*rtt)).collect(),
            sent,
        })
    }

    /// Sockets of the group's first clients, of both families.
    fn sources(&self, echoes: &[UdpSocket]) -> io::Result<Vec<Source>> {
        let plan = self.net.plan();
        let shape = &plan.groups[self.index].shape;
        let numbers = if shape.rtt.is_constant() { 1 } else { (CHECKED_ADDRESSES_MAX / 2) as u16 };
        let mut sources = Vec::new();
        for number in 1..=numbers {
            for (address, echo) in address_of(self.index, number).into_iter().zip(echoes) {
                let socket = self.net.groups()[self.index].inside(|| UdpSocket::bind((address, 0)))?;
                socket.connect(echo.local_addr()?)?;
                socket.set_read_timeout(Some(LOOK))?;
                sources.push(Source { socket, asked: shape.rtt.of(address, plan.seed_of(self.index)) });
            }
        }
        Ok(sources)
    }

    /// What was asked and how long it took of each datagram that came back, and how many were sent.
    fn exchange(
        &self,
        sources: &[Source],
        count: u32,
        spacing: Duration,
    ) -> io::Result<(Vec<(Duration, Duration)>, u32)> {
        let patience = self.patience(sources.iter().map(|source| source.asked).max().unwrap_or_default());
        let origin = Instant::now();
        let last_sent = origin + spacing * count;
        thread::scope(|scope| {
            let receivers: Vec<_> = sources
                .iter()
                .enumerate()
                .map(|(place, source)| {
                    let wanted = (place..count as usize).step_by(sources.len()).count();
                    scope.spawn(move || receive(source, origin, wanted, last_sent + patience))
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
            let told = receivers.into_iter().flat_map(|receiver| receiver.join().unwrap_or_default());
            Ok((told.collect(), sent))
        })
    }

    /// The time after which what did not come is lost: twice what was asked, and more as the plan has it.
    fn patience(&self, asked: Duration) -> Duration {
        2 * (asked + self.net.plan().groups[self.index].shape.jitter) + self.patience
    }

    /// Round trips on one connection beyond what was asked, in us.
    pub(super) fn tcp(&self, count: u32) -> io::Result<Vec<f64>> {
        let plan = self.net.plan();
        let address = address_of(self.index, 1)[0];
        let asked = plan.groups[self.index].shape.rtt.of(address, plan.seed_of(self.index));
        let patience = self.patience(asked) + Duration::from_secs(5);
        let listener = self.net.hub().inside(|| TcpListener::bind((HUB_V4, 0)))?;
        listener.set_nonblocking(true)?;
        let server = listener.local_addr()?;
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let is_done = &is_done;
            scope.spawn(move || echo_stream(&listener, is_done));
            let told = self.net.groups()[self.index].inside(|| exchange_stream(server, count, patience));
            is_done.store(true, Ordering::Relaxed);
            Ok(told?.iter().map(|rtt| (rtt.as_secs_f64() - asked.as_secs_f64()) * 1e6).collect())
        })
    }

    /// The rate at which datagrams arrive that are sent faster than the link lets through; `None` if too few arrive.
    pub(super) fn rate(&self, bits: u64, during: Duration) -> io::Result<Option<f64>> {
        let sink = self.net.hub().inside(|| UdpSocket::bind((HUB_V4, 0)))?;
        let plan = self.net.plan();
        let address = address_of(self.index, 1)[0];
        let asked = plan.groups[self.index].shape.rtt.of(address, plan.seed_of(self.index));
        // What is in the queue at the end takes its time as well.
        sink.set_read_timeout(Some(self.patience(asked)))?;
        let socket = self.net.groups()[self.index].inside(|| UdpSocket::bind((address, 0)))?;
        socket.connect(sink.local_addr()?)?;
        let heads = 28;
        let per_second = 1.25 * bits as f64 / (8.0 * (FILLING_BYTES + heads) as f64);
        // At a slow rate, long enough for a hundred.
        let during = during.max(Duration::from_secs_f64((100.0 / per_second).min(10.0)));
        thread::scope(|scope| {
            let arrivals = scope.spawn(|| count_arrivals(&sink));
            let (begin, mut sent) = (Instant::now(), 0_u64);
            while begin.elapsed() < during {
                let wanted = (begin.elapsed().as_secs_f64() * per_second) as u64 + 1;
                while sent < wanted && begin.elapsed() < during {
                    // One that the kernel has no room for is one that is sent too much.
                    let _refused = socket.send(&[0; FILLING_BYTES]);
                    sent += 1;
                }
                thread::sleep(Duration::from_micros(500));
            }
            let (count, took) = arrivals.join().unwrap_or_default();
            let bytes = count.saturating_sub(1) * (FILLING_BYTES + heads) as u64;
            Ok((count > 10).then(|| bytes as f64 * 8.0 / took.as_secs_f64()))
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

/// Sends back what comes.
fn echo(socket: &UdpSocket, is_done: &AtomicBool) {
    system::be_on_time();
    let _set = socket.set_read_timeout(Some(LOOK));
    let mut bytes = [0; 2_048];
    while !is_done.load(Ordering::Relaxed) {
        if let Ok((count, from)) = socket.recv_from(&mut bytes) {
            let _lost = socket.send_to(&bytes[..count], from);
        }
    }
}

/// What was asked and how long it took, until so many have come or the time is over.
fn receive(source: &Source, origin: Instant, wanted: usize, until: Instant) -> Vec<(Duration, Duration)> {
    system::be_on_time();
    let mut told = Vec::with_capacity(wanted);
    let mut bytes = [0; PAYLOAD_BYTES];
    while told.len() < wanted && Instant::now() < until {
        if let Ok(PAYLOAD_BYTES) = source.socket.recv(&mut bytes) {
            let now = origin.elapsed();
            let sent_ns = bytes[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            told.push((source.asked, now.saturating_sub(Duration::from_nanos(sent_ns))));
        }
    }
    told
}

/// Sends back what comes on one connection.
fn echo_stream(listener: &TcpListener, is_done: &AtomicBool) {
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if is_done.load(Ordering::Relaxed) => return,
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    };
    system::be_on_time();
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

fn exchange_stream(server: SocketAddr, count: u32, patience: Duration) -> io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect_timeout(&server, patience)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    let mut bytes = [0; PAYLOAD_BYTES];
    let mut told = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        stream.write_all(&bytes)?;
        stream.read_exact(&mut bytes)?;
        told.push(begin.elapsed());
    }
    Ok(told)
}
