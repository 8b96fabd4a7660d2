//! Where a lane leaves this node: frames that wait, and the connection that they go out on.
//!
//! Who has frames writes them by itself, as far as the connection takes them at once: a thread that is woken for it
//! costs an update its time four times on its way. What is left is written by the task of the connection.

use super::PeerCounters;
use super::frame::append;
use crate::limits::{PEER_GATHER_BYTES, PEER_LANE_BYTES_MAX, PEER_LANE_FRAMES_MAX, PEER_WRITE_NOW_BYTES};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

/// The end of a lane, shared by the replica thread and the task of its connection.
#[derive(Default)]
pub(crate) struct Outlet {
    waiting: Mutex<Waiting>,
    /// Whoever has it locked may lock `waiting`, never the other way round. Nobody waits with it for the network.
    connection: Mutex<Option<Connection>>,
    /// Tells the task that there is something to write, or that the lane is no more.
    told: Notify,
    counters: Arc<PeerCounters>,
}

/// Frames that no connection has taken yet.
#[derive(Default)]
struct Waiting {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// There is no connection: frames would be old when there is one, and raft sends them again.
    #[default]
    Down,
    Up,
    /// The replica has no use for this lane any more.
    Closed,
}

struct Connection {
    stream: Box<dyn AsyncWrite + Send + Unpin>,
    /// Frames on their way, with their lengths.
    bytes: Vec<u8>,
    /// So many of them were written.
    written: usize,
    /// What was written may still be on this side.
    is_unflushed: bool,
    /// It takes no more for now. The task is told, or waits, and nobody else writes: who did would be woken in its
    /// place.
    is_full: bool,
    /// After an error nobody knows what of it was written.
    is_broken: bool,
}

impl Outlet {
    pub(crate) fn new(counters: Arc<PeerCounters>) -> Self {
        Self { counters, ..Self::default() }
    }

    /// From now on frames go out here.
    pub(super) fn open(&self, stream: Box<dyn AsyncWrite + Send + Unpin>) {
        *self.connection() = Some(Connection {
            stream,
            bytes: Vec::new(),
            written: 0,
            is_unflushed: false,
            is_full: false,
            is_broken: false,
        });
        let mut waiting = self.waiting();
        if waiting.state == State::Down {
            waiting.state = State::Up;
        }
    }

    /// The connection is over, and with it what waited.
    pub(super) fn shut(&self) {
        let mut waiting = self.waiting();
        if waiting.state == State::Up {
            waiting.state = State::Down;
        }
        waiting.frames.drain(..).for_each(|_| self.counters.dropped.one_shared());
        waiting.bytes = 0;
        drop(waiting);
        *self.connection() = None;
    }

    /// No frame comes any more; those that wait go out.
    pub(super) fn close(&self) {
        self.waiting().state = State::Closed;
        self.told.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.waiting().state == State::Closed
    }

    /// Puts a frame behind the others; drops it when there are too many, or nobody is there.
    pub(super) fn put(&self, frame: Vec<u8>) {
        let mut waiting = self.waiting();
        let has_room = waiting.frames.len() < PEER_LANE_FRAMES_MAX
            && waiting.bytes.saturating_add(frame.len()) <= PEER_LANE_BYTES_MAX;
        if waiting.state == State::Up && has_room {
            waiting.bytes += frame.len();
            waiting.frames.push_back(frame);
        } else {
            self.counters.dropped.one_shared();
        }
    }

    /// Writes what waits, if that is little and can be done without waiting; leaves it to the task otherwise.
    pub(super) fn write_now(&self) {
        if self.waiting().bytes > PEER_WRITE_NOW_BYTES {
            return self.told.notify_one();
        }
        let mut connection = match self.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The task is at it, and looks again.
            Err(TryLockError::WouldBlock) => return self.told.notify_one(),
        };
        let Some(connection) = connection.as_mut().filter(|connection| !connection.is_full) else { return };
        // Whoever is to be woken when there is room again: the task, which then finds out by itself.
        if !matches!(self.write(connection, &mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))) {
            self.told.notify_one();
        }
    }

    /// Leaves writing to the task.
    pub(super) fn write_later(&self) {
        self.told.notify_one();
    }

    /// Writes whatever comes until the connection ends (an error) or the lane is closed.
    pub(super) async fn write_all(&self) -> io::Result<()> {
        loop {
            let is_closed = self.is_closed();
            std::future::poll_fn(|cx| match self.connection().as_mut() {
                Some(connection) => self.write(connection, cx),
                None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            })
            .await?;
            if is_closed {
                return Ok(());
            }
            self.told.notified().await;
        }
    }

    /// Ready when nothing waits any more.
    fn write(&self, connection: &mut Connection, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if connection.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let done = self.write_frames(connection, cx);
        connection.is_full = done.is_pending();
        connection.is_broken = matches!(done, Poll::Ready(Err(_)));
        done
    }

    fn write_frames(&self, connection: &mut Connection, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if connection.written == connection.bytes.len() {
                connection.written = 0;
                connection.bytes.clear();
                connection.bytes.shrink_to(PEER_GATHER_BYTES);
                self.gather(&mut connection.bytes);
            }
            if connection.bytes.is_empty() {
                break;
            }
            let rest = &connection.bytes[connection.written..];
            match ready!(Pin::new(&mut connection.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => connection.written += written,
            }
            connection.is_unflushed = true;
        }
        if connection.is_unflushed {
            ready!(Pin::new(&mut connection.stream).poll_flush(cx))?;
            connection.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// What goes to TLS at once.
    fn gather(&self, bytes: &mut Vec<u8>) {
        let mut waiting = self.waiting();
        while bytes.len() < PEER_GATHER_BYTES
            && let Some(frame) = waiting.frames.pop_front()
        {
            append(&frame, bytes);
            waiting.bytes -= frame.len();
            self.counters.sent.one_shared();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::frame::read_len;
    use std::thread;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};
    use tokio::runtime::{Builder, Runtime};

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn open(pipe_bytes: usize) -> (Arc<Outlet>, DuplexStream) {
        let (near, far) = duplex(pipe_bytes);
        let outlet = Arc::new(Outlet::new(Arc::default()));
        outlet.open(Box::new(near));
        (outlet, far)
    }

    async fn read(from: &mut DuplexStream) -> Option<Vec<u8>> {
        let mut frame = vec![0; read_len(from).await.unwrap()?];
        from.read_exact(&mut frame).await.unwrap();
        Some(frame)
    }

    /// The task of a connection, until the lane is closed or the connection over.
    fn task(outlet: Arc<Outlet>) -> thread::JoinHandle<io::Result<()>> {
        thread::spawn(move || {
            let done = runtime().block_on(outlet.write_all());
            outlet.shut();
            done
        })
    }

    #[test]
    fn what_is_little_goes_out_without_the_task() {
        let (outlet, mut far) = open(1_000);
        outlet.put(b"one".to_vec());
        outlet.put(b"two".to_vec());
        outlet.write_now();
        let (one, two) = runtime().block_on(async { (read(&mut far).await, read(&mut far).await) });
        assert_eq!((one.unwrap(), two.unwrap()), (b"one".to_vec(), b"two".to_vec()));
    }

    #[test]
    fn whoever_writes_frames_arrive_whole_and_in_their_order() {
        // The far end reads now quickly and now not at all; the pipe takes a few bytes, or a few frames.
        for pipe_bytes in [1, 7, 1_000, 200_000] {
            let (outlet, mut far) = open(pipe_bytes);
            let task = task(outlet.clone());
            let frames = if pipe_bytes < 10 { 300_u32 } else { 4_000 };
            let reader = thread::spawn(move || {
                runtime().block_on(async {
                    let mut next = 0_u32;
                    while let Some(frame) = read(&mut far).await {
                        assert_eq!(frame[..4], next.to_be_bytes(), "pipe of {pipe_bytes}");
                        assert!(frame[4..].iter().all(|byte| *byte == next as u8));
                        next += 1;
                        if next.is_multiple_of(500) {
                            tokio::time::sleep(Duration::from_millis(3)).await;
                        }
                    }
                    next
                })
            });
            for number in 0..frames {
                let len = if number % 97 == 0 { 3_000 } else { number as usize % 50 };
                let mut frame = number.to_be_bytes().to_vec();
                frame.resize(4 + len, number as u8);
                outlet.put(frame);
                if number % 3 == 0 {
                    outlet.write_now();
                }
                if number % 1_000 == 999 {
                    outlet.write_later();
                    thread::sleep(Duration::from_millis(2));
                }
            }
            // What was put and not yet written goes out before the end.
            outlet.close();
            task.join().unwrap().unwrap();
            assert_eq!(reader.join().unwrap(), frames);
            assert_eq!((outlet.counters.sent.get(), outlet.counters.dropped.get()), (u64::from(frames), 0));
        }
    }

    #[test]
    fn nothing_waits_where_nobody_is_or_beyond_the_limits() {
        let outlet = Outlet::new(Arc::default());
        outlet.put(vec![1]);
        outlet.write_now();
        assert_eq!((outlet.counters.dropped.get(), outlet.waiting().frames.len()), (1, 0), "no connection");
        let (outlet, _far) = open(10);
        (0..PEER_LANE_FRAMES_MAX + 5).for_each(|_| outlet.put(vec![1]));
        assert_eq!(outlet.counters.dropped.get(), 5, "frames");
        let (outlet, _far) = open(10);
        (0..3).for_each(|_| outlet.put(vec![1; PEER_LANE_BYTES_MAX / 2]));
        assert_eq!((outlet.counters.dropped.get(), outlet.waiting().bytes), (1, PEER_LANE_BYTES_MAX), "bytes");
    }

    #[test]
    fn with_its_connection_goes_what_waited_and_the_next_begins_with_a_frame() {
        let (outlet, far) = open(5);
        (0..3).for_each(|_| outlet.put(vec![7; 20]));
        outlet.write_now();
        let writing = task(outlet.clone());
        drop(far);
        writing.join().unwrap().unwrap_err();
        outlet.put(vec![8; 20]);
        let (near, mut far) = duplex(1_000);
        outlet.open(Box::new(near));
        outlet.put(vec![9; 20]);
        outlet.write_now();
        assert_eq!(runtime().block_on(read(&mut far)).unwrap(), [9; 20]);
    }

    #[test]
    fn after_an_error_nothing_more_is_written() {
        struct FailsOnce(bool);
        impl AsyncWrite for FailsOnce {
            fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                if !std::mem::replace(&mut self.0, true) {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                }
                Poll::Ready(Ok(bytes.len()))
            }
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
        }
        let outlet = Arc::new(Outlet::new(Arc::default()));
        outlet.open(Box::new(FailsOnce(false)));
        outlet.put(vec![1]);
        outlet.write_now();
        // Whoever went on would be done now.
        outlet.close();
        let error = task(outlet.clone()).join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
