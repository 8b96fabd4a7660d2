//! Messages of DNS Stateful Operations, which have TLVs where others have records (RFC 8490 5.4).

use super::compose::Composer;
use super::{Dropped, Pseudonyms};
use wire::parse::Header;
use wire::{NameRef, Opcode};

/// Type and length of a TLV (RFC 8490 5.4.1).
const HEAD_BYTES: usize = 4;
/// How long a session may be idle, and how long to wait: numbers (RFC 8490 7.1, 7.2).
const KEEPALIVE: u16 = 1;
const RETRY_DELAY: u16 = 2;
/// A question that is asked for good, the ID of one that is no more, a record that may be out of date (RFC 8765 6).
const SUBSCRIBE: u16 = 0x40;
const UNSUBSCRIBE: u16 = 0x42;
const RECONFIRM: u16 = 0x43;

/// Whether TLVs stand behind this header. With another count than zero the message is malformed (RFC 8490 5.4), and is
/// read as any other.
pub(super) fn has_tlvs(header: &Header) -> bool {
    header.opcode == Opcode::DSO && header.counts == [0; 4]
}

/// Writes TLVs, each as long as it was but for names; gives what is left and is none.
pub(super) fn write<'o>(
    mut bytes: &'o [u8],
    pseudonyms: &mut Pseudonyms,
    out: &mut Composer,
) -> Result<&'o [u8], Dropped> {
    while let Some((&[high, low, length_high, length_low], rest)) = bytes.split_first_chunk::<HEAD_BYTES>() {
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let Some((data, behind)) = rest.split_at_checked(length) else { break };
        out.bytes(&[high, low]);
        let start = out.open();
        tlv(u16::from_be_bytes([high, low]), data, pseudonyms, out)?;
        if !out.close(start) {
            return Err(Dropped::TooLong);
        }
        bytes = behind;
    }
    Ok(bytes)
}

fn tlv(number: u16, data: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) -> Result<(), Dropped> {
    match (number, data.len()) {
        (KEEPALIVE, 8) | (RETRY_DELAY, 4) | (UNSUBSCRIBE, 2) => out.bytes(data),
        (SUBSCRIBE | RECONFIRM, _) => question(data, pseudonyms, out)?,
        // Padding, records that are pushed, and what nobody has a layout for.
        _ => out.fill(0, data.len()),
    }
    Ok(())
}

/// A name, its type and class; rdata behind it is zeros. All of it is where there is no such name.
fn question(data: &[u8], pseudonyms: &mut Pseudonyms, out: &mut Composer) -> Result<(), Dropped> {
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
