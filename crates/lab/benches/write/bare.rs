//! The minimal cost of replicating an update to three logs on this machine: three processes that forward it, log it,
//! sync and acknowledge, and do nothing else.
//!
//! ```text
//!   client --UDP--> any node --TCP--> leader --TCP--> followers
//!                                     each writes one record to its log and syncs it (in a separate thread)
//!   client <--UDP-- that node <--TCP-- leader: a majority has synced
//! ```
//!
//! There are no signatures, zones, terms or votes. The answer is the message itself with QR set.

#[path = "../support/input.rs"]
mod input;

use super::machine;
use mio::net::{TcpStream, UdpSocket};
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const NODES: usize = 3;
/// Size of a log record and of a frame between nodes: about a signed update of one address as a log entry.
const RECORD_BYTES: usize = 512;
/// Records per log, allocated in advance as in catamaran. More than the updates of any turn.
const RECORDS_MAX: u64 = 1 << 15;
/// Interval of the check whether to exit.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of events per wait, and of datagrams per read.
const EVENTS: usize = 64;
const CLIENTS: Token = Token(NODES);
const SYNCED: Token = Token(NODES + 1);

/// The three processes and their addresses.
pub(crate) struct Bare {
    nodes: Vec<Child>,
    pub(crate) addresses: Vec<SocketAddr>,
    folder: PathBuf,
}

impl Bare {
    /// Starts them with their logs in this folder.
    pub(crate) fn start(folder: &Path) -> Result<Self, String> {
        let mut bare = Self { nodes: Vec::new(), addresses: Vec::new(), folder: folder.to_owned() };
        let mut leader = None;
        for node in 0..NODES {
            let (address, at) = bare.add(node, leader).map_err(|error| format!("bare node {node}: {error}"))?;
            bare.addresses.push(address);
            leader = leader.or(Some(at));
        }
        Ok(bare)
    }

    /// Starts one node, which prints its address for clients and its address for followers.
    fn add(&mut self, node: usize, leader: Option<SocketAddr>) -> std::io::Result<(SocketAddr, SocketAddr)> {
        let log = log_of(&self.folder, node);
        std::fs::create_dir_all(log.parent().expect("a folder"))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["role", "bare"]).arg(log).arg(node.to_string());
        command.args(leader.map(|leader| leader.to_string()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().expect("standard output is piped");
        self.nodes.push(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let mut words = line.split_ascii_whitespace().map(str::parse);
        match (words.next(), words.next()) {
            (Some(Ok(address)), Some(Ok(at))) => Ok((address, at)),
            _ => Err(std::io::Error::other(format!("it printed {line:?}"))),
        }
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(Child::id).collect()
    }

    /// How many acknowledged updates are missing from the logs of a majority.
    pub(crate) fn count_lost(&self, acknowledged: u64) -> Result<u64, String> {
        let mut counts = Vec::new();
        for node in 0..NODES {
            let path = log_of(&self.folder, node);
            let log = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let records = log.chunks(RECORD_BYTES).enumerate();
            let whole = records.take_while(|(index, record)| record.starts_with(&(*index as u64 + 1).to_be_bytes()));
            counts.push(whole.count() as u64);
        }
        Ok(acknowledged.saturating_sub(of_majority(&counts)))
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.nodes.iter_mut().for_each(machine::end);
    }
}

/// Each log has its own folder, as in a real cluster. Otherwise a file system that keeps all inodes in one block could
/// write the block once for all three.
fn log_of(folder: &Path, node: usize) -> PathBuf {
    folder.join(format!("node-{node}")).join("log")
}

/// The highest record that a majority has.
fn of_majority(counts: &[u64]) -> u64 {
    let mut counts = counts.to_vec();
    counts.sort_unstable();
    counts[(counts.len() - 1) / 2]
}

/// Kinds of messages between nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Follower to leader: an update arrived, with its number on this node.
    Came = 1,
    /// Leader to followers: append this record to the log.
    Append = 2,
    /// Follower to leader: the log is synced up to this record.
    Synced = 3,
    /// Leader to the follower that received the update: a majority has it.
    Done = 4,
}

/// Runs a node. Prints its addresses for clients and followers, and exits when standard input closes.
pub(crate) fn role(log: &str, node: &str, leader: Option<&str>) {
    let node: usize = node.parse().expect("a number");
    let ended = input::until_input_ends();
    let poll = Poll::new().expect("epoll");
    let mut clients = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("loopback");
    let takes = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let address = |at: std::io::Result<SocketAddr>| at.expect("an address");
    println!("{} {}", address(clients.local_addr()), address(takes.local_addr()));
    let mut peers: Vec<Option<Peer>> = (0..NODES).map(|_| None).collect();
    match leader {
        Some(leader) => peers[0] = Some(Peer::to(leader, node)),
        None => (1..NODES).for_each(|_| {
            let (at, peer) = Peer::from(&takes);
            peers[at] = Some(peer);
        }),
    }
    for (at, peer) in peers.iter_mut().enumerate() {
        let Some(peer) = peer else { continue };
        poll.registry().register(&mut peer.stream, Token(at), Interest::READABLE).expect("a connection");
    }
    poll.registry().register(&mut clients, CLIENTS, Interest::READABLE).expect("a socket");
    let waker = Waker::new(poll.registry(), SYNCED).expect("a waker");
    let synced = Arc::new(AtomicU64::new(0));
    let (write, records) = channel();
    let file = log_with_blocks(Path::new(log));
    let synced_by_thread = Arc::clone(&synced);
    std::thread::spawn(move || sync_all(&file, &records, &synced_by_thread, &waker));
    let mut one = Node {
        node,
        clients,
        peers,
        write,
        waiting: HashMap::new(),
        came: 0,
        origins: VecDeque::new(),
        appended: 0,
        done: 0,
        has: [0; NODES],
    };
    let (mut poll, mut events) = (poll, Events::with_capacity(EVENTS));
    while !ended.load(Ordering::Relaxed) {
        let _waited = poll.poll(&mut events, Some(PAUSE));
        for event in &events {
            match event.token() {
                CLIENTS => one.take_updates(),
                SYNCED => one.is_synced(synced.load(Ordering::Acquire)),
                Token(peer) => one.receive_from_peer(peer),
            }
        }
    }
}

/// A log with all blocks allocated, so that a sync only writes data.
fn log_with_blocks(path: &Path) -> File {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a log");
    file.write_all_at(&vec![0; RECORDS_MAX as usize * RECORD_BYTES], 0).expect("a log");
    file.sync_all().expect("a log");
    file
}

/// Writes records in batches, and reports how far the log is synced.
fn sync_all(file: &File, records: &Receiver<u64>, synced: &AtomicU64, waker: &Waker) {
    while let Ok(first) = records.recv() {
        let mut last = first;
        for index in std::iter::once(first).chain(records.try_iter()) {
            assert!(index <= RECORDS_MAX, "more updates than fit in a log: lower --samples");
            let mut record = [0; RECORD_BYTES];
            record[..8].copy_from_slice(&index.to_be_bytes());
            file.write_all_at(&record, (index - 1) * RECORD_BYTES as u64).expect("a log");
            last = index;
        }
        file.sync_data().expect("a log");
        synced.store(last, Ordering::Release);
        waker.wake().expect("a waker");
    }
}

struct Node {
    node: usize,
    clients: UdpSocket,
    peers: Vec<Option<Peer>>,
    write: Sender<u64>,
    /// Updates that arrived on this node, by their number.
    waiting: HashMap<u64, (SocketAddr, Vec<u8>)>,
    came: u64,
    /// On the leader: the origin of each pending update, and its number there.
    origins: VecDeque<(usize, u64)>,
    /// Records of the log, and how many of them are committed.
    appended: u64,
    done: u64,
    /// How far each node has synced.
    has: [u64; NODES],
}

impl Node {
    fn take_updates(&mut self) {
        let mut message = [0; 4096];
        while let Ok((length, client)) = self.clients.recv_from(&mut message) {
            self.came += 1;
            self.waiting.insert(self.came, (client, message[..length].to_vec()));
            if self.node == 0 {
                self.append(0, self.came);
            } else {
                self.send_to_peer(0, Kind::Came, self.came);
            }
        }
    }

    /// On the leader: sends the record to the followers before it writes its own log.
    fn append(&mut self, origin: usize, number: u64) {
        self.origins.push_back((origin, number));
        self.appended += 1;
        (1..NODES).for_each(|peer| self.send_to_peer(peer, Kind::Append, self.appended));
        self.write.send(self.appended).expect("the thread of the log");
    }

    fn receive_from_peer(&mut self, peer: usize) {
        let frames = self.peers[peer].as_mut().map_or_else(Vec::new, Peer::read);
        for (kind, number) in frames {
            match kind {
                Kind::Came => self.append(peer, number),
                Kind::Append => self.write.send(number).expect("the thread of the log"),
                Kind::Synced => self.count(peer, number),
                Kind::Done => self.answer(number),
            }
        }
    }

    fn is_synced(&mut self, upto: u64) {
        match self.node {
            0 => self.count(0, upto),
            _ => self.send_to_peer(0, Kind::Synced, upto),
        }
    }

    /// On the leader: commits what a majority has.
    fn count(&mut self, node: usize, upto: u64) {
        self.has[node] = self.has[node].max(upto);
        while self.done < of_majority(&self.has) {
            self.done += 1;
            let (origin, number) = self.origins.pop_front().expect("an origin for each pending update");
            match origin {
                0 => self.answer(number),
                _ => self.send_to_peer(origin, Kind::Done, number),
            }
        }
    }

    fn answer(&mut self, number: u64) {
        let (client, mut message) = self.waiting.remove(&number).expect("the update arrived at this node");
        if let Some(flags) = message.get_mut(2) {
            *flags |= 0x80;
        }
        let _sent = self.clients.send_to(&message, client);
    }

    fn send_to_peer(&mut self, peer: usize, kind: Kind, number: u64) {
        let mut frame = [0; RECORD_BYTES];
        frame[0] = kind as u8;
        frame[1..9].copy_from_slice(&number.to_be_bytes());
        if let Some(peer) = &mut self.peers[peer] {
            peer.stream.write_all(&frame).expect("a peer that reads");
        }
    }
}

/// A connection to another node, with the beginning of an incomplete frame.
struct Peer {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl Peer {
    /// Connects to the leader and sends the number of this node.
    fn to(leader: &str, node: usize) -> Self {
        let mut stream = std::net::TcpStream::connect(leader).expect("the leader");
        stream.write_all(&[node as u8]).expect("the leader");
        Self::over(stream)
    }

    fn from(takes: &TcpListener) -> (usize, Self) {
        let (mut stream, _) = takes.accept().expect("a follower");
        let mut node = [0];
        stream.read_exact(&mut node).expect("a follower");
        (usize::from(node[0]), Self::over(stream))
    }

    fn over(stream: std::net::TcpStream) -> Self {
        stream.set_nodelay(true).expect("a connection");
        stream.set_nonblocking(true).expect("a connection");
        Self { stream: TcpStream::from_std(stream), rest: Vec::new() }
    }

    /// Reads all complete frames.
    fn read(&mut self) -> Vec<(Kind, u64)> {
        let mut bytes = [0; 8 * RECORD_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => self.rest.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let whole = self.rest.len() / RECORD_BYTES * RECORD_BYTES;
        let frames = self.rest[..whole].chunks_exact(RECORD_BYTES).map(|frame| {
            let kind = match frame[0] {
                1 => Kind::Came,
                2 => Kind::Append,
                3 => Kind::Synced,
                _ => Kind::Done,
            };
            (kind, u64::from_be_bytes(frame[1..9].try_into().expect("eight bytes")))
        });
        let frames = frames.collect();
        self.rest.drain(..whole);
        frames
    }
}
