//! The layout of TSIG records (RFC 8945). The crate `tsig` checks keys and MACs.

use crate::integers::{u16_at, u32_at};
use crate::limits::HEADER_BYTES;
use crate::name::NameRef;
use crate::name_buf::{NameBuf, Steps, read_name};
use core::ops::Range;

/// The position of the TSIG record of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TsigAt {
    /// Offset of the record. The MAC covers the bytes before it, with ARCOUNT reduced by one.
    pub at: usize,
    /// The range of its rdata.
    pub rdata_at: Range<usize>,
}

/// The fields of a TSIG record (RFC 8945 4.2).
#[derive(Clone, Debug)]
pub struct TsigView<'m> {
    /// The owner: the name of the key.
    pub key_name: NameBuf,
    /// Algorithm Name.
    pub algorithm: NameBuf,
    /// Time Signed, in seconds since 1970; 48 bits.
    pub time_signed: u64,
    /// Fudge, in seconds, as sent.
    pub fudge: u16,
    /// The MAC, possibly truncated.
    pub mac: &'m [u8],
    /// Original ID.
    pub original_id: u16,
    /// Error.
    pub error: u16,
    /// Other Data.
    pub other: &'m [u8],
}

impl<'m> TsigView<'m> {
    /// Reads the record at `tsig`; `None` if its rdata is malformed.
    #[must_use]
    pub fn read(message: &'m [u8], tsig: &TsigAt) -> Option<Self> {
        let mut steps = Steps::new();
        let mut key_name = NameBuf::root();
        read_name(message, tsig.at, &mut steps, &mut key_name).ok()?;
        let message = message.get(..tsig.rdata_at.end)?;
        let mut algorithm = NameBuf::root();
        let at = read_name(message, tsig.rdata_at.start, &mut steps, &mut algorithm).ok()?;
        let time_high = u64::from(u16_at(message, at)?);
        let time_low = u64::from(u32_at(message, at + 2)?);
        let fudge = u16_at(message, at + 6)?;
        let mac_at = at + 10;
        let mac = message.get(mac_at..mac_at + u16_at(message, at + 8)? as usize)?;
        let at = mac_at + mac.len();
        let other_at = at + 6;
        let other = message.get(other_at..other_at + u16_at(message, at + 4)? as usize)?;
        let view = Self {
            key_name,
            algorithm,
            time_signed: time_high << 32 | time_low,
            fudge,
            mac,
            original_id: u16_at(message, at)?,
            error: u16_at(message, at + 2)?,
            other,
        };
        (other_at + other.len() == message.len() && tsig.at >= HEADER_BYTES).then_some(view)
    }
}

/// Bytes of an algorithm's MAC (RFC 8945 6); `None` for an unregistered one, which no key can have.
#[must_use]
pub fn hash_bytes(algorithm: NameRef<'_>) -> Option<usize> {
    let mut labels = algorithm.labels();
    let first = labels.next()?;
    let rest = labels.next();
    let is = |name: &[u8]| first.eq_ignore_ascii_case(name);
    if rest.is_some() {
        let md5 = NameRef::from_checked(b"\x08hmac-md5\x07sig-alg\x03reg\x03int\0");
        return (algorithm == md5).then_some(16);
    }
    match () {
        () if is(b"hmac-sha1") => Some(20),
        () if is(b"hmac-sha224") => Some(28),
        () if is(b"hmac-sha256") => Some(32),
        () if is(b"hmac-sha384") => Some(48),
        () if is(b"hmac-sha512") => Some(64),
        () if is(b"hmac-sha256-128") => Some(16),
        () if is(b"hmac-sha384-192") => Some(24),
        () if is(b"hmac-sha512-256") => Some(32),
        () => None,
    }
}
