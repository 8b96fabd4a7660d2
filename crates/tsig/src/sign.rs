//! Signs responses (RFC 8945 5.3): appends the TSIG record to a finished message in the same buffer.

use crate::digest::{self, Cover, Variables, time_bytes};
use crate::mac::Mac;
use crate::secret_hmac::SecretHmac;
use wire::limits::HEADER_BYTES;
use wire::number::{Class, Rcode, Rtype};
use wire::parse::NameBuf;

/// The buffer has no room for the TSIG record after the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

/// Bytes of TYPE, CLASS, TTL and RDLENGTH.
const RECORD_FIXED_BYTES: usize = 10;
/// Bytes of Time Signed, Fudge, MAC Size, Original ID, Error and Other Len.
const RDATA_FIXED_BYTES: usize = 16;
/// Bytes of Other Data in a BADTIME response.
const SERVER_TIME_BYTES: usize = 6;

/// Signs the response to one request. It owns its data, so keys may change before the response is ready.
#[derive(Clone, Debug)]
pub struct Signer {
    /// In the client's spelling.
    pub(crate) key_name: NameBuf,
    /// In the client's spelling.
    pub(crate) algorithm: NameBuf,
    /// `None`: the response has a TSIG record with an empty MAC (RFC 8945 5.3.2).
    pub(crate) secret: Option<SecretHmac>,
    /// Bytes of the MACs made here, which are never truncated.
    pub(crate) mac_bytes: usize,
    /// The MAC of the request as it was sent.
    pub(crate) request_mac: Mac,
    /// Time Signed of the request.
    pub(crate) time_signed: u64,
    /// Fudge of the request, as sent.
    pub(crate) fudge: u16,
    /// Fudge of messages signed here.
    pub(crate) own_fudge: u16,
    /// The TSIG error.
    pub(crate) error: Rcode,
}

impl Signer {
    /// The key name in the client's spelling.
    #[must_use]
    pub fn key_name(&self) -> wire::name::NameRef<'_> {
        self.key_name.as_ref()
    }

    /// Bytes to keep free after a message for [`Signer::sign`].
    #[must_use]
    pub fn reserve_bytes(&self) -> usize {
        self.record_bytes(SERVER_TIME_BYTES)
    }

    /// Bytes that [`Signer::sign`] appends with the current error.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.record_bytes(if self.error == Rcode::BADTIME { SERVER_TIME_BYTES } else { 0 })
    }

    /// Whether the response will have a MAC. After a wrong key or a wrong MAC it has none (RFC 8945 5.3.2).
    #[must_use]
    pub const fn is_signing(&self) -> bool {
        self.secret.is_some()
    }

    /// The error of the TSIG record; NOERROR for a verified request.
    #[must_use]
    pub const fn error(&self) -> Rcode {
        self.error
    }

    /// Sets the error to BADTIME, for a verified request that turned out to be a replay.
    pub const fn set_bad_time(&mut self) {
        self.error = Rcode::BADTIME;
    }

    /// Appends the TSIG record to the response in the first `len` bytes of `buffer`, and returns the new length.
    ///
    /// # Errors
    /// [`NoRoom`] when the record does not fit. The response is unchanged then.
    pub fn sign(&self, buffer: &mut [u8], len: usize, now_s: u64) -> Result<usize, NoRoom> {
        self.append(buffer, len, now_s, Some(&self.request_mac), Cover::Variables).map(|(len, _)| len)
    }

    fn record_bytes(&self, other_bytes: usize) -> usize {
        let mac_bytes = if self.is_signing() { self.mac_bytes } else { 0 };
        let names = self.key_name.as_bytes().len() + self.algorithm.as_bytes().len();
        names + RECORD_FIXED_BYTES + RDATA_FIXED_BYTES + mac_bytes + other_bytes
    }

    pub(crate) fn append(
        &self,
        buffer: &mut [u8],
        len: usize,
        now_s: u64,
        prior: Option<&Mac>,
        cover: Cover,
    ) -> Result<(usize, Mac), NoRoom> {
        let server_time = time_bytes(now_s);
        // RFC 8945 5.2.3: BADTIME repeats Time Signed and Fudge of the client, with the server's time in Other Data.
        let (time_signed, fudge, other): (u64, u16, &[u8]) = match self.error {
            Rcode::BADTIME => (self.time_signed, self.fudge, &server_time),
            _ => (now_s, self.own_fudge, &[]),
        };
        let end = len + self.record_bytes(other.len());
        if len < HEADER_BYTES || end > buffer.len().min(usize::from(u16::MAX)) {
            return Err(NoRoom);
        }
        let arcount = u16::from_be_bytes([buffer[10], buffer[11]]).checked_add(1).ok_or(NoRoom)?;
        let (message, rest) = buffer.split_at_mut(len);
        let variables = Variables {
            key_name: self.key_name.as_ref(),
            algorithm: self.algorithm.as_ref(),
            time_signed,
            fudge,
            error: self.error.0,
            other,
        };
        let mac = self
            .secret
            .as_ref()
            .map_or(Mac::NONE, |secret| digest::compute(secret, prior, [message, &[]], &variables, cover));
        let mut out = Writer { buffer: rest, at: 0 };
        write_record(&mut out, &variables, &mac, [message[0], message[1]]);
        debug_assert_eq!(len + out.at, end);
        message[10..12].copy_from_slice(&arcount.to_be_bytes());
        Ok((end, mac))
    }
}

/// Signs every message of a transfer. RFC 8945 5.3.1 allows unsigned messages in between, but some clients refuse them.
#[derive(Clone, Debug)]
pub struct SequenceSigner {
    signer: Signer,
    /// The MAC of the previous message; `None` before the first.
    prior: Option<Mac>,
}

impl From<Signer> for SequenceSigner {
    fn from(signer: Signer) -> Self {
        Self { signer, prior: None }
    }
}

impl SequenceSigner {
    /// Bytes to keep free after a message for [`SequenceSigner::sign`].
    #[must_use]
    pub fn reserve_bytes(&self) -> usize {
        self.signer.reserve_bytes()
    }

    /// Signs the next message, as [`Signer::sign`] does.
    ///
    /// # Errors
    /// [`NoRoom`] when the record does not fit. The message can be signed again in a larger buffer.
    pub fn sign(&mut self, buffer: &mut [u8], len: usize, now_s: u64) -> Result<usize, NoRoom> {
        let (prior, cover) = match &self.prior {
            None => (&self.signer.request_mac, Cover::Variables),
            Some(prior) => (prior, Cover::Timers),
        };
        let (len, mac) = self.signer.append(buffer, len, now_s, Some(prior), cover)?;
        self.prior = Some(mac);
        Ok(len)
    }
}

/// Writes into a buffer of sufficient length.
struct Writer<'b> {
    buffer: &'b mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

/// RFC 8945 4.2.
fn write_record(out: &mut Writer<'_>, variables: &Variables<'_>, mac: &Mac, id: [u8; 2]) {
    let rdlength =
        variables.algorithm.as_bytes().len() + RDATA_FIXED_BYTES + mac.as_bytes().len() + variables.other.len();
    out.put(variables.key_name.as_bytes());
    out.put(&Rtype::TSIG.0.to_be_bytes());
    out.put(&Class::ANY.0.to_be_bytes());
    out.put(&0u32.to_be_bytes());
    out.put(&(rdlength as u16).to_be_bytes());
    out.put(variables.algorithm.as_bytes());
    out.put(&time_bytes(variables.time_signed));
    out.put(&variables.fudge.to_be_bytes());
    out.put(&(mac.as_bytes().len() as u16).to_be_bytes());
    out.put(mac.as_bytes());
    out.put(&id);
    out.put(&variables.error.to_be_bytes());
    out.put(&(variables.other.len() as u16).to_be_bytes());
    out.put(variables.other);
}
