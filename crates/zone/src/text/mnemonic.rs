//! Mnemonics: of types, algorithms, certificates, protocols and ports.

use super::TextError;
use super::numbers::{number_u8, number_u16, print};
use crate::limits::RTYPE_BYTES_MAX;
use wire::number::Rtype;

/// The type with a mnemonic, or of `TYPE` and a number (RFC 3597 5), in any case.
#[must_use]
pub fn scan_rtype(text: &[u8]) -> Option<Rtype> {
    let mut upper = [0u8; RTYPE_BYTES_MAX];
    let upper = upper.get_mut(..text.len())?;
    upper.copy_from_slice(text);
    upper.make_ascii_uppercase();
    let upper: &[u8] = upper;
    // The most frequent types come first.
    match upper {
        b"A" => return Some(Rtype::A),
        b"NS" => return Some(Rtype::NS),
        b"AAAA" => return Some(Rtype::AAAA),
        b"RRSIG" => return Some(Rtype::RRSIG),
        _ => {}
    }
    if let Ok(at) = RTYPES.binary_search_by(|(mnemonic, _)| mnemonic.as_bytes().cmp(upper)) {
        return Some(RTYPES[at].1);
    }
    number_u16(upper.strip_prefix(b"TYPE")?).ok().map(Rtype)
}

/// Appends the mnemonic of a type, or `TYPE` and its number (RFC 3597 5).
pub fn print_rtype(rtype: Rtype, out: &mut String) {
    match rtype.mnemonic() {
        Some(mnemonic) => out.push_str(mnemonic),
        None => print(format_args!("TYPE{}", rtype.0), out),
    }
}

/// Every type that has a mnemonic and may be in a zone, sorted by mnemonic. Meta types (OPT, TKEY, TSIG, and the
/// QTYPEs) are not included.
static RTYPES: &[(&str, Rtype)] = &[
    ("A", Rtype::A),
    ("A6", Rtype::A6),
    ("AAAA", Rtype::AAAA),
    ("AFSDB", Rtype::AFSDB),
    ("AMTRELAY", Rtype::AMTRELAY),
    ("APL", Rtype::APL),
    ("ATMA", Rtype::ATMA),
    ("AVC", Rtype::AVC),
    ("BRID", Rtype::BRID),
    ("CAA", Rtype::CAA),
    ("CDNSKEY", Rtype::CDNSKEY),
    ("CDS", Rtype::CDS),
    ("CERT", Rtype::CERT),
    ("CLA", Rtype::CLA),
    ("CNAME", Rtype::CNAME),
    ("CSYNC", Rtype::CSYNC),
    ("DHCID", Rtype::DHCID),
    ("DLV", Rtype::DLV),
    ("DNAME", Rtype::DNAME),
    ("DNSKEY", Rtype::DNSKEY),
    ("DOA", Rtype::DOA),
    ("DS", Rtype::DS),
    ("DSYNC", Rtype::DSYNC),
    ("EID", Rtype::EID),
    ("EUI48", Rtype::EUI48),
    ("EUI64", Rtype::EUI64),
    ("GPOS", Rtype::GPOS),
    ("HHIT", Rtype::HHIT),
    ("HINFO", Rtype::HINFO),
    ("HIP", Rtype::HIP),
    ("HTTPS", Rtype::HTTPS),
    ("IPN", Rtype::IPN),
    ("IPSECKEY", Rtype::IPSECKEY),
    ("ISDN", Rtype::ISDN),
    ("KEY", Rtype::KEY),
    ("KX", Rtype::KX),
    ("L32", Rtype::L32),
    ("L64", Rtype::L64),
    ("LOC", Rtype::LOC),
    ("LP", Rtype::LP),
    ("MB", Rtype::MB),
    ("MD", Rtype::MD),
    ("MF", Rtype::MF),
    ("MG", Rtype::MG),
    ("MINFO", Rtype::MINFO),
    ("MR", Rtype::MR),
    ("MX", Rtype::MX),
    ("NAPTR", Rtype::NAPTR),
    ("NID", Rtype::NID),
    ("NIMLOC", Rtype::NIMLOC),
    ("NINFO", Rtype::NINFO),
    ("NS", Rtype::NS),
    ("NSAP", Rtype::NSAP),
    ("NSAP-PTR", Rtype::NSAP_PTR),
    ("NSEC", Rtype::NSEC),
    ("NSEC3", Rtype::NSEC3),
    ("NSEC3PARAM", Rtype::NSEC3PARAM),
    ("NULL", Rtype::NULL),
    ("NXT", Rtype::NXT),
    ("OPENPGPKEY", Rtype::OPENPGPKEY),
    ("PTR", Rtype::PTR),
    ("PX", Rtype::PX),
    ("RESINFO", Rtype::RESINFO),
    ("RKEY", Rtype::RKEY),
    ("RP", Rtype::RP),
    ("RRSIG", Rtype::RRSIG),
    ("RT", Rtype::RT),
    ("SIG", Rtype::SIG),
    ("SINK", Rtype::SINK),
    ("SMIMEA", Rtype::SMIMEA),
    ("SOA", Rtype::SOA),
    ("SPF", Rtype::SPF),
    ("SRV", Rtype::SRV),
    ("SSHFP", Rtype::SSHFP),
    ("SVCB", Rtype::SVCB),
    ("TA", Rtype::TA),
    ("TALINK", Rtype::TALINK),
    ("TLSA", Rtype::TLSA),
    ("TXT", Rtype::TXT),
    ("URI", Rtype::URI),
    ("WALLET", Rtype::WALLET),
    ("WKS", Rtype::WKS),
    ("X25", Rtype::X25),
    ("ZONEMD", Rtype::ZONEMD),
];

/// A registry: numbers and their mnemonics.
type Registry = &'static [(&'static str, u16)];

/// DNSSEC algorithms (RFC 4034 A.1 and later RFCs).
const ALGORITHMS: Registry = &[
    ("RSAMD5", 1),
    ("DH", 2),
    ("DSA", 3),
    ("ECC", 4),
    ("RSASHA1", 5),
    ("DSA-NSEC3-SHA1", 6),
    ("NSEC3DSA", 6),
    ("RSASHA1-NSEC3-SHA1", 7),
    ("NSEC3RSASHA1", 7),
    ("RSASHA256", 8),
    ("RSASHA512", 10),
    ("ECC-GOST", 12),
    ("ECCGOST", 12),
    ("ECDSAP256SHA256", 13),
    ("ECDSAP384SHA384", 14),
    ("ED25519", 15),
    ("ED448", 16),
    ("INDIRECT", 252),
    ("PRIVATEDNS", 253),
    ("PRIVATEOID", 254),
];

/// Certificate types (RFC 4398 2.1).
const CERT_TYPES: Registry = &[
    ("PKIX", 1),
    ("SPKI", 2),
    ("PGP", 3),
    ("IPKIX", 4),
    ("ISPKI", 5),
    ("IPGP", 6),
    ("ACPKIX", 7),
    ("IACPKIX", 8),
    ("URI", 253),
    ("OID", 254),
];

/// The protocols of WKS.
const PROTOCOLS: Registry = &[("ICMP", 1), ("TCP", 6), ("UDP", 17)];

/// The services in examples of WKS; others need a number. The machine's table of services is not used, so that a zone
/// means the same everywhere.
const PORTS: Registry = &[
    ("ECHO", 7),
    ("DISCARD", 9),
    ("DAYTIME", 13),
    ("FTP-DATA", 20),
    ("FTP", 21),
    ("SSH", 22),
    ("TELNET", 23),
    ("SMTP", 25),
    ("TIME", 37),
    ("DOMAIN", 53),
    ("TFTP", 69),
    ("FINGER", 79),
    ("HTTP", 80),
    ("POP3", 110),
    ("SUNRPC", 111),
    ("NNTP", 119),
    ("NTP", 123),
    ("IMAP", 143),
    ("HTTPS", 443),
];

fn find(registry: Registry, text: &[u8]) -> Option<u16> {
    registry.iter().find(|(mnemonic, _)| mnemonic.as_bytes().eq_ignore_ascii_case(text)).map(|&(_, number)| number)
}

/// A DNSSEC algorithm: number or mnemonic.
pub(super) fn algorithm(text: &[u8]) -> Result<u8, TextError> {
    number_u8(text).or_else(|_| find(ALGORITHMS, text).map(|number| number as u8).ok_or(TextError::Algorithm))
}

/// A certificate type: number or mnemonic.
pub(super) fn cert_type(text: &[u8]) -> Result<u16, TextError> {
    number_u16(text).or_else(|_| find(CERT_TYPES, text).ok_or(TextError::CertType))
}

/// Appends a certificate type: the mnemonic if there is one (RFC 4398 2.2).
pub(super) fn print_cert_type(number: u16, out: &mut String) {
    match CERT_TYPES.iter().find(|(_, known)| *known == number) {
        Some((mnemonic, _)) => out.push_str(mnemonic),
        None => print(format_args!("{number}"), out),
    }
}

/// An IP protocol: number or mnemonic.
pub(super) fn protocol(text: &[u8]) -> Result<u8, TextError> {
    number_u8(text).or_else(|_| find(PROTOCOLS, text).map(|number| number as u8).ok_or(TextError::Protocol))
}

/// A port: number or service.
pub(super) fn port(text: &[u8]) -> Result<u16, TextError> {
    number_u16(text).or_else(|_| find(PORTS, text).ok_or(TextError::Port))
}

/// The scheme of DSYNC: number, or the one mnemonic that is registered (RFC 9859 2.1).
pub(super) fn dsync_scheme(text: &[u8]) -> Result<u8, TextError> {
    if text.eq_ignore_ascii_case(b"NOTIFY") { Ok(1) } else { number_u8(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_has_every_type_that_may_own_rdata() {
        assert!(RTYPES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for number in 0..=u16::MAX {
            let (rtype, mut text) = (Rtype(number), String::new());
            print_rtype(rtype, &mut text);
            let is_meta = matches!(number, 41 | 249..=255);
            assert_eq!(scan_rtype(text.as_bytes()), (!is_meta).then_some(rtype), "{text}");
            assert_eq!(scan_rtype(text.to_ascii_lowercase().as_bytes()), (!is_meta).then_some(rtype), "{text}");
        }
    }

    #[test]
    fn invalid_types_are_refused() {
        for text in ["", "TYPE", "TYPE65536", "TYPE-1", "TYPE1x", "AA", "ANY", "OPT", "ALIAS", "NSEC3PARAMS"] {
            assert_eq!(scan_rtype(text.as_bytes()), None, "{text}");
        }
    }
}
