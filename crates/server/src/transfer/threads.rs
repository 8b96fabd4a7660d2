//! The threads of transfers: each has its own, because a large zone or a slow client takes long.
//!
//! To start or end a thread, the kernel changes the memory map of the process. It may have to wait for this until a
//! thread of low priority, which also changes the map, runs again; and then all others that need the map wait too. On
//! busy cores that took up to a second. So neither the replica nor an update thread starts these threads, and they are
//! kept for the next transfers.

use super::Job;
use crate::sys::priority::give_way_to_all;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use zone::set::Frozen;

/// An admitted transfer, and the version of the zones that it will send.
pub(crate) type QueuedTransfer = (Job, oneshot::Receiver<Frozen>);

/// The threads, and the transfers that they have not begun.
#[derive(Clone)]
struct Threads {
    queue: Arc<Mutex<Receiver<QueuedTransfer>>>,
    /// Threads that wait for a transfer which is not queued yet.
    idle_count: Arc<AtomicUsize>,
}

/// Gives transfers to threads until all senders are gone. The slots of transfers limit the number of threads.
pub(crate) fn start_transfers(transfers: &Receiver<QueuedTransfer>) {
    let (sender, queue) = channel();
    let threads = Threads { queue: Arc::new(Mutex::new(queue)), idle_count: Arc::default() };
    for transfer in transfers {
        if let Err(error) = threads.reserve() {
            process::error_limited!(%error, "cannot start a thread for a transfer");
            transfer.0.give_up();
        } else {
            // The receiver is in `threads`.
            let _ = sender.send(transfer);
        }
    }
}

impl Threads {
    /// Reserves an idle thread, or starts one.
    fn reserve(&self) -> io::Result<()> {
        let taken = self.idle_count.fetch_update(SeqCst, SeqCst, |idle| idle.checked_sub(1));
        if taken.is_ok() {
            return Ok(());
        }
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
            job.run(frozen);
            self.idle_count.fetch_add(1, SeqCst);
        }
    }
}
