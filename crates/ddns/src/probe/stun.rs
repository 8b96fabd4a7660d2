//! STUN (RFC 8489): sends a Binding request, and reads the source address of the request from the response.

use crate::address::{Family, from_rdata};
use std::net::IpAddr;

/// RFC 8489 5.
const MAGIC_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const HEADER_BYTES: usize = 20;
const BINDING_REQUEST: [u8; 2] = [0x00, 0x01];
const BINDING_RESPONSE: [u8; 2] = [0x01, 0x01];
/// RFC 8489 18.3.
const MAPPED_ADDRESS: u16 = 0x0001;
const XOR_MAPPED_ADDRESS: u16 = 0x0020;

/// The request.
pub(super) fn request(id: [u8; 12]) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..2].copy_from_slice(&BINDING_REQUEST);
    bytes[4..8].copy_from_slice(&MAGIC_COOKIE);
    bytes[8..].copy_from_slice(&id);
    bytes
}

/// The address in the response to the request with this transaction ID.
pub(super) fn read(response: &[u8], id: [u8; 12]) -> Option<IpAddr> {
    let header: &[u8; HEADER_BYTES] = response.first_chunk()?;
    let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // RFC 8489 5: the two most significant bits are zero in STUN. The comparison of the type includes them.
    if header[..2] != BINDING_RESPONSE || header[4..8] != MAGIC_COOKIE || header[8..] != id {
        return None;
    }
    let mut attributes = response.get(HEADER_BYTES..HEADER_BYTES + len)?;
    let mut plain = None;
    while let Some(&[a, b, c, d]) = attributes.first_chunk() {
        let len = usize::from(u16::from_be_bytes([c, d]));
        let value = attributes.get(4..4 + len)?;
        match u16::from_be_bytes([a, b]) {
            // RFC 8489 14.2: XOR with the cookie and, for IPv6, the transaction ID, so that middleboxes do not rewrite
            // the address.
            XOR_MAPPED_ADDRESS => return address(value, &header[4..]),
            // RFC 8489 14.1: servers of RFC 3489 send only this attribute.
            MAPPED_ADDRESS => plain = address(value, &[0; 16]),
            _ => {}
        }
        attributes = attributes.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
    }
    plain
}

fn address(value: &[u8], mask: &[u8]) -> Option<IpAddr> {
    let family = match value.get(1)? {
        1 => Family::V4,
        2 => Family::V6,
        _ => return None,
    };
    let bytes: Vec<u8> = value.get(4..)?.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect();
    from_rdata(family, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The transaction ID of the sample responses in RFC 5769 2.2 and 2.3. Attributes after the address are omitted.
    const ID: [u8; 12] = [0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae];

    fn response(attributes: &[u8]) -> Vec<u8> {
        let mut bytes = request(ID).to_vec();
        bytes[..2].copy_from_slice(&BINDING_RESPONSE);
        bytes[2..4].copy_from_slice(&(attributes.len() as u16).to_be_bytes());
        bytes.extend(attributes);
        bytes
    }

    #[test]
    fn the_vectors_of_rfc_5769_are_read() {
        let v4 = [
            0x80, 0x22, 0x00, 0x0b, 0x74, 0x65, 0x73, 0x74, 0x20, 0x76, 0x65, 0x63, 0x74, 0x6f, 0x72, 0x20, 0x00, 0x20,
            0x00, 0x08, 0x00, 0x01, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43,
        ];
        assert_eq!(read(&response(&v4), ID), Some("192.0.2.1".parse().unwrap()));
        let v6 = [
            0x00, 0x20, 0x00, 0x14, 0x00, 0x02, 0xa1, 0x47, 0x01, 0x13, 0xa9, 0xfa, 0xa5, 0xd3, 0xf1, 0x79, 0xbc, 0x25,
            0xf4, 0xb5, 0xbe, 0xd2, 0xb9, 0xd9,
        ];
        assert_eq!(read(&response(&v6), ID), Some("2001:db8:1234:5678:11:2233:4455:6677".parse().unwrap()));
    }

    #[test]
    fn responses_of_old_servers_are_read_and_those_to_other_requests_are_not() {
        let plain = [0x00, 0x01, 0x00, 0x08, 0x00, 0x01, 0xa1, 0x47, 192, 0, 2, 1];
        assert_eq!(read(&response(&plain), ID), Some("192.0.2.1".parse().unwrap()));
        let mut other = ID;
        other[11] ^= 1;
        assert_eq!(read(&response(&plain), other), None);
        assert_eq!(read(&request(ID), ID), None, "a request is no response");
        assert_eq!(read(&response(&[]), ID), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(attributes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read(&response(&attributes), ID);
            let _ = read(&attributes, ID);
        }
    }
}
