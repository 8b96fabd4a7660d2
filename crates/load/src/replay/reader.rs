//! The second reading of a trace: a thread passes queries to the workers in blocks.
//!
//! Each worker has a fixed number of blocks, which limits the read-ahead. The reader waits for emptied blocks. Workers
//! never wait.

use super::Replay;
use super::block::Block;
use super::feed::Feed;
use super::input::Opened;
use super::picker::{Pick, Picker};
use super::reorder_buffer::ReorderBuffer;
use super::worker_queues::{FlushDelay, WorkerQueue, WorkerQueues, flush_periodically, locked};
use crate::engine::SecondReading;
use crate::limits::{REPLAY_BLOCK_BYTES, REPLAY_BLOCKS_MIN, REPLAY_WINDOW_BYTES};
use crate::mutation::{KillHandle, StreamEnd};
use ::trace::TraceError;
use sockets::system::lower_this_thread;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A reading in progress.
pub(super) struct Reading {
    /// One per worker.
    feeds: VecDeque<Feed>,
    thread: JoinHandle<SecondReading>,
    kill_handle: KillOnDrop,
}

/// Kills the filter command when a run ends in any way.
struct KillOnDrop(KillHandle);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.stop_unless_read();
    }
}

impl Reading {
    /// Starts reading for this many workers.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn start(replay: &Replay, worker_count: usize) -> io::Result<Self> {
        let block_count = (REPLAY_WINDOW_BYTES / REPLAY_BLOCK_BYTES / worker_count).max(REPLAY_BLOCKS_MIN);
        Self::with(replay, worker_count, block_count, FlushDelay::default())
    }

    /// The same with this number of blocks per worker, and these flush delays for a filter command.
    fn with(replay: &Replay, worker_count: usize, block_count: usize, delay: FlushDelay) -> io::Result<Self> {
        let is_loaded = Arc::new(AtomicBool::new(false));
        let (mut queues, mut feeds) = (Vec::new(), VecDeque::new());
        for index in 0..worker_count {
            let (give_back, free_blocks) = channel();
            let (full, blocks) = channel();
            for _ in 0..block_count {
                // The receiver still exists in this function.
                let _sent = give_back.send(Block::default());
            }
            queues.push(WorkerQueue { free_blocks, full, block: None });
            let client_count = replay.assignments(worker_count).filter(|&(worker, _)| worker == index).count();
            feeds.push_back(Feed::new(replay, client_count, blocks, give_back, Arc::clone(&is_loaded)));
        }
        let assignments = replay.assignments(worker_count).collect();
        let queues = Arc::new(Mutex::new(WorkerQueues::new(assignments, queues, is_loaded)));
        let first_query = replay.input.is_live().then(|| start_flusher(&queues, delay)).transpose()?;
        let reader = Reader { replay: replay.clone(), queues, first_query };
        let kill_handle = KillHandle::default();
        let handle = kill_handle.clone();
        let read = move || {
            // A command started from here inherits the low priority.
            lower_this_thread();
            match reader.replay.input.open(handle) {
                Ok(opened) => reader.read(opened),
                Err(error) => SecondReading { unread: Some(error.to_string()), ..SecondReading::default() },
            }
        };
        let thread = std::thread::Builder::new().name("trace".into()).spawn(read)?;
        Ok(Self { feeds, thread, kill_handle: KillOnDrop(kill_handle) })
    }

    /// The feed of the next worker.
    pub(super) fn next_feed(&mut self) -> Option<Feed> {
        self.feeds.pop_front()
    }

    /// Waits for the reader after its feeds were dropped.
    pub(super) fn finish(self) -> SecondReading {
        drop(self.feeds);
        drop(self.kill_handle);
        let panicked = |_| SecondReading { unread: Some("its reader panicked".into()), ..SecondReading::default() };
        self.thread.join().unwrap_or_else(panicked)
    }
}

/// Starts a thread that flushes the output of a filter command. Returns a channel to signal the first query.
fn start_flusher(queues: &Arc<Mutex<WorkerQueues>>, delay: FlushDelay) -> io::Result<Sender<()>> {
    let (queues, (first_query, signal)) = (Arc::clone(queues), channel());
    std::thread::Builder::new().name("gather".into()).spawn(move || flush_periodically(&queues, &signal, delay))?;
    Ok(first_query)
}

struct Reader {
    replay: Replay,
    queues: Arc<Mutex<WorkerQueues>>,
    /// Set if the input comes from a filter command.
    first_query: Option<Sender<()>>,
}

/// Why the reading ended.
enum ReadingEnd {
    /// The input has ended.
    Read,
    /// No more queries are needed.
    Complete,
    /// A worker has stopped.
    WorkerStopped,
    /// The input is damaged.
    Damaged(TraceError),
}

impl Reader {
    fn read(self, opened: Opened) -> SecondReading {
        let Opened { reader, program } = opened;
        let mut trace = ReorderBuffer::new(reader, self.replay.survey.is_sorted);
        let mut outcome = SecondReading::default();
        // The first reading has checked the rules.
        let picker = Picker::new(self.replay.selection).after(self.replay.input.remaining_rules());
        let Ok(mut picker) = picker else { return outcome };
        let mut queries = 0;
        let mut first_query_signal = self.first_query.as_ref();
        // Only the flushing thread also uses the queues.
        let mut locked_queues = first_query_signal.is_none().then(|| locked(&self.queues));
        let end = loop {
            if picker.is_done() {
                break ReadingEnd::Complete;
            }
            let query = match trace.next() {
                Ok(Some(message)) => match picker.pick(&message) {
                    Pick::Query(query) => query,
                    Pick::Nothing => continue,
                    Pick::End => break ReadingEnd::Complete,
                },
                Ok(None) => break ReadingEnd::Read,
                Err(error) => break ReadingEnd::Damaged(error),
            };
            queries += 1;
            let Some(&number) = self.replay.survey.numbers.get(&(query.source, query.transport)) else {
                outcome.newcomers += 1;
                continue;
            };
            let is_queued = match &mut locked_queues {
                Some(queues) => queues.put(number, &query),
                None => locked(&self.queues).put(number, &query),
            };
            if !is_queued {
                break ReadingEnd::WorkerStopped;
            }
            if let Some(first_query) = first_query_signal.take() {
                let _sent = first_query.send(());
            }
        };
        if let (ReadingEnd::Read, Some(program)) = (&end, &program) {
            program.kill_handle().note_read();
        }
        // Workers do not wait for the exit of the command or for its remaining output.
        locked_queues.get_or_insert_with(|| locked(&self.queues)).close();
        drop(locked_queues);
        let is_known = self.replay.survey.damaged.is_some();
        let (is_whole, unread) = match (end, program) {
            (ReadingEnd::Read, None) | (ReadingEnd::Complete, _) => (true, None),
            (ReadingEnd::WorkerStopped, _) => (false, None),
            (ReadingEnd::Read, Some(program)) => match program.end(trace.tally()) {
                Ok(StreamEnd::Whole) => (true, None),
                Ok(StreamEnd::Damaged(reason)) => (is_known, Some(reason).filter(|_| !is_known)),
                Ok(StreamEnd::Stopped) => (false, None),
                Err(reason) => (false, Some(reason)),
            },
            (ReadingEnd::Damaged(error), Some(program)) => (false, Some(program.unread(&error))),
            // The first reading has reported it.
            (ReadingEnd::Damaged(error), None) => (is_known, Some(error.to_string()).filter(|_| !is_known)),
        };
        outcome.queries = is_whole.then_some(queries);
        SecondReading { unread, ..outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ReplayMode, Route, Selection, Sources};
    use super::*;
    use crate::population::Server;
    use measure::Transport;
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::{Duration, Instant};
    use wire::Name;
    use wire::builder::MessageBuilder;
    use wire::number::Rtype;

    const SOURCES: u64 = 9;
    const QUERIES: u64 = 12_000;

    /// A trace of several hundred kilobytes, with query `n` at microsecond `n`.
    fn replay(name: &str, is_dependent: bool) -> Replay {
        through(name, is_dependent, None)
    }

    /// The same with a filter command.
    fn through(name: &str, is_dependent: bool, live: Option<String>) -> Replay {
        let path = std::env::temp_dir().join(format!("catlab-{name}-{}.txt", std::process::id()));
        let mut writer = ::trace::Writer::create(&path, ::trace::Format::Text).unwrap();
        for number in 0..QUERIES {
            let qname: Name = format!("q{number}.a-name-of-some-length.example").parse().unwrap();
            let bytes = MessageBuilder::query(0, qname.as_ref(), Rtype::A).build();
            // Half of the queries are from the first source.
            let source = if number.is_multiple_of(2) { 0 } else { number % SOURCES };
            let source = SocketAddr::from((Ipv4Addr::new(10, 0, 0, source as u8), 53));
            let transport = ::trace::Transport::Udp;
            let at_ns = 1_000 * number;
            let message = ::trace::Message { at_ns, source, destination: source, transport, bytes: &bytes };
            writer.write(&message).unwrap();
        }
        writer.finish().unwrap();
        let server = Server::new(Ipv4Addr::LOCALHOST.into(), Some(53));
        let (servers, sources) = (vec![server], Some(Sources::Sockets));
        let route = Route {
            servers,
            ports: BTreeMap::<Transport, u16>::new(),
            sources,
            open_files_max: 1_024,
            rules: None,
            live,
        };
        let mode = ReplayMode { is_dependent, ..ReplayMode::default() };
        Replay::new(&path, ::trace::Options::default(), Selection::default(), mode, &route).unwrap()
    }

    fn number(message: &[u8]) -> u64 {
        std::str::from_utf8(&message[14..13 + usize::from(message[12])]).unwrap().parse().unwrap()
    }

    /// Takes the available queries of a feed, with their clients.
    fn take(feed: &mut Feed, received: &mut Vec<(u64, u32)>) {
        let mut out = [0; 512];
        while let Some((planned_ns, client)) = feed.peek(u64::MAX) {
            let bytes = feed.fill(&mut out);
            let number = number(&out[..bytes]);
            assert!(planned_ns >= 1_000 * number);
            received.push((number, client));
            feed.advance(planned_ns);
        }
    }

    #[test]
    fn a_trace_longer_than_the_window_is_read_completely_and_in_order() {
        let replay = replay("window", false);
        for worker_count in [1, 2, 4] {
            let mut reading = Reading::with(&replay, worker_count, 2, FlushDelay::default()).unwrap();
            let mut feeds: Vec<_> = std::iter::from_fn(|| reading.next_feed()).collect();
            let mut received = vec![Vec::new(); worker_count];
            let start = Instant::now();
            while feeds.iter_mut().any(Feed::has_more) {
                assert!(start.elapsed() < Duration::from_secs(60), "{received:?}");
                for (feed, received) in feeds.iter_mut().zip(&mut received) {
                    take(feed, received);
                }
            }
            drop(feeds);
            assert_eq!(reading.finish().unread, None);
            for received in &received {
                assert!(received.is_sorted_by_key(|(number, _)| *number), "{worker_count}");
            }
            let mut all: Vec<u64> = received.iter().flatten().map(|(number, _)| *number).collect();
            all.sort_unstable();
            assert_eq!(all, (0..QUERIES).collect::<Vec<_>>(), "{worker_count}");
        }
        std::fs::remove_file(replay.trace()).unwrap();
    }

    #[test]
    fn output_of_a_pausing_program_is_flushed_to_workers() {
        const REST: Duration = Duration::from_secs(5);
        let been = std::env::temp_dir().join(format!("catlab-rests-{}", std::process::id()));
        let _gone = std::fs::remove_file(&been);
        // The first reading gets all lines at once. In the second, the command pauses after a thousand lines.
        let live = format!(
            "if [ -e {been} ]; \
             then awk 'NR == 1000 {{ print; fflush(); system(\"sleep {rest}\"); next }} {{ print }}'; \
             else touch {been}; cat; fi",
            been = been.display(),
            rest = REST.as_secs()
        );
        let replay = through("rests", false, Some(live));
        let delay = FlushDelay { load: Duration::from_millis(50), flush_periodically: Duration::from_millis(5) };
        let start = Instant::now();
        let mut reading = Reading::with(&replay, 1, 64, delay).unwrap();
        let (mut feed, mut received) = (reading.next_feed().unwrap(), Vec::new());
        while received.len() < 990 {
            assert!(start.elapsed() < Duration::from_secs(60), "{} while it rests", received.len());
            std::thread::sleep(Duration::from_millis(1));
            take(&mut feed, &mut received);
        }
        // Without a flush, more would come at once after the rest.
        assert!(feed.is_loaded() && received.len() <= 1_000, "{}", received.len());
        while feed.has_more() {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", received.len());
            take(&mut feed, &mut received);
        }
        assert_eq!(received.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (0..QUERIES).collect::<Vec<_>>());
        drop(feed);
        assert_eq!(reading.finish(), SecondReading { queries: Some(QUERIES), ..SecondReading::default() });
        std::fs::remove_file(replay.trace()).unwrap();
        std::fs::remove_file(been).unwrap();
    }

    #[test]
    fn the_reader_stops_when_its_workers_do() {
        let replay = replay("end", false);
        let mut reading = Reading::with(&replay, 2, 2, FlushDelay::default()).unwrap();
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
    fn dependent_queries_do_not_block_other_clients() {
        let replay = replay("dependent", true);
        let mut reading = Reading::with(&replay, 1, 2, FlushDelay::default()).unwrap();
        let mut feed = reading.next_feed().unwrap();
        let (mut received, mut now) = (Vec::new(), 0);
        let start = Instant::now();
        while feed.has_more() {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", received.len());
            let before = received.len();
            take(&mut feed, &mut received);
            let mut clients: Vec<u32> = received[before..].iter().map(|(_, client)| *client).collect();
            clients.sort_unstable();
            now += 1_000_000;
            for &client in &clients {
                feed.query_done(client, now);
            }
            clients.dedup();
            assert_eq!(clients.len(), received.len() - before, "one of each at a time");
        }
        assert_eq!(received.len() as u64, QUERIES);
        for client in 0..SOURCES as u32 {
            let numbers: Vec<u64> =
                received.iter().filter(|(_, of)| *of == client).map(|(number, _)| *number).collect();
            assert!(numbers.is_sorted() && !numbers.is_empty(), "{client}");
        }
        drop(feed);
        assert_eq!(reading.finish().unread, None);
        std::fs::remove_file(replay.trace()).unwrap();
    }
}
