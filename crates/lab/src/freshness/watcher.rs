//! Queries one server for the probe's record repeatedly.

use super::writer::socket_to;
use crate::limits::{FRESHNESS_POLL, FRESHNESS_ROUNDS_MAX};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::name::Name;
use wire::number::Rtype;
use wire::{Message, Section};

/// Timeout of a query.
const QUERY_TIMEOUT: Duration = Duration::from_millis(50);
/// How long to watch after the last update.
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// The results of one watcher.
#[derive(Clone, Debug, Default)]
pub(super) struct Observations {
    pub(super) seen: Vec<Sighting>,
    /// The number of queries, and their total time.
    pub(super) query_count: u64,
    pub(super) watched_for: Duration,
}

/// A new value, and when it was first seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    pub(super) value: u64,
    pub(super) when: Instant,
}

pub(super) fn new(
    server: SocketAddr,
    owner: &Name,
    stop: Arc<AtomicBool>,
) -> io::Result<impl FnOnce() -> Observations + Send + use<>> {
    let socket = socket_to(server)?;
    socket.set_read_timeout(Some(QUERY_TIMEOUT))?;
    let mut query = MessageBuilder::query(0, owner.as_ref(), Rtype::TXT).build();
    Ok(move || watch(&socket, &mut query, &stop))
}

fn watch(socket: &UdpSocket, query: &mut [u8], stop: &AtomicBool) -> Observations {
    let start = Instant::now();
    let mut observations = Observations::default();
    let mut stopped = None;
    let mut id = 0u16;
    loop {
        if stop.load(Ordering::Relaxed) {
            let since = *stopped.get_or_insert_with(Instant::now);
            if since.elapsed() > WATCH_AFTER {
                observations.watched_for = start.elapsed();
                return observations;
            }
        }
        id = id.wrapping_add(1);
        observations.query_count += 1;
        query[..2].copy_from_slice(&id.to_be_bytes());
        if let Some(value) = ask(socket, query, id) {
            let last = observations.seen.last().map_or(0, |last| last.value);
            if value > last && observations.seen.len() < FRESHNESS_ROUNDS_MAX {
                observations.seen.push(Sighting { value, when: Instant::now() });
            }
        }
        std::thread::sleep(FRESHNESS_POLL);
    }
}

fn ask(socket: &UdpSocket, query: &[u8], id: u16) -> Option<u64> {
    // A stopped server may come back.
    socket.send(query).ok()?;
    let mut response = [0; 1_232];
    loop {
        let count = socket.recv(&mut response).ok()?;
        if count >= 12 && response[..2] == id.to_be_bytes() {
            return value(&response[..count]);
        }
    }
}

/// The number in the first TXT record of the answer.
fn value(response: &[u8]) -> Option<u64> {
    let message = Message::parse(response).ok()?;
    let mut records = message.records(Section::Answer).filter_map(Result::ok);
    let rdata = records.find(|record| record.rtype == Rtype::TXT)?.rdata();
    std::str::from_utf8(rdata.get(1..)?).ok()?.parse().ok()
}
