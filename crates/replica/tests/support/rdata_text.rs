//! Rdata as text, for scripts: enough of the types' fields, the generic form of RFC 3597 for the rest.

use super::{name_in, name_out};
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use wire::rdata::{Field, layout, rdata_fields};

/// A type by its mnemonic, or as `TYPE123`.
pub(crate) fn rtype_of(text: &str) -> Rtype {
    if let Some(number) = text.strip_prefix("TYPE") {
        return Rtype(number.parse().unwrap());
    }
    (0..=u16::MAX).map(Rtype).find(|rtype| rtype.mnemonic() == Some(text)).unwrap_or_else(|| panic!("type {text}"))
}

pub(crate) fn rtype_text(rtype: Rtype) -> String {
    rtype.mnemonic().map_or_else(|| format!("TYPE{}", rtype.0), str::to_owned)
}

/// Reads rdata; names are relative to `apex`.
pub(crate) fn rdata_of(rtype: Rtype, words: &[&str], apex: &Name) -> Vec<u8> {
    if let ["\\#", _len, hex @ ..] = words {
        let hex = hex.concat();
        return (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    }
    let mut words = words.iter().copied();
    let mut rdata = Vec::new();
    for field in layout(rtype).unwrap_or_else(|| panic!("{rtype:?} needs the generic form")) {
        let mut word = || words.next().unwrap_or_else(|| panic!("rdata of {rtype:?} is too short"));
        match field {
            Field::Name(_) => rdata.extend(name_in(word(), apex).octets()),
            Field::U8 | Field::Algorithm | Field::IpProtocol => rdata.push(word().parse().unwrap()),
            Field::U16 => rdata.extend(word().parse::<u16>().unwrap().to_be_bytes()),
            Field::U32 | Field::Ttl => rdata.extend(word().parse::<u32>().unwrap().to_be_bytes()),
            Field::Ipv4 => rdata.extend(word().parse::<std::net::Ipv4Addr>().unwrap().octets()),
            Field::Ipv6 => rdata.extend(word().parse::<std::net::Ipv6Addr>().unwrap().octets()),
            Field::CharString => push_string(&mut rdata, word()),
            Field::CharStringsRest => words.by_ref().for_each(|word| push_string(&mut rdata, word)),
            other => panic!("a field of kind {other:?} needs the generic form"),
        }
    }
    assert_eq!(words.next(), None, "rdata of {rtype:?} is too long");
    rdata
}

fn push_string(rdata: &mut Vec<u8>, word: &str) {
    let text = word.trim_matches('"');
    rdata.push(u8::try_from(text.len()).unwrap());
    rdata.extend(text.as_bytes());
}

/// Prints rdata; names are relative to `apex`.
pub(crate) fn rdata_text(rtype: Rtype, rdata: &[u8], apex: &Name) -> String {
    let fields: Option<Vec<String>> = rdata_fields(rtype, rdata)
        .map(|field| field.ok().and_then(|(field, octets)| field_text(field, octets, apex)))
        .collect();
    fields.map_or_else(
        || {
            let hex: String = rdata.iter().map(|octet| format!("{octet:02x}")).collect();
            format!("\\# {} {hex}", rdata.len())
        },
        |fields| fields.join(" "),
    )
}

fn field_text(field: Field, octets: &[u8], apex: &Name) -> Option<String> {
    let number = || octets.iter().fold(0u32, |number, &octet| number << 8 | u32::from(octet)).to_string();
    Some(match field {
        Field::Name(_) => name_out(&NameRef::from_octets(octets).ok()?.to_name(), apex),
        Field::U8 | Field::U16 | Field::U32 | Field::Ttl | Field::Algorithm | Field::IpProtocol => number(),
        Field::Ipv4 => std::net::Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).to_string(),
        Field::Ipv6 => std::net::Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).to_string(),
        Field::CharString | Field::CharStringsRest => strings_text(octets)?,
        _ => return None,
    })
}

fn strings_text(mut octets: &[u8]) -> Option<String> {
    let mut strings = Vec::new();
    while let Some((&len, rest)) = octets.split_first() {
        let (string, rest) = rest.split_at_checked(len as usize)?;
        strings.push(format!("\"{}\"", std::str::from_utf8(string).ok()?));
        octets = rest;
    }
    Some(strings.join(" "))
}
