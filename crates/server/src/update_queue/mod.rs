//! The queue of the update threads. A job that arrives alone runs on the thread that submits it.

pub(crate) mod fair_quota;

use crate::combiner::{Combiner, Dispatch};
use crate::limits::{TICK_MS, UPDATE_QUEUE_MAX, UPDATE_QUEUE_PER_NETWORK_MAX};
use crate::listen::Reply;
use crate::metrics::Gauge;
use fair_quota::{FairQuota, network};
use policy::DaemonAnswers;
use replica::io::Verdict;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A message from a packet worker.
pub(crate) struct QueuedMessage {
    pub(crate) bytes: Vec<u8>,
    pub(crate) reply: Reply,
    pub(crate) received_at: Instant,
}

/// The answers about a message so far.
#[derive(Default)]
pub(crate) struct ExternalAnswers {
    pub(crate) external: DaemonAnswers,
    /// A daemon did not answer, so the others need not be queried.
    pub(crate) has_failed: bool,
    /// The queue was full or too slow, so no daemon was queried.
    pub(crate) was_queue_full: bool,
}

impl ExternalAnswers {
    /// Whether no more questions are needed.
    pub(crate) fn is_over(&self) -> bool {
        self.has_failed || self.external.len() >= policy::limits::EXTERNAL_QUESTIONS_MAX
    }
}

/// A job of an update thread.
pub(crate) enum Work {
    /// A message.
    Message(QueuedMessage),
    /// A message again, with the answers of the `external` daemons.
    PolicyAnswered(QueuedMessage, ExternalAnswers),
    /// The outcome of an update, by its request id.
    Outcome(u64, Verdict),
    /// Time passed without a job.
    Tick,
}

/// Runs jobs. Any thread that submits a job may run it, so it never blocks, except on locks that are held briefly.
pub(super) trait UpdateWorker: Send {
    /// Runs one job.
    fn handle(&mut self, work: Work);
}

/// One queue per update thread. All share one limit, and networks share the space fairly.
#[derive(Clone)]
pub(crate) struct UpdateQueue {
    queues: Arc<[Queue]>,
    waiting: Arc<Gauge>,
    quota: Arc<FairQuota>,
}

/// The queue of one thread.
struct Queue {
    work: Sender<Work>,
    /// Jobs in it, and the job that the thread is about to run.
    waiting: Gauge,
    worker: Combiner<Box<dyn UpdateWorker>>,
}

impl Queue {
    fn new() -> (Self, Receiver<Work>) {
        let (work, receiver) = channel();
        (Self { work, waiting: Gauge::default(), worker: Combiner::default() }, receiver)
    }

    /// Runs an inline job now if the thread is idle; otherwise queues it. False when the thread is gone.
    fn put(&self, work: Work, dispatch: Dispatch) -> bool {
        let ran = match dispatch {
            Dispatch::Inline => self.worker.run_inline(work, &self.waiting, |worker, work| worker.handle(work)),
            Dispatch::Queued => Err(work),
        };
        let Err(work) = ran else { return true };
        self.waiting.enter(usize::MAX);
        let sent = self.work.send(work).is_ok();
        if !sent {
            self.waiting.leave();
        }
        sent
    }
}

impl UpdateQueue {
    /// A queue, and the receiver of each of its threads.
    pub(crate) fn new(threads: usize) -> (Self, Vec<Receiver<Work>>) {
        let (queues, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| Queue::new()).unzip();
        (Self { queues: queues.into(), waiting: Arc::default(), quota: Arc::default() }, receivers)
    }

    /// Queues a message; false when the queue is full, or is half full and this network has used its share.
    pub(crate) fn put(&self, message: QueuedMessage, dispatch: Dispatch) -> bool {
        let address = message.reply.peer().ip();
        let is_crowded = self.waiting.get() >= UPDATE_QUEUE_MAX as u64 / 2;
        if !self.quota.acquire(&network(address), is_crowded.then_some(UPDATE_QUEUE_PER_NETWORK_MAX)) {
            return false;
        }
        if !self.waiting.enter(UPDATE_QUEUE_MAX) {
            self.quota.release(&network(address));
            return false;
        }
        let mut hasher = DefaultHasher::new();
        message.reply.peer().ip().hash(&mut hasher);
        message.reply.peer().port().hash(&mut hasher);
        let queue = hasher.finish() as usize % self.queues.len();
        let sent = self.queues[queue].put(Work::Message(message), dispatch);
        if !sent {
            self.dequeued(address);
        }
        sent
    }

    /// Records that a message from this address left the queue.
    pub(super) fn dequeued(&self, address: IpAddr) {
        self.waiting.leave();
        self.quota.release(&network(address));
    }

    /// Returns a message to its thread, with the answers of the `external` daemons.
    pub(crate) fn policy_answered(&self, thread: u64, message: QueuedMessage, answers: ExternalAnswers) {
        // It fails only if the thread is gone, and then the client is gone too.
        let queue = (thread % self.queues.len() as u64) as usize;
        let _ = self.queues[queue].put(Work::PolicyAnswered(message, answers), Dispatch::Queued);
    }

    /// Passes an outcome to the thread that waits for it. The id determines the thread.
    pub(crate) fn outcome(&self, request_id: u64, verdict: Verdict, dispatch: Dispatch) {
        let queue = (request_id % self.queues.len() as u64) as usize;
        // It fails only if the thread is gone, and then the client is gone too.
        let _ = self.queues[queue].put(Work::Outcome(request_id, verdict), dispatch);
    }

    /// Runs one of the threads until the process ends.
    pub(super) fn run_worker(&self, thread: u64, worker: Box<dyn UpdateWorker>, work: &Receiver<Work>) {
        let queue = &self.queues[thread as usize];
        queue.worker.open(worker);
        loop {
            let work = work.recv_timeout(Duration::from_millis(100 * TICK_MS));
            let mut worker = queue.worker.lock();
            let Some(worker) = worker.as_mut() else { return };
            match work {
                Ok(work) => {
                    queue.waiting.leave();
                    worker.handle(work);
                }
                Err(RecvTimeoutError::Timeout) => worker.handle(Work::Tick),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Messages in the queue.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::Transport;
    use std::sync::mpsc;
    use std::thread::ThreadId;

    /// Reports which thread ran which job: the id of an outcome, or the port of a message.
    struct Recorder {
        update_queue: UpdateQueue,
        done: Sender<(ThreadId, u64)>,
    }

    impl UpdateWorker for Recorder {
        fn handle(&mut self, work: Work) {
            let what = match work {
                Work::Message(message) => {
                    self.update_queue.dequeued(message.reply.peer().ip());
                    u64::from(message.reply.peer().port())
                }
                Work::Outcome(id, _) => id,
                Work::PolicyAnswered(..) | Work::Tick => return,
            };
            self.done.send((std::thread::current().id(), what)).unwrap();
            if what == 2 {
                // While it runs a job no other thread runs one, and new jobs are queued.
                self.update_queue.outcome(3, Verdict::Unknown, Dispatch::Inline);
                self.done.send((std::thread::current().id(), 0)).unwrap();
            }
        }
    }

    fn message(port: u16) -> QueuedMessage {
        let (connection, _) = tokio::sync::mpsc::channel(1);
        let peer = ([192, 0, 2, 1], port).into();
        let reply = Reply::Stream { peer, transport: Transport::Tcp, transfers: false, connection };
        QueuedMessage { bytes: Vec::new(), reply, received_at: Instant::now() }
    }

    /// Waits until another job runs at the same time.
    struct Together(Arc<std::sync::Barrier>);

    impl UpdateWorker for Together {
        fn handle(&mut self, work: Work) {
            if matches!(work, Work::Message(_)) {
                self.0.wait();
            }
        }
    }

    #[test]
    fn messages_of_several_clients_run_in_parallel() {
        let (update_queue, queues) = UpdateQueue::new(2);
        let together = Arc::new(std::sync::Barrier::new(3));
        for (index, queue) in queues.into_iter().enumerate() {
            let (update_queue, worker) = (update_queue.clone(), Box::new(Together(together.clone())));
            std::thread::spawn(move || update_queue.run_worker(index as u64, worker, &queue));
        }
        // Messages of the first client share a queue; another client uses the other queue.
        let waits = |update_queue: &UpdateQueue| {
            update_queue.queues.iter().map(|queue| queue.waiting.get()).collect::<Vec<_>>()
        };
        let locked: Vec<_> = update_queue.queues.iter().map(|queue| queue.worker.lock()).collect();
        assert!(update_queue.put(message(1), Dispatch::Queued) && update_queue.put(message(1), Dispatch::Queued));
        assert_eq!(waits(&update_queue).iter().max(), Some(&2), "one client, one thread");
        let other = (2..100).find(|&port| {
            assert!(update_queue.put(message(port), Dispatch::Queued));
            waits(&update_queue).iter().all(|&count| count > 0)
        });
        assert!(other.is_some());
        drop(locked);
        // Both threads are running a job.
        together.wait();
    }

    #[test]
    fn a_lone_job_runs_inline_and_others_run_in_order_on_the_thread() {
        let (update_queue, mut queues) = UpdateQueue::new(1);
        let queue = queues.pop().unwrap();
        let (done, heard) = mpsc::channel();
        // Without a thread all jobs wait.
        assert!(update_queue.put(message(1), Dispatch::Inline));
        update_queue.outcome(2, Verdict::Unknown, Dispatch::Inline);
        assert_eq!(update_queue.waiting(), 1);
        let thread = {
            let recorder = Box::new(Recorder { update_queue: update_queue.clone(), done });
            let update_queue = update_queue.clone();
            std::thread::spawn(move || update_queue.run_worker(0, recorder, &queue))
        };
        let (own, other) = (std::thread::current().id(), thread.thread().id());
        let next = || heard.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!([next(), next(), next(), next()], [(other, 1), (other, 2), (other, 0), (other, 3)]);
        assert_eq!(update_queue.waiting(), 0);
        // The thread reports a job before it releases the lock.
        drop(update_queue.queues[0].worker.lock());
        assert!(update_queue.put(message(4), Dispatch::Inline));
        assert_eq!((heard.try_recv(), update_queue.waiting()), (Ok((own, 4)), 0));
        update_queue.outcome(5, Verdict::Unknown, Dispatch::Inline);
        assert_eq!(heard.try_recv(), Ok((own, 5)));
        assert!(update_queue.put(message(6), Dispatch::Queued));
        update_queue.outcome(7, Verdict::Unknown, Dispatch::Queued);
        assert_eq!([next(), next()], [(other, 6), (other, 7)]);
        update_queue.queues[0].worker.lock().take();
        update_queue.outcome(8, Verdict::Unknown, Dispatch::Inline);
        thread.join().unwrap();
    }
}
