//! Messages of DNS Stateful Operations. They contain TLVs instead of records (RFC 8490 5.4).

use super::compose::Composer;
use super::drop_reason::DropReason;
use super::pseudonyms::Pseudonyms;
use wire::parse::Header;
use wire::{NameRef, Opcode};

/// Type and length of a TLV (RFC 8490 5.4.1).
const HEAD_BYTES: usize = 4;
/// Idle timeout and retry delay: numbers only (RFC 8490 7.1, 7.2).
const KEEPALIVE: u16 = 1;
const RETRY_DELAY: u16 = 2;
/// Subscription, its ID when it ends, and a record to reconfirm (RFC 8765 6).
const SUBSCRIBE: u16 = 0x40;
const UNSUBSCRIBE: u16 = 0x42;
const RECONFIRM: u16 = 0x43;

/// Whether TLVs follow this header. If a count is not zero, the message is malformed (RFC 8490 5.4) and is parsed like
/// any other.
pub(super) fn has_tlvs(header: &Header) -> bool {
    header.opcode == Opcode::DSO && header.counts == [0; 4]
}

/// Writes the TLVs. Lengths stay the same except for names. Returns the bytes after the last complete TLV.
pub(super) fn write<'o>(
    mut bytes: &'o [u8],
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
) -> Result<&'o [u8], DropReason> {
    while let Some((&[high, low, length_high, length_low], rest)) = bytes.split_first_chunk::<HEAD_BYTES>() {
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let Some((data, after)) = rest.split_at_checked(length) else { break };
        out.bytes(&[high, low]);
        let start = out.open();
        tlv(u16::from_be_bytes([high, low]), data, pseudonyms, out)?;
        if !out.close(start) {
            return Err(DropReason::TooLong);
        }
        bytes = after;
    }
    Ok(bytes)
}

fn tlv(number: u16, data: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) -> Result<(), DropReason> {
    match (number, data.len()) {
        (KEEPALIVE, 8) | (RETRY_DELAY, 4) | (UNSUBSCRIBE, 2) => out.bytes(data),
        (SUBSCRIBE | RECONFIRM, _) => question(data, pseudonyms, out)?,
        // Padding, pushed records, and TLVs without a known layout.
        _ => out.fill(0, data.len()),
    }
    Ok(())
}

/// Writes a name with type and class. Following rdata becomes zeros. If the name is malformed, everything does.
fn question(data: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) -> Result<(), DropReason> {
    let split = NameRef::split_from(data).ok().and_then(|(name, rest)| Some((name, rest.split_first_chunk::<4>()?)));
    match split {
        Some((name, (numbers, rest))) => {
            let name = pseudonyms.name(name)?;
            out.bytes(&name);
            out.bytes(numbers);
            out.fill(0, rest.len());
        }
        None => out.fill(0, data.len()),
    }
    Ok(())
}
