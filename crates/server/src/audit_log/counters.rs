//! Counters of the audit log.

use crate::metrics::{Counter, Gauge};
use metrics_text::{Kind, Page};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Counters of the audit log.
#[derive(Default, Debug)]
pub(crate) struct AuditCounters {
    pub(super) written: Counter,
    /// Records lost because the queue was full, or the write failed.
    pub(super) lost: Counter,
    pub(super) waiting: Gauge,
    /// All records up to this index were queued.
    pub(super) through: AtomicU64,
    /// Maximum total size of the files. A reload can change it.
    pub(super) bytes_max: AtomicU64,
    /// The last attempt to write failed.
    pub(super) is_failing: AtomicBool,
}

impl AuditCounters {
    /// Changes the maximum total size of the files.
    pub(crate) fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Relaxed);
    }

    /// Whether the last write to the audit log failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Relaxed)
    }

    pub(crate) fn write(&self, page: &mut Page) {
        let (written, lost) = (self.written.get(), self.lost.get());
        page.single("catamaran_audit_records_total", Kind::Counter, "Records in the audit log.", written);
        page.single(
            "catamaran_audit_records_lost_total",
            Kind::Counter,
            "Records missing in the audit log of this node, because the queue was full or the write failed.",
            lost,
        );
        let help = "1: the audit log of this node cannot be written now; updates continue without it.";
        page.single("catamaran_audit_failing", Kind::Gauge, help, u8::from(self.is_failing()));
    }
}
