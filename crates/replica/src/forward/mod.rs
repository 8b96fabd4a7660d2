//! The origin's side: requests of this replica's own clients, until their outcomes are known.
//!
//! Any replica takes an update. It forwards it to the leader, again and again under one identity, and answers
//! once it has itself applied the entry. An answer of SERVFAIL means that this copy was certainly not proposed (RFC
//! 2136 3.4.2, `docs/internals/decisions/0014`); when that is not certain the client hears nothing and repeats its
//! bytes.

mod reason;
mod seen;
mod waiter;

pub(crate) use seen::SeenForwards;
pub(crate) use waiter::{Purpose, Waiter, Waiters};

use crate::command::{Answer, Command, Taken, UpdateCommand};
use crate::io::{AdminError, NodeId, Output, Serving, Transport, UpdateRequest, Verdict};
use crate::limits::{FORWARD_AGAIN_MS, UPDATE_BYTES_MAX, UPDATE_WAIT_MS, UPDATES_WAITING_MAX};
use crate::machine::Applied;
use crate::peer::Frame;
use crate::propose::Origin;
use crate::replica::Replica;
use crate::state::{Identity, Known};
use crate::update::prescan;
use core::net::{IpAddr, SocketAddr};
use policy::Requestor;
use waiter::Client;
use wire::parse::{Parsed, parse_request};
use zone::ZoneId;

/// The source address that identifies the sender of a repeat. The port does not count, as knsupdate uses a new one each
/// time.
fn source_bytes(source: SocketAddr) -> [u8; 16] {
    match source.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

impl Replica {
    /// Takes an update of a client. Whether it was executed before comes first: what is said of it must not depend on
    /// what became of its key's grants, or of its zone, since.
    pub(crate) fn handle_update(&mut self, request: UpdateRequest) {
        // What this one holds may be wrong, or is of a cluster that went on without it.
        if self.is_fenced() || self.is_removed() {
            return self.verdict(request.request_id, Verdict::NotProposed);
        }
        let source = source_bytes(request.source);
        let UpdateRequest { request_id, verified, .. } = &request;
        let request_id = *request_id;
        let key_name = verified.key_name.as_ref().to_canonical();
        match self.machine.sessions.known(&verified.identity, &key_name, verified.time_signed, &source) {
            Known::Repeat(rcode) => {
                let applied = self.machine.applied.0;
                return self.report_outcome(request_id, Verdict::Answer(rcode), &request.message, applied);
            }
            Known::BadTime => return self.verdict(request_id, Verdict::BadTime),
            Known::New => {}
        }
        let client = Client { request_id, source };
        match self.waiters.join(&verified.identity, client) {
            Some(true) => return,
            Some(false) => return self.verdict(request_id, Verdict::Unknown),
            None => {}
        }
        if request.refused_for.is_some() {
            return self.look_before_refusing(request);
        }
        self.forward_update(request);
    }

    /// Hands an update to the leader that nothing here speaks against.
    fn forward_update(&mut self, request: UpdateRequest) {
        let UpdateRequest { request_id, source, message, verified, transport, refused_for: _, external } = request;
        let source = source_bytes(source);
        let client = Client { request_id, source };
        // A member whose log is full applies nothing, so it could not send its client the outcome.
        let takes_updates = !self.is_stopping() && !self.is_log_full();
        if self.waiters.len() >= UPDATES_WAITING_MAX || message.len() > UPDATE_BYTES_MAX || !takes_updates {
            return self.verdict(request_id, Verdict::NotProposed);
        }
        let command = Command::Update(UpdateCommand {
            identity: verified.identity,
            key_name: verified.key_name.as_ref().to_canonical(),
            time_signed: verified.time_signed,
            fudge: verified.fudge,
            source,
            // A leader of software before that level would know neither; nor are there rules that ask for the latter.
            taken: (self.machine.settings.feature_level() >= 2).then_some(Taken { transport, secret: verified.secret }),
            external,
            message,
        });
        let purpose = Purpose::Update { identity: verified.identity, clients: vec![client] };
        self.wait(command, purpose, UPDATE_WAIT_MS);
    }

    /// By what this replica holds the update is to be refused; it may be behind one that took it, or the grant of it.
    /// So the leader is asked how far things are, and what is here by then decides. A node that does not serve says so.
    fn look_before_refusing(&mut self, request: UpdateRequest) {
        if self.serving == Serving::No {
            return self.verdict(request.request_id, Verdict::Refused);
        }
        if planted!(RefusesByOwnCopy) {
            return self.refuse_or_forward(request, true);
        }
        if self.is_stopping() || !self.read_before_refusing(&request) {
            self.verdict(request.request_id, Verdict::NotProposed);
        }
    }

    /// All that was acknowledged when the update came is applied here; `false` when nobody could confirm that in time.
    pub(crate) fn refuse_or_forward(&mut self, request: UpdateRequest, is_confirmed: bool) {
        let UpdateRequest { request_id, verified, refused_for, .. } = &request;
        if !is_confirmed {
            return self.verdict(*request_id, Verdict::NotProposed);
        }
        let is_refused = refused_for.as_ref().is_some_and(|zone| self.refuses(&request, zone));
        let source = source_bytes(request.source);
        let key_name = verified.key_name.as_ref().to_canonical();
        let known = self.machine.sessions.known(&verified.identity, &key_name, verified.time_signed, &source);
        if is_refused && known == Known::New && self.waiters.of_identity(&verified.identity).is_none() {
            return self.verdict(*request_id, Verdict::Refused);
        }
        self.handle_update(UpdateRequest { refused_for: None, ..request });
    }

    /// Whether an update may not be made, by what is applied here. The leader asks the same at evaluation.
    fn refuses(&self, request: &UpdateRequest, id: &ZoneId) -> bool {
        let published = self.machine.zones.published();
        let Some(zone) = published.zone(id).filter(|zone| !zone.is_presigned()) else { return true };
        let key = request.verified.key_name.as_ref().to_canonical();
        let requestor = Requestor {
            key: key.as_ref(),
            source: request.source.ip(),
            is_connected: request.transport == Transport::Tcp,
        };
        let judge = self.machine.settings.rules(&key, id).judge(requestor).with_external(&request.external);
        let Parsed::Request(parsed) = parse_request(&request.message) else { return false };
        // What is wrong with its form is for the leader to say.
        let Ok(parsed) = prescan(&parsed) else { return !judge.may_grant() };
        judge.permit(&parsed.steps, request.message.len(), Some(&zone)).is_err()
    }

    /// Starts to wait for the outcome of a command, and sends it on its way.
    pub(crate) fn wait(&mut self, command: Command, purpose: Purpose, wait_ms: u64) {
        let deadline_ms = self.now.monotonic_ms + wait_ms;
        let token = self.waiters.insert(command, purpose, deadline_ms);
        self.dispatch(token);
    }

    /// Gives a command to the leader, as far as one is known.
    fn dispatch(&mut self, token: u64) {
        let Some(waiter) = self.waiters.get_mut(token) else { return };
        let own = self.driver.id();
        let leader = if self.driver.is_leader() { Some(own) } else { self.driver.leader() };
        let Some(leader) = leader else { return };
        let command = waiter.command.clone();
        // Of what may not be sent again while nobody knows it is known once that term is over.
        let is_of_term = !waiter.may_repeat() && waiter.is_for_log() && self.machine.settings.feature_level() >= 2;
        let term = is_of_term.then(|| self.driver.term());
        let attempt = self.waiters.attempt(token, leader);
        if leader == own {
            let is_queued = self.head.enqueue(Origin { peer: None, token: attempt }, command);
            self.sent(token, leader, attempt, None);
            if !is_queued {
                self.handle_answer(attempt, Answer::Overloaded);
            }
        } else {
            self.send(leader, &Frame::Forward { token: attempt, term, command });
            self.sent(token, leader, attempt, term);
        }
    }

    fn sent(&mut self, token: u64, leader: NodeId, attempt: u64, term: Option<u64>) {
        if let Some(waiter) = self.waiters.get_mut(token) {
            waiter.sent(leader, attempt, self.now.monotonic_ms, term);
        }
    }

    /// What a peer says of an attempt at a command of ours; only the one that it went to knows.
    pub(crate) fn handle_peer_answer(&mut self, from: NodeId, attempt: u64, answer: Answer) {
        match self.waiters.responder_of(attempt) {
            Some(leader) if leader == from => self.handle_answer(attempt, answer),
            Some(_) => self.refuse(),
            // It is answered.
            None => {}
        }
    }

    /// The leader's word on an attempt at a command of ours; the first one counts.
    pub(crate) fn handle_answer(&mut self, attempt: u64, answer: Answer) {
        let Some(token) = self.waiters.answered(attempt) else { return };
        let Some(waiter) = self.waiters.get_mut(token) else { return };
        match answer {
            Answer::Proposed { .. }
                if planted!(AcknowledgedWhenProposed) && matches!(waiter.purpose, Purpose::Update { .. }) =>
            {
                return self.finish_update(token, Verdict::Answer(wire::number::Rcode::NOERROR));
            }
            Answer::Proposed { index, term } => self.waiters.set_position(token, (index, term)),
            Answer::Joined { index, term, id } => {
                waiter.joined = Some(id);
                self.waiters.set_position(token, (index, term));
            }
            Answer::Done { index } => self.waiters.set_done_at(token, index),
            Answer::Repeat { rcode, index } => {
                waiter.rcode = Some(rcode);
                self.waiters.set_done_at(token, index);
            }
            Answer::BadTime => return self.bad_time(token),
            Answer::NotProposed => return self.waiters.not_proposed(token),
            Answer::Overloaded => return self.overloaded(token),
            Answer::Refused(error) => return self.refused(token, error),
        }
        self.settle(token);
    }

    /// The leader refuses this attempt. A command is over by it; of an update another attempt may be under way, and be
    /// carried out yet.
    fn refused(&mut self, token: u64, error: AdminError) {
        self.waiters.not_proposed(token);
        let Some(waiter) = self.waiters.get(token) else { return };
        match waiter.purpose {
            Purpose::Update { .. } if waiter.is_certainly_not_proposed() => {
                // Of an update a leader says this for want of memory alone.
                let is_short = error == AdminError::TooLarge;
                self.finish_update(token, if is_short { Verdict::NoMemory } else { Verdict::NotProposed });
            }
            Purpose::Update { .. } => {}
            Purpose::Admin(step) => {
                self.waiters.remove(token);
                self.admin_step_done(step, Err(error));
            }
        }
    }

    /// The leader has no room for this attempt. An update of which no other attempt may be under way is refused at
    /// once: what waits is asked again and again, and makes an overload last. A command is not: there are few of them.
    fn overloaded(&mut self, token: u64) {
        self.waiters.not_proposed(token);
        let Some(waiter) = self.waiters.get(token) else { return };
        if waiter.is_certainly_not_proposed() && matches!(waiter.purpose, Purpose::Update { .. }) {
            self.counters.updates_overloaded += 1;
            self.finish_update(token, Verdict::NotProposed);
        }
    }

    /// The leader takes the address that it was told for another than the first: those who asked from it hear so. Who
    /// asked from elsewhere may be the first, and is asked for anew.
    fn bad_time(&mut self, token: u64) {
        let Some(waiter) = self.waiters.get_mut(token) else { return };
        let (Purpose::Update { clients, .. }, Command::Update(command)) = (&mut waiter.purpose, &mut waiter.command)
        else {
            return;
        };
        let (others, rest): (Vec<_>, Vec<_>) = clients.iter().partition(|client| client.source == command.source);
        let Some(next) = rest.first().map(|client: &Client| client.source).filter(|_| !others.is_empty()) else {
            return self.finish_update(token, Verdict::BadTime);
        };
        command.source = next;
        *clients = rest;
        self.waiters.not_proposed(token);
        self.waiters.forget_attempts(token);
        for Client { request_id, .. } in others {
            self.verdict(request_id, Verdict::BadTime);
        }
        self.dispatch(token);
    }

    /// Tells a waiter whose place or index is applied here.
    fn settle(&mut self, token: u64) {
        let Some(waiter) = self.waiters.get(token) else { return };
        let applied = self.machine.applied.0;
        if let Some((index, term)) = waiter.position()
            && index <= applied
        {
            return match self.driver.log().term(index) {
                Ok(there) if there == term => self.settled(token),
                Ok(_) => self.lost(token),
                // It left the log, with a checkpoint.
                Err(_) => self.unsettled(token),
            };
        }
        if waiter.done_at().is_some_and(|index| index <= applied) {
            return self.settled(token);
        }
        if waiter.is_superseded(self.machine.applied) {
            self.lost(token);
        }
    }

    /// Looks at all whose place, or index, is applied by now, or can never be.
    fn settle_due(&mut self) {
        let applied = self.machine.applied;
        for token in self.waiters.never_proposed(applied.1) {
            self.waiters.forget_attempts(token);
            self.lost(token);
        }
        for token in self.waiters.due(applied.0) {
            self.settle(token);
        }
        for token in self.waiters.superseded(applied) {
            self.settle(token);
        }
    }

    /// The command is done, and applied here.
    fn settled(&mut self, token: u64) {
        let Some(waiter) = self.waiters.get(token) else { return };
        match &waiter.purpose {
            Purpose::Update { identity, .. } => {
                let session = self.machine.sessions.get(identity, waiter.time_signed());
                let rcode = session.map(|session| session.rcode).or(waiter.rcode);
                match rcode {
                    Some(rcode) => self.finish_update(token, Verdict::Answer(rcode)),
                    // Applied, and already evicted from the table; or it did not fit.
                    None => self.finish_update(token, Verdict::Unknown),
                }
            }
            Purpose::Admin(_) => {
                let unchanged = waiter.position().is_none();
                if let Some(Waiter { purpose: Purpose::Admin(step), joined, .. }) = self.waiters.remove(token) {
                    self.admin_step_done(step, Ok((unchanged, joined)));
                }
            }
        }
    }

    /// The place of a command left the log before it could be looked at. A session tells what became of an update;
    /// without one it is asked again. Of anything else nobody knows.
    fn unsettled(&mut self, token: u64) {
        self.waiters.clear_position(token);
        let Some(waiter) = self.waiters.get(token) else { return };
        match &waiter.purpose {
            Purpose::Update { identity, .. } => {
                if let Some(session) = self.machine.sessions.get(identity, waiter.time_signed()) {
                    self.finish_update(token, Verdict::Answer(session.rcode));
                }
            }
            Purpose::Admin(_) => {
                if let Some(Waiter { purpose: Purpose::Admin(step), .. }) = self.waiters.remove(token) {
                    self.admin_step_expired(step, false);
                }
            }
        }
    }

    /// A checkpoint took the place of the state: what it holds is settled. Whose entries it holds is not told.
    pub(crate) fn settle_installed(&mut self) {
        self.report_lease();
        self.waiters.forget_terms();
        self.settle_due();
    }

    /// Another entry stands where this one was, or will, or it has a place in no log: it was certainly not executed.
    fn lost(&mut self, token: u64) {
        self.waiters.not_proposed(token);
        self.dispatch(token);
    }

    /// What an applied entry means for those who wait here. The entry is published.
    pub(crate) fn settle_applied(&mut self, applied: Vec<(u64, Applied)>) {
        for (index, applied) in applied {
            match applied {
                Applied::Update { identity, rcode } => self.finish_identity(&identity, Verdict::Answer(rcode), index),
                // It did not fit, and so was not executed, unless another entry had done it.
                Applied::Mismatch { identity: Some(identity) } => {
                    let waiter = self.waiters.of_identity(&identity).and_then(|token| self.waiters.get(token));
                    let signed = waiter.map(Waiter::time_signed);
                    let executed = signed.and_then(|signed| self.machine.sessions.get(&identity, signed));
                    let verdict = executed.map_or(Verdict::NotProposed, |session| Verdict::Answer(session.rcode));
                    self.finish_identity(&identity, verdict, index);
                }
                Applied::Mismatch { identity: None } | Applied::Settings(_) | Applied::Other | Applied::Full => {}
            }
        }
        self.settle_due();
    }

    fn finish_identity(&mut self, identity: &Identity, verdict: Verdict, index: u64) {
        if let Some(token) = self.waiters.of_identity(identity) {
            self.finish_update_at(token, verdict, index);
        }
    }

    fn finish_update(&mut self, token: u64, verdict: Verdict) {
        self.finish_update_at(token, verdict, self.machine.applied.0);
    }

    /// Tells all clients of an update that was done at this index, or before it. Only the address that the update was
    /// executed for hears its outcome.
    fn finish_update_at(&mut self, token: u64, verdict: Verdict, index: u64) {
        let Some(waiter) = self.waiters.remove(token) else { return };
        let signed = waiter.time_signed();
        let Purpose::Update { identity, clients } = waiter.purpose else { return };
        let verdict = self.explained(verdict, &waiter.command);
        let message = if let Command::Update(update) = waiter.command { update.message } else { Default::default() };
        let executed_for = self.machine.sessions.get(&identity, signed).map(|session| session.source);
        for Client { request_id, source } in clients {
            let is_other = executed_for.is_some_and(|executed_for| executed_for != source);
            let verdict = if is_other { Verdict::BadTime } else { verdict };
            self.report_outcome(request_id, verdict, &message, index);
        }
    }

    pub(crate) fn verdict(&mut self, request_id: u64, verdict: Verdict) {
        self.out.push_back(Output::UpdateDone { request_id, verdict });
    }

    /// Sends again what the leader does not have, and gives up what waited too long.
    pub(crate) fn tick_waiters(&mut self) {
        let now = self.now.monotonic_ms;
        for token in self.waiters.expired(now) {
            let Some(waiter) = self.waiters.get(token) else { continue };
            let is_certain = waiter.is_certainly_not_proposed();
            match &waiter.purpose {
                Purpose::Update { .. } => {
                    let verdict = if is_certain || planted!(ServfailForUnknown) {
                        Verdict::NotProposed
                    } else {
                        Verdict::Unknown
                    };
                    self.finish_update(token, verdict);
                }
                Purpose::Admin(_) => {
                    if let Some(Waiter { purpose: Purpose::Admin(step), .. }) = self.waiters.remove(token) {
                        self.admin_step_expired(step, is_certain);
                    }
                }
            }
        }
        let leader = if self.driver.is_leader() { Some(self.driver.id()) } else { self.driver.leader() };
        for token in self.waiters.to_send(leader, now, FORWARD_AGAIN_MS) {
            self.dispatch(token);
        }
    }
}
