//! A bounded queue of lines, and the thread that writes them.
//!
//! A write to standard error or to a file can fail, for example on a full disk. It can also block, because the reader
//! of a pipe stalls. Threads that serve clients or the cluster must not depend on it. They only queue lines, and one
//! thread writes. Lines that do not fit or cannot be written are lost and counted.

use crate::limits::{LOG_LINE_BYTES_MAX, LOG_QUEUE_BYTES_MAX, LOG_QUEUE_LINES_MAX, LOG_RETRY_MS};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::MakeWriter;

/// The queue of one output.
#[derive(Debug)]
pub(super) struct LineQueue {
    state: Mutex<State>,
    /// Signals that an empty queue got a line.
    filled: Condvar,
    /// Signals that the last line was written or lost.
    emptied: Condvar,
    lost: AtomicU64,
}

#[derive(Debug)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// Bytes of all lines in the queue.
    bytes: usize,
    /// The writer thread has taken a line from the queue and has not finished it.
    is_writing: bool,
    has_thread: bool,
}

impl LineQueue {
    /// An empty queue.
    pub(super) const fn new() -> Self {
        let state = State { lines: VecDeque::new(), bytes: 0, is_writing: false, has_thread: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), emptied: Condvar::new(), lost: AtomicU64::new(0) }
    }

    /// Queues a line with its newline. Never waits for the output, and never fails.
    pub(super) fn put(&self, line: &[u8]) {
        let mut line = line;
        if line.len() > LOG_LINE_BYTES_MAX {
            line = &line[..LOG_LINE_BYTES_MAX];
        }
        let mut line = line.to_vec();
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let mut state = self.lock();
        if state.lines.len() >= LOG_QUEUE_LINES_MAX || state.bytes + line.len() > LOG_QUEUE_BYTES_MAX {
            self.lost.fetch_add(1, Relaxed);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        if state.lines.len() == 1 {
            self.filled.notify_one();
        }
    }

    /// Number of lines lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Starts the thread that writes to `out`, unless it is running. When there is room again after a loss, `on_lost`
    /// gets the number of lost lines.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start(
        &'static self,
        name: &str,
        out: impl FnOnce() -> Box<dyn Write + Send>,
        on_lost: fn(u64),
    ) -> io::Result<()> {
        let mut state = self.lock();
        if state.has_thread {
            return Ok(());
        }
        let out = out();
        let work = move || self.run(out, on_lost);
        std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        state.has_thread = true;
        Ok(())
    }

    /// Waits up to `limit` until every line is written or lost. Returns whether that happened.
    pub(super) fn wait_until_empty(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        while state.is_writing || !state.lines.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.emptied.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn run(&self, out: Box<dyn Write + Send>, on_lost: fn(u64)) {
        let mut output = Output { out, is_torn: false };
        let mut reported = 0;
        loop {
            let line = self.next();
            let is_written = output.write(&line).is_ok();
            if !is_written {
                self.lost.fetch_add(1, Relaxed);
            }
            let has_room = self.written();
            let lost = self.lost();
            if is_written && has_room && lost > reported {
                on_lost(lost - reported);
                reported = lost;
            }
        }
    }

    /// Waits for the next line and takes it.
    fn next(&self) -> Vec<u8> {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.is_writing = true;
                return line;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Marks the last taken line as finished. Returns whether at least half of the queue is free.
    fn written(&self) -> bool {
        let mut state = self.lock();
        state.is_writing = false;
        if state.lines.is_empty() {
            self.emptied.notify_all();
        }
        state.lines.len() < LOG_QUEUE_LINES_MAX / 2 && state.bytes < LOG_QUEUE_BYTES_MAX / 2
    }

    /// No code under the lock can panic, so the state is consistent even if the lock is poisoned.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The output, and whether its last line is incomplete.
struct Output {
    out: Box<dyn Write + Send>,
    /// The last line was written only in part, so the next write begins with a newline.
    is_torn: bool,
}

impl Output {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.write_all(b"\n")?;
            self.is_torn = false;
        }
        self.write_all(line)?;
        self.out.flush()
    }

    /// As [`Write::write_all`], but also waits when a non-blocking output is full.
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.out.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = &bytes[count..];
                    self.is_torn = !bytes.is_empty();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(LOG_RETRY_MS));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Writer of one log event, which arrives in one piece.
pub(super) struct LineWriter(&'static LineQueue);

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for &'static LineQueue {
    type Writer = LineWriter;

    fn make_writer(&self) -> LineWriter {
        LineWriter(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// A test output that can stall and fail.
    #[derive(Clone, Default)]
    struct Fake(Arc<Inner>);

    #[derive(Default)]
    struct Inner {
        written: Mutex<Vec<u8>>,
        is_stalled: AtomicBool,
        /// Bytes of free space. When it is used up, every write fails.
        room: Mutex<Option<usize>>,
    }

    impl Write for Fake {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            while self.0.is_stalled.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let mut room = self.0.room.lock().unwrap();
            let count = room.map_or(bytes.len(), |room| room.min(bytes.len()));
            if count == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            *room = room.map(|room| room - count);
            self.0.written.lock().unwrap().extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Fake {
        fn text(&self) -> String {
            String::from_utf8(self.0.written.lock().unwrap().clone()).unwrap()
        }
    }

    const SOON: Duration = Duration::from_secs(20);

    fn queue(fake: &Fake) -> &'static LineQueue {
        let queue: &'static LineQueue = Box::leak(Box::new(LineQueue::new()));
        let out = fake.clone();
        queue.start("test", || Box::new(out), |_| {}).unwrap();
        queue
    }

    #[test]
    fn lines_wait_for_the_thread_and_are_written_in_order() {
        let fake = Fake::default();
        let queue: &'static LineQueue = Box::leak(Box::new(LineQueue::new()));
        queue.put(b"one\n");
        assert!(!queue.wait_until_empty(Duration::from_millis(1)), "there is no thread yet");
        let out = fake.clone();
        queue.start("test", || Box::new(out), |_| {}).unwrap();
        queue.put(b"two");
        assert!(queue.wait_until_empty(SOON));
        assert_eq!((fake.text().as_str(), queue.lost()), ("one\ntwo\n", 0));
    }

    #[test]
    fn a_stalled_output_costs_lines_and_blocks_no_caller() {
        let fake = Fake::default();
        fake.0.is_stalled.store(true, Relaxed);
        let queue = queue(&fake);
        // If `put` blocked, the test would hang here.
        for number in 0..2 * LOG_QUEUE_LINES_MAX {
            queue.put(format!("{number}\n").as_bytes());
        }
        let lost = queue.lost();
        // The writer may have taken one line already.
        assert!((LOG_QUEUE_LINES_MAX as u64 - 1..=LOG_QUEUE_LINES_MAX as u64).contains(&lost), "{lost}");
        assert!(!queue.wait_until_empty(Duration::from_millis(10)));
        fake.0.is_stalled.store(false, Relaxed);
        assert!(queue.wait_until_empty(SOON));
        assert_eq!(fake.text().lines().count() as u64, 2 * LOG_QUEUE_LINES_MAX as u64 - lost);
    }

    #[test]
    fn the_queue_is_bounded_in_bytes_and_so_is_a_line() {
        let fake = Fake::default();
        fake.0.is_stalled.store(true, Relaxed);
        let queue = queue(&fake);
        for _ in 0..LOG_QUEUE_BYTES_MAX / LOG_LINE_BYTES_MAX + 10 {
            queue.put(&vec![b'x'; LOG_LINE_BYTES_MAX * 2]);
        }
        assert!(queue.lock().bytes <= LOG_QUEUE_BYTES_MAX && queue.lost() >= 8);
        fake.0.is_stalled.store(false, Relaxed);
        assert!(queue.wait_until_empty(SOON));
        assert!(fake.text().lines().all(|line| line.len() == LOG_LINE_BYTES_MAX));
    }

    #[test]
    fn a_full_disk_loses_lines_and_the_next_one_with_room_stands_by_itself() {
        let fake = Fake::default();
        *fake.0.room.lock().unwrap() = Some(6);
        let queue = queue(&fake);
        for line in ["one\n", "two\n", "three\n"] {
            queue.put(line.as_bytes());
        }
        assert!(queue.wait_until_empty(SOON));
        assert_eq!((fake.text().as_str(), queue.lost()), ("one\ntw", 2));
        *fake.0.room.lock().unwrap() = None;
        queue.put(b"four\n");
        assert!(queue.wait_until_empty(SOON));
        assert_eq!((fake.text().as_str(), queue.lost()), ("one\ntw\nfour\n", 2));
    }

    #[test]
    fn lost_lines_are_reported_once_there_is_room() {
        static REPORTED: AtomicU64 = AtomicU64::new(0);
        let fake = Fake::default();
        *fake.0.room.lock().unwrap() = Some(0);
        let queue: &'static LineQueue = Box::leak(Box::new(LineQueue::new()));
        let out = fake.clone();
        queue.start("test", || Box::new(out), |count| _ = REPORTED.fetch_add(count, Relaxed)).unwrap();
        (0..3).for_each(|_| queue.put(b"lost\n"));
        assert!(queue.wait_until_empty(SOON));
        assert_eq!(REPORTED.load(Relaxed), 0);
        *fake.0.room.lock().unwrap() = None;
        queue.put(b"kept\n");
        let start = Instant::now();
        while REPORTED.load(Relaxed) != 3 {
            assert!(start.elapsed() < SOON);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(fake.text(), "kept\n");
    }
}
