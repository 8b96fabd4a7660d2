//! A MAC as a value.

use crate::limits::MAC_BYTES_MAX;
use std::hint::black_box;

/// A MAC on the stack, possibly truncated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mac {
    len: u8,
    bytes: [u8; MAC_BYTES_MAX],
}

impl Mac {
    pub(crate) const NONE: Self = Self { len: 0, bytes: [0; MAC_BYTES_MAX] };

    /// Returns `None` if `bytes` is longer than any MAC.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut mac = Self { len: u8::try_from(bytes.len()).ok()?, ..Self::NONE };
        mac.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(mac)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// Whether this MAC starts with `other`. Takes constant time, independent of where they differ.
    pub(crate) fn starts_with(&self, other: &[u8]) -> bool {
        let Some(own) = self.as_bytes().get(..other.len()) else { return false };
        let differing = own.iter().zip(other).fold(0, |bits, (a, b)| black_box(bits | (a ^ b)));
        !other.is_empty() && black_box(differing) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_starts_with_its_own_beginning_only() {
        let mac = Mac::from_bytes(&[7; 32]).unwrap();
        assert!(mac.starts_with(&[7; 32]) && mac.starts_with(&[7; 16]));
        assert!(!mac.starts_with(&[7; 33]) && !mac.starts_with(&[]));
        for at in 0..32 {
            let mut other = [7; 32];
            other[at] ^= 1;
            assert!(!mac.starts_with(&other));
        }
    }
}
