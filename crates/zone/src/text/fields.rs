//! Names and expected text forms of rdata fields, for error messages.

use super::fault::{BASE64, HEX, IPV4, IPV6, PORT, PREFIX, RTYPE, SECONDS, TIME};
use core::fmt;
use wire::number::Rtype;
use wire::rdata::{Field, layout};

/// What the text of a field must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expected {
    /// One word of one kind.
    Text(&'static str),
    /// Several words or a list. An error in one part describes that part itself.
    Parts(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Text(text) | Self::Parts(text)) = self;
        f.write_str(text)
    }
}

/// What field `at` of a type must be.
pub(super) fn expected(rtype: Rtype, at: u8) -> Expected {
    use Expected::{Parts, Text};
    let Some(field) = layout(rtype).and_then(|fields| fields.get(usize::from(at))) else { return Text("rdata") };
    match field {
        Field::Name(_) | Field::NamesRest | Field::A6Name => Text("a domain name"),
        Field::U8 if rtype == Rtype::DSYNC => Text("NOTIFY or a number from 0 to 255"),
        Field::U8 => Text("a number from 0 to 255"),
        Field::U16 => Text("a number from 0 to 65535"),
        Field::U32 => Text("a number from 0 to 4294967295"),
        Field::Ttl => Text(SECONDS),
        Field::Time32 => Text(TIME),
        Field::RtypeField => Text(RTYPE),
        Field::Algorithm => Text("a DNSSEC algorithm: a number from 0 to 255 or a name such as ECDSAP256SHA256"),
        Field::CertType => Text("a certificate type: a number from 0 to 65535 or a name such as PKIX"),
        Field::IpProtocol => Text("an IP protocol: a number from 0 to 255, TCP, UDP or ICMP"),
        Field::Ipv4 => Text(IPV4),
        Field::Ipv6 => Text(IPV6),
        Field::CharString | Field::CharStringOptional | Field::CharStringsRest => Text("a character string"),
        Field::Bytes => Text(r"the generic form \# LENGTH HEXADECIMAL"),
        Field::HexRest { .. } => Text(HEX),
        Field::Base64Rest { .. } => Text(BASE64),
        Field::TextRest { .. } => Text("a string in quotes"),
        Field::HexLen8 => Text("hexadecimal, or - for none"),
        Field::Base32Len8 => Text("base32hex without padding"),
        Field::Bitmap | Field::NxtBitmap => Text(RTYPE),
        Field::PortBitmap => Text(PORT),
        Field::Gateway { .. } => Parts("a gateway that fits its type: . for 0, IPv4 for 1, IPv6 for 2, a name for 3"),
        Field::RelayType => Parts("0 or 1 for discovery optional, then a relay type from 0 to 127"),
        Field::Loc => Parts("part of a location such as 52 22 23.000 N 4 53 32.000 E -2.00m"),
        Field::Apl => Text(PREFIX),
        Field::SvcParams => Parts("service parameters such as alpn=h2 port=443"),
        Field::Nsap => Text("0x and an even number of hexadecimal digits"),
        Field::Atma => Text("+ and digits, or an even number of hexadecimal digits"),
        Field::Locator64 => Text("four groups of hexadecimal digits such as 2001:db8:1:2"),
        Field::Ipn => Text("a number, or two numbers up to 4294967295 with a dot between them"),
        Field::Eui48 => Text("six pairs of hexadecimal digits such as 00-00-5e-00-53-2a"),
        Field::Eui64 => Text("eight pairs of hexadecimal digits such as 00-00-5e-ef-10-00-00-2a"),
        Field::Tag => Text("a tag of ASCII letters and digits"),
        Field::HipKeys => Parts("an algorithm from 0 to 255, a HIT in hexadecimal and a key in base64"),
        Field::A6Suffix => Parts("a prefix length from 0 to 128 and an IPv6 address"),
    }
}

/// The RFC's name for field `at` of a type.
pub(super) fn field_name(rtype: Rtype, at: u8) -> &'static str {
    names(rtype).get(usize::from(at)).copied().unwrap_or("rdata")
}

/// The names of all fields of a type, in the order of [`layout`].
const fn names(rtype: Rtype) -> &'static [&'static str] {
    match rtype {
        Rtype::A | Rtype::AAAA => &["address"],
        Rtype::NS => &["nameserver"],
        Rtype::MD | Rtype::MF | Rtype::MB => &["host"],
        Rtype::CNAME | Rtype::PTR | Rtype::DNAME => &["target"],
        Rtype::MG | Rtype::MR => &["mailbox"],
        Rtype::SOA => &["primary server", "mailbox", "serial", "refresh", "retry", "expire", "minimum"],
        Rtype::WKS => &["address", "protocol", "port"],
        Rtype::HINFO => &["CPU", "OS"],
        Rtype::MINFO => &["responsible mailbox", "error mailbox"],
        Rtype::MX => &["preference", "exchange"],
        Rtype::TXT | Rtype::SPF | Rtype::NINFO | Rtype::AVC | Rtype::RESINFO | Rtype::WALLET | Rtype::CLA => &["text"],
        Rtype::RP => &["mailbox", "TXT name"],
        Rtype::AFSDB => &["subtype", "host"],
        Rtype::RT => &["preference", "host"],
        Rtype::X25 => &["address"],
        Rtype::ISDN => &["address", "subaddress"],
        Rtype::NSAP | Rtype::ATMA | Rtype::EUI48 | Rtype::EUI64 | Rtype::IPN => &["address"],
        Rtype::NSAP_PTR => &["owner"],
        Rtype::PX => &["preference", "RFC 822 name", "X.400 name"],
        Rtype::GPOS => &["longitude", "latitude", "altitude"],
        Rtype::LOC => &["location"],
        Rtype::SRV => &["priority", "weight", "port", "target"],
        Rtype::NAPTR => &["order", "preference", "flags", "services", "regexp", "replacement"],
        Rtype::KX => &["preference", "exchanger"],
        Rtype::CERT => &["type", "key tag", "algorithm", "certificate"],
        Rtype::A6 => &["prefix length and suffix", "prefix name"],
        Rtype::APL => &["prefix"],
        Rtype::URI => &["priority", "weight", "target"],
        Rtype::CAA => &["flags", "tag", "value"],
        Rtype::SVCB | Rtype::HTTPS => &["priority", "target", "parameter"],
        Rtype::NID => &["preference", "node identifier"],
        Rtype::L64 => &["preference", "locator"],
        Rtype::L32 => &["preference", "locator"],
        Rtype::LP => &["preference", "name"],
        _ => security_names(rtype),
    }
}

/// Field names of DNSSEC, keys and certificates, and of types that did not become RFCs.
const fn security_names(rtype: Rtype) -> &'static [&'static str] {
    match rtype {
        Rtype::SIG | Rtype::RRSIG => &[
            "type covered",
            "algorithm",
            "labels",
            "original TTL",
            "expiration",
            "inception",
            "key tag",
            "signer",
            "signature",
        ],
        Rtype::NXT => &["next name", "type"],
        Rtype::KEY | Rtype::RKEY | Rtype::DNSKEY | Rtype::CDNSKEY => &["flags", "protocol", "algorithm", "key"],
        Rtype::DS | Rtype::CDS | Rtype::TA | Rtype::DLV => &["key tag", "algorithm", "digest type", "digest"],
        Rtype::NSEC => &["next name", "type"],
        Rtype::NSEC3 => &["hash algorithm", "flags", "iterations", "salt", "next hash", "type"],
        Rtype::NSEC3PARAM => &["hash algorithm", "flags", "iterations", "salt"],
        Rtype::CSYNC => &["serial", "flags", "type"],
        Rtype::ZONEMD => &["serial", "scheme", "hash algorithm", "digest"],
        Rtype::DSYNC => &["type", "scheme", "port", "target"],
        Rtype::SSHFP => &["algorithm", "fingerprint type", "fingerprint"],
        Rtype::IPSECKEY => &["precedence", "gateway type", "algorithm", "gateway", "key"],
        Rtype::DHCID => &["digest"],
        Rtype::OPENPGPKEY => &["key"],
        Rtype::HHIT | Rtype::BRID => &["data"],
        Rtype::TLSA | Rtype::SMIMEA => &["usage", "selector", "matching type", "certificate data"],
        Rtype::HIP => &["algorithm, HIT and key", "rendezvous server"],
        Rtype::AMTRELAY => &["precedence", "discovery and relay type", "relay"],
        Rtype::NULL | Rtype::EID | Rtype::NIMLOC => &["data"],
        Rtype::SINK => &["coding", "subcoding", "data"],
        Rtype::TALINK => &["previous name", "next name"],
        Rtype::DOA => &["enterprise", "type", "location", "media type", "data"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_every_type_has_a_name() {
        for rtype in (0..=u16::MAX).map(Rtype) {
            assert_eq!(names(rtype).len(), layout(rtype).map_or(0, <[Field]>::len), "{rtype:?}");
        }
    }
}
