//! One worker over UDP: sends what is due, takes in what came, gives up what is overdue, waits for what is next.

mod batch;
mod channel;

use super::clock::{Clock, StampClock};
use super::collect::{Report, Tail};
use super::matching::Arrival;
use super::usage::thread_cpu;
use super::{Pace, Plan, Transport};
use crate::limits::BATCH_COUNT;
use crate::measure::{Ledger, Sent};
use crate::schedule::Times;
use crate::workload::Workload;
use batch::{Incoming, Outgoing};
use channel::Channel;
use std::io;
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// A sleeping thread comes back late by as much; the rest of the way to a planned time is spun.
const SPIN_NS: u64 = 60_000;
/// Taking answers in may take as long; with less time left to the next query it waits, but not longer than the next.
const RECEIVE_NS: u64 = 15_000;
/// The longest time that answers wait for a worker that is always about to send.
const RECEIVE_PAUSE_NS_MAX: u64 = 200_000;
/// How often time-outs are looked for, and the longest sleep.
const TICK_NS: u64 = 5_000_000;

/// The worker's own share of the pace.
enum Due {
    Planned(Box<Peekable<Times>>),
    Filling { in_flight: usize, until_ns: u64 },
}

/// How far a run is to be broken off.
pub(super) const GO_ON: u8 = 0;
/// Nothing more is sent; answers are waited for.
pub(super) const STOP_SENDING: u8 = 1;
/// Answers are waited for no more.
pub(super) const STOP_AT_ONCE: u8 = 2;

pub(super) struct Worker {
    clock: Clock,
    stamps: StampClock,
    due: Due,
    workload: Workload,
    channels: Vec<Channel>,
    /// The channel whose turn it is to send, and the one to be read next.
    next_send: usize,
    next_receive: usize,
    last_receive_ns: u64,
    next_tick_ns: u64,
    ledger: Ledger,
    timeout_ns: u64,
    expected: Option<[bool; 16]>,
    outgoing: Outgoing,
    incoming: Incoming,
    watched: Vec<libc::pollfd>,
    stop: Arc<AtomicU8>,
    reports: SyncSender<Report>,
    tail: Tail,
}

impl Worker {
    /// Worker `index` of the plan, its sockets open.
    pub(super) fn new(
        plan: &Plan,
        index: usize,
        clock: Clock,
        stop: Arc<AtomicU8>,
        reports: SyncSender<Report>,
    ) -> io::Result<Self> {
        let mut channels = Vec::new();
        for _ in 0..plan.socket_count {
            for &server in &plan.servers {
                channels.push(Channel::open(server, plan.source)?);
            }
        }
        let due = match &plan.pace {
            Pace::Open(schedule) => Due::Planned(Box::new(schedule.share(index, plan.worker_count).peekable())),
            Pace::Closed { in_flight, duration } => Due::Filling {
                in_flight: in_flight / plan.worker_count + usize::from(index < in_flight % plan.worker_count),
                until_ns: duration.as_nanos() as u64,
            },
        };
        let expected = (!plan.expected_rcodes.is_empty())
            .then(|| std::array::from_fn(|rcode| plan.expected_rcodes.contains(&(rcode as u8))));
        Ok(Self {
            clock,
            stamps: StampClock::new(clock),
            due,
            workload: plan.workload.share(index, plan.worker_count),
            watched: channels.iter().map(|channel| batch::watch(&channel.socket)).collect(),
            channels,
            next_send: 0,
            next_receive: 0,
            last_receive_ns: 0,
            next_tick_ns: TICK_NS,
            ledger: Ledger::new([Transport::Udp], plan.timeout.as_nanos() as u64),
            timeout_ns: plan.timeout.as_nanos() as u64,
            expected,
            outgoing: Outgoing::new(),
            incoming: Incoming::new(),
            stop,
            reports,
            tail: Tail::default(),
        })
    }

    /// The whole run.
    ///
    /// # Errors
    /// When a socket fails in a way that no later try can mend.
    pub(super) fn run(mut self) -> io::Result<()> {
        batch::tighten_timers();
        self.clock.wait_for_start();
        let cpu_before = thread_cpu();
        let mut last_send_ns = 0;
        loop {
            let now = self.clock.now_ns();
            let stop = self.stop.load(Ordering::Relaxed);
            let is_sending = stop == GO_ON && self.goes_on(now);
            let mut has_worked = is_sending && self.send_due(now)?;
            if is_sending {
                last_send_ns = now;
            }
            has_worked |= self.receive_if_time(now)?;
            if now >= self.next_tick_ns {
                self.tick()?;
            }
            let is_over = self.waiting() == 0 || now > last_send_ns + self.timeout_ns + TICK_NS;
            if stop == STOP_AT_ONCE || (!is_sending && is_over) {
                break;
            }
            if !has_worked {
                self.wait(is_sending);
            }
        }
        self.finish(thread_cpu().saturating_sub(cpu_before))
    }

    fn waiting(&self) -> usize {
        self.channels.iter().map(|channel| channel.in_flight.waiting()).sum()
    }

    /// Whether anything is still to be sent.
    fn goes_on(&mut self, now: u64) -> bool {
        match &mut self.due {
            Due::Planned(times) => times.peek().is_some(),
            Due::Filling { until_ns, .. } => now < *until_ns,
        }
    }

    /// Sends up to a batch of what is due; gives whether anything was.
    fn send_due(&mut self, now: u64) -> io::Result<bool> {
        let waiting = self.waiting();
        let room = match &mut self.due {
            Due::Planned(times) => times.peek().map_or(0, |&planned| if planned <= now { BATCH_COUNT } else { 0 }),
            Due::Filling { in_flight, .. } => in_flight.saturating_sub(waiting).min(BATCH_COUNT),
        };
        if room == 0 {
            return Ok(false);
        }
        let count = self.channels.len();
        let with_ids = (0..count).map(|step| (self.next_send + step) % count);
        let Some(index) = with_ids.clone().find(|&index| self.channels[index].in_flight.room() > 0) else {
            // Every ID of every socket waits. The plan runs ahead, and the send lag tells.
            self.tail.id_shortages += 1;
            return Ok(false);
        };
        self.next_send = (index + 1) % count;
        let channel = &mut self.channels[index];
        let room = room.min(channel.in_flight.room());
        let second = self.ledger.at(Transport::Udp, now);
        self.outgoing.clear();
        let mut lags = [0u64; BATCH_COUNT];
        while self.outgoing.count() < room {
            let planned_ns = match &mut self.due {
                Due::Planned(times) => match times.next_if(|&planned| planned <= now) {
                    Some(planned) => planned,
                    None => break,
                },
                Due::Filling { .. } => now,
            };
            lags[self.outgoing.count()] = now - planned_ns;
            let message = self.outgoing.push(|slot| self.workload.fill(slot));
            channel.in_flight.enter(message, Sent { planned_ns, sent_ns: now });
        }
        let (taken, refusals) = channel.send(&mut self.outgoing)?;
        self.tail.refusals += refusals;
        let unsent = self.outgoing.count() - taken;
        channel.in_flight.take_back(unsent);
        second.send_errors += unsent as u64;
        for (index, &lag) in lags.iter().enumerate().take(taken) {
            second.sent(lag, self.outgoing.octets_of(index));
        }
        Ok(true)
    }

    /// Takes answers in from the next channel, unless the next query is so near that it would be late.
    fn receive_if_time(&mut self, now: u64) -> io::Result<bool> {
        if let Due::Planned(times) = &mut self.due
            && let Some(&planned) = times.peek()
            && planned < now + RECEIVE_NS
            && now < self.last_receive_ns + RECEIVE_PAUSE_NS_MAX
        {
            return Ok(planned <= now);
        }
        self.last_receive_ns = now;
        for _ in 0..self.channels.len() {
            let index = self.next_receive;
            self.next_receive = (index + 1) % self.channels.len();
            if self.receive(index)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn receive(&mut self, index: usize) -> io::Result<usize> {
        let channel = &mut self.channels[index];
        let count = channel.receive(&mut self.incoming, &mut self.tail.refusals)?;
        if count == 0 {
            return Ok(0);
        }
        let now = self.clock.now_ns();
        for index in 0..count {
            let message = self.incoming.message(index);
            let at = match self.incoming.stamp(index) {
                Some(stamp) => self.stamps.at(stamp, now),
                None => {
                    self.tail.unstamped += 1;
                    now
                }
            };
            let arrival = channel.in_flight.arrive(message);
            let second = self.ledger.at(Transport::Udp, at);
            second.octets_received += message.len() as u64;
            match arrival {
                Arrival::Late => second.late += 1,
                Arrival::Duplicate => second.duplicate += 1,
                Arrival::Mismatch => second.mismatched += 1,
                Arrival::Stray => second.stray += 1,
                Arrival::Answer { sent, .. } if at.saturating_sub(sent.sent_ns) > self.timeout_ns => {
                    second.late += 1;
                    self.ledger.time_out(Transport::Udp, sent);
                }
                Arrival::Answer { sent, rcode, is_truncated } => {
                    second.arrived += 1;
                    let second = self.ledger.at(Transport::Udp, sent.sent_ns);
                    second.answered += 1;
                    second.rcodes[usize::from(rcode)] += 1;
                    second.truncated += u64::from(is_truncated);
                    second.unexpected += u64::from(self.expected.is_some_and(|right| !right[usize::from(rcode)]));
                    second.took(at.saturating_sub(sent.planned_ns), at.saturating_sub(sent.sent_ns));
                }
            }
        }
        Ok(count)
    }

    /// Takes in all that has come, then gives up what is overdue, then gives seconds away that can change no more.
    fn tick(&mut self) -> io::Result<()> {
        let now = self.clock.now_ns();
        self.next_tick_ns = now + TICK_NS;
        let before = now.saturating_sub(self.timeout_ns);
        for index in 0..self.channels.len() {
            if self.channels[index].in_flight.oldest_sent_ns().is_some_and(|sent| sent < before) {
                while self.receive(index)? == BATCH_COUNT {}
                while let Some(sent) = self.channels[index].in_flight.expire(before) {
                    self.ledger.time_out(Transport::Udp, sent);
                }
            }
        }
        while let Some((index, moments)) = self.ledger.retire(before) {
            // A collector that is gone has ended the run.
            let _sent = self.reports.send(Report::Second(index, moments));
        }
        Ok(())
    }

    fn wait(&mut self, is_sending: bool) {
        let now = self.clock.now_ns();
        let mut until = self.next_tick_ns;
        if let Due::Planned(times) = &mut self.due
            && is_sending
            && let Some(&planned) = times.peek()
        {
            until = until.min(planned.saturating_sub(SPIN_NS));
        }
        if until > now {
            batch::wait(&mut self.watched, Duration::from_nanos(until - now));
            return;
        }
        let until = now.max(until + SPIN_NS);
        let mut then = now;
        while then < until {
            std::hint::spin_loop();
            then = self.clock.now_ns();
        }
        self.tail.spun += Duration::from_nanos(then - now);
    }

    fn finish(mut self, cpu: Duration) -> io::Result<()> {
        for index in 0..self.channels.len() {
            while self.receive(index)? == BATCH_COUNT {}
            let is_broken_off = self.stop.load(Ordering::Relaxed) == STOP_AT_ONCE;
            while let Some(sent) = self.channels[index].in_flight.expire(u64::MAX) {
                if is_broken_off {
                    self.ledger.at(Transport::Udp, sent.sent_ns).interrupted += 1;
                } else {
                    self.ledger.time_out(Transport::Udp, sent);
                }
            }
            self.tail.dropped += u64::from(batch::dropped(&self.channels[index].socket));
        }
        self.tail.cpu = cpu;
        self.tail.wall = Duration::from_nanos(self.clock.now_ns());
        for (index, moments) in self.ledger.finish() {
            let _sent = self.reports.send(Report::Second(index, moments));
        }
        let _sent = self.reports.send(Report::Done(self.tail));
        Ok(())
    }
}
