//! Parts of a query besides its question: flags, EDNS (RFC 6891), and options.

use crate::limits::QUERY_BYTES_MAX;
use std::fmt;
use std::net::IpAddr;
use wire::builder::MessageBuilder;
use wire::name::NameRef;
use wire::number::Rtype;

/// EDNS option codes.
const CLIENT_SUBNET: u16 = 8;
const COOKIE: u16 = 10;
const PADDING: u16 = 12;

/// Recommended block of padded queries (RFC 8467 4.1).
pub const PADDING_BLOCK_BYTES: usize = 128;

/// Applies to all queries of a run. A line of the query file may override it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extras {
    /// RD. Set by stub resolvers and other load generators.
    pub recursion_desired: bool,
    /// UDP payload size in EDNS. If unset, there is no OPT record.
    pub payload_bytes: Option<u16>,
    /// DO (RFC 3225 3). Also adds EDNS.
    pub dnssec_ok: bool,
    /// A client cookie (RFC 7873 4.1), the same for the whole run.
    pub cookie: Option<[u8; 8]>,
    /// Client subnet and its prefix length (RFC 7871 6).
    pub subnet: Option<(IpAddr, u8)>,
    /// Pads messages to a multiple of this many bytes (RFC 7830, RFC 8467 4.1).
    pub padding_block: Option<usize>,
    /// Other options: code and data.
    pub options: Vec<(u16, Vec<u8>)>,
}

/// Payload size if EDNS is needed and no size is given.
const PAYLOAD_DEFAULT: u16 = 1_232;

/// Why a query cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtrasError {
    bytes: usize,
}

impl fmt::Display for ExtrasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a query of {} bytes is longer than {QUERY_BYTES_MAX}; ask for fewer options", self.bytes)
    }
}

impl std::error::Error for ExtrasError {}

impl Default for Extras {
    fn default() -> Self {
        Self {
            recursion_desired: true,
            payload_bytes: None,
            dnssec_ok: false,
            cookie: None,
            subnet: None,
            padding_block: None,
            options: Vec::new(),
        }
    }
}

impl Extras {
    /// Adds EDNS, and DO if `dnssec_ok` is set.
    #[must_use]
    pub fn with_edns(mut self, dnssec_ok: bool) -> Self {
        self.payload_bytes.get_or_insert(PAYLOAD_DEFAULT);
        self.dnssec_ok |= dnssec_ok;
        self
    }

    /// Replaces the client subnet.
    #[must_use]
    pub fn with_subnet(mut self, subnet: (IpAddr, u8)) -> Self {
        self.subnet = Some(subnet);
        self
    }

    /// Builds the query for a question of class IN, with ID zero.
    ///
    /// # Errors
    /// [`ExtrasError`] if it would be longer than [`QUERY_BYTES_MAX`].
    pub fn query(&self, qname: NameRef<'_>, qtype: Rtype) -> Result<Vec<u8>, ExtrasError> {
        let mut builder = MessageBuilder::query(0, qname, qtype).header(|header| header.rd = self.recursion_desired);
        if self.has_edns() {
            builder = builder.edns(self.payload_bytes.unwrap_or(PAYLOAD_DEFAULT), self.dnssec_ok);
        }
        if let Some((address, prefix)) = self.subnet {
            builder = builder.option(CLIENT_SUBNET, &subnet_option(address, prefix));
        }
        if let Some(cookie) = self.cookie {
            builder = builder.option(COOKIE, &cookie);
        }
        for (code, bytes) in &self.options {
            builder = builder.option(*code, bytes);
        }
        if let Some(block) = self.padding_block {
            let unpadded = builder.byte_count() + 4;
            builder = builder.option(PADDING, &vec![0; unpadded.next_multiple_of(block) - unpadded]);
        }
        let bytes = builder.byte_count();
        if bytes > QUERY_BYTES_MAX { Err(ExtrasError { bytes }) } else { Ok(builder.build()) }
    }

    fn has_edns(&self) -> bool {
        self.payload_bytes.is_some()
            || self.dnssec_ok
            || self.cookie.is_some()
            || self.subnet.is_some()
            || self.padding_block.is_some()
            || !self.options.is_empty()
    }
}

/// FAMILY, SOURCE PREFIX-LENGTH, SCOPE PREFIX-LENGTH 0, and the bytes of the address that the prefix needs. Bits beyond
/// the prefix are zero (RFC 7871 6).
fn subnet_option(address: IpAddr, prefix: u8) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    };
    let mut bytes: Vec<u8> = bytes.into_iter().take(usize::from(prefix).div_ceil(8)).collect();
    if let Some(last) = bytes.last_mut().filter(|_| !prefix.is_multiple_of(8)) {
        *last &= 0xFF << (8 - prefix % 8);
    }
    [&[0, family, prefix, 0], bytes.as_slice()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::name::Name;

    fn query(extras: &Extras) -> Vec<u8> {
        let qname: Name = "www.example.com.".parse().unwrap();
        extras.query(qname.as_ref(), Rtype::A).unwrap()
    }

    #[test]
    fn padding_fills_up_to_the_block() {
        let padded = query(&Extras { padding_block: Some(PADDING_BLOCK_BYTES), ..Extras::default() });
        assert_eq!(padded.len(), 128);
        let cookie = Extras { cookie: Some([7; 8]), padding_block: Some(468), ..Extras::default() };
        assert_eq!(query(&cookie).len(), 468);
    }

    #[test]
    fn subnet_bits_beyond_the_prefix_are_zero() {
        assert_eq!(subnet_option("192.0.2.255".parse().unwrap(), 25), [0, 1, 25, 0, 192, 0, 2, 128]);
        assert_eq!(subnet_option("2001:db8::1".parse().unwrap(), 32), [0, 2, 32, 0, 0x20, 1, 0x0d, 0xb8]);
        assert_eq!(subnet_option("192.0.2.1".parse().unwrap(), 0), [0, 1, 0, 0]);
    }

    #[test]
    fn a_query_that_is_too_long_is_refused() {
        let extras = Extras { options: vec![(65_001, vec![0; QUERY_BYTES_MAX])], ..Extras::default() };
        let qname: Name = "example.com.".parse().unwrap();
        assert!(extras.query(qname.as_ref(), Rtype::A).is_err());
    }
}
