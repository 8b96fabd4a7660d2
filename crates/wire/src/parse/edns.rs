//! EDNS of a received message (RFC 6891).

use crate::integers::u16_at;
use crate::limits::UDP_PAYLOAD_MIN;
use crate::number::{Class, Rcode};

/// Option codes (RFC 6891 9).
pub mod code {
    /// Name server identifier (RFC 5001).
    pub const NSID: u16 = 3;
    /// Client subnet (RFC 7871); not answered.
    pub const CLIENT_SUBNET: u16 = 8;
    /// Expiry time of a zone (RFC 7314).
    pub const EXPIRE: u16 = 9;
    /// Cookies (RFC 7873).
    pub const COOKIE: u16 = 10;
    /// Idle time of a TCP connection (RFC 7828).
    pub const TCP_KEEPALIVE: u16 = 11;
    /// Padding (RFC 7830).
    pub const PADDING: u16 = 12;
    /// Extended errors (RFC 8914).
    pub const EDE: u16 = 15;
    /// Version of the zone (RFC 9660).
    pub const ZONEVERSION: u16 = 19;
}

/// The EDNS of a message. Its options are well formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdnsIn<'m> {
    /// The requestor's payload size in bytes, as sent; see [`EdnsIn::payload_bytes`].
    pub payload: u16,
    /// The upper eight bits of the RCODE; meaningless in a request.
    pub rcode_high: u8,
    /// VERSION.
    pub version: u8,
    /// DO: DNSSEC records are wanted (RFC 4035 3).
    pub dnssec_ok: bool,
    /// The options as sent.
    pub options: &'m [u8],
}

/// The requests of an OPT about the OPT of the response. Small enough to keep until the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EdnsRequest {
    /// Bytes of a datagram that the client accepts; see [`EdnsIn::payload_bytes`].
    pub payload_bytes: u16,
    /// DO.
    pub dnssec_ok: bool,
    /// See [`EdnsIn::nsid`].
    pub nsid: bool,
    /// See [`EdnsIn::zoneversion`].
    pub zoneversion: bool,
    /// Whether the client asks for the zone's expiry time (RFC 7314 2).
    pub expire: bool,
    /// See [`EdnsIn::keepalive`].
    pub keepalive: bool,
    /// See [`EdnsIn::padding`].
    pub padding: bool,
}

/// A COOKIE option (RFC 7873 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cookie<'m> {
    /// The client's part.
    pub client: [u8; 8],
    /// The server's part: empty, or 8 to 32 bytes.
    pub server: &'m [u8],
}

impl<'m> EdnsIn<'m> {
    /// Reads the fields of an OPT record (RFC 6891 6.1.2, 6.1.3); `None` when an option runs past the end.
    #[must_use]
    pub fn new(class: Class, ttl: u32, rdata: &'m [u8]) -> Option<Self> {
        let mut at = 0;
        while at < rdata.len() {
            at += 4 + u16_at(rdata, at + 2)? as usize;
        }
        (at == rdata.len()).then_some(Self { options: rdata, ..Self::without_options(class, ttl) })
    }

    /// Reads the fields of an OPT record without its options.
    pub(crate) const fn without_options(class: Class, ttl: u32) -> Self {
        let [rcode_high, version, flags, _] = ttl.to_be_bytes();
        Self { payload: class.0, rcode_high, version, dnssec_ok: flags & 0x80 != 0, options: &[] }
    }

    /// The maximum size of responses in bytes; less than 512 counts as 512 (RFC 6891 6.2.3).
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.payload.max(UDP_PAYLOAD_MIN).into()
    }

    /// All requests of the OPT, except its COOKIE.
    #[must_use]
    pub fn requested(&self) -> EdnsRequest {
        let mut requested = EdnsRequest {
            payload_bytes: self.payload.max(UDP_PAYLOAD_MIN),
            dnssec_ok: self.dnssec_ok,
            nsid: false,
            zoneversion: false,
            expire: false,
            keepalive: false,
            padding: false,
        };
        for (code, _) in self.options() {
            match code {
                code::NSID => requested.nsid = true,
                code::ZONEVERSION => requested.zoneversion = true,
                code::EXPIRE => requested.expire = true,
                code::TCP_KEEPALIVE => requested.keepalive = true,
                code::PADDING => requested.padding = true,
                _ => {}
            }
        }
        requested
    }

    /// Code and data of each option, in order.
    pub fn options(&self) -> impl Iterator<Item = (u16, &'m [u8])> + use<'m> {
        let mut rest = self.options;
        core::iter::from_fn(move || {
            let code = u16_at(rest, 0)?;
            let len = u16_at(rest, 2)? as usize;
            let (option, after) = rest.split_at_checked(4 + len)?;
            rest = after;
            Some((code, &option[4..]))
        })
    }

    /// The data of the first option of this code.
    #[must_use]
    pub fn option(&self, code: u16) -> Option<&'m [u8]> {
        self.options().find(|&(found, _)| found == code).map(|(_, data)| data)
    }

    /// Whether the client asks for the server's identifier (RFC 5001 2.1).
    #[must_use]
    pub fn nsid(&self) -> bool {
        self.option(code::NSID).is_some()
    }

    /// The COOKIE, if there is one of an allowed length.
    #[must_use]
    pub fn cookie(&self) -> Option<Cookie<'m>> {
        let data = self.option(code::COOKIE)?;
        let (&client, server) = data.split_first_chunk()?;
        is_cookie_length(data.len()).then_some(Cookie { client, server })
    }

    /// Whether the client asks for the version of the zone (RFC 9660 3.1).
    #[must_use]
    pub fn zoneversion(&self) -> bool {
        self.option(code::ZONEVERSION).is_some()
    }

    /// Whether the client supports edns-tcp-keepalive (RFC 7828 3.2.1).
    #[must_use]
    pub fn keepalive(&self) -> bool {
        self.option(code::TCP_KEEPALIVE).is_some()
    }

    /// Whether the client padded the request, which asks for padding of the response (RFC 7830 4).
    #[must_use]
    pub fn padding(&self) -> bool {
        self.option(code::PADDING).is_some()
    }
}

/// Whether a COOKIE option may have this length: client part alone, or with a server part of 8 to 32 bytes (RFC 7873
/// 4).
pub(crate) const fn is_cookie_length(len: usize) -> bool {
    len == 8 || (len >= 16 && len <= 40)
}

/// The RCODE from its upper eight bits and its lower four (RFC 6891 6.1.3).
pub(crate) const fn rcode_of(high: u8, low: u8) -> Rcode {
    Rcode((high as u16) << 4 | (low & 0x0F) as u16)
}
