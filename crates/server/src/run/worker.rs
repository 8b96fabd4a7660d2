//! The parts of a worker.

use crate::answer::QueryResponder;
use crate::listen::counters::ListenCounters;
use std::sync::Arc;

/// The responder and counters of one packet worker, or of one runtime of connections, for one transport.
pub(super) struct Worker {
    pub(super) responder: QueryResponder,
    pub(super) listen: Arc<ListenCounters>,
}
