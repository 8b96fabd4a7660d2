//! A hash of all events. Two runs of a seed are the same if their hashes are equal.

use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

/// Collects all inputs and outputs of all members.
#[derive(Debug)]
pub struct Trace {
    hash: SipHasher13,
    count: u64,
    is_printed: bool,
}

impl Trace {
    /// An empty trace. `is_printed` also writes each event to standard output.
    pub fn new(is_printed: bool) -> Self {
        Self { hash: SipHasher13::new(), count: 0, is_printed }
    }

    /// Records an event: the time, the member (0 for none), its name, and its data.
    pub fn note(&mut self, now_us: u64, member: u64, what: &str, numbers: &[u64], bytes: &[u8]) {
        self.count += 1;
        self.hash.write_u64(now_us);
        self.hash.write_u64(member);
        self.hash.write(what.as_bytes());
        numbers.iter().for_each(|number| self.hash.write_u64(*number));
        self.hash.write_usize(bytes.len());
        self.hash.write(bytes);
        if self.is_printed {
            let seconds = now_us as f64 / 1e6;
            println!("{seconds:>12.6} {member} {what} {numbers:?} {} bytes", bytes.len());
        }
    }

    /// Prints a text that is not part of the hash. It is only formatted if it is printed.
    pub fn say(&self, now_us: u64, what: impl FnOnce() -> String) {
        if self.is_printed {
            println!("{:>12.6} {}", now_us as f64 / 1e6, what());
        }
    }

    /// Number of events so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The hash of all events so far.
    pub fn hash(&self) -> u128 {
        self.hash.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_an_event_counts() {
        let hash = |now, member, what: &str, number, bytes: &[u8]| {
            let mut trace = Trace::new(false);
            trace.note(now, member, what, &[number], bytes);
            assert_eq!(trace.count(), 1);
            trace.hash()
        };
        let one = hash(1, 1, "frame", 1, &[1]);
        assert_eq!(one, hash(1, 1, "frame", 1, &[1]));
        for other in [
            hash(2, 1, "frame", 1, &[1]),
            hash(1, 2, "frame", 1, &[1]),
            hash(1, 1, "tick", 1, &[1]),
            hash(1, 1, "frame", 2, &[1]),
            hash(1, 1, "frame", 1, &[2]),
        ] {
            assert_ne!(one, other);
        }
    }
}
