//! OPT of a response (RFC 6891).

use crate::limits::EDE_MAX;
use crate::number::{Rcode, Rtype, Serial};
use crate::parse::edns::code;

/// Extended error codes that this server sends (RFC 8914 4).
pub mod ede {
    /// Other Error.
    pub const OTHER: u16 = 0;
    /// Not Ready.
    pub const NOT_READY: u16 = 14;
    /// Prohibited.
    pub const PROHIBITED: u16 = 18;
    /// Not Authoritative.
    pub const NOT_AUTHORITATIVE: u16 = 20;
    /// Not Supported.
    pub const NOT_SUPPORTED: u16 = 21;
    /// Invalid Data.
    pub const INVALID_DATA: u16 = 24;
    /// Invalid Query Type (RFC 9824 3.5).
    pub const INVALID_QUERY_TYPE: u16 = 30;
}

/// The zone's version in a response (RFC 9660 3): type 0, the SOA's serial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneVersionOut {
    /// Labels of the apex, root label not counted.
    pub label_count: u8,
    /// The serial of the version that the answer comes from.
    pub serial: Serial,
}

/// The OPT of a response. Options that do not fit are omitted, the last ones of this list first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EdnsOut<'e> {
    /// The largest datagram, in bytes, that this server accepts.
    pub payload: u16,
    /// DO, copied from the request (RFC 3225 3).
    pub dnssec_ok: bool,
    /// COOKIE (RFC 7873 5.2.3): client part and server part.
    pub cookie: Option<&'e [u8]>,
    /// NSID (RFC 5001).
    pub nsid: Option<&'e [u8]>,
    /// ZONEVERSION (RFC 9660).
    pub zoneversion: Option<ZoneVersionOut>,
    /// Seconds without contact after which a secondary drops the zone (RFC 7314 3).
    pub expire: Option<u32>,
    /// Idle time of the connection in units of 100 ms (RFC 7828 3.1).
    pub keepalive: Option<u16>,
    /// Extended errors, code and text (RFC 8914). If there is no room, the text is omitted first.
    pub ede: [Option<(u16, &'e str)>; EDE_MAX],
    /// Pads the message to a multiple of this many bytes (RFC 8467 4.1: 468); 0 means no padding.
    pub padding_block: u16,
    /// Bytes of a TSIG record that is appended later. The padded size includes them.
    pub behind_bytes: u16,
}

impl ZoneVersionOut {
    /// Bytes of the whole option: code, length, label count, type and serial.
    pub const OPTION_BYTES: usize = 4 + 6;
}

impl EdnsOut<'_> {
    /// Bytes of the whole EXPIRE option: code, length and seconds.
    pub const EXPIRE_BYTES: usize = 4 + 4;

    /// Bytes of OPT without options.
    pub const FIXED_BYTES: usize = 11;

    /// Bytes of OPT with all options except padding, which takes only the rest.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        let option = |len: Option<usize>| len.map_or(0, |len| 4 + len);
        let ede = self.ede.iter().flatten().map(|(_, text)| 4 + 2 + text.len()).sum::<usize>();
        Self::FIXED_BYTES
            + option(self.cookie.map(<[u8]>::len))
            + option(self.nsid.map(<[u8]>::len))
            + self.zoneversion.map_or(0, |_| ZoneVersionOut::OPTION_BYTES)
            + self.expire.map_or(0, |_| Self::EXPIRE_BYTES)
            + option(self.keepalive.map(|_| 2))
            + ede
    }

    /// Writes OPT to the start of `bytes`, which has at least [`Self::FIXED_BYTES`], and returns its length.
    pub(super) fn compose(&self, rcode: Rcode, message_bytes: usize, bytes: &mut [u8]) -> usize {
        let [payload_high, payload_low] = self.payload.to_be_bytes();
        let [type_high, type_low] = Rtype::OPT.0.to_be_bytes();
        let fixed = [
            0,
            type_high,
            type_low,
            payload_high,
            payload_low,
            // RFC 6891 6.1.3: the upper eight bits of the RCODE, then version 0.
            (rcode.0 >> 4) as u8,
            0,
            u8::from(self.dnssec_ok) << 7,
            0,
        ];
        bytes[..fixed.len()].copy_from_slice(&fixed);
        let mut options = Options { bytes, at: Self::FIXED_BYTES };
        if let Some(cookie) = self.cookie {
            options.put(code::COOKIE, cookie, &[]);
        }
        if let Some(nsid) = self.nsid {
            options.put(code::NSID, nsid, &[]);
        }
        if let Some(ZoneVersionOut { label_count, serial }) = self.zoneversion {
            options.put(code::ZONEVERSION, &[label_count, 0], &serial.0.to_be_bytes());
        }
        if let Some(expire) = self.expire {
            options.put(code::EXPIRE, &expire.to_be_bytes(), &[]);
        }
        if let Some(keepalive) = self.keepalive {
            options.put(code::TCP_KEEPALIVE, &keepalive.to_be_bytes(), &[]);
        }
        for &(code, text) in self.ede.iter().flatten() {
            let code = code.to_be_bytes();
            if !options.put(code::EDE, &code, text.as_bytes()) {
                options.put(code::EDE, &code, &[]);
            }
        }
        if self.padding_block > 0 {
            options.pad(message_bytes + usize::from(self.behind_bytes), self.padding_block.into());
        }
        let len = options.at;
        let options_len = (len - Self::FIXED_BYTES) as u16;
        bytes[fixed.len()..Self::FIXED_BYTES].copy_from_slice(&options_len.to_be_bytes());
        len
    }
}

struct Options<'o> {
    bytes: &'o mut [u8],
    at: usize,
}

impl Options<'_> {
    /// Adds an option if it fits.
    fn put(&mut self, code: u16, data: &[u8], more: &[u8]) -> bool {
        let len = data.len() + more.len();
        let (Ok(len_field), Some(field)) = (u16::try_from(len), self.bytes.get_mut(self.at..self.at + 4 + len)) else {
            return false;
        };
        field[..2].copy_from_slice(&code.to_be_bytes());
        field[2..4].copy_from_slice(&len_field.to_be_bytes());
        field[4..4 + data.len()].copy_from_slice(data);
        field[4 + data.len()..].copy_from_slice(more);
        self.at += 4 + len;
        true
    }

    /// Pads with zeros to a multiple of `block`, or as far as there is room (RFC 7830 3, RFC 8467 4.1);
    /// `message_bytes` is the length of the message without this record.
    fn pad(&mut self, message_bytes: usize, block: usize) {
        let room = self.bytes.len() - self.at;
        if room < 4 {
            return;
        }
        let len = (message_bytes + self.at + 4).next_multiple_of(block) - (message_bytes + self.at + 4);
        let len = len.min(room - 4);
        let field = &mut self.bytes[self.at..self.at + 4 + len];
        field.fill(0);
        field[..2].copy_from_slice(&code::PADDING.to_be_bytes());
        field[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        self.at += 4 + len;
    }
}
