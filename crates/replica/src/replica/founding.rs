//! Writes the first state of a member into an empty directory: a checkpoint, and a log that begins after it.

use crate::checkpoint::{CheckpointHeader, CheckpointWriter, Written};
use crate::config::ReplicaConfig;
use crate::disk::{DiskOp, Tickets};
use crate::log::{CheckpointRef, Log, LogConfig, LogId};
use crate::machine::{FrozenState, Machine};
use raft::eraftpb::ConfState;

/// Produces the disk operations in order, a bounded number of bytes at a time.
pub struct Founding {
    writer: CheckpointWriter,
    state: FrozenState,
    tickets: Tickets,
    /// `None` once the log is created too.
    log: Option<(LogId, LogConfig)>,
    reference: CheckpointRef,
}

impl Founding {
    /// For a member with this state. The state's index is the first of the log.
    pub(crate) fn new(config: &ReplicaConfig, machine: &mut Machine, mut voters: Vec<u64>) -> Self {
        voters.sort_unstable();
        let mut members = ConfState::default();
        members.set_voters(voters);
        let (index, term) = machine.applied;
        let writer = CheckpointWriter::new(CheckpointHeader {
            cluster: config.cluster_id,
            group: u32::from(config.group),
            index,
            term,
            feature_level: machine.settings.feature_level(),
            members,
        });
        Self {
            writer,
            state: machine.freeze(),
            tickets: Tickets::default(),
            log: Some((log_id(config), config.log.clone())),
            reference: CheckpointRef::default(),
        }
    }
}

impl Iterator for Founding {
    type Item = Vec<DiskOp>;

    fn next(&mut self) -> Option<Vec<DiskOp>> {
        if let Some(job) = self.writer.poll(&mut self.state, &mut self.tickets) {
            if let Written::Whole(whole) = self.writer.persisted(job.ticket) {
                self.reference = whole.0.reference();
            }
            return Some(job.ops);
        }
        let (id, config) = self.log.take()?;
        Some(create_log(id, config, self.reference, &mut self.tickets))
    }
}

pub(super) const fn log_id(config: &ReplicaConfig) -> LogId {
    LogId { cluster: config.cluster_id, group: config.group as u32, member: config.id }
}

/// The operations that create a log.
pub(super) fn create_log(
    id: LogId,
    config: LogConfig,
    checkpoint: CheckpointRef,
    tickets: &mut Tickets,
) -> Vec<DiskOp> {
    let mut log = Log::create(id, checkpoint, config);
    let mut ops = Vec::new();
    while let Some(job) = log.poll_job(tickets) {
        ops.extend(job.ops);
        log.persisted(job.ticket);
        if log.is_durable() {
            break;
        }
    }
    ops
}
