//! The header (RFC 1035 4.1.1, RFC 4035 3.2 for AD and CD).

use crate::limits::HEADER_BYTES;
use crate::number::Opcode;

/// The header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// ID, copied into the response.
    pub id: u16,
    /// A response, not a request.
    pub qr: bool,
    /// The opcode.
    pub opcode: Opcode,
    /// Authoritative answer.
    pub aa: bool,
    /// Truncated.
    pub tc: bool,
    /// Recursion desired, copied into the response.
    pub rd: bool,
    /// Recursion available.
    pub ra: bool,
    /// The unused bit.
    pub z: bool,
    /// Authentic data.
    pub ad: bool,
    /// Checking disabled.
    pub cd: bool,
    /// The lower four bits of the RCODE.
    pub rcode: u8,
    /// Records in question, answer, authority, additional; in an UPDATE, zone, prerequisite, update, additional.
    pub counts: [u16; 4],
}

impl Header {
    /// Reads the header; `None` when there are fewer than twelve bytes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let (high, low) = (bytes[2], bytes[3]);
        let count = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Some(Self {
            id: count(0),
            qr: high & 0x80 != 0,
            opcode: Opcode(high >> 3 & 0x0F),
            aa: high & 0x04 != 0,
            tc: high & 0x02 != 0,
            rd: high & 0x01 != 0,
            ra: low & 0x80 != 0,
            z: low & 0x40 != 0,
            ad: low & 0x20 != 0,
            cd: low & 0x10 != 0,
            rcode: low & 0x0F,
            counts: [count(4), count(6), count(8), count(10)],
        })
    }

    /// The twelve bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let bit = |set: bool, at: u8| u8::from(set) << at;
        let mut bytes = [0; HEADER_BYTES];
        bytes[..2].copy_from_slice(&self.id.to_be_bytes());
        bytes[2] = bit(self.qr, 7) | (self.opcode.0 & 0x0F) << 3 | bit(self.aa, 2) | bit(self.tc, 1) | bit(self.rd, 0);
        bytes[3] = bit(self.ra, 7) | bit(self.z, 6) | bit(self.ad, 5) | bit(self.cd, 4) | self.rcode & 0x0F;
        for (at, count) in self.counts.iter().enumerate() {
            bytes[4 + 2 * at..6 + 2 * at].copy_from_slice(&count.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_survives_writing_and_reading() {
        for bit in 0..96 {
            let mut bytes = [0u8; 12];
            bytes[bit / 8] = 0x80 >> (bit % 8);
            assert_eq!(Header::parse(&bytes).unwrap().to_bytes(), bytes, "bit {bit}");
        }
        assert_eq!(Header::parse(&[0; 11]), None);
    }
}
