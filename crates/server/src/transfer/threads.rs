//! The threads of transfers. Each transfer has its own, because a large zone or a slow client takes long.
//!
//! Starting or ending a thread changes the memory map of the process, under a lock of the kernel. A thread of low
//! priority may hold this lock when it loses its core; on busy cores, all others then waited for it for up to a second.
//! So neither the replica nor an update thread starts these threads, and they are kept for later transfers.

use super::Job;
use crate::limits::TRANSFERS_MAX;
use crate::sys::priority::give_way_to_all;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use zone::set::Frozen;

/// An admitted transfer, and the version of the zones that it will send.
pub(crate) type QueuedTransfer = (Job, oneshot::Receiver<Frozen>);

/// Most threads: one for each slot, and one for each evicted transfer that has not ended yet.
const THREADS_MAX: usize = 2 * TRANSFERS_MAX;

/// The threads, and the transfers that they have not begun.
#[derive(Clone)]
struct Threads {
    queue: Arc<Mutex<Receiver<QueuedTransfer>>>,
    /// Threads that wait for a transfer, minus queued transfers.
    free: Arc<AtomicIsize>,
}

/// Gives transfers to threads until all senders are gone. It starts a thread if none is free.
pub(crate) fn start_transfers(transfers: &Receiver<QueuedTransfer>) {
    let (sender, queue) = channel();
    let threads = Threads { queue: Arc::new(Mutex::new(queue)), free: Arc::default() };
    let mut count = 0;
    for transfer in transfers {
        let has_free = threads.free.fetch_sub(1, SeqCst) > 0;
        if !has_free && count < THREADS_MAX {
            let started = threads.start();
            threads.free.fetch_add(1, SeqCst);
            if let Err(error) = started {
                process::error_limited!(%error, "cannot start a thread for a transfer");
                transfer.0.give_up();
                continue;
            }
            count += 1;
        }
        // The receiver is in `threads`.
        let _ = sender.send(transfer);
    }
}

impl Threads {
    fn start(&self) -> io::Result<()> {
        let this = self.clone();
        std::thread::Builder::new().name("transfer".into()).spawn(move || this.run()).map(|_| ())
    }

    /// Runs transfers until the node ends.
    fn run(&self) {
        // A transfer can wait; queries cannot.
        give_way_to_all();
        loop {
            let next = self.queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((job, frozen)) = next else { return };
            // A panic ends one transfer, and not the thread. It has been logged.
            let _ = catch_unwind(AssertUnwindSafe(|| job.run(frozen)));
            self.free.fetch_add(1, SeqCst);
        }
    }
}
