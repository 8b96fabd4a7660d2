//! Anonymizes rdata field by field.
//!
//! Names and addresses get pseudonyms. Technical numbers stay. Everything else is blank: text becomes letters `x`,
//! bytes become zeros. Fields without a known layout count as bytes.

use super::compose::Composer;
use super::drop_reason::DropReason;
use super::pseudonyms::Pseudonyms;
use wire::parse::RecordView;
use wire::parse::tsig::{TsigAt, TsigView, hash_bytes};
use wire::{Field, NameRef, Rtype, rdata_fields};

/// Replaces every byte of text.
const TEXT: u8 = b'x';
/// LOC where the equator meets the meridian of Greenwich (RFC 1876 2).
const NOWHERE: [u8; 16] = [0, 0x12, 0x16, 0x13, 0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0x98, 0x96, 0x80];
/// Service parameters (RFC 9460 14.3.2).
const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4_HINT: u16 = 4;
const IPV6_HINT: u16 = 6;
const DOH_PATH: u16 = 7;
const OHTTP: u16 = 8;

/// Writes the rdata of a record. If it is malformed, writes zeros and returns false.
pub(super) fn write(
    record: &RecordView<'_>,
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
    rdata: &mut Vec<u8>,
) -> Result<bool, DropReason> {
    let raw = record.rdata();
    rdata.clear();
    // RFC 2136 2.4, 2.5: in an UPDATE, rdata may be empty.
    if raw.is_empty() {
        return Ok(true);
    }
    let start = out.len();
    let is_read = record.rdata_canonical(rdata).is_ok();
    // Compressed names are compressed again, so that sizes stay.
    let is_compressed = rdata.len() > raw.len();
    if is_read && fields(record.rtype, rdata, is_compressed, pseudonyms, out)? {
        return Ok(true);
    }
    out.truncate(start);
    out.fill(0, raw.len());
    Ok(false)
}

/// Whether a field is a key tag, which is derived from a key in a public zone.
const fn is_key_tag(rtype: Rtype, index: usize) -> bool {
    match rtype {
        Rtype::DS | Rtype::CDS | Rtype::TA | Rtype::DLV => index == 0,
        Rtype::CERT => index == 1,
        Rtype::RRSIG | Rtype::SIG => index == 6,
        _ => false,
    }
}

fn fields(
    rtype: Rtype,
    rdata: &[u8],
    is_compressed: bool,
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
) -> Result<bool, DropReason> {
    for (index, field) in rdata_fields(rtype, rdata).enumerate() {
        let Ok((field, bytes)) = field else { return Ok(false) };
        match field {
            Field::Name(rule) => {
                let name = pseudonyms.name(NameRef::from_checked(bytes))?;
                // RFC 3597 4: only names of these types may be compressed or pointed to.
                if rule.compress { out.name(&name, is_compressed) } else { out.bytes(&name) }
            }
            Field::A6Name | Field::NamesRest => names(bytes, pseudonyms, out)?,
            Field::Ipv4 | Field::Ipv6 => address(bytes, pseudonyms, out),
            Field::Gateway { type_at, type_mask } => match rdata[usize::from(type_at)] & type_mask {
                3 => names(bytes, pseudonyms, out)?,
                _ => address(bytes, pseudonyms, out),
            },
            Field::U16 if is_key_tag(rtype, index) => out.fill(0, bytes.len()),
            Field::U8
            | Field::U16
            | Field::U32
            | Field::Ttl
            | Field::Time32
            | Field::RtypeField
            | Field::Algorithm
            | Field::CertType
            | Field::IpProtocol
            | Field::RelayType
            | Field::Bitmap
            | Field::NxtBitmap
            | Field::PortBitmap
            | Field::Tag => out.bytes(bytes),
            Field::CharString | Field::CharStringOptional | Field::CharStringsRest => texts(bytes, out),
            Field::TextRest { .. } => out.fill(TEXT, bytes.len()),
            Field::HexLen8 | Field::Base32Len8 => {
                out.bytes(&bytes[..1]);
                out.fill(0, bytes.len() - 1);
            }
            Field::Loc => out.bytes(&NOWHERE),
            // An APL may be empty (RFC 3123 4).
            Field::Apl => {}
            Field::SvcParams => service(bytes, pseudonyms, out),
            Field::HipKeys => {
                out.bytes(&bytes[..4]);
                out.fill(0, bytes.len() - 4);
            }
            Field::A6Suffix => suffix(bytes, pseudonyms, out),
            Field::Bytes
            | Field::HexRest { .. }
            | Field::Base64Rest { .. }
            | Field::Nsap
            | Field::Atma
            | Field::Locator64
            | Field::Ipn
            | Field::Eui48
            | Field::Eui64 => out.fill(0, bytes.len()),
        }
    }
    Ok(true)
}

/// A sequence of names, never compressed.
fn names(mut bytes: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) -> Result<(), DropReason> {
    while let Ok((name, rest)) = NameRef::split_from(bytes) {
        let name = pseudonyms.name(name)?;
        out.bytes(&name);
        bytes = rest;
    }
    Ok(())
}

/// A sequence of addresses of one family. An incomplete one becomes zeros.
fn address(bytes: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) {
    if let Ok(bytes) = bytes.try_into() {
        out.bytes(&pseudonyms.addresses.v4(bytes));
    } else if let Ok(bytes) = bytes.try_into() {
        out.bytes(&pseudonyms.addresses.v6(bytes));
    } else {
        out.fill(0, bytes.len());
    }
}

/// An address, or the suffix of an unknown one (RFC 2874 3.1).
fn suffix(bytes: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) {
    let Some((&prefix, suffix)) = bytes.split_first() else { return };
    out.bytes(&[prefix]);
    match prefix {
        0 => address(suffix, pseudonyms, out),
        _ => out.fill(0, suffix.len()),
    }
}

/// A sequence of character strings (RFC 1035 3.3).
fn texts(mut bytes: &[u8], out: &mut Composer) {
    while let Some((&length, rest)) = bytes.split_first() {
        let length = rest.len().min(usize::from(length));
        out.bytes(&[length as u8]);
        out.fill(TEXT, length);
        bytes = &rest[length..];
    }
}

/// Service parameters with a valid layout (RFC 9460 2.2).
fn service(mut bytes: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) {
    while let Some((&[a, b, c, d], rest)) = bytes.split_first_chunk() {
        let length = rest.len().min(usize::from(u16::from_be_bytes([c, d])));
        let (value, after) = rest.split_at(length);
        out.bytes(&[a, b, c, d]);
        match u16::from_be_bytes([a, b]) {
            MANDATORY | ALPN | NO_DEFAULT_ALPN | PORT | OHTTP => out.bytes(value),
            IPV4_HINT => value.chunks(4).for_each(|hint| address(hint, pseudonyms, out)),
            IPV6_HINT => value.chunks(16).for_each(|hint| address(hint, pseudonyms, out)),
            DOH_PATH => out.fill(TEXT, length),
            _ => out.fill(0, length),
        }
        bytes = after;
    }
}

/// Writes the rdata of TSIG (RFC 8945 4.2). The MAC is blank; registered algorithms stay. Returns false and writes
/// nothing if the layout is wrong.
pub(super) fn write_tsig(
    record: &RecordView<'_>,
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
) -> Result<bool, DropReason> {
    let at = TsigAt { at: record.at, rdata_at: record.rdata_at.clone() };
    let Some(tsig) = TsigView::read(record.message, &at) else { return Ok(false) };
    let algorithm = tsig.algorithm.as_ref();
    // RFC 3645 2: the only algorithm without a fixed length.
    let is_registered = hash_bytes(algorithm).is_some() || algorithm == NameRef::from_checked(b"\x08gss-tsig\0");
    if is_registered {
        out.bytes(algorithm.as_bytes());
    } else {
        let algorithm = pseudonyms.name(algorithm)?;
        out.bytes(&algorithm);
    }
    out.bytes(&tsig.time_signed.to_be_bytes()[2..]);
    out.bytes(&tsig.fudge.to_be_bytes());
    out.bytes(&(tsig.mac.len() as u16).to_be_bytes());
    out.fill(0, tsig.mac.len());
    out.bytes(&tsig.original_id.to_be_bytes());
    out.bytes(&tsig.error.to_be_bytes());
    out.bytes(&(tsig.other.len() as u16).to_be_bytes());
    out.fill(0, tsig.other.len());
    Ok(true)
}
