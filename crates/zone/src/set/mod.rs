//! All served zones: immutable versions, created by a single writer.
//!
//! ```text
//!   root tree  : view -> its zones, those being staged, counts and hashes
//!   zones tree : apex -> serial, kind of denial, hash, and two trees
//!   names tree : owner -> RRsets                  hashed tree: owner of NSEC3 -> NSEC3
//! ```
//!
//! [`ZoneSet`] creates versions through [`Edit`]. A [`SetVersion`] is one version, which any number of threads read
//! without a lock. The head is the newest sealed version. Readers see the newest published version.
//!
//! NSEC3 records and the RRSIGs that cover them have their own tree, because their owner names are not names of the
//! zone. A query for such a name is answered as if it did not exist (RFC 5155 7.2.8), and they are ordered by hash.

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

/// Sizes of a [`ZoneSet`].
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
    /// If the operating system does not provide the address space.
    pub fn new(config: ZoneSetConfig) -> Result<Self, ReserveError> {
        Ok(Self { store: Store::new(config.store)? })
    }

    /// A reader for another thread.
    #[must_use]
    pub fn reader(&self) -> ZoneReader {
        ZoneReader::new(self.store.reader())
    }

    /// Touches the memory of the arena before changes use it, on another thread.
    #[must_use]
    pub fn prefaulter(&self) -> Prefaulter {
        self.store.prefaulter()
    }

    /// Holds the published version while the result lives. Changes continue meanwhile.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        Frozen::new(self.store.freeze())
    }

    /// The newest sealed version, published or not.
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

    /// Drops all unpublished versions. The head is the published version again.
    pub fn rewind(&mut self) {
        self.store.rewind();
    }

    /// The newest version that was published.
    #[must_use]
    pub fn published_version(&self) -> Version {
        self.store.published_version()
    }

    /// Frees a bounded amount of memory that no reader can see any more. Returns whether there is more. Call this while
    /// there is nothing to publish.
    pub fn reclaim(&mut self) -> bool {
        self.store.reclaim()
    }

    /// Bytes that all changes ever copied and wrote. The growth of this number over a change is the cost of the change.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.store.allocated_bytes()
    }

    /// Whether [`ZoneSet::release_free`] would return much memory.
    #[must_use]
    pub fn is_release_due(&self) -> bool {
        self.store.is_release_due()
    }

    /// Returns free memory to the operating system, if there is much of it. Call this when idle.
    pub fn release_free(&mut self) {
        self.store.release_free();
    }

    /// Bytes that all changes ever retired, including removed zones. While a version is held, memory that is retired
    /// later is not freed.
    #[must_use]
    pub fn retired_bytes_total(&self) -> u64 {
        self.store.retired_bytes_total()
    }

    /// Memory use of the arena.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.store.stats()
    }
}
