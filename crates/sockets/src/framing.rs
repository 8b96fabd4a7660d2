//! Splits a stream into messages with a length of two bytes (RFC 1035 4.2.2).

/// The beginning of an incomplete message.
#[derive(Default, Debug)]
pub struct Framing {
    partial: Vec<u8>,
}

impl Framing {
    /// Adds received bytes, and passes complete messages to `each`.
    pub fn take(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        if self.partial.is_empty() {
            let used = cut(bytes, &mut each);
            self.partial.extend_from_slice(&bytes[used..]);
            return;
        }
        self.partial.extend_from_slice(bytes);
        let used = cut(&self.partial, &mut each);
        if used == self.partial.len() {
            // Frees the buffer, because there may be thousands of idle connections.
            self.partial = Vec::new();
        } else {
            self.partial.drain(..used);
        }
    }

    /// Size of the incomplete message.
    pub fn partial_bytes(&self) -> usize {
        self.partial.len()
    }
}

/// Writes a message with its length.
pub fn frame(out: &mut Vec<u8>, message: &[u8]) {
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message);
}

fn cut(bytes: &[u8], each: &mut impl FnMut(&[u8])) -> usize {
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let Some((message, after)) = after.split_at_checked(usize::from(u16::from_be_bytes(*length))) else { break };
        each(message);
        rest = after;
    }
    bytes.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_does_not_depend_on_read_sizes() {
        let mut bytes = Vec::new();
        for length in [0usize, 1, 300, 12] {
            frame(&mut bytes, &vec![length as u8; length]);
        }
        for step in 1..bytes.len() {
            let mut framing = Framing::default();
            let mut lengths = Vec::new();
            for part in bytes.chunks(step) {
                framing.take(part, |message| lengths.push(message.len()));
            }
            assert_eq!((lengths.as_slice(), framing.partial_bytes()), (&[0, 1, 300, 12][..], 0), "{step}");
        }
    }
}
