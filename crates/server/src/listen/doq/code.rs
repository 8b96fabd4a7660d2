//! Error codes of RFC 9250 8.4.

use quinn::VarInt;

pub(crate) const NO_ERROR: VarInt = VarInt::from_u32(0x0);
pub(crate) const INTERNAL_ERROR: VarInt = VarInt::from_u32(0x1);
pub(crate) const PROTOCOL_ERROR: VarInt = VarInt::from_u32(0x2);
pub(crate) const EXCESSIVE_LOAD: VarInt = VarInt::from_u32(0x4);
