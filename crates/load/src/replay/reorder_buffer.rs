//! Sorts a trace by time.
//!
//! Logs are often in the order of answers, and captures from several queues in the order of queues. Sorting is limited
//! by the size of the buffer.

use crate::limits::REPLAY_REORDER_BYTES;
use ::trace::{Message, Reader, Tally, TraceError, Transport};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

/// Memory per message besides its bytes.
const MESSAGE_BYTES_BESIDES: usize = 128;

/// Sorts messages by time.
pub(super) struct ReorderBuffer {
    trace: Reader,
    /// False if the trace is already sorted.
    is_sorting: bool,
    buffer: BinaryHeap<Reverse<BufferedMessage>>,
    buffer_bytes: usize,
    bytes_max: usize,
    read: u64,
    is_over: bool,
    /// Why reading stopped. Earlier messages are returned first.
    error: Option<TraceError>,
    current: Option<BufferedMessage>,
}

/// A buffered message. Messages with equal times keep their order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct BufferedMessage {
    at_ns: u64,
    number: u64,
    source: SocketAddr,
    destination: SocketAddr,
    transport: Transport,
    bytes: Vec<u8>,
}

impl ReorderBuffer {
    pub(super) fn new(trace: Reader, is_sorting: bool) -> Self {
        Self {
            trace,
            is_sorting,
            buffer: BinaryHeap::new(),
            buffer_bytes: 0,
            bytes_max: REPLAY_REORDER_BYTES,
            read: 0,
            is_over: false,
            error: None,
            current: None,
        }
    }

    /// The next message. `None` at the end.
    ///
    /// # Errors
    /// If the trace is damaged, after all earlier messages.
    pub(super) fn next(&mut self) -> Result<Option<Message<'_>>, TraceError> {
        if !self.is_sorting {
            return self.trace.next();
        }
        while !self.is_over && self.buffer_bytes < self.bytes_max {
            self.read_one();
        }
        self.current = self.buffer.pop().map(|Reverse(message)| message);
        let Some(message) = &self.current else { return self.error.take().map_or(Ok(None), Err) };
        self.buffer_bytes -= message.bytes.len() + MESSAGE_BYTES_BESIDES;
        let BufferedMessage { at_ns, source, destination, transport, .. } = *message;
        Ok(Some(Message { at_ns, source, destination, transport, bytes: &message.bytes }))
    }

    fn read_one(&mut self) {
        match self.trace.next() {
            Ok(Some(message)) => {
                let Message { at_ns, source, destination, transport, bytes } = message;
                self.buffer_bytes += bytes.len() + MESSAGE_BYTES_BESIDES;
                let (number, bytes) = (self.read, bytes.to_vec());
                self.buffer.push(Reverse(BufferedMessage { at_ns, number, source, destination, transport, bytes }));
                self.read += 1;
            }
            Ok(None) => self.is_over = true,
            Err(error) => (self.is_over, self.error) = (true, Some(error)),
        }
    }

    /// Whether a message was earlier than its predecessor in the trace.
    pub(super) const fn is_out_of_order(&self) -> bool {
        self.trace.tally().backwards > 0
    }

    /// What was read and what was left out.
    pub(super) const fn tally(&self) -> &Tally {
        self.trace.tally()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::trace::{Format, Options, Writer, open};

    /// The times of a sorted trace with messages at these times, and room for this many of them.
    fn times(name: &str, at: &[u64], room: usize) -> Vec<(u64, u8)> {
        let path = std::env::temp_dir().join(format!("catlab-order-{name}-{}.txt", std::process::id()));
        let mut writer = Writer::create(&path, Format::Text).unwrap();
        let address = SocketAddr::from(([192, 0, 2, 1], 53));
        for (number, &at_ns) in at.iter().enumerate() {
            let mut bytes = [0; 12];
            bytes[1] = number as u8;
            let transport = Transport::Udp;
            writer.write(&Message { at_ns, source: address, destination: address, transport, bytes: &bytes }).unwrap();
        }
        writer.finish().unwrap();
        let mut ordered = ReorderBuffer::new(open(&path, &Options::default()).unwrap(), true);
        ordered.bytes_max = room * (12 + MESSAGE_BYTES_BESIDES);
        let mut times = Vec::new();
        while let Some(message) = ordered.next().unwrap() {
            times.push((message.at_ns, message.bytes[1]));
        }
        std::fs::remove_file(path).unwrap();
        assert_eq!((times.len(), ordered.buffer_bytes), (at.len(), 0));
        times
    }

    #[test]
    fn messages_are_sorted_by_time() {
        assert_eq!(times("all", &[5, 3, 9, 3, 1], 100), [(1, 4), (3, 1), (3, 3), (5, 0), (9, 2)]);
    }

    #[test]
    fn sorting_is_bounded_by_memory() {
        assert_eq!(times("some", &[5, 3, 9, 4, 1, 10], 3), [(3, 1), (4, 3), (1, 4), (5, 0), (9, 2), (10, 5)]);
    }
}
