//! EDNS options of anonymized messages.

use super::compose::Composer;
use super::drop_reason::DropReason;
use super::pseudonyms::Pseudonyms;
use super::tally::AnonymizationTally;
use crate::prefix::Prefix;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::NameRef;
use wire::parse::edns::code;

/// What to do with EDNS options.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Options {
    /// Keep them, but replace all identifying contents with zeros.
    #[default]
    Blank,
    /// Remove all.
    Drop,
    /// Keep them unchanged, except client subnets.
    Keep,
}

/// Options with the algorithms that a client understands (RFC 6975).
const ALGORITHMS: [u16; 3] = [5, 6, 7];
/// Expiry of a zone (RFC 7314).
const EXPIRE: u16 = 9;
/// The name up to which a chain of signatures is known (RFC 7901).
const CHAIN: u16 = 13;
/// The root keys that a resolver trusts (RFC 8145).
const KEY_TAG: u16 = 14;
/// The receiver of error reports (RFC 9567).
const REPORT_CHANNEL: u16 = 18;

/// Writes the options of an OPT record.
pub(super) fn write<'o>(
    options: impl Iterator<Item = (u16, &'o [u8])>,
    mode: Options,
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
    tally: &mut AnonymizationTally,
) -> Result<(), DropReason> {
    for (code, bytes) in options {
        let start = out.len();
        out.bytes(&code.to_be_bytes());
        let data = out.open();
        let is_written = mode != Options::Drop && option(code, bytes, mode, pseudonyms, out)?;
        if !is_written || !out.close(data) {
            out.truncate(start);
            tally.options_dropped += 1;
        }
    }
    Ok(())
}

/// Writes the contents of an option. Returns false if that is not possible.
fn option(
    code: u16,
    bytes: &[u8],
    mode: Options,
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
) -> Result<bool, DropReason> {
    if code == code::CLIENT_SUBNET {
        return Ok(subnet(bytes, pseudonyms, out));
    }
    if mode == Options::Keep {
        out.bytes(bytes);
        return Ok(true);
    }
    match code {
        EXPIRE | KEY_TAG | code::TCP_KEEPALIVE => out.bytes(bytes),
        code if ALGORITHMS.contains(&code) => out.bytes(bytes),
        CHAIN | REPORT_CHANNEL => {
            let Ok(name) = NameRef::from_bytes(bytes) else { return Ok(false) };
            let name = pseudonyms.name(name)?;
            out.bytes(&name);
        }
        // RFC 8914 2: a code, and a text from the server.
        code::EDE if bytes.len() >= 2 => {
            out.bytes(&bytes[..2]);
            out.fill(b'x', bytes.len() - 2);
        }
        _ => out.fill(0, bytes.len()),
    }
    Ok(true)
}

/// FAMILY, lengths, and the pseudonym of the prefix (RFC 7871 6). Returns false for any other layout.
fn subnet(bytes: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) -> bool {
    let Some((&[high, low, length, scope], rest)) = bytes.split_first_chunk() else { return false };
    let mut address = [0; 16];
    let width = match (high, low) {
        (0, 1) => 4,
        (0, 2) => 16,
        _ => return false,
    };
    if rest.len() > width || rest.len() != usize::from(length).div_ceil(8) {
        return false;
    }
    address[..rest.len()].copy_from_slice(rest);
    let [a, b, c, d, ..] = address;
    let address = if width == 4 { Ipv4Addr::new(a, b, c, d).into() } else { Ipv6Addr::from(address).into() };
    let Some(prefix) = Prefix::new(address, length) else { return false };
    out.bytes(&[high, low, length, scope]);
    out.bytes(&pseudonyms.addresses.prefix(prefix).to_bytes());
    true
}
