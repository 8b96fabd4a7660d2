//! Where work for the update threads is put down, and who works it off: they, or who brings it alone.

use super::super::external::Asked;
use super::super::shares::{Shares, network};
use crate::limits::{DESK_SHARE_MAX, TICK_MS, UPDATE_QUEUE_MAX};
use crate::listen::Reply;
use crate::metrics::Gauge;
use crate::turn::{Company, Turn};
use replica::io::Verdict;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A message that a packet worker passed on.
pub(crate) struct Deferred {
    pub(crate) bytes: Vec<u8>,
    pub(crate) reply: Reply,
    pub(crate) received_at: Instant,
}

/// What an update thread gets.
pub(crate) enum Work {
    /// A message.
    Message(Deferred),
    /// A message again, with what daemons said about it.
    Asked(Deferred, Asked),
    /// The outcome of an update, by its request id.
    Outcome(u64, Verdict),
    /// Time has passed.
    Nothing,
}

/// Carries work out. Whoever brings it may have to, so nothing in it waits but for a lock that is held for a moment.
pub(super) trait Clerk: Send {
    /// Carries out one piece.
    fn work_off(&mut self, work: Work);
}

/// Where work is put down. One queue for each thread; all of them share one bound, and networks share the places.
#[derive(Clone)]
pub(crate) struct Desk {
    queues: Arc<[Queue]>,
    waiting: Arc<Gauge>,
    shares: Arc<Shares>,
}

/// The work of one thread.
struct Queue {
    work: Sender<Work>,
    /// Pieces in it, and the one that the thread is about to carry out.
    waiting: Gauge,
    clerk: Turn<Box<dyn Clerk>>,
}

impl Queue {
    fn new() -> (Self, Receiver<Work>) {
        let (work, receiver) = channel();
        (Self { work, waiting: Gauge::default(), clerk: Turn::default() }, receiver)
    }

    /// Carries out what is alone, here and now, unless the thread has something to do; else puts it down. False when
    /// the thread is gone.
    fn put(&self, work: Work, company: Company) -> bool {
        let brought = match company {
            Company::Alone => self.clerk.bring(work, &self.waiting, |clerk, work| clerk.work_off(work)),
            Company::Others => Err(work),
        };
        let Err(work) = brought else { return true };
        self.waiting.enter(usize::MAX);
        let sent = self.work.send(work).is_ok();
        if !sent {
            self.waiting.leave();
        }
        sent
    }
}

impl Desk {
    /// A desk, and what each of its threads works off.
    pub(crate) fn new(threads: usize) -> (Self, Vec<Receiver<Work>>) {
        let (queues, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| Queue::new()).unzip();
        (Self { queues: queues.into(), waiting: Arc::default(), shares: Arc::default() }, receivers)
    }

    /// Puts a message down; false when too many wait, or too many of this network while half of the places are taken.
    pub(crate) fn put(&self, message: Deferred, company: Company) -> bool {
        let address = message.reply.peer().ip();
        let is_crowded = self.waiting.get() >= UPDATE_QUEUE_MAX as u64 / 2;
        if !self.shares.enter(&network(address), is_crowded.then_some(DESK_SHARE_MAX)) {
            return false;
        }
        if !self.waiting.enter(UPDATE_QUEUE_MAX) {
            self.shares.leave(&network(address));
            return false;
        }
        let mut hasher = DefaultHasher::new();
        message.reply.peer().ip().hash(&mut hasher);
        message.reply.peer().port().hash(&mut hasher);
        let queue = hasher.finish() as usize % self.queues.len();
        let sent = self.queues[queue].put(Work::Message(message), company);
        if !sent {
            self.taken(address);
        }
        sent
    }

    /// A message of this address waits no more.
    pub(super) fn taken(&self, address: IpAddr) {
        self.waiting.leave();
        self.shares.leave(&network(address));
    }

    /// Brings a message back to the thread that had daemons asked about it.
    pub(crate) fn asked(&self, thread: u64, message: Deferred, asked: Asked) {
        // A thread that is gone has no client left to tell.
        let queue = (thread % self.queues.len() as u64) as usize;
        let _ = self.queues[queue].put(Work::Asked(message, asked), Company::Others);
    }

    /// Passes an outcome to the thread that waits for it: its number is in the id.
    pub(crate) fn outcome(&self, request_id: u64, verdict: Verdict, company: Company) {
        let queue = (request_id % self.queues.len() as u64) as usize;
        // A thread that is gone has no client left to tell.
        let _ = self.queues[queue].put(Work::Outcome(request_id, verdict), company);
    }

    /// The work of one of the threads, until the process ends: who works has a desk to put work down on.
    pub(super) fn work_off(&self, thread: u64, clerk: Box<dyn Clerk>, work: &Receiver<Work>) {
        let queue = &self.queues[thread as usize];
        queue.clerk.open(clerk);
        loop {
            let work = work.recv_timeout(Duration::from_millis(100 * TICK_MS));
            let mut turn = queue.clerk.take();
            let Some(clerk) = turn.as_mut() else { return };
            match work {
                Ok(work) => {
                    queue.waiting.leave();
                    clerk.work_off(work);
                }
                Err(RecvTimeoutError::Timeout) => clerk.work_off(Work::Nothing),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Messages that wait.
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

    /// Says who works, on what: the id of an outcome, the last byte of a message's port.
    struct Recorder {
        desk: Desk,
        done: Sender<(ThreadId, u64)>,
    }

    impl Clerk for Recorder {
        fn work_off(&mut self, work: Work) {
            let what = match work {
                Work::Message(message) => {
                    self.desk.taken(message.reply.peer().ip());
                    u64::from(message.reply.peer().port())
                }
                Work::Outcome(id, _) => id,
                Work::Asked(..) | Work::Nothing => return,
            };
            self.done.send((std::thread::current().id(), what)).unwrap();
            if what == 2 {
                // While it has a turn nobody else has, and what comes meanwhile waits for it.
                self.desk.outcome(3, Verdict::Unknown, Company::Alone);
                self.done.send((std::thread::current().id(), 0)).unwrap();
            }
        }
    }

    fn message(port: u16) -> Deferred {
        let (connection, _) = tokio::sync::mpsc::channel(1);
        let peer = ([192, 0, 2, 1], port).into();
        let reply = Reply::Stream { peer, transport: Transport::Tcp, transfers: false, connection };
        Deferred { bytes: Vec::new(), reply, received_at: Instant::now() }
    }

    /// Waits for another to work at the same time.
    struct Together(Arc<std::sync::Barrier>);

    impl Clerk for Together {
        fn work_off(&mut self, work: Work) {
            if matches!(work, Work::Message(_)) {
                self.0.wait();
            }
        }
    }

    #[test]
    fn messages_of_several_clients_are_worked_off_side_by_side() {
        let (desk, queues) = Desk::new(2);
        let together = Arc::new(std::sync::Barrier::new(3));
        for (index, queue) in queues.into_iter().enumerate() {
            let (desk, clerk) = (desk.clone(), Box::new(Together(together.clone())));
            std::thread::spawn(move || desk.work_off(index as u64, clerk, &queue));
        }
        // Where those of the first client wait; another's go elsewhere.
        let waits = |desk: &Desk| desk.queues.iter().map(|queue| queue.waiting.get()).collect::<Vec<_>>();
        let held: Vec<_> = desk.queues.iter().map(|queue| queue.clerk.take()).collect();
        assert!(desk.put(message(1), Company::Others) && desk.put(message(1), Company::Others));
        assert_eq!(waits(&desk).iter().max(), Some(&2), "a client's go to one thread");
        let other = (2..100).find(|&port| {
            assert!(desk.put(message(port), Company::Others));
            waits(&desk).iter().all(|&count| count > 0)
        });
        assert!(other.is_some());
        drop(held);
        // Both threads are in the midst of a message.
        together.wait();
    }

    #[test]
    fn what_is_alone_is_carried_out_by_who_brings_it_and_the_rest_in_order_by_the_thread() {
        let (desk, mut queues) = Desk::new(1);
        let queue = queues.pop().unwrap();
        let (done, heard) = mpsc::channel();
        // Before there is a thread everything waits.
        assert!(desk.put(message(1), Company::Alone));
        desk.outcome(2, Verdict::Unknown, Company::Alone);
        assert_eq!(desk.waiting(), 1);
        let thread = {
            let recorder = Box::new(Recorder { desk: desk.clone(), done });
            let desk = desk.clone();
            std::thread::spawn(move || desk.work_off(0, recorder, &queue))
        };
        let (own, other) = (std::thread::current().id(), thread.thread().id());
        let next = || heard.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!([next(), next(), next(), next()], [(other, 1), (other, 2), (other, 0), (other, 3)]);
        assert_eq!(desk.waiting(), 0);
        // The thread says what it did while it has its turn still.
        drop(desk.queues[0].clerk.take());
        assert!(desk.put(message(4), Company::Alone));
        assert_eq!((heard.try_recv(), desk.waiting()), (Ok((own, 4)), 0));
        desk.outcome(5, Verdict::Unknown, Company::Alone);
        assert_eq!(heard.try_recv(), Ok((own, 5)));
        assert!(desk.put(message(6), Company::Others));
        desk.outcome(7, Verdict::Unknown, Company::Others);
        assert_eq!([next(), next()], [(other, 6), (other, 7)]);
        desk.queues[0].clerk.take().take();
        desk.outcome(8, Verdict::Unknown, Company::Alone);
        thread.join().unwrap();
    }
}
