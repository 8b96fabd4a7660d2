//! EDNS options of anonymized messages.

use super::compose::Composer;
use super::{AnonymizationTally, Dropped, Pseudonyms};
use crate::prefix::Prefix;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::NameRef;
use wire::parse::edns::code;

/// What becomes of options.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Options {
    /// They stay, and of what is in them only what tells of nobody: the rest is zeros.
    #[default]
    Blank,
    /// None stays.
    Drop,
    /// They stay as they are, but for client subnets.
    Keep,
}

/// Options that tell which algorithms a client knows (RFC 6975).
const ALGORITHMS: [u16; 3] = [5, 6, 7];
/// How long a zone lives (RFC 7314).
const EXPIRE: u16 = 9;
/// The name up to which a chain of signatures is known (RFC 7901).
const CHAIN: u16 = 13;
/// Which keys of the root a resolver trusts (RFC 8145).
const KEY_TAG: u16 = 14;
/// To whom errors are reported (RFC 9567).
const REPORT_CHANNEL: u16 = 18;

/// Writes the options of an OPT record.
pub(super) fn write<'o>(
    options: impl Iterator<Item = (u16, &'o [u8])>,
    mode: Options,
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
    tally: &mut AnonymizationTally,
) -> Result<(), Dropped> {
    for (code, bytes) in options {
        let start = out.len();
        out.bytes(&code.to_be_bytes());
        let data = out.open();
        let is_written = mode != Options::Drop && option(code, bytes, mode, pseudonyms, out)?;
        if !is_written || !out.close(data) {
            out.cut(start);
            tally.options_dropped += 1;
        }
    }
    Ok(())
}

/// Writes what is in an option; false when nothing can be.
fn option(
    code: u16,
    bytes: &[u8],
    mode: Options,
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
) -> Result<bool, Dropped> {
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
            let Ok(name) = NameRef::from_octets(bytes) else { return Ok(false) };
            let name = pseudonyms.name(name)?;
            out.bytes(&name);
        }
        // RFC 8914 2: a code, and text of whoever failed.
        code::EDE if bytes.len() >= 2 => {
            out.bytes(&bytes[..2]);
            out.fill(b'x', bytes.len() - 2);
        }
        _ => out.fill(0, bytes.len()),
    }
    Ok(true)
}

/// FAMILY, lengths, and the prefix under its pseudonym (RFC 7871 6); false for any other layout.
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
