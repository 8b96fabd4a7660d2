//! Whether this node may answer queries: written by the replica thread, read by all workers.

use replica::io::Serving;
use std::sync::atomic::{AtomicU8, Ordering};

/// Starts as [`Serving::No`].
#[derive(Default, Debug)]
pub(crate) struct ServingState(AtomicU8);

impl ServingState {
    pub(crate) fn set(&self, serving: Serving) {
        let value = match serving {
            Serving::No => 0,
            Serving::Stale => 1,
            Serving::Yes => 2,
        };
        // Published zones come before the flag that lets workers answer from them.
        self.0.store(value, Ordering::Release);
    }

    pub(crate) fn get(&self) -> Serving {
        match self.0.load(Ordering::Acquire) {
            2 => Serving::Yes,
            1 => Serving::Stale,
            _ => Serving::No,
        }
    }
}

/// The word in `/v1/status` and `/healthz`.
pub(crate) const fn label(serving: Serving) -> &'static str {
    match serving {
        Serving::No => "no",
        Serving::Stale => "stale",
        Serving::Yes => "yes",
    }
}
