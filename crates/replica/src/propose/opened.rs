//! The keys that signed updates, opened once per state of the settings.

use crate::secrets::DataKey;
use crate::state::KeyEntry;
use std::collections::BTreeMap;
use tsig::TsigKey;
use wire::name::Name;

/// Keys of the settings of one epoch, so there are no more than in the settings. A key that could not be opened is
/// tried again, because another data key may have arrived.
#[derive(Debug, Default)]
pub(crate) struct OpenedKeys {
    epoch: u64,
    keys: BTreeMap<Name, TsigKey>,
}

impl OpenedKeys {
    /// A key of the settings of this epoch; `None` if no data key here opens it.
    pub(super) fn get(&mut self, epoch: u64, name: &Name, entry: &KeyEntry, data_key: &DataKey) -> Option<&TsigKey> {
        if self.epoch != epoch {
            self.keys.clear();
            self.epoch = epoch;
        }
        if !self.keys.contains_key(name) {
            self.keys.insert(name.clone(), entry.open(name, data_key)?);
        }
        self.keys.get(name)
    }
}
