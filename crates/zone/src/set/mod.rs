//! All zones that are served: versions that never change, made by a single writer.
//!
//! ```text
//!   root tree  : view -> its zones, those being staged, counts and hashes
//!   zones tree : apex -> serial, kind of denial, hash, and two trees
//!   names tree : owner -> RRsets                  hashed tree: owner of NSEC3 -> NSEC3
//! ```
//!
//! [`ZoneSet`] makes versions through [`Edit`]; a [`SetVersion`] is one of them, read by any number of threads without
//! a lock. The head is the newest version that was sealed; readers see the newest that was published.
//!
//! NSEC3 records (and the RRSIGs that cover them) have a tree of their own because their owner names are no names of
//! the zone: a query for one is answered as if it did not exist (RFC 5155 7.2.8), and their order is one of hashes.

mod change;
mod edit;
mod error;
mod records;
mod version;
mod view_record;
mod zone;
mod zone_record;

pub use crate::record::RecordRef;
pub use edit::Edit;
pub use error::{ApplyError, ContentFault, ImportError, RecordFault, ZoneError};
pub use records::Records;
pub use store::{Full, Prefaulter, ReserveError, Stats, StoreConfig, Version};
pub use version::{Frozen, SetVersion, ZoneReader};
pub use zone::Zone;
pub use zone_record::Denial;
pub(crate) use zone_record::soa_minimum;

use crate::vertex::LeafNames;
use store::Store;

/// What a [`ZoneSet`] may use.
#[derive(Clone, Copy, Default, Debug)]
pub struct ZoneSetConfig {
    /// The arena that holds everything.
    pub store: StoreConfig,
}

/// The zones and their single writer.
pub struct ZoneSet {
    store: Store<LeafNames>,
}

impl ZoneSet {
    /// No zones.
    ///
    /// # Errors
    /// When the operating system does not give the address space.
    pub fn new(config: ZoneSetConfig) -> Result<Self, ReserveError> {
        Ok(Self { store: Store::new(config.store)? })
    }

    /// A reader for another thread.
    #[must_use]
    pub fn reader(&self) -> ZoneReader {
        ZoneReader::new(self.store.reader())
    }

    /// What touches the arena's memory before changes do, on another thread.
    #[must_use]
    pub fn prefaulter(&self) -> Prefaulter {
        self.store.prefaulter()
    }

    /// Holds the published version for as long as the result lives, while changes go on.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        Frozen::new(self.store.freeze())
    }

    /// The newest version that was sealed, published or not.
    #[must_use]
    pub fn head(&self) -> SetVersion<'_> {
        SetVersion::new(self.store.view(), self.store.head())
    }

    /// The version that readers see.
    #[must_use]
    pub fn published(&self) -> SetVersion<'_> {
        SetVersion::new(self.store.view(), self.store.published())
    }

    /// Starts the next version on top of the head.
    pub fn edit(&mut self) -> Edit<'_> {
        Edit::new(&mut self.store)
    }

    /// Makes the versions up to `version` visible to readers.
    pub fn publish(&mut self, version: Version) {
        self.store.publish(version);
    }

    /// Drops all versions that were not published; the head is the published version again.
    pub fn rewind(&mut self) {
        self.store.rewind();
    }

    /// The newest version that was published.
    #[must_use]
    pub fn published_version(&self) -> Version {
        self.store.published_version()
    }

    /// Frees a bounded amount of what no reader can see any more; true when there is more of it. To be called while
    /// there is nothing to publish.
    pub fn reclaim(&mut self) -> bool {
        self.store.reclaim()
    }

    /// Bytes that all changes ever copied and wrote: how much this grows over a change is what the change took.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.store.allocated_bytes()
    }

    /// Whether [`ZoneSet::release_free`] would give much memory back.
    #[must_use]
    pub fn is_release_due(&self) -> bool {
        self.store.is_release_due()
    }

    /// Gives memory that is free back to the operating system, if there is much of it. To be called while nothing else
    /// is to be done.
    pub fn release_free(&mut self) {
        self.store.release_free();
    }

    /// Bytes of all that changes ever let go, zones that went included. Who holds a version keeps what is let go from
    /// then on.
    #[must_use]
    pub fn retired_bytes_total(&self) -> u64 {
        self.store.retired_bytes_total()
    }

    /// What the arena holds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.store.stats()
    }
}
