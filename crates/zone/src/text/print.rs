//! Prints rdata as text, following the table of layouts.

use super::addresses::{print_a6_suffix, print_atma, print_eui, print_ipv4, print_ipv6, print_locator, print_prefixes};
use super::bitmaps::{print_nxt, print_ports, print_windows};
use super::bytes::{print_base32, print_base64, print_hex, print_text};
use super::location::print_location;
use super::mnemonic::{print_cert_type, print_rtype};
use super::names::print_name;
use super::numbers::{print, print_time32, separate};
use super::parameters::print_parameters;
use crate::record::RecordRef;
use wire::name::NameRef;
use wire::number::Rtype;
use wire::rdata::{Field, layout, rdata_check, rdata_fields};

/// Appends a record on one line without line end: owner, TTL, class, type and rdata, separated by tabs.
pub fn print_record<'r>(record: impl Into<RecordRef<'r>>, out: &mut String) {
    let record = record.into();
    print_name(record.owner, out);
    print(format_args!("\t{}\tIN\t", record.ttl), out);
    print_rtype(record.rtype, out);
    out.push('\t');
    print_rdata(record.rtype, record.rdata, out);
}

/// Appends uncompressed rdata in presentation format. A type without a text form, or malformed rdata, gets the generic
/// form (RFC 3597 5). Scanning the text gives the same bytes in all cases.
pub fn print_rdata(rtype: Rtype, rdata: &[u8], out: &mut String) {
    let start = out.len();
    if layout(rtype).is_some() && rdata_check(rtype, rdata).is_ok() && print_fields(rtype, rdata, out) {
        return;
    }
    out.truncate(start);
    print(format_args!("\\# {}", rdata.len()), out);
    if !rdata.is_empty() {
        out.push(' ');
        print_hex(rdata, out);
    }
}

/// Prints the fields separated by spaces. Returns false if one of them has no text form.
fn print_fields(rtype: Rtype, rdata: &[u8], out: &mut String) -> bool {
    let start = out.len();
    for field in rdata_fields(rtype, rdata) {
        let Ok((field, bytes)) = field else { return false };
        let before = out.len();
        separate(start, out);
        let printed = out.len();
        if !print_field(rtype, field, bytes, rdata, out) {
            return false;
        }
        // No space for a field that prints nothing.
        if out.len() == printed {
            out.truncate(before);
        }
    }
    true
}

fn print_field(rtype: Rtype, field: Field, bytes: &[u8], rdata: &[u8], out: &mut String) -> bool {
    match field {
        Field::Name(_) | Field::NamesRest | Field::A6Name => print_names(bytes, out),
        Field::U8 if rtype == Rtype::DSYNC && bytes == [1] => out.push_str("NOTIFY"),
        Field::U8 | Field::U16 | Field::U32 | Field::Ttl | Field::Algorithm | Field::IpProtocol | Field::Ipn => {
            print(format_args!("{}", integer(bytes)), out);
        }
        Field::Time32 => print_time32(integer(bytes) as u32, out),
        Field::RtypeField => print_rtype(Rtype(integer(bytes) as u16), out),
        Field::CertType => print_cert_type(integer(bytes) as u16, out),
        Field::Ipv4 => print_ipv4(bytes, out),
        Field::Ipv6 => print_ipv6(bytes, out),
        Field::CharString => print_text(&bytes[1..], out),
        Field::CharStringOptional | Field::CharStringsRest => print_strings(bytes, out),
        Field::HexRest { .. } => print_hex(bytes, out),
        Field::Base64Rest { .. } if rtype == Rtype::DOA && bytes.is_empty() => out.push('-'),
        Field::Base64Rest { .. } => print_base64(bytes, out),
        Field::TextRest { .. } => print_text(bytes, out),
        Field::HexLen8 if bytes.len() == 1 => out.push('-'),
        Field::HexLen8 => print_hex(&bytes[1..], out),
        Field::Base32Len8 => print_base32(&bytes[1..], out),
        Field::Bitmap => print_windows(bytes, out),
        Field::Gateway { type_at, type_mask } => {
            print_gateway(rdata[usize::from(type_at)] & type_mask, bytes, out);
        }
        Field::RelayType => print(format_args!("{} {}", bytes[0] >> 7, bytes[0] & 0x7F), out),
        Field::Loc => print_location(bytes, out),
        Field::SvcParams => print_parameters(bytes, out),
        Field::Nsap => {
            out.push_str("0x");
            print_hex(bytes, out);
        }
        Field::Locator64 => print_locator(bytes, out),
        Field::Eui48 | Field::Eui64 => print_eui(bytes, out),
        Field::Tag => out.extend(bytes[1..].iter().map(|&byte| byte as char)),
        Field::HipKeys => print_hip_keys(bytes, out),
        Field::A6Suffix => print_a6_suffix(bytes, out),
        _ => return print_partial(field, bytes, out),
    }
    true
}

/// Prints a field with values that may have no text form. Returns false for those.
fn print_partial(field: Field, bytes: &[u8], out: &mut String) -> bool {
    match field {
        Field::Apl => print_prefixes(bytes, out),
        Field::Atma => print_atma(bytes, out),
        // With its first bit set, the bitmap has a format without a text form (RFC 2535 5.2).
        Field::NxtBitmap if bytes.first().is_none_or(|first| first & 0x80 != 0) => false,
        Field::NxtBitmap => {
            print_nxt(bytes, out);
            true
        }
        // Trailing zero bytes would be lost.
        Field::PortBitmap if bytes.last() == Some(&0) => false,
        Field::PortBitmap => {
            print_ports(bytes, out);
            true
        }
        _ => false,
    }
}

/// Reads a number in network order.
fn integer(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Prints names, separated by spaces.
fn print_names(mut bytes: &[u8], out: &mut String) {
    let start = out.len();
    while let Ok((name, rest)) = NameRef::split_from(bytes) {
        separate(start, out);
        print_name(name, out);
        bytes = rest;
    }
}

/// Prints character strings, separated by spaces.
fn print_strings(mut bytes: &[u8], out: &mut String) {
    let start = out.len();
    while let [len, rest @ ..] = bytes {
        separate(start, out);
        let (string, behind) = rest.split_at_checked(usize::from(*len)).unwrap_or((rest, &[]));
        print_text(string, out);
        bytes = behind;
    }
}

fn print_gateway(kind: u8, bytes: &[u8], out: &mut String) {
    match kind {
        1 => print_ipv4(bytes, out),
        2 => print_ipv6(bytes, out),
        3 => print_names(bytes, out),
        _ => out.push('.'),
    }
}

fn print_hip_keys(bytes: &[u8], out: &mut String) {
    let [tag_len, algorithm, _, _, rest @ ..] = bytes else { return };
    let (tag, key) = rest.split_at_checked(usize::from(*tag_len)).unwrap_or((rest, &[]));
    print(format_args!("{algorithm} "), out);
    print_hex(tag, out);
    out.push(' ');
    print_base64(key, out);
}
