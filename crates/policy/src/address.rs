//! Domain names derived from an address.

use core::fmt::Write;
use core::net::IpAddr;
use wire::name::Name;

/// The name in `in-addr.arpa` (RFC 1035 3.5) or `ip6.arpa` (RFC 3596 2.5).
pub(crate) fn reverse_name(address: IpAddr) -> Name {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            parsed(&format!("{d}.{c}.{b}.{a}.in-addr.arpa."))
        }
        IpAddr::V6(address) => parsed(&nibbles(&address.octets())),
    }
}

/// The name of the 6to4 prefix: 2002 and the IPv4 address (RFC 3056 2), or the first 48 bits of an IPv6 address.
pub(crate) fn six_to_four_name(address: IpAddr) -> Name {
    match address {
        IpAddr::V4(address) => parsed(&nibbles(&[&[0x20, 0x02][..], &address.octets()].concat())),
        IpAddr::V6(address) => parsed(&nibbles(&address.octets()[..6])),
    }
}

/// Hexadecimal digits in reverse order, then `ip6.arpa.`.
fn nibbles(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes.iter().rev() {
        let _ = write!(text, "{:x}.{:x}.", byte & 0xf, byte >> 4);
    }
    text.push_str("ip6.arpa.");
    text
}

fn parsed(text: &str) -> Name {
    text.parse().expect("digits and dots make a name of at most 74 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_names_that_the_rfcs_give_them() {
        for (address, reverse, prefix) in [
            ("192.0.2.17", "17.2.0.192.in-addr.arpa.", "1.1.2.0.0.0.0.c.2.0.0.2.ip6.arpa."),
            (
                "2002:c000:211:1::b",
                "b.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.1.1.2.0.0.0.0.c.2.0.0.2.ip6.arpa.",
                "1.1.2.0.0.0.0.c.2.0.0.2.ip6.arpa.",
            ),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(reverse_name(address).to_string(), reverse);
            assert_eq!(six_to_four_name(address).to_string(), prefix);
        }
    }
}
