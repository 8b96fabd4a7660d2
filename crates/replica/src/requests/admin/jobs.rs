//! Administrators' commands in progress.

use super::idle::StalledImports;
use crate::entry::{ImportPurpose, StageId};
use crate::io::{AdminError, Contents, NodeId};
use crate::limits::IMPORT_CHUNKS_IN_FLIGHT_MAX;
use crate::requests::step::AwaitedState;
use std::collections::{BTreeMap, BTreeSet};
use zone::ZoneId;

/// Commands in progress.
#[derive(Debug, Default)]
pub(crate) struct AdminJobs {
    /// Commands of one step, by request.
    pub(super) single: BTreeSet<u64>,
    pub(super) imports: BTreeMap<u64, Import>,
    /// Imports of the cluster that make no progress.
    pub(super) idle: StalledImports,
    /// Committed commands whose state is not reached yet, with deadlines.
    pub(super) awaited_states: BTreeMap<u64, (AwaitedState, u64)>,
}

impl AdminJobs {
    /// The number of commands in progress.
    pub(crate) fn len(&self) -> usize {
        self.single.len() + self.imports.len() + self.awaited_states.len()
    }

    /// Whether a chunk of some import may be proposed now.
    pub(crate) fn has_chunks_to_propose(&self) -> bool {
        self.imports.values().any(Import::may_go_on)
    }
}

/// What a step led to: whether it changed nothing, and the id of a new member.
pub(crate) type StepResult = Result<(bool, Option<NodeId>), AdminError>;

/// An import that this replica drives.
#[derive(Debug)]
pub(super) struct Import {
    pub(super) stage: StageId,
    pub(super) zone: ZoneId,
    pub(super) purpose: ImportPurpose,
    pub(super) contents: Contents,
    pub(super) next_chunk: u32,
    pub(super) in_flight: usize,
    pub(super) digest: u128,
    pub(super) has_begun: bool,
}

impl Import {
    /// Whether the next chunk may be proposed; updates interleave with an import.
    pub(super) fn may_go_on(&self) -> bool {
        let has_room = self.in_flight < IMPORT_CHUNKS_IN_FLIGHT_MAX || planted!(ImportUnlimited);
        self.has_begun && has_room && self.contents.chunk_count() > 0
    }
}
