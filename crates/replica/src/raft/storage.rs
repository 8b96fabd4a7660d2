//! The storage that raft reads: the log, the configuration at start, and the checkpoint for members that lag.

use crate::limits::LOG_FETCHES_WANTED_MAX;
use crate::log::{Log, ReadError};
use ::raft::eraftpb::{ConfState, Entry, Snapshot};
use ::raft::{Error, GetEntriesContext, RaftState, Storage, StorageError};
use std::cell::{Cell, RefCell};

/// Entries that raft needs for a member that lags, and that are only on disk.
#[derive(Debug)]
pub(crate) struct FetchWanted {
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) context: GetEntriesContext,
}

/// The log as raft sees it.
#[derive(Debug)]
pub(crate) struct LogStorage {
    pub(crate) log: Log,
    /// Used at start only; raft keeps the current one.
    conf_state: ConfState,
    /// The manifest of the newest checkpoint, set by the owner.
    offer: Option<Snapshot>,
    /// The index from which a checkpoint is needed while there is none to offer; the owner reads and resets it.
    checkpoint_wanted: Cell<Option<u64>>,
    fetches_wanted: RefCell<Vec<FetchWanted>>,
}

impl LogStorage {
    pub(crate) const fn new(log: Log, conf_state: ConfState) -> Self {
        Self {
            log,
            conf_state,
            offer: None,
            checkpoint_wanted: Cell::new(None),
            fetches_wanted: RefCell::new(Vec::new()),
        }
    }

    pub(crate) fn set_offer(&mut self, offer: Option<Snapshot>) {
        self.offer = offer;
    }

    pub(crate) fn take_checkpoint_wanted(&self) -> Option<u64> {
        self.checkpoint_wanted.take()
    }

    pub(crate) fn take_fetches_wanted(&self) -> Vec<FetchWanted> {
        self.fetches_wanted.take()
    }
}

fn store_error(error: ReadError) -> Error {
    Error::Store(match error {
        ReadError::Compacted => StorageError::Compacted,
        ReadError::Unavailable | ReadError::NotInMemory => StorageError::Unavailable,
    })
}

impl Storage for LogStorage {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.log.hard_state().clone(), self.conf_state.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        match self.log.entries(low, high, max_size.into().unwrap_or(u64::MAX)) {
            Err(ReadError::NotInMemory) if context.can_async() => {
                let mut wanted = self.fetches_wanted.borrow_mut();
                if wanted.len() < LOG_FETCHES_WANTED_MAX {
                    wanted.push(FetchWanted { low, high, context });
                }
                Err(Error::Store(StorageError::LogTemporarilyUnavailable))
            }
            result => result.map_err(store_error),
        }
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        self.log.term(index).map_err(store_error)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.log.first_index())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.log.last_index())
    }

    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        // A checkpoint that ends before the log begins would leave a gap.
        let mut needed = request_index.max(self.log.first_index() - 1);
        if let Some(snapshot) = &self.offer {
            let metadata = snapshot.get_metadata();
            let members = metadata.get_conf_state();
            // A member refuses a configuration that does not include it.
            let knows = members.get_voters().contains(&to) || members.get_learners().contains(&to);
            if metadata.index >= needed && knows {
                return Ok(snapshot.clone());
            }
            needed = needed.max(metadata.index + 1);
        }
        self.checkpoint_wanted.set(Some(needed));
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
