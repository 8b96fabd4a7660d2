//! The second reading of a trace, by a thread of its own: queries go ahead to the workers in blocks.
//!
//! Each worker has a number of blocks, and there are no others: they are the window of what is read ahead. The reader
//! waits for a block to come back empty; a worker waits for nobody.

use super::Replay;
use super::block::Block;
use super::feed::Feed;
use super::input::Opened;
use super::order::Ordered;
use super::picker::{Pick, Picker, Query};
use crate::engine::lower_this_thread;
use crate::limits::{LIVE_GATHER_MAX, LIVE_LOAD_MAX, REPLAY_BLOCK_OCTETS, REPLAY_BLOCKS_MIN, REPLAY_WINDOW_OCTETS};
use crate::mutation::{Leash, LiveEnd};
use ::trace::TraceError;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A trace that is being read.
pub(crate) struct Reading {
    /// One for each worker.
    feeds: VecDeque<Feed>,
    thread: JoinHandle<SecondReading>,
    leash: KilledAtLast,
}

/// What became of the second reading, beside the first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SecondReading {
    /// Why the trace could not be read on, if so.
    pub unread: Option<String>,
    /// Queries, if it came to the end of what was to be read.
    pub queries: Option<u64>,
    /// Those of them whose client was not there the first time; they are not sent.
    pub newcomers: u64,
}

/// A program is not left behind, wherever a run ends.
struct KilledAtLast(Leash);

impl Drop for KilledAtLast {
    fn drop(&mut self) {
        self.0.stop_unless_read();
    }
}

impl Reading {
    /// Begins to read for so many workers.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn start(replay: &Replay, worker_count: usize) -> io::Result<Self> {
        let block_count = (REPLAY_WINDOW_OCTETS / REPLAY_BLOCK_OCTETS / worker_count).max(REPLAY_BLOCKS_MIN);
        Self::with_blocks(replay, worker_count, block_count)
    }

    /// The same with so many blocks for each worker.
    fn with_blocks(replay: &Replay, worker_count: usize, block_count: usize) -> io::Result<Self> {
        let is_loaded = Arc::new(AtomicBool::new(false));
        let (mut outlets, mut feeds) = (Vec::new(), VecDeque::new());
        for index in 0..worker_count {
            let (home, emptied) = channel();
            let (full, blocks) = channel();
            for _ in 0..block_count {
                // The other end is still in this function.
                let _sent = home.send(Block::default());
            }
            outlets.push(Outlet { emptied, full, block: None });
            let client_count = replay.places(worker_count).filter(|&(worker, _)| worker == index).count();
            feeds.push_back(Feed::new(replay, client_count, blocks, home, Arc::clone(&is_loaded)));
        }
        let reader = Reader { replay: replay.clone(), places: replay.places(worker_count).collect(), outlets };
        let loading = Loading(is_loaded);
        let leash = Leash::default();
        let held = leash.clone();
        let read = move || {
            // A program that is started from here gives way like this thread.
            lower_this_thread();
            match reader.replay.input.open(held) {
                Ok(opened) => reader.read(opened, loading),
                Err(error) => SecondReading { unread: Some(error.to_string()), ..SecondReading::default() },
            }
        };
        let thread = std::thread::Builder::new().name("trace".into()).spawn(read)?;
        Ok(Self { feeds, thread, leash: KilledAtLast(leash) })
    }

    /// The feed of the next worker.
    pub(crate) fn next_feed(&mut self) -> Option<Feed> {
        self.feeds.pop_front()
    }

    /// Waits for the reader, whose feeds are gone.
    pub(crate) fn finish(self) -> SecondReading {
        drop(self.feeds);
        drop(self.leash);
        let panicked = |_| SecondReading { unread: Some("its reader panicked".into()), ..SecondReading::default() };
        self.thread.join().unwrap_or_else(panicked)
    }
}

/// Workers wait until this says that as much has been read ahead as may be; at the end it does.
struct Loading(Arc<AtomicBool>);

impl Loading {
    fn is_done(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.is_done();
    }
}

struct Reader {
    replay: Replay,
    /// Of each client its worker, and its number there.
    places: Vec<(usize, u32)>,
    outlets: Vec<Outlet>,
}

/// What a program writes slowly does not wait for a block to be full, nor the run for all blocks.
struct Gathering {
    since: Instant,
    for_long: Duration,
}

impl Gathering {
    fn begin() -> Self {
        Self { since: Instant::now(), for_long: LIVE_LOAD_MAX }
    }

    /// From the beginning of the run on several times a second.
    fn is_enough(&mut self) -> bool {
        let is_enough = self.since.elapsed() > self.for_long;
        if is_enough {
            *self = Self { since: Instant::now(), for_long: LIVE_GATHER_MAX };
        }
        is_enough
    }
}

/// Why no more is read.
enum End {
    /// There is no more.
    Read,
    /// No more is wanted.
    Enough,
    /// A worker takes no more.
    Untaken,
    /// It cannot be read on.
    Damage(TraceError),
}

/// The way to one worker.
struct Outlet {
    emptied: Receiver<Block>,
    full: Sender<Block>,
    /// What is being filled.
    block: Option<Block>,
}

impl Reader {
    fn read(mut self, opened: Opened, loading: Loading) -> SecondReading {
        let Opened { reader, program } = opened;
        let mut trace = Ordered::new(reader, self.replay.survey.is_sorted);
        let mut told = SecondReading::default();
        // The first reading has tried the rules.
        let picker = Picker::new(self.replay.selection).after(self.replay.input.rules_left());
        let Ok(mut picker) = picker else { return told };
        let mut queries = 0;
        let mut gathering = program.as_ref().map(|_| Gathering::begin());
        let end = loop {
            if picker.is_done() {
                break End::Enough;
            }
            let query = match trace.next() {
                Ok(Some(message)) => match picker.pick(&message) {
                    Pick::Query(query) => query,
                    Pick::Nothing => continue,
                    Pick::End => break End::Enough,
                },
                Ok(None) => break End::Read,
                Err(error) => break End::Damage(error),
            };
            queries += 1;
            let Some(&number) = self.replay.survey.numbers.get(&(query.source, query.transport)) else {
                told.newcomers += 1;
                continue;
            };
            if !self.put(number, &query, &loading) {
                break End::Untaken;
            }
            if gathering.as_mut().is_some_and(Gathering::is_enough) {
                self.hand_over();
                loading.is_done();
            }
        };
        if let (End::Read, Some(program)) = (&end, &program) {
            program.leash().note_read();
        }
        self.hand_over();
        // Workers wait neither for the end of a program nor for what it says.
        drop((self.outlets, loading));
        let is_known = self.replay.survey.damaged.is_some();
        let (is_whole, unread) = match (end, program) {
            (End::Read, None) | (End::Enough, _) => (true, None),
            (End::Untaken, _) => (false, None),
            (End::Read, Some(program)) => match program.end(trace.tally()) {
                Ok(LiveEnd::Whole) => (true, None),
                Ok(LiveEnd::Damaged(reason)) => (is_known, Some(reason).filter(|_| !is_known)),
                Ok(LiveEnd::Stopped) => (false, None),
                Err(reason) => (false, Some(reason)),
            },
            (End::Damage(error), Some(program)) => (false, Some(program.unread(&error))),
            // The first reading has told of it already.
            (End::Damage(error), None) => (is_known, Some(error.to_string()).filter(|_| !is_known)),
        };
        told.queries = is_whole.then_some(queries);
        SecondReading { unread, ..told }
    }

    /// Gives a query to its worker; `false` when that takes no more.
    fn put(&mut self, number: u32, query: &Query<'_>, loading: &Loading) -> bool {
        let (worker, client) = self.places[number as usize];
        if self.outlets[worker].block.is_none() {
            let emptied = match self.outlets[worker].emptied.try_recv() {
                Err(TryRecvError::Empty) => {
                    // Here it may wait long: the others get what there is for them.
                    self.hand_over();
                    loading.is_done();
                    self.outlets[worker].emptied.recv().ok()
                }
                other => other.ok(),
            };
            let Some(mut block) = emptied else { return false };
            block.clear();
            self.outlets[worker].block = Some(block);
        }
        let outlet = &mut self.outlets[worker];
        let Some(block) = &mut outlet.block else { return false };
        block.push(client, query);
        if block.is_full() { outlet.hand_over() } else { true }
    }

    fn hand_over(&mut self) {
        for outlet in &mut self.outlets {
            outlet.hand_over();
        }
    }
}

impl Outlet {
    /// Gives what there is to the worker; `false` when that takes no more.
    fn hand_over(&mut self) -> bool {
        self.block.take().is_none_or(|block| self.full.send(block).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Manner, Route, Selection, Sources};
    use super::*;
    use crate::engine::Transport;
    use crate::population::Server;
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, SocketAddr};
    use wire::Name;
    use wire::builder::MessageBuilder;
    use wire::number::Rtype;

    const SOURCES: u64 = 9;
    const QUERIES: u64 = 12_000;

    /// A trace of several hundred kilobytes: query `n` at microsecond `n`.
    fn replay(name: &str, is_dependent: bool) -> Replay {
        let path = std::env::temp_dir().join(format!("catlab-{name}-{}.txt", std::process::id()));
        let mut writer = ::trace::Writer::create(&path, ::trace::Format::Text).unwrap();
        for number in 0..QUERIES {
            let qname: Name = format!("q{number}.a-name-of-some-length.example").parse().unwrap();
            let octets = MessageBuilder::query(0, qname.as_ref(), Rtype::A).build();
            // The first source asks for half of all.
            let source = if number.is_multiple_of(2) { 0 } else { number % SOURCES };
            let source = SocketAddr::from((Ipv4Addr::new(10, 0, 0, source as u8), 53));
            let transport = ::trace::Transport::Udp;
            let at_ns = 1_000 * number;
            let message = ::trace::Message { at_ns, source, destination: source, transport, octets: &octets };
            writer.write(&message).unwrap();
        }
        writer.finish().unwrap();
        let server = Server { address: Ipv4Addr::LOCALHOST.into(), port: Some(53) };
        let (servers, sources) = (vec![server], Some(Sources::Sockets));
        let route = Route {
            servers,
            ports: BTreeMap::<Transport, u16>::new(),
            sources,
            open_files_max: 1_024,
            rules: None,
            live: None,
        };
        let manner = Manner { is_dependent, ..Manner::default() };
        Replay::new(&path, ::trace::Options::default(), Selection::default(), manner, &route).unwrap()
    }

    fn number(message: &[u8]) -> u64 {
        std::str::from_utf8(&message[14..13 + usize::from(message[12])]).unwrap().parse().unwrap()
    }

    /// Takes what there is from a feed: which queries, of whom.
    fn take(feed: &mut Feed, taken: &mut Vec<(u64, u32)>) {
        let mut out = [0; 512];
        while let Some((planned_ns, client)) = feed.peek(u64::MAX) {
            let octets = feed.fill(&mut out);
            let number = number(&out[..octets]);
            assert!(planned_ns >= 1_000 * number);
            taken.push((number, client));
            feed.advance(planned_ns);
        }
    }

    #[test]
    fn a_trace_that_is_longer_than_the_window_comes_whole_and_in_order() {
        let replay = replay("window", false);
        for worker_count in [1, 2, 4] {
            let mut reading = Reading::with_blocks(&replay, worker_count, 2).unwrap();
            let mut feeds: Vec<_> = std::iter::from_fn(|| reading.next_feed()).collect();
            let mut taken = vec![Vec::new(); worker_count];
            let start = Instant::now();
            while feeds.iter_mut().any(Feed::goes_on) {
                assert!(start.elapsed() < Duration::from_secs(60), "{taken:?}");
                for (feed, taken) in feeds.iter_mut().zip(&mut taken) {
                    take(feed, taken);
                }
            }
            drop(feeds);
            assert_eq!(reading.finish().unread, None);
            for taken in &taken {
                assert!(taken.is_sorted_by_key(|(number, _)| *number), "{worker_count}");
            }
            let mut all: Vec<u64> = taken.iter().flatten().map(|(number, _)| *number).collect();
            all.sort_unstable();
            assert_eq!(all, (0..QUERIES).collect::<Vec<_>>(), "{worker_count}");
        }
        std::fs::remove_file(replay.trace()).unwrap();
    }

    #[test]
    fn a_reader_ends_with_its_workers() {
        let replay = replay("end", false);
        let mut reading = Reading::with_blocks(&replay, 2, 2).unwrap();
        let mut feed = reading.next_feed().unwrap();
        let start = Instant::now();
        while !feed.is_loaded() {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
        take(&mut feed, &mut Vec::new());
        drop(feed);
        assert_eq!(reading.finish().unread, None);
        std::fs::remove_file(replay.trace()).unwrap();
    }

    #[test]
    fn dependent_queries_of_a_client_go_one_after_the_other_and_others_pass() {
        let replay = replay("dependent", true);
        let mut reading = Reading::with_blocks(&replay, 1, 2).unwrap();
        let mut feed = reading.next_feed().unwrap();
        let (mut taken, mut now) = (Vec::new(), 0);
        let start = Instant::now();
        while feed.goes_on() {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", taken.len());
            let before = taken.len();
            take(&mut feed, &mut taken);
            let mut clients: Vec<u32> = taken[before..].iter().map(|(_, client)| *client).collect();
            clients.sort_unstable();
            now += 1_000_000;
            for &client in &clients {
                feed.settled(client, now);
            }
            clients.dedup();
            assert_eq!(clients.len(), taken.len() - before, "one of each at a time");
        }
        assert_eq!(taken.len() as u64, QUERIES);
        for client in 0..SOURCES as u32 {
            let own: Vec<u64> = taken.iter().filter(|(_, of)| *of == client).map(|(number, _)| *number).collect();
            assert!(own.is_sorted() && !own.is_empty(), "{client}");
        }
        drop(feed);
        assert_eq!(reading.finish().unread, None);
        std::fs::remove_file(replay.trace()).unwrap();
    }
}
