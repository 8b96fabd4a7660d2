//! Computes the MAC of a request or response: which bytes it covers (RFC 8945 4.3, 5.3.1).

use crate::mac::Mac;
use crate::secret_hmac::{HmacContext, SecretHmac};
use wire::limits::NAME_BYTES_MAX;
use wire::name::NameRef;
use wire::number::Class;

/// The fields of a TSIG record that its MAC covers in addition to the message (RFC 8945 4.3.3).
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

/// Which fields a MAC covers in addition to the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cover {
    /// All [`Variables`].
    Variables,
    /// Time Signed and Fudge.
    Timers,
}

/// Computes the MAC over the prior MAC, the message without its TSIG record (in two parts), and the TSIG variables.
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
        context.update(&(prior.as_bytes().len() as u16).to_be_bytes());
        context.update(prior.as_bytes());
    }
    message.iter().for_each(|part| context.update(part));
    match cover {
        Cover::Variables => variables.digest(&mut context),
        Cover::Timers => variables.digest_timers(&mut context),
    }
    context.finish()
}

/// A time in TSIG format: 48 bits.
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
