//! What a TSIG MAC is made over (RFC 8945 4.3, 5.3.1), the same for requests and responses.

use crate::limits::MAC_BYTES_MAX;
use crate::secret_hmac::{HmacContext, SecretHmac};
use std::hint::black_box;
use wire::limits::NAME_BYTES_MAX;
use wire::name::NameRef;
use wire::number::Class;

/// A MAC on the stack, possibly truncated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mac {
    len: u8,
    bytes: [u8; MAC_BYTES_MAX],
}

impl Mac {
    pub(crate) const NONE: Self = Self { len: 0, bytes: [0; MAC_BYTES_MAX] };

    /// `None` when it is longer than any MAC.
    pub(crate) fn from_octets(bytes: &[u8]) -> Option<Self> {
        let mut mac = Self { len: u8::try_from(bytes.len()).ok()?, ..Self::NONE };
        mac.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(mac)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// Whether this MAC, cut to the length of `other`, is `other`; takes the same time wherever they differ.
    pub(crate) fn starts_with(&self, other: &[u8]) -> bool {
        let Some(own) = self.as_bytes().get(..other.len()) else { return false };
        let differing = own.iter().zip(other).fold(0, |bits, (a, b)| black_box(bits | (a ^ b)));
        !other.is_empty() && black_box(differing) == 0
    }
}

/// The fields of a TSIG record that its MAC covers beside the message (RFC 8945 4.3.3).
pub(crate) struct Variables<'a> {
    pub(crate) key_name: NameRef<'a>,
    pub(crate) algorithm: NameRef<'a>,
    pub(crate) time_signed: u64,
    pub(crate) fudge: u16,
    pub(crate) error: u16,
    pub(crate) other: &'a [u8],
}

impl Variables<'_> {
    /// RFC 8945 4.3.3: names "in canonical wire format", CLASS always ANY, TTL always 0.
    fn digest(&self, context: &mut HmacContext) {
        digest_lower_case(self.key_name, context);
        context.update(&Class::ANY.0.to_be_bytes());
        context.update(&0u32.to_be_bytes());
        digest_lower_case(self.algorithm, context);
        self.digest_timers(context);
        context.update(&self.error.to_be_bytes());
        context.update(&(self.other.len() as u16).to_be_bytes());
        context.update(self.other);
    }

    /// RFC 8945 5.3.1: in the second and later messages of a transfer, only Time Signed and Fudge.
    fn digest_timers(&self, context: &mut HmacContext) {
        context.update(&time_bytes(self.time_signed));
        context.update(&self.fudge.to_be_bytes());
    }
}

/// Which fields a MAC covers beside the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cover {
    /// All [`Variables`].
    Variables,
    /// Time Signed and Fudge.
    Timers,
}

/// The MAC over what came before, the message without its TSIG record in two parts, and the TSIG variables.
pub(crate) fn compute(
    secret: &SecretHmac,
    prior: Option<&Mac>,
    message: [&[u8]; 2],
    variables: &Variables<'_>,
    cover: Cover,
) -> Mac {
    let mut context = secret.context();
    if let Some(prior) = prior {
        // RFC 8945 4.3.1: "Request MAC Size" and "Request MAC", truncated as it was sent.
        context.update(&u16::from(prior.len).to_be_bytes());
        context.update(prior.as_bytes());
    }
    message.iter().for_each(|part| context.update(part));
    match cover {
        Cover::Variables => variables.digest(&mut context),
        Cover::Timers => variables.digest_timers(&mut context),
    }
    context.finish()
}

/// A time as TSIG has it: 48 bits.
pub(crate) fn time_bytes(time_s: u64) -> [u8; 6] {
    let [_, _, time @ ..] = time_s.to_be_bytes();
    time
}

fn digest_lower_case(name: NameRef<'_>, context: &mut HmacContext) {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = &mut lower[..name.as_bytes().len()];
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    context.update(lower);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_starts_with_its_own_beginning_only() {
        let mac = Mac::from_octets(&[7; 32]).unwrap();
        assert!(mac.starts_with(&[7; 32]) && mac.starts_with(&[7; 16]));
        assert!(!mac.starts_with(&[7; 33]) && !mac.starts_with(&[]));
        for at in 0..32 {
            let mut other = [7; 32];
            other[at] ^= 1;
            assert!(!mac.starts_with(&other));
        }
    }
}
