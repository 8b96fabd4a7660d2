//! The table of layouts: the fields of each registered type, in wire order.

use crate::number::Rtype;

/// How a name inside rdata is compressed, decompressed and compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameRule {
    /// It may be sent compressed: the types of RFC 1035 only (RFC 3597 4).
    pub compress: bool,
    /// A compression pointer in it is followed when it is received (RFC 3597 4).
    pub pointer_accepted: bool,
    /// It is lower-cased in canonical form, and compared without case (RFC 4034 6.2, RFC 6840 5.1).
    pub lowercase: bool,
}

/// One field of rdata. The comment of each gives the wire form first, then the presentation format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// A name.
    Name(NameRule),
    /// Names up to the end, possibly none, never compressed.
    NamesRest,
    /// A byte; a decimal number.
    U8,
    /// Two bytes; a decimal number.
    U16,
    /// Four bytes; a decimal number.
    U32,
    /// Four bytes, seconds; a number, or a TTL with units.
    Ttl,
    /// Four bytes, seconds modulo 2^32; YYYYMMDDHHmmSS or a number (RFC 4034 3.2).
    Time32,
    /// Two bytes; the mnemonic of an RR type.
    RtypeField,
    /// A byte; number or mnemonic of a DNSSEC algorithm (RFC 4034 A.1).
    Algorithm,
    /// Two bytes; number or mnemonic of a certificate type (RFC 4398 2.1).
    CertType,
    /// A byte; number or mnemonic of an IP protocol (RFC 1035 3.4.2).
    IpProtocol,
    /// Four bytes; dotted quad.
    Ipv4,
    /// Sixteen bytes; RFC 5952.
    Ipv6,
    /// A length byte and as many bytes; a quoted string.
    CharString,
    /// A character string or nothing, at the end (RFC 1183 3.2).
    CharStringOptional,
    /// One or more character strings up to the end.
    CharStringsRest,
    /// Opaque bytes up to the end; the generic form of RFC 3597 5.
    Bytes,
    /// Bytes up to the end, at least `bytes_min`; hexadecimal, blanks allowed.
    HexRest {
        /// The fewest bytes.
        bytes_min: u8,
    },
    /// Bytes up to the end, at least `bytes_min`; base64, blanks allowed.
    Base64Rest {
        /// The fewest bytes.
        bytes_min: u8,
    },
    /// Bytes up to the end, at least `bytes_min`; one quoted string of any length.
    TextRest {
        /// The fewest bytes.
        bytes_min: u8,
    },
    /// A length byte and as many bytes; hexadecimal without blanks, `-` when empty (RFC 5155 3.3).
    HexLen8,
    /// A length byte and as many bytes, at least one; base32hex without padding (RFC 5155 3.3).
    Base32Len8,
    /// Type bitmap in windows, up to the end (RFC 4034 4.1.2); mnemonics.
    Bitmap,
    /// Type bitmap of NXT, up to the end (RFC 2535 5.2); mnemonics.
    NxtBitmap,
    /// Bitmap of ports, up to the end (RFC 1035 3.4.2); numbers or mnemonics of services.
    PortBitmap,
    /// The gateway type decides, which is byte `type_at` of the rdata under `type_mask`: nothing (0, `.`), IPv4 (1),
    /// IPv6 (2), or a name that is neither compressed nor lower-cased (3) (RFC 4025 2.5, RFC 8777 4.2.4).
    Gateway {
        /// Offset of the byte with the type.
        type_at: u8,
        /// The bits of the type in that byte.
        type_mask: u8,
    },
    /// A byte of two fields (RFC 8777 4.2.2, 4.2.3): discovery optional in the top bit, relay type below; two
    /// numbers.
    RelayType,
    /// All of LOC (RFC 1876 2).
    Loc,
    /// All of APL (RFC 3123 4).
    Apl,
    /// Service parameters up to the end, keys ascending (RFC 9460 2.2).
    SvcParams,
    /// All of NSAP: one or more bytes; `0x` and hexadecimal with dots (RFC 1706 5).
    Nsap,
    /// All of ATMA: a byte of format and the address; hexadecimal with dots (0) or `+` and digits (1).
    Atma,
    /// Eight bytes; four groups of hexadecimal digits with colons (RFC 6742 2.1.1, 2.3.1).
    Locator64,
    /// Eight bytes; a decimal number, or two of four bytes with a dot between.
    Ipn,
    /// Six bytes; hexadecimal with hyphens (RFC 7043 3.2).
    Eui48,
    /// Eight bytes; hexadecimal with hyphens (RFC 7043 4.2).
    Eui64,
    /// A length byte and as many ASCII letters and digits, at least one (RFC 8659 4.1); without quotes.
    Tag,
    /// HIT length, algorithm, key length, HIT, key (RFC 8005 5); printed as algorithm, HIT in hexadecimal, key in
    /// base64.
    HipKeys,
    /// Prefix length and the bytes of the rest of the address (RFC 2874 3.1); number and IPv6 address.
    A6Suffix,
    /// The prefix name of A6: present when the prefix length is not 0; lower-cased, never compressed.
    A6Name,
}

/// A name of RFC 1035: compressed both ways, lower-cased.
const CLASSIC: Field = Field::Name(NameRule { compress: true, pointer_accepted: true, lowercase: true });
/// A name that is sent uncompressed, but decompressed when received (RFC 3597 4).
const RECEIVED: Field = Field::Name(NameRule { compress: false, pointer_accepted: true, lowercase: true });
/// A name that is never compressed, of a type that RFC 4034 6.2 lists.
const LOWERED: Field = Field::Name(NameRule { compress: false, pointer_accepted: false, lowercase: true });
/// A name that is neither compressed nor lower-cased.
const PLAIN: Field = Field::Name(NameRule { compress: false, pointer_accepted: false, lowercase: false });

const HEX: Field = Field::HexRest { bytes_min: 1 };
const BASE64: Field = Field::Base64Rest { bytes_min: 1 };
const BASE64_OR_NONE: Field = Field::Base64Rest { bytes_min: 0 };

/// The fields of a type's rdata in order; `None` for a type that is opaque here (RFC 3597).
#[must_use]
pub const fn layout(rtype: Rtype) -> Option<&'static [Field]> {
    use Field::*;
    Some(match rtype {
        // RFC 1035
        Rtype::A => &[Ipv4],
        Rtype::NS | Rtype::MD | Rtype::MF | Rtype::CNAME | Rtype::MB | Rtype::MG | Rtype::MR | Rtype::PTR => &[CLASSIC],
        Rtype::SOA => &[CLASSIC, CLASSIC, U32, Ttl, Ttl, Ttl, Ttl],
        Rtype::NULL => &[Bytes],
        Rtype::WKS => &[Ipv4, IpProtocol, PortBitmap],
        Rtype::HINFO => &[CharString, CharString],
        Rtype::MINFO => &[CLASSIC, CLASSIC],
        Rtype::MX => &[U16, CLASSIC],
        Rtype::TXT | Rtype::SPF | Rtype::NINFO | Rtype::AVC | Rtype::RESINFO | Rtype::WALLET => &[CharStringsRest],
        // RFC 1183, 1706, 1712, 1876, 1995 and other early RFCs
        Rtype::RP => &[RECEIVED, RECEIVED],
        Rtype::AFSDB | Rtype::RT => &[U16, RECEIVED],
        Rtype::X25 => &[CharString],
        Rtype::ISDN => &[CharString, CharStringOptional],
        Rtype::NSAP => &[Nsap],
        Rtype::NSAP_PTR => &[PLAIN],
        Rtype::PX => &[U16, RECEIVED, RECEIVED],
        Rtype::GPOS => &[CharString, CharString, CharString],
        Rtype::AAAA => &[Ipv6],
        Rtype::LOC => &[Loc],
        Rtype::SRV => &[U16, U16, U16, RECEIVED],
        Rtype::NAPTR => &[U16, U16, CharString, CharString, CharString, RECEIVED],
        Rtype::KX => &[U16, LOWERED],
        Rtype::CERT => &[CertType, U16, Algorithm, BASE64],
        Rtype::A6 => &[A6Suffix, A6Name],
        Rtype::DNAME => &[LOWERED],
        Rtype::APL => &[Apl],
        // DNSSEC, its predecessors and related types
        Rtype::SIG => &[Field::RtypeField, Algorithm, U8, Ttl, Time32, Time32, U16, RECEIVED, BASE64],
        Rtype::NXT => &[RECEIVED, NxtBitmap],
        Rtype::KEY | Rtype::RKEY => &[U16, U8, Algorithm, BASE64_OR_NONE],
        Rtype::DNSKEY | Rtype::CDNSKEY => &[U16, U8, Algorithm, BASE64],
        Rtype::DS | Rtype::CDS | Rtype::TA | Rtype::DLV => &[U16, Algorithm, U8, HEX],
        Rtype::RRSIG => &[Field::RtypeField, Algorithm, U8, Ttl, Time32, Time32, U16, LOWERED, BASE64],
        // RFC 6840 5.1: the next name of NSEC keeps its case.
        Rtype::NSEC => &[PLAIN, Bitmap],
        Rtype::NSEC3 => &[U8, U8, U16, HexLen8, Base32Len8, Bitmap],
        Rtype::NSEC3PARAM => &[U8, U8, U16, HexLen8],
        Rtype::CSYNC => &[U32, U16, Bitmap],
        Rtype::ZONEMD => &[U32, U8, U8, HEX],
        Rtype::DSYNC => &[Field::RtypeField, U8, U16, PLAIN],
        // Keys and certificates of other protocols
        Rtype::SSHFP => &[U8, U8, HEX],
        Rtype::IPSECKEY => &[U8, U8, U8, Gateway { type_at: 1, type_mask: 0xFF }, BASE64_OR_NONE],
        Rtype::DHCID | Rtype::OPENPGPKEY | Rtype::HHIT | Rtype::BRID => &[BASE64],
        Rtype::TLSA | Rtype::SMIMEA => &[U8, U8, U8, HEX],
        Rtype::HIP => &[HipKeys, NamesRest],
        // Services
        Rtype::SVCB | Rtype::HTTPS => &[U16, PLAIN, SvcParams],
        Rtype::URI => &[U16, U16, TextRest { bytes_min: 1 }],
        Rtype::CAA => &[U8, Tag, TextRest { bytes_min: 0 }],
        Rtype::AMTRELAY => &[U8, RelayType, Gateway { type_at: 1, type_mask: 0x7F }],
        // Addresses
        Rtype::NID | Rtype::L64 => &[U16, Locator64],
        Rtype::L32 => &[U16, Ipv4],
        Rtype::LP => &[U16, PLAIN],
        Rtype::EUI48 => &[Eui48],
        Rtype::EUI64 => &[Eui64],
        _ => return layout_unpublished(rtype),
    })
}

/// Types that are registered, but whose documents did not become RFCs.
const fn layout_unpublished(rtype: Rtype) -> Option<&'static [Field]> {
    use Field::*;
    Some(match rtype {
        Rtype::EID | Rtype::NIMLOC => &[HEX],
        Rtype::ATMA => &[Atma],
        Rtype::SINK => &[U8, U8, BASE64_OR_NONE],
        Rtype::TALINK => &[PLAIN, PLAIN],
        Rtype::DOA => &[U32, U32, U8, CharString, BASE64_OR_NONE],
        Rtype::CLA => &[CharStringsRest],
        Rtype::IPN => &[Ipn],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types() -> impl Iterator<Item = (Rtype, &'static [Field])> {
        (0..=u16::MAX).filter_map(|number| Some((Rtype(number), layout(Rtype(number))?)))
    }

    fn types_with(has_property: fn(&NameRule) -> bool) -> Vec<Rtype> {
        let has = |fields: &[Field]| fields.iter().any(|f| matches!(f, Field::Name(rule) if has_property(rule)));
        types().filter(|(_, fields)| has(fields)).map(|(rtype, _)| rtype).collect()
    }

    #[test]
    fn names_are_compressed_in_the_types_of_rfc_1035_only() {
        let classic = [
            Rtype::NS,
            Rtype::MD,
            Rtype::MF,
            Rtype::CNAME,
            Rtype::SOA,
            Rtype::MB,
            Rtype::MG,
            Rtype::MR,
            Rtype::PTR,
            Rtype::MINFO,
            Rtype::MX,
        ];
        assert_eq!(types_with(|rule| rule.compress), classic);
    }

    #[test]
    fn compression_pointers_follow_rfc_3597_4() {
        let received = types_with(|rule| rule.pointer_accepted && !rule.compress);
        let listed = [Rtype::RP, Rtype::AFSDB, Rtype::RT, Rtype::SIG, Rtype::PX, Rtype::NXT, Rtype::SRV, Rtype::NAPTR];
        assert_eq!(received, listed);
    }

    #[test]
    fn names_are_lowered_in_the_types_of_rfc_4034_6_2_but_nsec() {
        let lowered = types_with(|rule| rule.lowercase && !rule.pointer_accepted);
        assert_eq!(lowered, [Rtype::KX, Rtype::DNAME, Rtype::RRSIG]);
        assert_eq!(layout(Rtype::NSEC).unwrap()[0], PLAIN);
        assert!(layout(Rtype::A6).unwrap().contains(&Field::A6Name));
    }

    #[test]
    fn only_the_last_field_takes_the_rest_and_no_meta_type_has_fields() {
        let rest = |field: &Field| {
            matches!(
                field,
                Field::NamesRest
                    | Field::CharStringsRest
                    | Field::Bytes
                    | Field::HexRest { .. }
                    | Field::Base64Rest { .. }
                    | Field::TextRest { .. }
                    | Field::Bitmap
                    | Field::NxtBitmap
                    | Field::PortBitmap
                    | Field::Apl
                    | Field::SvcParams
            )
        };
        for (rtype, fields) in types() {
            assert!(!rtype.is_meta(), "{rtype:?}");
            assert!(fields.split_last().unwrap().1.iter().all(|field| !rest(field)), "{rtype:?}");
        }
    }
}
