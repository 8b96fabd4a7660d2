//! The send buffer of a channel to a peer: queued frames, and the connection that sends them.
//!
//! The thread that queues frames also writes them, as long as the socket accepts them without blocking. Waking another
//! thread would add latency to each update four times. The connection task writes the rest.

use super::PeerCounters;
use super::frame::append;
use crate::limits::{PEER_CHANNEL_BYTES_MAX, PEER_CHANNEL_FRAMES_MAX, PEER_GATHER_BYTES, PEER_WRITE_NOW_BYTES};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker, ready};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

/// The send buffer, shared by the replica thread and the connection task.
#[derive(Default)]
pub(crate) struct SendBuffer {
    queue: Mutex<Queue>,
    /// Lock order: `connection` before `queue`. No thread waits for the network while it has this lock.
    connection: Mutex<Option<Connection>>,
    /// Wakes the task to write, or because the channel is closed.
    wakeup: Notify,
    counters: Arc<PeerCounters>,
}

/// Frames that are not sent yet.
#[derive(Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// No connection. Frames are dropped: they would be outdated later, and raft sends again.
    #[default]
    Down,
    Up,
    /// The replica no longer uses this channel.
    Closed,
}

struct Connection {
    stream: Box<dyn AsyncWrite + Send + Unpin>,
    /// Encoded frames that are being written.
    bytes: Vec<u8>,
    /// Number of bytes already written.
    written: usize,
    /// Whether TLS may still buffer written bytes.
    is_unflushed: bool,
    /// The socket accepts no more bytes. Only the task writes then, because only it is woken.
    is_full: bool,
    /// Set after an error: it is unknown how much was written.
    is_broken: bool,
}

impl SendBuffer {
    pub(crate) fn new(counters: Arc<PeerCounters>) -> Self {
        Self { counters, ..Self::default() }
    }

    /// Sets the connection that sends the frames.
    pub(super) fn connect(&self, stream: Box<dyn AsyncWrite + Send + Unpin>) {
        *self.connection() = Some(Connection {
            stream,
            bytes: Vec::new(),
            written: 0,
            is_unflushed: false,
            is_full: false,
            is_broken: false,
        });
        let mut queue = self.queue();
        if queue.state == State::Down {
            queue.state = State::Up;
        }
    }

    /// Drops the connection and all queued frames.
    pub(super) fn disconnect(&self) {
        let mut queue = self.queue();
        if queue.state == State::Up {
            queue.state = State::Down;
        }
        queue.frames.drain(..).for_each(|_| self.counters.dropped.one_shared());
        queue.bytes = 0;
        drop(queue);
        *self.connection() = None;
    }

    /// Closes the channel. Queued frames are still sent.
    pub(super) fn close(&self) {
        self.queue().state = State::Closed;
        self.wakeup.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.queue().state == State::Closed
    }

    /// Queues a frame. Drops it if the queue is full or there is no connection.
    pub(super) fn push(&self, frame: Vec<u8>) {
        let mut queue = self.queue();
        let has_room = queue.frames.len() < PEER_CHANNEL_FRAMES_MAX
            && queue.bytes.saturating_add(frame.len()) <= PEER_CHANNEL_BYTES_MAX;
        if queue.state == State::Up && has_room {
            queue.bytes += frame.len();
            queue.frames.push_back(frame);
        } else {
            self.counters.dropped.one_shared();
        }
    }

    /// Writes the queued frames now if they are few and the socket does not block. Otherwise wakes the task.
    pub(super) fn try_write(&self) {
        if self.queue().bytes > PEER_WRITE_NOW_BYTES {
            return self.wakeup.notify_one();
        }
        let mut connection = match self.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // The task is writing, and checks the queue again.
            Err(TryLockError::WouldBlock) => return self.wakeup.notify_one(),
        };
        let Some(connection) = connection.as_mut().filter(|connection| !connection.is_full) else { return };
        // The task registers its own waker when it runs.
        if !matches!(self.write(connection, &mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(()))) {
            self.wakeup.notify_one();
        }
    }

    /// Wakes the task to write.
    pub(super) fn schedule_write(&self) {
        self.wakeup.notify_one();
    }

    /// Writes frames until the connection fails or the channel is closed.
    pub(super) async fn run_writer(&self) -> io::Result<()> {
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
            self.wakeup.notified().await;
        }
    }

    /// Ready once the queue is empty.
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

    /// Collects frames for one write to TLS.
    fn gather(&self, bytes: &mut Vec<u8>) {
        let mut queue = self.queue();
        while bytes.len() < PEER_GATHER_BYTES
            && let Some(frame) = queue.frames.pop_front()
        {
            append(&frame, bytes);
            queue.bytes -= frame.len();
            self.counters.sent.one_shared();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn open(pipe_bytes: usize) -> (Arc<SendBuffer>, DuplexStream) {
        let (near, far) = duplex(pipe_bytes);
        let buffer = Arc::new(SendBuffer::new(Arc::default()));
        buffer.connect(Box::new(near));
        (buffer, far)
    }

    async fn read(from: &mut DuplexStream) -> Option<Vec<u8>> {
        let mut frame = vec![0; read_len(from).await.unwrap()?];
        from.read_exact(&mut frame).await.unwrap();
        Some(frame)
    }

    /// Runs the connection task until the channel is closed or the connection fails.
    fn task(buffer: Arc<SendBuffer>) -> thread::JoinHandle<io::Result<()>> {
        thread::spawn(move || {
            let done = runtime().block_on(buffer.run_writer());
            buffer.disconnect();
            done
        })
    }

    #[test]
    fn few_frames_are_sent_without_the_task() {
        let (buffer, mut far) = open(1_000);
        buffer.push(b"one".to_vec());
        buffer.push(b"two".to_vec());
        buffer.try_write();
        let (one, two) = runtime().block_on(async { (read(&mut far).await, read(&mut far).await) });
        assert_eq!((one.unwrap(), two.unwrap()), (b"one".to_vec(), b"two".to_vec()));
    }

    #[test]
    fn frames_arrive_complete_and_in_order() {
        // The far end sometimes reads fast and sometimes not at all. The pipe holds a few bytes, or a few frames.
        for pipe_bytes in [1, 7, 1_000, 200_000] {
            let (buffer, mut far) = open(pipe_bytes);
            let task = task(buffer.clone());
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
                buffer.push(frame);
                if number % 3 == 0 {
                    buffer.try_write();
                }
                if number % 1_000 == 999 {
                    buffer.schedule_write();
                    thread::sleep(Duration::from_millis(2));
                }
            }
            // Queued frames are sent before the end.
            buffer.close();
            task.join().unwrap().unwrap();
            assert_eq!(reader.join().unwrap(), frames);
            assert_eq!((buffer.counters.sent.get(), buffer.counters.dropped.get()), (u64::from(frames), 0));
        }
    }

    #[test]
    fn frames_without_a_connection_or_beyond_the_limits_are_dropped() {
        let buffer = SendBuffer::new(Arc::default());
        buffer.push(vec![1]);
        buffer.try_write();
        assert_eq!((buffer.counters.dropped.get(), buffer.queue().frames.len()), (1, 0), "no connection");
        let (buffer, _far) = open(10);
        (0..PEER_CHANNEL_FRAMES_MAX + 5).for_each(|_| buffer.push(vec![1]));
        assert_eq!(buffer.counters.dropped.get(), 5, "frames");
        let (buffer, _far) = open(10);
        (0..3).for_each(|_| buffer.push(vec![1; PEER_CHANNEL_BYTES_MAX / 2]));
        assert_eq!((buffer.counters.dropped.get(), buffer.queue().bytes), (1, PEER_CHANNEL_BYTES_MAX), "bytes");
    }

    #[test]
    fn a_new_connection_starts_with_a_whole_frame_and_without_old_ones() {
        let (buffer, far) = open(5);
        (0..3).for_each(|_| buffer.push(vec![7; 20]));
        buffer.try_write();
        let writing = task(buffer.clone());
        drop(far);
        writing.join().unwrap().unwrap_err();
        buffer.push(vec![8; 20]);
        let (near, mut far) = duplex(1_000);
        buffer.connect(Box::new(near));
        buffer.push(vec![9; 20]);
        buffer.try_write();
        assert_eq!(runtime().block_on(read(&mut far)).unwrap(), [9; 20]);
    }

    #[test]
    fn nothing_is_written_after_an_error() {
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
        let buffer = Arc::new(SendBuffer::new(Arc::default()));
        buffer.connect(Box::new(FailsOnce(false)));
        buffer.push(vec![1]);
        buffer.try_write();
        // A writer that continued after the error would succeed now.
        buffer.close();
        let error = task(buffer.clone()).join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
