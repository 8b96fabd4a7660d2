//! Rdata as text, for scripts: the fields of common types, and the generic form of RFC 3597 for the rest.

use super::name_out;
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use wire::rdata::{Field, rdata_fields};
use zone::text::{scan_rdata_text, scan_rtype};

/// A type or QTYPE by its mnemonic or as `TYPE123`.
pub(crate) fn rtype_of(text: &str) -> Rtype {
    let qtype = || (249..=255).map(Rtype).find(|qtype| qtype.mnemonic() == Some(text));
    scan_rtype(text.as_bytes()).or_else(qtype).unwrap_or_else(|| panic!("type {text}"))
}

pub(crate) fn rtype_text(rtype: Rtype) -> String {
    rtype.mnemonic().map_or_else(|| format!("TYPE{}", rtype.0), str::to_owned)
}

/// Parses rdata; names are relative to `apex`. The generic form may contain malformed rdata.
pub(crate) fn rdata_of(rtype: Rtype, words: &[&str], apex: &Name) -> Vec<u8> {
    if let ["\\#", _len, hex @ ..] = words {
        let hex = hex.concat();
        return (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    }
    let text = words.join(" ");
    scan_rdata_text(rtype, text.as_bytes(), Some(apex.as_ref())).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

/// Formats rdata; names are relative to `apex`.
pub(crate) fn rdata_text(rtype: Rtype, rdata: &[u8], apex: &Name) -> String {
    let fields: Option<Vec<String>> = rdata_fields(rtype, rdata)
        .map(|field| field.ok().and_then(|(field, bytes)| field_text(field, bytes, apex)))
        .collect();
    fields.map_or_else(
        || {
            let hex: String = rdata.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("\\# {} {hex}", rdata.len())
        },
        |fields| fields.join(" "),
    )
}

fn field_text(field: Field, bytes: &[u8], apex: &Name) -> Option<String> {
    let number = || bytes.iter().fold(0u32, |number, &byte| number << 8 | u32::from(byte)).to_string();
    Some(match field {
        Field::Name(_) => name_out(&NameRef::from_bytes(bytes).ok()?.to_name(), apex),
        Field::U8 | Field::U16 | Field::U32 | Field::Ttl | Field::Algorithm | Field::IpProtocol => number(),
        Field::Ipv4 => std::net::Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string(),
        Field::Ipv6 => std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string(),
        Field::CharString | Field::CharStringsRest => strings_text(bytes)?,
        _ => return None,
    })
}

fn strings_text(mut bytes: &[u8]) -> Option<String> {
    let mut strings = Vec::new();
    while let Some((&len, rest)) = bytes.split_first() {
        let (string, rest) = rest.split_at_checked(len as usize)?;
        strings.push(format!("\"{}\"", std::str::from_utf8(string).ok()?));
        bytes = rest;
    }
    Some(strings.join(" "))
}
