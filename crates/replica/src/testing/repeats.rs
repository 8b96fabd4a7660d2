//! The table of sessions alone, of any size, for measurements of its memory and time.

use crate::checkpoint::{CheckpointError, CheckpointReader};
use crate::disk::DiskRead;
use crate::entry::SettingsChange;
use crate::machine::{Machine, Restore, empty_machine};
use crate::replica::Founding;
use crate::state::{Known, Settings};
use crate::{DataKey, ReplicaConfig};
use wire::name::Name;
use wire::number::Rcode;
use zone::set::StoreConfig;

/// A state that holds only sessions.
pub struct Repeats {
    machine: Machine,
}

fn config() -> ReplicaConfig {
    let mut config = ReplicaConfig::new([1; 16], 1, 1, 1, DataKey::new(1, &[0; 32]));
    config.store = StoreConfig { reserve_bytes: 16 << 20, huge_pages: false };
    config
}

impl Repeats {
    /// An empty table with the daemon's limit.
    ///
    /// # Panics
    /// If memory cannot be reserved.
    #[must_use]
    pub fn new() -> Self {
        let mut machine = empty_machine(&config(), Settings::empty([1; 16])).expect("memory for no zones");
        machine.settings.apply(&SettingsChange::FeatureLevel { level: 2 }, 1, 0);
        Self { machine }
    }

    /// Number of sessions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.machine.sessions.len()
    }

    /// Adds an executed update.
    pub fn insert(&mut self, identity: [u8; 16], key_name: &Name, time_signed: u64, source: [u8; 16]) {
        self.machine.sessions.insert(identity, key_name, time_signed, source, Rcode::NOERROR, None);
    }

    /// Whether an update may be executed.
    #[must_use]
    pub fn is_new(&self, identity: &[u8; 16], key_name: &Name, time_signed: u64, source: &[u8; 16]) -> bool {
        self.machine.sessions.known(identity, key_name, time_signed, source) == Known::New
    }

    /// The hash that replicas compare.
    #[must_use]
    pub fn hash(&self) -> u128 {
        self.machine.state_hash()
    }

    /// A frozen copy that can be written as a checkpoint.
    #[must_use]
    pub fn freeze(&mut self) -> Founding {
        Founding::new(&config(), &mut self.machine, vec![1])
    }

    /// Reads a checkpoint.
    ///
    /// # Errors
    /// [`CheckpointError`].
    ///
    /// # Panics
    /// If the checkpoint's contents are invalid.
    pub fn read(disk: &dyn DiskRead, file: String) -> Result<Self, CheckpointError> {
        let mut restore = Restore::new(&config()).expect("memory for no zones");
        let each = |section, bytes: &[u8]| restore.item(section, bytes).expect("an item that was written");
        CheckpointReader::open_file(disk, file)?.for_each_item(disk, each)?;
        Ok(Self { machine: restore.finish((0, 0)).expect("the state that was written") })
    }
}

impl Default for Repeats {
    fn default() -> Self {
        Self::new()
    }
}
