//! Messages after two octets of length, cut out of a stream (RFC 1035 4.2.2).

/// What has come of a message that is not whole.
#[derive(Default, Debug)]
pub(crate) struct Framing {
    partial: Vec<u8>,
}

impl Framing {
    /// Takes octets in, as many or few as have come; gives whole messages to `each`.
    pub(crate) fn take(&mut self, octets: &[u8], mut each: impl FnMut(&[u8])) {
        if self.partial.is_empty() {
            let used = cut(octets, &mut each);
            self.partial.extend_from_slice(&octets[used..]);
            return;
        }
        self.partial.extend_from_slice(octets);
        let used = cut(&self.partial, &mut each);
        if used == self.partial.len() {
            // One of many thousands of connections that are mostly silent.
            self.partial = Vec::new();
        } else {
            self.partial.drain(..used);
        }
    }

    /// Octets of a message that is not whole.
    pub(crate) fn partial_octets(&self) -> usize {
        self.partial.len()
    }
}

/// Writes a message with its length in front.
pub(crate) fn frame(out: &mut Vec<u8>, message: &[u8]) {
    out.extend_from_slice(&(message.len() as u16).to_be_bytes());
    out.extend_from_slice(message);
}

fn cut(octets: &[u8], each: &mut impl FnMut(&[u8])) -> usize {
    let mut rest = octets;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let Some((message, after)) = after.split_at_checked(usize::from(u16::from_be_bytes(*length))) else { break };
        each(message);
        rest = after;
    }
    octets.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_same_however_the_octets_come() {
        let mut octets = Vec::new();
        for length in [0usize, 1, 300, 12] {
            frame(&mut octets, &vec![length as u8; length]);
        }
        for step in 1..octets.len() {
            let mut framing = Framing::default();
            let mut lengths = Vec::new();
            for part in octets.chunks(step) {
                framing.take(part, |message| lengths.push(message.len()));
            }
            assert_eq!((lengths.as_slice(), framing.partial_octets()), (&[0, 1, 300, 12][..], 0), "{step}");
        }
    }
}
