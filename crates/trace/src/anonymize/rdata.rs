//! Rdata of anonymized records, field by field.
//!
//! Names and addresses get their pseudonyms, numbers that say how something works stay, and everything else is blank:
//! text becomes as many letters, bytes become as many zeros. What a type's layout does not know is bytes, too.

use super::compose::Composer;
use super::{Dropped, Pseudonyms};
use wire::parse::RecordView;
use wire::parse::tsig::{TsigAt, TsigView, hash_bytes};
use wire::{Field, NameRef, Rtype, rdata_fields};

/// Written for every byte of text.
const TEXT: u8 = b'x';
/// LOC of a metre at no height where the equator meets the meridian of Greenwich (RFC 1876 2).
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

/// Writes the rdata of a record; false when it is not well formed, and nothing but zeros are written.
pub(super) fn write(
    record: &RecordView<'_>,
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
    whole: &mut Vec<u8>,
) -> Result<bool, Dropped> {
    let raw = record.rdata();
    whole.clear();
    // RFC 2136 2.4, 2.5: rdata may be empty whatever the type.
    if raw.is_empty() {
        return Ok(true);
    }
    let start = out.len();
    let is_read = record.rdata_canonical(whole).is_ok();
    // What was compressed is compressed again: sizes stay.
    let is_compressed = whole.len() > raw.len();
    if is_read && fields(record.rtype, whole, is_compressed, pseudonyms, out)? {
        return Ok(true);
    }
    out.cut(start);
    out.fill(0, raw.len());
    Ok(false)
}

/// Whether a number tells which key it is about: it is drawn from the key, which stands in public zones.
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
    whole: &[u8],
    is_compressed: bool,
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
) -> Result<bool, Dropped> {
    for (index, field) in rdata_fields(rtype, whole).enumerate() {
        let Ok((field, bytes)) = field else { return Ok(false) };
        match field {
            Field::Name(rule) => {
                let name = pseudonyms.name(NameRef::from_checked(bytes))?;
                // RFC 3597 4: others than these are neither compressed nor pointed to.
                if rule.compress { out.name(&name, is_compressed) } else { out.bytes(&name) }
            }
            Field::A6Name | Field::NamesRest => names(bytes, pseudonyms, out)?,
            Field::Ipv4 | Field::Ipv6 => address(bytes, pseudonyms, out),
            Field::Gateway { type_at, type_mask } => match whole[usize::from(type_at)] & type_mask {
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
            // No item at all is an APL too (RFC 3123 4), and says nothing.
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

/// Names one behind the other, never compressed.
fn names(mut bytes: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) -> Result<(), Dropped> {
    while let Ok((name, rest)) = NameRef::split_from(bytes) {
        let name = pseudonyms.name(name)?;
        out.bytes(&name);
        bytes = rest;
    }
    Ok(())
}

/// Addresses one behind the other, all of a family; what is none is zeros.
fn address(bytes: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) {
    if let Ok(bytes) = bytes.try_into() {
        out.bytes(&pseudonyms.addresses.v4(bytes));
    } else if let Ok(bytes) = bytes.try_into() {
        out.bytes(&pseudonyms.addresses.v6(bytes));
    } else {
        out.fill(0, bytes.len());
    }
}

/// A whole address, or a part of one: nobody knows of which (RFC 2874 3.1).
fn suffix(bytes: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) {
    let Some((&prefix, suffix)) = bytes.split_first() else { return };
    out.bytes(&[prefix]);
    match prefix {
        0 => address(suffix, pseudonyms, out),
        _ => out.fill(0, suffix.len()),
    }
}

/// Character strings one behind the other (RFC 1035 3.3).
fn texts(mut bytes: &[u8], out: &mut Composer) {
    while let Some((&length, rest)) = bytes.split_first() {
        let length = rest.len().min(usize::from(length));
        out.bytes(&[length as u8]);
        out.fill(TEXT, length);
        bytes = &rest[length..];
    }
}

/// Service parameters, whose layout was checked (RFC 9460 2.2).
fn service(mut bytes: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) {
    while let Some((&[a, b, c, d], rest)) = bytes.split_first_chunk() {
        let length = rest.len().min(usize::from(u16::from_be_bytes([c, d])));
        let (value, behind) = rest.split_at(length);
        out.bytes(&[a, b, c, d]);
        match u16::from_be_bytes([a, b]) {
            MANDATORY | ALPN | NO_DEFAULT_ALPN | PORT | OHTTP => out.bytes(value),
            IPV4_HINT => value.chunks(4).for_each(|hint| address(hint, pseudonyms, out)),
            IPV6_HINT => value.chunks(16).for_each(|hint| address(hint, pseudonyms, out)),
            DOH_PATH => out.fill(TEXT, length),
            _ => out.fill(0, length),
        }
        bytes = behind;
    }
}

/// Writes the rdata of TSIG (RFC 8945 4.2): the MAC is blank, and what it was made with is told as far as it is
/// registered. False when it is not laid out so; then nothing is written.
pub(super) fn write_tsig(
    record: &RecordView<'_>,
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
) -> Result<bool, Dropped> {
    let at = TsigAt { at: record.at, rdata_at: record.rdata_at.clone() };
    let Some(tsig) = TsigView::read(record.message, &at) else { return Ok(false) };
    let algorithm = tsig.algorithm.as_ref();
    // RFC 3645 2: the one algorithm that has no length.
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
