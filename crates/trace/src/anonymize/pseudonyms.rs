//! Pseudonyms of addresses and names.

use super::addresses::Addresses;
use super::drop_reason::DropReason;
use super::names::Names;
use wire::NameRef;

/// Pseudonyms of all kinds.
#[derive(Debug)]
pub(super) struct Pseudonyms {
    pub(super) addresses: Addresses,
    pub(super) names: Names,
}

impl Pseudonyms {
    pub(super) fn name(&mut self, name: NameRef<'_>) -> Result<Vec<u8>, DropReason> {
        self.names.name(name, &mut self.addresses)
    }
}
